#![no_std]
#![forbid(unsafe_code)]
//! Placeholder of the skeleton; filled by the next steps.
extern crate alloc;

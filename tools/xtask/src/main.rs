//! Placeholder of the skeleton; filled by the next steps.

fn main() {}

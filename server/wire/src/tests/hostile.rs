//! Hostile bytes: refused within bounds, never a panic.

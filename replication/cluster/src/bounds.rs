//! Bounds as people write them: in every message that says what a number must be.
//!
//! Owns the words alone; nothing is judged here.

use core::fmt;

/// A smallest and a largest value, both included. Shown as `0 to 65535`, or as the one value that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds<T>(pub T, pub T);

impl<T: fmt::Display + PartialEq> fmt::Display for Bounds<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(minimum, maximum) = self;
        match minimum == maximum {
            true => write!(formatter, "{minimum}"),
            false => write!(formatter, "{minimum} to {maximum}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn bounds_read_as_people_write_them() {
        assert_eq!(Bounds(0, 65_535).to_string(), "0 to 65535");
        assert_eq!(Bounds(1, 1).to_string(), "1");
        assert_eq!(Bounds(0.0, 1.0).to_string(), "0 to 1");
    }
}

//! What a world says of a property: that it holds, or where it did not.
//!
//! Owns the words that every oracle speaks in.

use std::fmt;

/// A property that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub property: &'static str,
    /// What was found, and where.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.property, self.detail)
    }
}

/// What a check returns.
pub(crate) type Verdict<T = ()> = Result<T, Violation>;

/// Names a broken property.
pub(crate) fn broken<T>(property: &'static str, detail: impl Into<String>) -> Verdict<T> {
    Err(Violation { property, detail: detail.into() })
}

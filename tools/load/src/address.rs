//! Where a broker is: a name or a number, and a port.
//!
//! Owns nothing but the pair. It is resolved at each attempt, since the answer may change.

use std::fmt;

/// A broker by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Name or number, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(formatter, "[{}]:{}", self.host, self.port);
        }
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

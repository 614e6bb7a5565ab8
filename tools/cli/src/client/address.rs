//! Addresses as people write them: `host:port`, with 9092 where no port is given.
//!
//! Owns the parsing. It never resolves a name: that is done at each attempt, since the answer may change.

use std::fmt;

use crate::exit::{Exit, Failure, Outcome};

/// Kafka's port.
const PORT: u16 = 9092;

/// A broker by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    /// Name or number, without brackets.
    pub(crate) host: String,
    /// Port.
    pub(crate) port: u16,
}

impl Address {
    /// Parses a list separated by commas, of at least one.
    pub(crate) fn parse_list(text: &str) -> Outcome<Vec<Self>> {
        text.split(',').map(str::trim).map(Self::parse).collect()
    }

    fn parse(text: &str) -> Outcome<Self> {
        let wrong = || {
            Failure::new(Exit::Usage, format!("bootstrap server `{text}`: not HOST:PORT"))
                .advise("write it like 127.0.0.1:9092, broker.example or [::1]:9092")
        };
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(wrong)?;
                (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')) })
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(Some(port))),
                None => (text, None),
            },
        };
        let port = match port {
            None => PORT,
            Some(port) => port.and_then(|port| port.parse().ok()).ok_or_else(wrong)?,
        };
        if host.is_empty() || port == 0 || host.contains(['/', ' ']) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(formatter, "[{}]:{}", self.host, self.port);
        }
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        let check = |text: &str, expected: &[&str]| {
            let parsed = Address::parse_list(text).unwrap();
            let shown: Vec<String> = parsed.iter().map(ToString::to_string).collect();
            assert_eq!(shown, expected, "{text}");
        };
        check("127.0.0.1:9092", &["127.0.0.1:9092"]);
        check("a, b:19092", &["a:9092", "b:19092"]);
        check("[::1]:1", &["[::1]:1"]);
        check("[::1]", &["[::1]:9092"]);
    }

    #[test]
    fn what_is_no_address() {
        for text in
            ["", "a,", ":9092", "a:", "a:x", "a:70000", "a:0", "[::1", "[::1]9", "::1", "http://a"]
        {
            assert_eq!(Address::parse_list(text).unwrap_err().exit, Exit::Usage, "{text}");
        }
    }
}

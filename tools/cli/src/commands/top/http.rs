//! GET of one page from a node's admin address.
//!
//! Owns the address and the little of HTTP/1.1 that the admin server speaks: one request a connection, and the answer ends
//! with it. What comes is bounded before it is kept.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use broker::Platform;
use broker::platform::{ConnectionReader, ConnectionWriter};
use futures_lite::future::or;

use crate::exit::{Exit, Failure, Outcome};

/// The longest answer. A page of a node with a hundred cores has a megabyte.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How long one page may take: the node gives its own cores 5 s.
const WITHIN: Duration = Duration::from_secs(6);
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Where a node's admin server listens, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminAddress(String);

impl FromStr for AdminAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let port = text.rsplit_once(':').and_then(|(host, port)| {
            (!host.is_empty() && !host.contains('/')).then(|| port.parse::<u16>().ok())?
        });
        match port {
            Some(1..) => Ok(Self(text.to_owned())),
            _ => Err("write it like 127.0.0.1:9901".to_owned()),
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The body of a page that is there.
pub(crate) async fn get<P: Platform>(
    platform: &P,
    address: &AdminAddress,
    path: &str,
) -> Outcome<String> {
    let unreachable = |fact: String| {
        Failure::new(Exit::Unreachable, format!("{address}: {fact}"))
            .advise("see that the node runs and what admin address its ready line says")
    };
    // Blocks this thread: nothing else runs on it, and names are resolved anew, since the answer may change.
    let resolved = address.0.to_socket_addrs();
    let found: Vec<SocketAddr> =
        resolved.map_err(|error| unreachable(error.to_string()))?.collect();
    let asked = async {
        let mut last = unreachable("no such host".to_owned());
        for found in found {
            match ask(platform, found, address, path).await {
                Ok(answer) => return Ok(answer),
                Err(error) => last = unreachable(error.to_string()),
            }
        }
        Err(last)
    };
    let late = async {
        platform.sleep(WITHIN).await;
        let fact = format!("{address}: no answer within {} s", WITHIN.as_secs());
        Err(Failure::new(Exit::TimedOut, fact).advise("see whether the node is busy or stopped"))
    };
    let answer = or(asked, late).await?;
    body_of(&answer).map_err(|fact| {
        Failure::new(Exit::Unreachable, format!("{address}{path}: {fact}"))
            .advise("see that this is the admin address of a node, and not its Kafka port")
    })
}

async fn ask<P: Platform>(
    platform: &P,
    at: SocketAddr,
    address: &AdminAddress,
    path: &str,
) -> std::io::Result<Vec<u8>> {
    let (mut reader, mut writer) = platform.connect(at, WITHIN).await?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    writer.send(&[head.as_bytes()]).await?;
    let mut answer = Vec::new();
    let mut room = vec![0; READ_BYTES];
    loop {
        let count = reader.read(&mut room).await?;
        if count == 0 {
            return Ok(answer);
        }
        answer.extend(room.iter().take(count));
        if answer.len() > ANSWER_BYTES_MAX {
            let fact = format!("an answer of more than {} MiB", ANSWER_BYTES_MAX >> 20);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, fact));
        }
    }
}

/// What follows the head of an answer with status 200. Errors: what it is instead.
fn body_of(answer: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(answer);
    let not_http = || "not an answer of HTTP".to_owned();
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(not_http)?;
    let status =
        head.lines().next().and_then(|line| line.strip_prefix("HTTP/1.")).ok_or_else(not_http)?;
    let (_, status) = status.split_once(' ').ok_or_else(not_http)?;
    if !status.starts_with("200") {
        let said = body.lines().next().unwrap_or_default();
        return Err(format!("{status}: {said}"));
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    match length {
        Some(length) if length != body.len() => Err("the answer was cut short".to_owned()),
        _ => Ok(body.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (text, expected) in [
            ("127.0.0.1:9901", "127.0.0.1:9901"),
            ("http://node.example:1/", "node.example:1"),
            ("[::1]:9901", "[::1]:9901"),
        ] {
            assert_eq!(text.parse::<AdminAddress>().unwrap().to_string(), expected, "{text}");
        }
        for text in ["", "9901", ":9901", "a:", "a:0", "a:70000", "https://a:1", "a:1/metrics"] {
            assert!(text.parse::<AdminAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_page_is_its_body_and_anything_else_is_told() {
        let check = |answer: &str, expected: Result<&str, &str>| {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(body_of(answer.as_bytes()), expected, "{answer}");
        };
        check("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\na 1", Ok("a 1"));
        check("HTTP/1.1 200 OK\r\n\r\na 1", Ok("a 1"));
        check("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na 1", Err("the answer was cut short"));
        let busy = "HTTP/1.1 503 Service Unavailable\r\n\r\nstopping\n";
        check(busy, Err("503 Service Unavailable: stopping"));
        check("", Err("not an answer of HTTP"));
        check("\0\0\0\x1f\r\n\r\n", Err("not an answer of HTTP"));
    }
}

//! Finds out whether a port that hangs up on Kafka's first request wants TLS: most servers close without a word when a
//! handshake does not begin with one of theirs.
//!
//! Owns the one message. It never goes on with the handshake, and what it cannot find out is not an error.

use std::time::Duration;

use broker::Platform;
use broker::platform::{ConnectionReader, ConnectionWriter};

/// How long the answer may take: the port has just answered something, if only by closing.
const WITHIN: Duration = Duration::from_secs(2);
/// TLS record types: an alert, and a handshake message.
const ANSWERS: [u8; 2] = [0x15, 0x16];
/// The major version that all of SSL 3 and TLS 1.0 to 1.3 put into their records.
const MAJOR: u8 = 3;

/// A ClientHello of TLS 1.2 (RFC 5246, 7.4.1.2) without extensions. A server that speaks 1.3 alone answers it with an alert.
const CLIENT_HELLO: [u8; 58] = {
    const BODY: [u8; 15] = [
        0, // no session
        0, 8, 0xc0, 0x2f, 0xc0, 0x2b, 0, 0x9c, 0, 0x2f, // AES-128 with ECDHE or RSA
        1, 0, // no compression
        0, 0, // no extensions
    ];
    // Record: handshake, 1.0, length. Message: ClientHello, length. Version 1.2; then 32 bytes that only have to be there.
    let mut hello = [0x2a; 58];
    let head = [0x16, MAJOR, 1, 0, 53, 1, 0, 0, 49, MAJOR, 3];
    let mut at = 0;
    while at < head.len() {
        hello[at] = head[at];
        at += 1;
    }
    at = 0;
    while at < BODY.len() {
        hello[head.len() + 32 + at] = BODY[at];
        at += 1;
    }
    assert!(head.len() + 32 + BODY.len() == 58);
    hello
};

/// Whether what listens at `address` answers a ClientHello in kind.
pub(super) async fn speaks_tls<P: Platform>(platform: &P, address: std::net::SocketAddr) -> bool {
    let asked = async {
        let (mut reader, mut writer) = platform.connect(address, WITHIN).await.ok()?;
        writer.send(&[&CLIENT_HELLO]).await.ok()?;
        let mut answer = [0; 2];
        let mut filled = 0;
        while filled < answer.len() {
            match reader.read(answer.get_mut(filled..)?).await.ok()? {
                0 => return None,
                count => filled += count,
            }
        }
        Some(ANSWERS.contains(&answer[0]) && answer[1] == MAJOR)
    };
    super::connection::in_time(platform, WITHIN, asked).await.flatten().unwrap_or(false)
}

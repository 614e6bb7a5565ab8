//! The admin HTTP server: `/metrics`, `/ready`, and later the console.
//!
//! Owns a deliberately small HTTP/1.1: GET and HEAD, one request a connection, bounded headers, no body. It binds loopback unless
//! told otherwise, never blocks a data core (it runs on the control executor) and changes nothing.

mod guests;

use std::future::Future;
use std::time::Duration;

use futures_lite::future::or;

pub use guests::{Guest, Guests};

use crate::platform::{ConnectionReader, ConnectionWriter, Platform};

/// Longest request head; longer gets 431.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Headers in a request head.
const HEADERS_MAX: usize = 64;
/// How long a client may take to send its request head.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// How long it may take to read the answer.
const SEND_TIME_MAX: Duration = Duration::from_secs(30);

/// What a path answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The status line's number and text.
    pub status: Status,
    /// Its media type.
    pub content_type: &'static str,
    /// Its body.
    pub body: String,
}

/// The statuses this server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// 200
    Ok,
    /// 400
    BadRequest,
    /// 404
    NotFound,
    /// 405
    MethodNotAllowed,
    /// 431
    HeadTooLarge,
    /// 503
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

/// What the pages show.
pub trait Pages {
    /// The page at `path`, without its query.
    fn page(&self, path: &str) -> impl Future<Output = Page>;
}

impl Page {
    /// A page of plain text.
    #[must_use]
    pub fn text(status: Status, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// Serves one connection: one request, one answer.
pub async fn serve<P: Platform>(
    platform: &P,
    (mut reader, mut writer): (P::Reader, P::Writer),
    pages: &impl Pages,
    guest: &Guest,
) {
    let late = async {
        or(platform.sleep(HEAD_TIME_MAX), guest.dismissed()).await;
        None
    };
    if let Some(request) = or(read_head(&mut reader), late).await {
        guest.has_asked();
        let (page, with_body) = match request {
            Ok(Head { method, path }) => match method.as_str() {
                "GET" => (pages.page(&path).await, true),
                "HEAD" => (pages.page(&path).await, false),
                _ => (Page::text(Status::MethodNotAllowed, "GET and HEAD only\n"), true),
            },
            Err(status) => (Page::text(status, format!("{}\n", status.line())), true),
        };
        let head = format!(
            "HTTP/1.1 {}\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            page.status.line(),
            page.content_type,
            page.body.len()
        );
        let body = if with_body { page.body.as_bytes() } else { &[] };
        let slow = platform.sleep(SEND_TIME_MAX);
        // A client that hangs up early, or never reads, has lost only its own answer.
        let send = async { drop(writer.send(&[head.as_bytes(), body]).await) };
        or(send, slow).await;
    }
    writer.shutdown().await;
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    method: String,
    path: String,
}

/// The request head; `None` when the client goes away before it is whole.
async fn read_head(reader: &mut impl ConnectionReader) -> Option<Result<Head, Status>> {
    let mut head = vec![0; HEAD_BYTES_MAX];
    let mut filled = 0;
    loop {
        let room = head.get_mut(filled..)?;
        if room.is_empty() {
            return Some(Err(Status::HeadTooLarge));
        }
        match reader.read(room).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => filled += count,
        }
        if let Some(parsed) = parse_head(head.get(..filled)?) {
            return Some(parsed);
        }
    }
}

/// `None` while the head is not whole.
fn parse_head(bytes: &[u8]) -> Option<Result<Head, Status>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => None,
        Ok(httparse::Status::Complete(_)) => {
            let target = request.path.unwrap_or("/");
            let path = target.split('?').next().unwrap_or("/").to_owned();
            Some(Ok(Head { method: request.method.unwrap_or_default().to_owned(), path }))
        }
        Err(httparse::Error::TooManyHeaders) => Some(Err(Status::HeadTooLarge)),
        Err(_) => Some(Err(Status::BadRequest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_head_is_read_whole_or_refused() {
        let head = |method: &str, path: &str| {
            Some(Ok(Head { method: method.to_owned(), path: path.to_owned() }))
        };
        let check = |bytes: &[u8], expected: Option<Result<Head, Status>>| {
            assert_eq!(parse_head(bytes), expected, "{}", String::from_utf8_lossy(bytes));
        };
        check(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n", head("GET", "/metrics"));
        check(b"HEAD /ready?x=1 HTTP/1.1\r\n\r\n", head("HEAD", "/ready"));
        check(b"GET /metrics HTTP/1.1\r\nhost", None);
        check(b"\x16\x03\x01\x00\xff", Some(Err(Status::BadRequest)));
        let mut many = b"GET / HTTP/1.1\r\n".to_vec();
        (0..=HEADERS_MAX).for_each(|index| many.extend(format!("h{index}: v\r\n").bytes()));
        check(&many, Some(Err(Status::HeadTooLarge)));
    }
}

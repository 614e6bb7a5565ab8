//! One connection: frames out, frames in, and what the protocol says of their headers.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use wire::{Call, Decoder, ErrorCode, Request, Response, ResponseHeader, encode_request};

use super::node::PATIENCE;

/// A client by hand. Requests and answers are apart, so that a test can send several before it reads.
pub(crate) struct Client {
    stream: TcpStream,
    sent: i32,
    /// What it calls itself.
    pub(crate) id: Option<&'static str>,
}

/// A response as it came, without its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    version: i16,
    /// The bytes, the header first.
    pub(crate) bytes: Vec<u8>,
}

impl Frame {
    /// The number of the request that it answers.
    pub(crate) fn correlation_id(&self) -> i32 {
        i32::from_be_bytes(*self.bytes.first_chunk().unwrap())
    }

    /// The body, which must be all there is behind the header.
    pub(crate) fn read<'a, M: Response<'a>>(&'a self) -> M {
        self.read_as(self.version)
    }

    /// [`Frame::read`] in a version other than that of the request.
    pub(crate) fn read_as<'a, M: Response<'a>>(&'a self, version: i16) -> M {
        let (_, body) = ResponseHeader::decode(M::API, version, &self.bytes).unwrap();
        let mut decoder = Decoder::new(body);
        let message = M::decode_from(version, &mut decoder).unwrap();
        decoder.finish().unwrap();
        message
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream, sent: 0, id: Some("test") }
    }

    /// Sends a request and gives its number.
    pub(crate) fn send<'a, R: Request<'a>>(&mut self, version: i16, request: &R) -> i32 {
        self.try_send(version, request).unwrap()
    }

    /// [`Client::send`] to a node that may be gone.
    pub(crate) fn try_send<'a, R: Request<'a>>(
        &mut self,
        version: i16,
        request: &R,
    ) -> std::io::Result<i32> {
        self.sent += 1;
        let call = Call { version, correlation_id: self.sent, client_id: self.id };
        let frame = encode_request(call, request).unwrap().into_bytes().unwrap();
        self.stream.write_all(&frame)?;
        Ok(self.sent)
    }

    /// [`Client::send`] in two pieces, the first of so many bytes.
    pub(crate) fn send_in_two<'a, R: Request<'a>>(
        &mut self,
        version: i16,
        request: &R,
        cut: usize,
    ) -> i32 {
        self.sent += 1;
        let call = Call { version, correlation_id: self.sent, client_id: self.id };
        let frame = encode_request(call, request).unwrap().into_bytes().unwrap();
        self.stream.write_all(&frame[..cut]).unwrap();
        self.stream.write_all(&frame[cut..]).unwrap();
        self.sent
    }

    /// Sends bytes that may be no frame.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Says that nothing more comes.
    pub(crate) fn end_sending(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// The next frame; `None` where the node has closed the connection.
    pub(crate) fn receive(&mut self, version: i16) -> Option<Frame> {
        let mut size = [0; 4];
        if !self.fill(&mut size) {
            return None;
        }
        let mut bytes = vec![0; u32::from_be_bytes(size) as usize];
        assert!(self.fill(&mut bytes), "the connection ended within a frame");
        Some(Frame { version, bytes })
    }

    /// False at the end of the stream.
    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        match self.stream.read_exact(bytes) {
            Ok(()) => true,
            Err(error) => {
                let gone = [
                    ErrorKind::UnexpectedEof,
                    ErrorKind::ConnectionReset,
                    ErrorKind::ConnectionAborted,
                    ErrorKind::BrokenPipe,
                ];
                assert!(gone.contains(&error.kind()), "no answer: {error}");
                false
            }
        }
    }

    /// Sends a request and gives its answer.
    pub(crate) fn call<'a, R: Request<'a>>(&mut self, version: i16, request: &R) -> Frame {
        let sent = self.send(version, request);
        let frame = self.receive(version).expect("an answer, not the end of the connection");
        assert_eq!(frame.correlation_id(), sent);
        frame
    }

    /// The node must close the connection without a word.
    pub(crate) fn expect_closed(&mut self) {
        assert_eq!(self.receive(0), None, "an answer where the connection should end");
    }

    /// The connection must still be served.
    pub(crate) fn expect_alive(&mut self) {
        let request = wire::api_versions::ApiVersionsRequest::default();
        let frame = self.call(0, &request);
        let answer: wire::api_versions::ApiVersionsResponse<'_> = frame.read();
        assert_eq!(answer.error_code, ErrorCode::None);
    }
}

/// The body of a page of the admin server.
pub(crate) fn http_get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    answer
}

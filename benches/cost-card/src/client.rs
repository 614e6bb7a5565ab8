//! A blocking client: one connection, whole frames, the few requests that the scenarios need.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use record::{Offset, PartitionIndex};
use wire::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};
use wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};
use wire::{ApiKey, Call, ErrorCode, Message, Records, Request, ResponseHeader, encode_request};

use crate::error::CardError;

/// Versions with names in place of topic ids, so that no metadata is needed.
pub(crate) const PRODUCE_VERSION: i16 = 9;
/// The same for Fetch.
pub(crate) const FETCH_VERSION: i16 = 12;
const CREATE_TOPICS_VERSION: i16 = 5;
const DELETE_TOPICS_VERSION: i16 = 5;
/// Where a request frame carries its correlation id: behind size, key and version.
const CORRELATION_ID_AT: usize = 8;
const SIZE_BYTES: usize = 4;
/// No answer asked for here is larger; a broker that claims more is not believed.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(60);

/// A request frame that is sent many times.
#[derive(Debug, Clone)]
pub(crate) struct Frame(Vec<u8>);

impl Frame {
    /// Encodes a request once.
    pub(crate) fn new<'a, M: Request<'a>>(version: i16, body: &M) -> Result<Self, CardError> {
        let call = Call { version, correlation_id: 0, client_id: Some("cost-card") };
        let encoded = encode_request(call, body)?;
        Ok(Self(encoded.head().to_vec()))
    }

    /// Produce of `batch` with acks=all.
    pub(crate) fn produce(topic: &Topic, partition: i32, batch: &[u8]) -> Result<Self, CardError> {
        let index = PartitionIndex(partition);
        let partition_data = vec![PartitionProduceData { index, records: Records::Inline(batch) }];
        let name = Cow::Borrowed(&*topic.name);
        let topic_data = vec![TopicProduceData { name, partition_data, ..Default::default() }];
        let body =
            ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data, ..Default::default() };
        Self::new(PRODUCE_VERSION, &body)
    }

    /// Fetch from `offset`, at most `bytes_max` unless one batch is larger.
    pub(crate) fn fetch(topic: &Topic, offset: Offset, bytes_max: i32) -> Result<Self, CardError> {
        let partition = FetchPartition {
            fetch_offset: offset,
            partition_max_bytes: bytes_max,
            ..Default::default()
        };
        let topic = FetchTopic {
            topic: Cow::Borrowed(&*topic.name),
            partitions: vec![partition],
            ..Default::default()
        };
        let body = FetchRequest {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: bytes_max,
            topics: vec![topic],
            ..Default::default()
        };
        Self::new(FETCH_VERSION, &body)
    }

    /// The bytes to send, with this correlation id.
    pub(crate) fn numbered(&mut self, correlation_id: i32) -> &[u8] {
        self.0[CORRELATION_ID_AT..CORRELATION_ID_AT + 4]
            .copy_from_slice(&correlation_id.to_be_bytes());
        &self.0
    }
}

/// A connection on which answers are read in the order of the requests.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    /// Dials the broker.
    pub(crate) fn open(address: SocketAddr) -> Result<Self, CardError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self::over(stream))
    }

    /// A second handle on an open connection: who only reads answers.
    pub(crate) fn over(stream: TcpStream) -> Self {
        Self { stream, answer: Vec::new() }
    }

    /// Sends a frame under a number.
    pub(crate) fn send(&mut self, frame: &mut Frame, correlation_id: i32) -> Result<(), CardError> {
        Ok(self.stream.write_all(frame.numbered(correlation_id))?)
    }

    /// The size of the next answer.
    pub(crate) fn receive_size(&mut self) -> Result<usize, CardError> {
        let mut size = [0; SIZE_BYTES];
        self.stream.read_exact(&mut size)?;
        answer_bytes(size)
    }

    /// Reads an answer of `bytes` and gives it without its size field.
    pub(crate) fn receive_rest(&mut self, bytes: usize) -> Result<&[u8], CardError> {
        self.answer.resize(bytes, 0);
        self.stream.read_exact(&mut self.answer)?;
        Ok(&self.answer)
    }

    /// The next answer, without its size field.
    pub(crate) fn receive(&mut self) -> Result<&[u8], CardError> {
        let bytes = self.receive_size()?;
        self.receive_rest(bytes)
    }
}

/// The size that an answer claims, if it can be.
pub(crate) fn answer_bytes(size: [u8; SIZE_BYTES]) -> Result<usize, CardError> {
    let claimed = i32::from_be_bytes(size);
    let unexpected = CardError::Unexpected {
        what: "bytes of an answer",
        got: i64::from(claimed),
        expected: 64 << 20,
    };
    usize::try_from(claimed).ok().filter(|bytes| *bytes <= ANSWER_BYTES_MAX).ok_or(unexpected)
}

/// Checks a Produce answer: its number, and that the batch was appended. Gives its base offset.
pub(crate) fn check_produced(answer: &[u8], correlation_id: i32) -> Result<Offset, CardError> {
    let body = body_of(ApiKey::Produce, PRODUCE_VERSION, answer, correlation_id)?;
    let response = ProduceResponse::decode(PRODUCE_VERSION, body)?;
    let partition = response.responses.first().and_then(|topic| topic.partition_responses.first());
    let code = partition.map_or(ErrorCode::UnknownServerError, |partition| partition.error_code);
    match partition {
        Some(partition) if code == ErrorCode::None => Ok(partition.base_offset),
        _ => Err(CardError::Refused { what: "produce", code }),
    }
}

/// The body of an answer, whose number must be `correlation_id`.
pub(crate) fn body_of(
    api: ApiKey,
    version: i16,
    answer: &[u8],
    correlation_id: i32,
) -> Result<&[u8], CardError> {
    let (header, body) = ResponseHeader::decode(api, version, answer)?;
    if header.correlation_id != correlation_id {
        return Err(CardError::Unexpected {
            what: "correlation id",
            got: i64::from(header.correlation_id),
            expected: i64::from(correlation_id),
        });
    }
    Ok(body)
}

/// A topic made for one scenario.
#[derive(Debug)]
pub(crate) struct Topic {
    name: String,
    pub(crate) partition_count: i32,
}

impl Topic {
    /// Creates a topic under a name of its own, and waits until all its partitions take records.
    pub(crate) fn create(address: SocketAddr, partition_count: i32) -> Result<Self, CardError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let topic = Self { name: format!("cost-card-{}", since.as_micros()), partition_count };
        // Kafka keeps the files of a deleted topic for a minute otherwise, and a minute of rounds fills a disk.
        let at_once = CreatableTopicConfig {
            name: Cow::Borrowed("file.delete.delay.ms"),
            value: Some(Cow::Borrowed("1000")),
        };
        let wanted = CreatableTopic {
            name: Cow::Borrowed(&*topic.name),
            num_partitions: partition_count,
            replication_factor: 1,
            configs: vec![at_once],
            ..Default::default()
        };
        let body = CreateTopicsRequest { topics: vec![wanted], ..Default::default() };
        let mut connection = Connection::open(address)?;
        connection.send(&mut Frame::new(CREATE_TOPICS_VERSION, &body)?, 1)?;
        let answer = connection.receive()?;
        let body = body_of(ApiKey::CreateTopics, CREATE_TOPICS_VERSION, answer, 1)?;
        let response = CreateTopicsResponse::decode(CREATE_TOPICS_VERSION, body)?;
        let code = response.topics.first().map(|topic| topic.error_code);
        expect_none("create topic", code)?;
        topic.wait_for_leaders(&mut connection)?;
        Ok(topic)
    }

    /// Kafka answers before the partitions are led, for some milliseconds.
    fn wait_for_leaders(&self, connection: &mut Connection) -> Result<(), CardError> {
        let batch = crate::batch::of_bytes(1_200);
        for partition in 0..self.partition_count {
            let mut frame = Frame::produce(self, partition, &batch)?;
            let mut attempts_left = 100_u32;
            loop {
                connection.send(&mut frame, 1)?;
                match check_produced(connection.receive()?, 1) {
                    Ok(_) => break,
                    Err(CardError::Refused { .. }) if attempts_left > 0 => attempts_left -= 1,
                    Err(error) => return Err(error),
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Deletes the topic and its bytes.
    pub(crate) fn delete(&self, address: SocketAddr) -> Result<(), CardError> {
        // Versions up to 5 carry names, later ones states: both are filled, the version picks.
        let name = Cow::Borrowed(&*self.name);
        let state = DeleteTopicState { name: Some(name.clone()), ..Default::default() };
        let body = DeleteTopicsRequest {
            topics: vec![state],
            topic_names: vec![name],
            timeout_ms: 30_000,
        };
        let mut connection = Connection::open(address)?;
        connection.send(&mut Frame::new(DELETE_TOPICS_VERSION, &body)?, 1)?;
        let answer = connection.receive()?;
        let body = body_of(ApiKey::DeleteTopics, DELETE_TOPICS_VERSION, answer, 1)?;
        let response = DeleteTopicsResponse::decode(DELETE_TOPICS_VERSION, body)?;
        expect_none("delete topic", response.responses.first().map(|topic| topic.error_code))
    }
}

fn expect_none(what: &'static str, code: Option<ErrorCode>) -> Result<(), CardError> {
    match code.unwrap_or(ErrorCode::UnknownServerError) {
        ErrorCode::None => Ok(()),
        code => Err(CardError::Refused { what, code }),
    }
}

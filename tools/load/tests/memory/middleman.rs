//! A middleman between client and node, who changes answers on their way.
//!
//! Owns the passing on: requests go as they came, an answer of the API that is lied about is read, changed and written again.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use broker::Platform;
use broker::platform::{ConnectionReader, ConnectionWriter, Listener};
use commitlog::{Executor, TaskClass};
use sim::platform::{SimPlatform, SimReader, SimWriter};
use wire::fetch::FetchResponse;
use wire::list_offsets::ListOffsetsResponse;
use wire::metadata::MetadataResponse;
use wire::produce::ProduceResponse;
use wire::{ApiKey, Message, Records, RequestHeader, Response, ResponseHeader, encode_response};

use crate::world::PORT;

/// Where the middleman listens.
pub(crate) const LIAR_PORT: u16 = PORT + 1;

/// What is changed.
#[derive(Clone)]
pub(crate) enum Lie {
    /// What became of batches.
    Produce(fn(&mut ProduceResponse<'_>)),
    /// Where partitions are.
    Metadata(fn(&mut MetadataResponse<'_>)),
    /// The records of each partition.
    Fetch(Rc<ChangeRecords>),
    /// Where logs end, and begin.
    Ends(fn(i64) -> i64),
    /// The records of each partition, and what became of batches.
    Both(Rc<ChangeRecords>, Rc<dyn Fn(&mut ProduceResponse<'_>)>),
}

/// Other records in place of those that the node gave.
pub(crate) type ChangeRecords = dyn Fn(&[u8]) -> Vec<u8>;

/// Listens, and passes on whatever comes.
pub(crate) async fn start(platform: &SimPlatform, lie: Lie) {
    let listener = platform.listen(address(LIAR_PORT)).await.unwrap();
    let own = platform.clone();
    let accepting = async move {
        while let Ok(client) = listener.accept().await {
            let node = own.connect(address(PORT), Duration::from_secs(1)).await.unwrap();
            let asked = Rc::new(RefCell::new(VecDeque::new()));
            let requests = pass_requests(client.0, node.1, Rc::clone(&asked));
            own.spawn(TaskClass::Foreground, Box::pin(requests));
            let answers = pass_answers(node.0, client.1, asked, lie.clone());
            own.spawn(TaskClass::Foreground, Box::pin(answers));
        }
    };
    platform.spawn(TaskClass::Foreground, Box::pin(accepting));
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// What was asked and not answered yet.
type Asked = Rc<RefCell<VecDeque<(ApiKey, i16)>>>;

async fn pass_requests(mut from: SimReader, mut to: SimWriter, asked: Asked) {
    while let Some(frame) = next_frame(&mut from).await {
        let (header, _) = RequestHeader::decode(&frame[4..]).unwrap();
        asked.borrow_mut().push_back((header.api, header.version));
        if to.send(&[&frame]).await.is_err() {
            break;
        }
    }
    to.shutdown().await;
}

async fn pass_answers(mut from: SimReader, mut to: SimWriter, asked: Asked, lie: Lie) {
    while let Some(frame) = next_frame(&mut from).await {
        let (api, version) = asked.borrow_mut().pop_front().unwrap();
        let changed = change(&lie, api, version, &frame[4..]).unwrap_or(frame);
        if to.send(&[&changed]).await.is_err() {
            break;
        }
    }
    to.shutdown().await;
}

/// A frame with its size field; `None` at the end of the stream.
async fn next_frame(from: &mut SimReader) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    fill(from, &mut frame).await?;
    let size = u32::from_be_bytes(*frame.first_chunk().unwrap());
    frame.resize(4 + usize::try_from(size).unwrap(), 0);
    fill(from, &mut frame[4..]).await?;
    Some(frame)
}

async fn fill(from: &mut SimReader, mut bytes: &mut [u8]) -> Option<()> {
    while !bytes.is_empty() {
        let count = from.read(bytes).await.ok().filter(|count| *count > 0)?;
        bytes = &mut bytes[count..];
    }
    Some(())
}

/// Another answer; `None` where this one stays.
fn change(lie: &Lie, api: ApiKey, version: i16, frame: &[u8]) -> Option<Vec<u8>> {
    let (header, body) = ResponseHeader::decode(api, version, frame).unwrap();
    match (lie, api) {
        (Lie::Produce(change), ApiKey::Produce) => {
            let mut response = ProduceResponse::decode(version, body).unwrap();
            change(&mut response);
            Some(written(header, version, &response))
        }
        (Lie::Metadata(change), ApiKey::Metadata) => {
            let mut response = MetadataResponse::decode(version, body).unwrap();
            change(&mut response);
            Some(written(header, version, &response))
        }
        (Lie::Both(_, change), ApiKey::Produce) => {
            let mut response = ProduceResponse::decode(version, body).unwrap();
            change(&mut response);
            Some(written(header, version, &response))
        }
        (Lie::Ends(change), ApiKey::ListOffsets) => {
            let mut response = ListOffsetsResponse::decode(version, body).unwrap();
            for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                partition.offset.0 = change(partition.offset.0);
            }
            Some(written(header, version, &response))
        }
        (Lie::Fetch(change) | Lie::Both(change, _), ApiKey::Fetch) => {
            let response = FetchResponse::decode(version, body).unwrap();
            let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
            let changed: Vec<Vec<u8>> =
                partitions.map(|partition| change(partition.records.inline())).collect();
            let mut response = response.clone();
            let partitions = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
            for (partition, records) in partitions.zip(&changed) {
                partition.records = Records::Inline(records);
            }
            Some(written(header, version, &response))
        }
        _ => None,
    }
}

fn written<'a, M: Response<'a>>(header: ResponseHeader, version: i16, body: &M) -> Vec<u8> {
    encode_response(header, version, body).unwrap().into_bytes().unwrap().to_vec()
}

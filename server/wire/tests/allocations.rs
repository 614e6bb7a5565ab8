//! What decoding and encoding allocate: bounded for hostile bytes, next to nothing for honest ones.

use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::cell::Cell;

use record::{NodeId, PartitionIndex};
use wire::fetch::{FetchResponse, FetchableTopicResponse, PartitionData};
use wire::metadata::{MetadataResponse, MetadataResponseBroker};
use wire::produce::ProduceRequest;
use wire::{
    AnyRequest, AnyResponse, ApiKey, EXPANSION_FLOOR_BYTES, EXPANSION_MAX, Message, Records,
    ResponseHeader, encode_response,
};

thread_local! {
    /// Allocations of this thread, and their bytes.
    static COUNT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

// SAFETY: everything is handed to the system's allocator; counting allocates nothing (a const thread local).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (count, bytes) = COUNT.get();
        COUNT.set((count + 1, bytes + layout.size()));
        // SAFETY: the caller's layout, unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's pointer and layout, unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`; how often and how many bytes it allocated.
fn allocated<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    COUNT.set((0, 0));
    let result = work();
    let (count, bytes) = COUNT.get();
    (result, count, bytes)
}

struct Row {
    api: ApiKey,
    is_request: bool,
    version: i16,
    body: Vec<u8>,
}

fn rows() -> impl Iterator<Item = Row> {
    include_str!("golden.tsv").lines().filter_map(|line| {
        let columns: Vec<_> = line.split('\t').collect();
        let [name, version, _, hex] = columns[..] else { panic!("four columns") };
        let (api, is_request) = match name.strip_suffix("Request") {
            Some(api) => (api, true),
            None => (name.strip_suffix("Response")?, false),
        };
        let api = *ApiKey::ALL.iter().find(|key| key.name() == api)?;
        let pairs = hex.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).ok());
        let body = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok());
        Some(Row {
            api,
            is_request,
            version: version.parse().ok()?,
            body: body.collect::<Option<_>>()?,
        })
    })
}

fn decode(row: &Row, body: &[u8]) -> bool {
    if row.is_request {
        AnyRequest::decode(row.api, row.version, body).is_ok()
    } else {
        AnyResponse::decode(row.api, row.version, body).is_ok()
    }
}

#[test]
fn counts_of_two_billion_anywhere_allocate_within_the_budget() {
    let mut bodies = 0;
    for row in rows() {
        let bound = row.body.len() * EXPANSION_MAX + EXPANSION_FLOOR_BYTES;
        for at in 0..row.body.len() {
            // The largest count in classic and in compact form, and one that just passes for bytes that remain.
            let left = u8::try_from((row.body.len() - at).min(0x7f)).unwrap();
            for count in [
                &[0x7f, 0xff, 0xff, 0xff][..],
                &[0xff, 0xff, 0xff, 0xff, 0x07],
                &[0xff, 0xff, 0x3f],
                &[left],
            ] {
                let mut body = row.body.clone();
                let end = (at + count.len()).min(body.len());
                body[at..end].copy_from_slice(&count[..end - at]);
                let (_, _, bytes) = allocated(|| decode(&row, &body));
                assert!(bytes <= bound, "{} v{}: {bytes} bytes, {bound}", row.api, row.version);
                bodies += 1;
            }
        }
    }
    assert!(bodies > 300_000, "{bodies}");
}

#[test]
fn counts_that_fit_the_bytes_that_remain_allocate_within_the_budget() {
    // Elements of one byte each: null or empty strings, the densest that there are.
    let (mut read, mut refused) = (0, 0);
    for row in rows() {
        let bound = |body: &[u8]| body.len() * EXPANSION_MAX + EXPANSION_FLOOR_BYTES;
        for at in 0..row.body.len().min(40) {
            for (count, filler) in [(&[0xd1, 0x0f][..], 1), (&[0, 0, 0x07, 0xd0][..], 0)] {
                let mut body = [&row.body[..at], count].concat();
                body.resize(body.len() + 4200, filler);
                let (is_read, _, bytes) = allocated(|| decode(&row, &body));
                let bound = bound(&body);
                assert!(bytes <= bound, "{} v{}: {bytes} bytes, {bound}", row.api, row.version);
                if is_read {
                    read += 1;
                } else {
                    refused += 1;
                }
            }
        }
    }
    assert!(read > 1000, "{read}");
    assert!(refused > 10_000, "{refused}");
}

#[test]
fn a_produce_request_of_one_partition_allocates_twice() {
    let records = [7; 1000];
    let mut body = vec![0, 0xff, 0xff, 0, 0, 0, 100, 2];
    body.extend([1; 16]);
    body.extend([2, 0, 0, 0, 3, 0xe9, 0x07]);
    body.extend(records);
    body.extend([0, 0, 0]);
    let (request, count, bytes) = allocated(|| ProduceRequest::decode(13, &body).unwrap());
    assert_eq!(request.topic_data[0].partition_data[0].records, Records::Inline(&records));
    assert_eq!(count, 2);
    assert!(bytes <= 256, "{bytes}");
}

#[test]
fn an_answer_is_encoded_into_one_allocation() {
    let broker = MetadataResponseBroker {
        node_id: NodeId(1),
        host: Cow::Borrowed("host.example"),
        port: 9092,
        rack: None,
    };
    let answer = MetadataResponse { brokers: vec![broker; 50], ..MetadataResponse::default() };
    let header = ResponseHeader { correlation_id: 1 };
    let (frame, count, bytes) =
        allocated(|| encode_response(header, 12, &answer).unwrap().into_bytes().unwrap());
    assert_eq!((count, bytes), (1, frame.len()));
}

#[test]
fn a_fetch_answer_never_holds_record_bytes() {
    let partitions = (0..8).map(|index| PartitionData {
        partition_index: PartitionIndex(index),
        records: Records::Apart { bytes: 1 << 20 },
        ..PartitionData::default()
    });
    let topic = FetchableTopicResponse { partitions: partitions.collect(), ..Default::default() };
    let answer = FetchResponse { responses: vec![topic], ..FetchResponse::default() };
    let header = ResponseHeader { correlation_id: 1 };
    let (encoded, count, bytes) = allocated(|| encode_response(header, 16, &answer).unwrap());
    assert_eq!(encoded.total_bytes(), (8 << 20) + encoded.head().len());
    assert_eq!(count, 2);
    assert!(bytes < 1000, "{bytes}");
}

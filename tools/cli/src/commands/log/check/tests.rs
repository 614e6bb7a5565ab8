use super::*;
use std::rc::Rc;

use commitlog::OpenMode;
use record::{BatchBuilder, Codec, LeaderEpoch, NewRecord, encode_snapshot};
use sim::disk::SimDisk;
use sim::executor::{RunEnd, RunLimits, SimExecutor};
use sim::prng::Prng;
use sim::trace::{Keep, Trace};

use crate::commands::log::files;

const LOG: &str = "t-0/00000000000000000010.log";
const INDEX: &str = "t-0/00000000000000000010.index";
const TIME_INDEX: &str = "t-0/00000000000000000010.timeindex";

/// Batches of two records each from offset 10 on; the n-th has timestamps 100 n and 100 n + 1.
fn segment(batches: i64) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    let mut positions = Vec::new();
    for number in 0..batches {
        let codec = if number % 2 == 0 { Codec::None } else { Codec::Lz4 };
        let offset = Offset(10 + 2 * number);
        let mut builder = BatchBuilder::new(codec).assigned(offset, LeaderEpoch(0));
        for (timestamp, value) in [(100 * number, "one"), (100 * number + 1, "two")] {
            let value = Some(value.as_bytes());
            let timestamp = Timestamp(timestamp);
            builder.append(&NewRecord { timestamp, value, ..NewRecord::default() });
        }
        positions.push(bytes.len());
        bytes.extend(builder.build());
    }
    (bytes, positions)
}

fn index_entry(relative: u32, position: usize) -> Vec<u8> {
    let position = u32::try_from(position).unwrap();
    [relative.to_be_bytes(), position.to_be_bytes()].concat()
}

fn time_entry(timestamp: i64, relative: u32) -> Vec<u8> {
    [timestamp.to_be_bytes().as_slice(), &relative.to_be_bytes()].concat()
}

/// What verify says of these files: each finding without its consequence, and the totals.
fn verify(files: &[(&str, Vec<u8>)]) -> (Vec<String>, Totals) {
    let trace = Rc::new(Trace::new(Keep::Hash));
    let executor = SimExecutor::new(Prng::new(1), Rc::clone(&trace));
    let disk = SimDisk::new(&executor, Prng::new(2), trace);
    let owned: Vec<(String, Vec<u8>)> =
        files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.clone())).collect();
    let on_core = executor.clone();
    let main = async move {
        for directory in ["t-0", "u-0"] {
            disk.create_dir(directory).await.unwrap();
        }
        for (path, bytes) in owned {
            disk.open(&path, OpenMode::CreateNew).await.unwrap();
            disk.poke(&path, bytes);
        }
        let root = PathBuf::from("data");
        let partitions = files::find(&disk, &root, None).await.unwrap();
        let mut checker = Checker::new(disk, on_core, root, Ground::default(), Depth::Records);
        let mut said = Vec::new();
        for partition in &partitions {
            let mut print = |item: &Item<'_>| {
                if let Item::Finding(finding) = item {
                    let at = finding.position.map_or(String::new(), |at| format!(" @{at}"));
                    said.push(format!("{}{at}: {}", finding.file, finding.problem));
                }
                Ok(())
            };
            checker.partition(partition, &mut print).await.unwrap();
        }
        (said, checker.finish())
    };
    match executor.run(main, RunLimits { steps_max: 1_000_000, crash_at: None }) {
        RunEnd::Done(result) => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn whole_files_have_no_findings() {
    let (log, at) = segment(4);
    let files = [
        (LOG, log.clone()),
        (INDEX, [index_entry(3, at[1]), index_entry(7, at[3])].concat()),
        (TIME_INDEX, [time_entry(101, 3), time_entry(301, 7)].concat()),
        ("t-0/00000000000000000018.snapshot", encode_snapshot(&[])),
        ("t-0/leader-epoch-checkpoint", b"0\n1\n0 10\n".to_vec()),
        ("t-0/partition.metadata", b"anything".to_vec()),
    ];
    let (said, totals) = verify(&files);
    assert_eq!(said, [""; 0]);
    let bytes = log.len() as u64;
    let expected = Totals {
        segments: 1,
        bytes,
        batches: 4,
        records: 8,
        index_entries: 4,
        snapshots: 1,
        journal_sets: 0,
        journal_groups: 0,
        problems: 0,
        notes: 0,
    };
    assert_eq!(totals, expected);
}

#[test]
fn a_flipped_bit_is_one_finding_and_its_index_entries_are_not() {
    let (mut log, at) = segment(4);
    log[at[1] + 70] ^= 4;
    let files = [
        (LOG, log),
        (INDEX, [index_entry(3, at[1]), index_entry(7, at[3])].concat()),
        (TIME_INDEX, [time_entry(101, 3), time_entry(301, 7)].concat()),
    ];
    let (said, totals) = verify(&files);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with(&format!("data/{LOG} @{}: crc", at[1])), "{said:?}");
    assert!(said[0].ends_with(&format!("{} bytes, offsets 12 to 13", at[2] - at[1])), "{said:?}");
    assert_eq!((totals.batches, totals.problems), (3, 1));
}

#[test]
fn a_damaged_length_hides_no_later_batch() {
    let (mut log, at) = segment(4);
    log[at[1] + 8] = 0x7f;
    let (said, totals) = verify(&[(LOG, log)]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("offsets 12 to 13"), "{said:?}");
    assert_eq!(totals.batches, 3);
}

#[test]
fn a_length_that_leads_to_a_later_batch_hides_none_before_it() {
    let (mut log, at) = segment(4);
    let length = u32::try_from(at[3] - at[1] - 12).unwrap();
    log[at[1] + 8..at[1] + 12].copy_from_slice(&length.to_be_bytes());
    let (said, totals) = verify(&[(LOG, log)]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("offsets 12 to 13"), "{said:?}");
    assert_eq!(totals.batches, 3);
}

#[test]
fn a_length_that_leads_into_the_zeros_at_the_end_hides_no_batch_before_them() {
    let (mut log, at) = segment(4);
    let length = u32::try_from(log.len() + 100 - at[1] - 12).unwrap();
    log[at[1] + 8..at[1] + 12].copy_from_slice(&length.to_be_bytes());
    log.extend([0; 5000]);
    let (said, totals) = verify(&[(LOG, log)]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("offsets 12 to 13"), "{said:?}");
    assert_eq!(totals.batches, 3);
}

#[test]
fn a_base_offset_that_rots_is_damage_and_no_gap() {
    let (mut log, at) = segment(4);
    // 12 becomes 14, and the checksum does not cover it.
    log[at[1] + 7] ^= 2;
    let (said, totals) = verify(&[(LOG, log)]);
    let bytes = at[2] - at[1];
    let expected = format!(
        "data/{LOG} @{}: base offset 14, expected 12, {bytes} bytes, offsets 12 to 13",
        at[1]
    );
    assert_eq!(said, [expected]);
    assert_eq!(totals.batches, 3);
}

#[test]
fn zeros_at_the_end_are_room_and_in_the_middle_damage() {
    let (mut log, at) = segment(2);
    log.extend([0; 5000]);
    assert_eq!(verify(&[(LOG, log.clone())]).0, [""; 0]);
    log[at[0]..at[1]].fill(0);
    let (said, totals) = verify(&[(LOG, log)]);
    assert_eq!((said.len(), totals.batches), (1, 1), "{said:?}");
}

#[test]
fn a_cut_off_batch_is_found() {
    let (mut log, at) = segment(2);
    log.truncate(log.len() - 3);
    let (said, _) = verify(&[(LOG, log)]);
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with(&format!("data/{LOG} @{}: batch of ", at[1])), "{said:?}");
}

#[test]
fn missing_offsets_are_found_within_a_segment_and_between_two() {
    let (log, at) = segment(3);
    let gap = [&log[..at[1]], &log[at[2]..]].concat();
    let next = "t-0/00000000000000000020.log";
    let (said, totals) = verify(&[(LOG, gap), (next, Vec::new())]);
    assert_eq!(totals.batches, 2);
    assert_eq!(
        said,
        [
            format!("data/{LOG} @{}: base offset 14, expected 12, offsets 12 to 13", at[1]),
            format!("data/{next}: starts at offset 20, expected 16"),
        ]
    );
}

#[test]
fn records_that_do_not_fit_their_batch_are_found() {
    let (mut log, _) = segment(1);
    // The largest timestamp is at 35; the checksum is made to agree with the lie.
    log[42] = 99;
    let crc = record::batch::crc_of(&log).to_be_bytes();
    log[17..21].copy_from_slice(&crc);
    let (said, _) = verify(&[(LOG, log)]);
    assert_eq!(said, [format!("data/{LOG} @0: max timestamp 99, its records have 1")]);
}

#[test]
fn wrong_index_entries_are_found() {
    let (log, at) = segment(4);
    let check = |offsets: Vec<u8>, times: Vec<u8>, expected: &[&str]| {
        let files = [(LOG, log.clone()), (INDEX, offsets), (TIME_INDEX, times)];
        let said = verify(&files).0;
        let said: Vec<&str> = said.iter().map(|line| line.split(": ").nth(1).unwrap()).collect();
        assert_eq!(said, expected);
    };
    let inside = format!("entry 0 points to byte {}, where no batch starts", at[1] + 1);
    check(index_entry(3, at[1] + 1), vec![], &[inside.as_str()]);
    let other = format!("entry 0 says offset 12, the batch at byte {} ends with 13", at[1]);
    check(index_entry(2, at[1]), vec![], &[other.as_str()]);
    let beyond = "entry 0 points to byte 99999, where no batch starts";
    check(index_entry(3, 99_999), vec![], &[beyond]);
    let swapped = [index_entry(7, at[3]), index_entry(3, at[1])].concat();
    let behind = format!("entry 1 points to byte {}, where no batch starts", at[1]);
    check(swapped, vec![], &["entry 1 does not follow its predecessor", behind.as_str()]);
    let late = "entry 0 says 102 ms, the batch that ends with 13 has 101 ms";
    check(vec![], time_entry(102, 3), &[late]);
    check(vec![], time_entry(101, 2), &["entry 0 says offset 12, with which no batch ends"]);
    check(vec![], time_entry(301, 90), &["entry 0 says offset 100, with which no batch ends"]);
    check(
        vec![1; 9],
        vec![],
        &[
            "9 bytes are not whole entries of 8",
            "entry 0 points to byte 16843009, where no batch starts",
        ],
    );
    // Room that Kafka reserves in a live index is no entry.
    check([index_entry(3, at[1]), vec![0; 80]].concat(), vec![0; 120], &[]);
}

#[test]
fn indexes_that_end_before_the_log_are_none_too_few() {
    let (log, at) = segment(4);
    let check = |offsets: Vec<u8>, times: Vec<u8>| {
        let (said, _) = verify(&[(LOG, log.clone()), (INDEX, offsets), (TIME_INDEX, times)]);
        assert_eq!(said, [""; 0]);
    };
    // Of the newest segment after a kill: what the last clean stop wrote, or nothing yet.
    check(index_entry(3, at[1]), time_entry(101, 3));
    check(vec![], vec![]);
    assert_eq!(verify(&[(LOG, log.clone())]).0, [""; 0]);
}

#[test]
fn records_without_a_time_need_no_entry_by_time_and_one_that_is_room_is_none() {
    let mut builder = BatchBuilder::new(Codec::None).assigned(Offset(10), LeaderEpoch(0));
    for _ in 0..2 {
        builder.append(&NewRecord { timestamp: Timestamp::NONE, ..NewRecord::default() });
    }
    let log = builder.build();
    let check = |times: Vec<u8>, expected: &[&str]| {
        let (said, _) = verify(&[(LOG, log.clone()), (TIME_INDEX, times)]);
        let said: Vec<&str> = said.iter().map(|line| line.split(": ").nth(1).unwrap()).collect();
        assert_eq!(said, expected);
    };
    check(vec![], &[]);
    check(vec![0; 12], &[]);
    check(vec![0; 120], &[]);
    // Any other entry says something, and it is wrong.
    let late = "entry 0 says 7 ms, the batch that ends with 11 has -1 ms";
    check(time_entry(7, 1), &[late]);
}

#[test]
fn damaged_snapshots_and_epochs_are_found() {
    let mut snapshot = encode_snapshot(&[]);
    snapshot[3] ^= 1;
    let name = "u-0/00000000000000000018.snapshot";
    let epochs = "u-0/leader-epoch-checkpoint";
    let (said, totals) = verify(&[(name, snapshot), (epochs, b"0\n2\n0 10\n".to_vec())]);
    assert_eq!(totals.problems, 2);
    assert!(said[0].contains(epochs) && said[1].contains(name), "{said:?}");
}

/// After `records delete` the epochs begin at the log start, which a copy of the directory alone tells nowhere else.
#[test]
fn batches_below_the_first_leader_epoch_of_a_copied_directory_are_no_problem() {
    let check = |epochs: &str, problems: &[&str]| {
        let epochs = ("t-0/leader-epoch-checkpoint", epochs.as_bytes().to_vec());
        let (said, _) = verify(&[(LOG, segment(4).0), epochs]);
        let said: Vec<&str> = said.iter().map(|line| line.split(": ").nth(1).unwrap()).collect();
        assert_eq!(said, problems);
    };
    check("0\n1\n0 0\n", &[]);
    check("0\n1\n0 14\n", &[]);
    check("0\n1\n0 15\n", &[]);
    check("0\n1\n3 14\n", &["epoch 3 for offset 14, its batch has 0"]);
    check("0\n2\n0 0\n1 14\n", &["epoch 1 for offset 14, its batch has 0"]);
}

//! What a checkpoint makes of files: lost where it knew more, a tail where it knew less.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use commitlog::directory::{self, NewIds};
use commitlog::{
    CheckpointMap, JournalOptions, LogIdentity, LogOptions, RoomAhead, STATES_BYTES, StartKind,
    Store, StoreOptions,
};
use record::{
    BatchBuilder, Codec, Fold, LeaderEpoch, NewRecord, NodeId, PartitionIndex, Producer,
    ProducerBatch, ProducerEpoch, ProducerId, TopicId, encode_snapshot,
};
use sim::disk::SimDisk;
use sim::executor::{RunEnd, RunLimits, SimExecutor};
use sim::prng::Prng;
use sim::trace::{Keep, Trace};

use super::*;
use crate::commands::log::files;

const DIRECTORY: &str = "topics/orders-0";
const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// The last batch of each producer, as a broker remembers it.
#[derive(Default)]
struct LastBatches(Vec<ProducerSnapshotEntry>);

impl Fold for LastBatches {
    fn apply(&mut self, batch: &ProducerBatch) {
        self.0.retain(|entry| entry.producer_id != batch.producer_id);
        self.0.push(ProducerSnapshotEntry {
            producer_id: batch.producer_id,
            producer_epoch: batch.producer_epoch,
            last_sequence: batch.base_sequence + batch.last_offset_delta,
            last_offset: batch.last_offset,
            offset_delta: batch.last_offset_delta,
            timestamp: batch.max_timestamp,
            coordinator_epoch: -1,
            current_transaction_first_offset: -1,
        });
    }
    fn snapshot(&self) -> Vec<ProducerSnapshotEntry> {
        self.0.clone()
    }
    fn restore(&mut self, entries: &[ProducerSnapshotEntry]) {
        self.0 = entries.to_vec();
    }
}

/// How the node that made the files ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Clean,
    /// Killed: some batches lie above the last checkpoint.
    Killed,
    /// The same with a journal, which has what the newest segment lacks.
    KilledWithJournal,
}

/// One file takes all that is written here.
const JOURNAL: JournalOptions = JournalOptions {
    file_bytes: 256 << 12,
    file_count: 2,
    ring: 7,
    group_bytes_max: 8_000,
    company_min: 1,
    cached_company_min: 1,
    sets_before: 0,
    settle_bytes: 1 << 20,
    behind_bytes_max: 1 << 20,
};

/// A data directory as a node leaves it: 60 batches of two records, in segments of about ten.
struct Made {
    executor: SimExecutor,
    disk: SimDisk,
}

fn run<T: 'static>(executor: &SimExecutor, main: impl Future<Output = T> + 'static) -> T {
    match executor.run(main, RunLimits { steps_max: 1_000_000, crash_at: None }) {
        RunEnd::Done(result) => result,
        _ => panic!("no end"),
    }
}

fn made(ending: Ending) -> Made {
    let trace = Rc::new(Trace::new(Keep::Hash));
    let executor = SimExecutor::new(Prng::new(1), Rc::clone(&trace));
    let disk = SimDisk::new(&executor, Prng::new(2), trace);
    run(&executor, write(disk.clone(), executor.clone(), ending));
    let disk = disk.restart();
    executor.drop_tasks();
    Made { executor, disk }
}

async fn write(disk: SimDisk, executor: SimExecutor, ending: Ending) {
    let ids = || NewIds {
        cluster_id: TopicId([1; 16]),
        node_id: NodeId(1),
        directory_id: TopicId([2; 16]),
    };
    directory::open_or_create(&disk, ids().node_id, ids).await.unwrap();
    let options = StoreOptions {
        name: "0".to_owned(),
        checkpoints: Arc::new(CheckpointMap::default()),
        start: StartKind::Unclean,
        sequence_base: 1 << 32,
        tail_cache_bytes: 1 << 20,
        read_cache_bytes: 1 << 20,
        open_files_max: 16,
        room_ahead: RoomAhead::default(),
        states_bytes: STATES_BYTES,
        journal: (ending == Ending::KilledWithJournal).then_some(JOURNAL),
        mutant: commitlog::mutant::Mutant::NONE,
    };
    let store = Store::open(disk.clone(), executor.clone(), options).await.unwrap();
    let (topic_id, partition) = (TopicId([9; 16]), PartitionIndex(0));
    let identity = LogIdentity { topic: "orders".into(), topic_id, partition };
    let options = LogOptions { segment_bytes: 6_000, ..LogOptions::default() };
    let fold = Rc::new(RefCell::new(LastBatches::default()));
    let (log, _) = store.open_log(identity, options, fold, NOW).await.unwrap();
    for number in 0..60 {
        if number == 50 {
            store.checkpoint(NOW).await.unwrap();
        }
        let (id, epoch) = (ProducerId(4), ProducerEpoch(0));
        let producer = Producer { id, epoch, base_sequence: number * 2 };
        let mut builder = BatchBuilder::new(Codec::None).producer(producer);
        for at in 0..2 {
            let timestamp = Timestamp(NOW.0 + i64::from(number) * 10 + at);
            let value = Some([7; 230].as_slice());
            builder.append(&NewRecord { timestamp, value, ..NewRecord::default() });
        }
        let batch = builder.build();
        let header = BatchHeader::parse(&batch).unwrap();
        let appended = log.append(NOW, LeaderEpoch(number / 30), &header, &batch).unwrap();
        log.durable_through(appended.last_offset).await.unwrap();
    }
    // Sealing goes on behind.
    executor.sleep(std::time::Duration::from_secs(5)).await;
    if ending == Ending::Clean {
        store.close(NOW).await.unwrap();
        directory::write_clean_stop(&disk).await.unwrap();
    }
}

impl Made {
    /// The names in the partition that end so, ascending.
    fn names(&self, suffix: &str) -> Vec<String> {
        let paths = self.disk.files().into_iter().map(|(path, _)| path);
        paths.filter(|path| path.starts_with(DIRECTORY) && path.ends_with(suffix)).collect()
    }

    fn edit(&self, path: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.disk.peek(path).unwrap();
        edit(&mut bytes);
        self.disk.poke(path, bytes);
    }

    /// What verify says: problems, and notes.
    fn verify(&self, holder: Option<u32>) -> (Vec<String>, Vec<String>) {
        self.verify_while(holder, |_| {}).unwrap()
    }

    /// The same where `meanwhile` happens after the files were listed.
    fn verify_while(
        &self,
        holder: Option<u32>,
        meanwhile: impl FnOnce(&SimDisk) + 'static,
    ) -> Outcome<(Vec<String>, Vec<String>)> {
        let (disk, executor) = (self.disk.clone(), self.executor.clone());
        let main = async move {
            let root = PathBuf::from("data");
            let partitions = files::find(&disk, &root, None).await.unwrap();
            let mut ground = Ground::load(&disk, holder).await.unwrap();
            ground.look_at_journals(&disk, &executor).await.unwrap();
            meanwhile(&disk);
            let mut checker = Checker::new(disk, executor, root, ground, Depth::Records);
            let (mut problems, mut notes) = (Vec::new(), Vec::new());
            for partition in &partitions {
                let mut print = |item: &Item<'_>| {
                    if let Item::Finding(finding) = item {
                        let line = format!(
                            "{}: {}; {}",
                            finding.file, finding.problem, finding.consequence
                        );
                        match finding.severity {
                            Severity::Problem => problems.push(line),
                            Severity::Note => notes.push(line),
                        }
                    }
                    Ok(())
                };
                checker.partition(partition, &mut print).await?;
            }
            let mut print = |item: &Item<'_>| {
                if let Item::Finding(finding) = item {
                    let list = match finding.severity {
                        Severity::Problem => &mut problems,
                        Severity::Note => &mut notes,
                    };
                    let at = finding.position.map_or(String::new(), |at| format!(" @{at}"));
                    let (file, problem) = (&finding.file, &finding.problem);
                    list.push(format!("{file}{at}: {problem}; {}", finding.consequence));
                }
                Ok(())
            };
            checker.journals(&mut print)?;
            Ok((problems, notes))
        };
        run(&self.executor, main)
    }

    fn check(&self, problems: &[&str], notes: &[&str]) {
        let found = self.verify(None);
        let fits = |found: &[String], expected: &[&str]| {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(line, part)| line.contains(part))
        };
        assert!(fits(&found.0, problems), "problems {:#?}", found.0);
        assert!(fits(&found.1, notes), "notes {:#?}", found.1);
    }
}

#[test]
fn what_a_node_leaves_is_whole_however_it_ends() {
    made(Ending::Clean).check(&[], &[]);
    made(Ending::Killed).check(&[], &[]);
}

#[test]
fn a_torn_tail_above_the_checkpoint_is_a_note_and_below_it_damage() {
    let made = made(Ending::Killed);
    let active = made.names(".log").pop().unwrap();
    // The last batch is torn, as a crash may leave it.
    let zeros =
        made.disk.peek(&active).unwrap().iter().rev().take_while(|byte| **byte == 0).count();
    made.edit(&active, |bytes| {
        let end = bytes.len() - zeros;
        bytes[end - 100..end].fill(0);
    });
    made.check(&[], &["a tail that the next start cuts"]);
    let (problems, notes) = made.verify(Some(4711));
    assert!(problems.is_empty(), "{problems:?}");
    assert!(notes[0].ends_with("a node runs here and may be writing it"), "{notes:?}");
    // The same in a segment that the checkpoint covers.
    let first = made.names(".log")[0].clone();
    made.edit(&first, |bytes| bytes[300] ^= 1);
    made.check(&["offsets 0 to 1; reads of it answer"], &["a tail that the next start cuts"]);
}

/// Positions of the sets in the first file of the ring, by their sequences.
fn sets(made: &Made) -> Vec<usize> {
    let bytes = made.disk.peek(RING_FILE).unwrap();
    let starts = (0..bytes.len()).step_by(4096).filter(|at| bytes[*at..].starts_with(b"CLJE"));
    starts.collect()
}

const RING_FILE: &str = "journal/0/0000.journal";
const WAITING: &str = "no segment holds yet; the next start writes them to their segments";

#[test]
fn what_a_journal_holds_is_a_note_and_what_it_has_lost_a_problem() {
    let made = made(Ending::KilledWithJournal);
    made.check(&[], &[WAITING]);
    let (_, notes) = made.verify(None);
    assert!(notes[0].starts_with("data/journal/0: "), "{notes:?}");
    // What a node that runs writes there meanwhile proves nothing.
    assert_eq!(made.verify(Some(4711)), (vec![], vec![]));

    let sets = sets(&made);
    // All but the first of the newest segment, which has about ten.
    let [.., lost, _, _, _, _, _, _, _, newest] = sets[..] else { panic!("{sets:?}") };
    made.edit(RING_FILE, |bytes| bytes[newest + 300] ^= 1);
    let torn = format!("data/{RING_FILE} @{newest}: a torn set; it was never synced");
    made.check(&[], &[&torn, WAITING]);
    made.edit(RING_FILE, |bytes| {
        bytes[newest + 300] ^= 1;
        sets.iter().filter(|at| (lost..newest).contains(at)).for_each(|at| bytes[at + 300] ^= 1);
    });
    let missing = format!("data/{RING_FILE} @{lost}: 8 sets of the journal missing; they were");
    made.check(&[&missing], &[WAITING]);
}

#[test]
fn a_torn_tail_that_the_journal_has_is_not_said_to_be_cut() {
    let made = made(Ending::KilledWithJournal);
    let newest = made.names(".log").pop().unwrap();
    made.edit(&newest, |bytes| bytes.extend([0x5a; 4096]));
    made.check(&[], &["the next start writes it again from the journal", WAITING]);
}

#[test]
fn what_a_running_node_removes_is_passed_over_and_without_one_it_is_missed() {
    let paths: Vec<String> = made(Ending::Clean).names("");
    let kinds = [".log", ".snapshot", "/leader-epoch-checkpoint"];
    assert!(kinds.iter().all(|kind| paths.iter().any(|path| path.ends_with(kind))), "{paths:?}");
    for path in paths {
        let erase = || {
            let path = path.clone();
            move |disk: &SimDisk| disk.erase(&path)
        };
        let made = made(Ending::Clean);
        let (problems, notes) = made.verify_while(Some(4711), erase()).unwrap();
        assert!(problems.is_empty(), "{path}: {problems:?}");
        let is_log = path.ends_with(".log");
        assert_eq!(notes.len(), usize::from(is_log), "{path}: {notes:?}");
        if is_log {
            let said = "gone since the directory was listed; the node that runs here removed it";
            assert!(notes[0].contains(&path) && notes[0].ends_with(said), "{notes:?}");
        }
    }
    let missed = |suffix: &str| {
        let made = made(Ending::Clean);
        let path = made.names(suffix).pop().unwrap();
        made.verify_while(None, move |disk| disk.erase(&path))
    };
    assert_eq!(missed(".log").unwrap_err().exit, Exit::Io);
    assert_eq!(missed(".snapshot").unwrap().0.len(), 1);
    assert_eq!(missed("/leader-epoch-checkpoint").unwrap().0.len(), 1);
}

#[test]
fn a_running_node_may_cut_the_epochs_before_its_checkpoint_says_so() {
    let made = made(Ending::Clean);
    made.edit(&format!("{DIRECTORY}/leader-epoch-checkpoint"), |bytes| {
        *bytes = b"0\n1\n1 60\n".to_vec();
    });
    let (problems, notes) = made.verify(Some(4711));
    assert!(problems.is_empty() && notes.len() == 1, "{problems:?} {notes:?}");
    made.check(&["epoch none for offset 0, its batch has 0"], &[]);
}

#[test]
fn what_the_checkpoint_knows_and_nothing_holds_is_a_problem() {
    let check = |damage: &dyn Fn(&Made), problems: &[&str], notes: &[&str]| {
        let made = made(Ending::Clean);
        damage(&made);
        made.check(problems, notes);
    };
    let behind = "stands at offset 120, past the end; the next start removes it";
    let erase = |made: &Made, log: &str| {
        for extension in ["log", "index", "timeindex"] {
            made.disk.erase(&log.replace(".log", &format!(".{extension}")));
        }
    };
    let first = |made: &Made| erase(made, &made.names(".log")[0]);
    check(&first, &["are missing; they were acknowledged"], &[]);
    let last = |made: &Made| erase(made, made.names(".log").last().unwrap());
    check(&last, &[".log is missing: offsets"], &[behind]);
    // Cut where a batch ends: every byte that is left is right.
    check(
        &|made| {
            let last = made.names(".log").pop().unwrap();
            let batch = BatchHeader::parse(&made.disk.peek(&last).unwrap()).unwrap().total_bytes();
            made.edit(&last, |bytes| bytes.truncate(bytes.len() - batch));
            for extension in ["index", "timeindex"] {
                made.disk.erase(&last.replace(".log", &format!(".{extension}")));
            }
        },
        &["bytes: offsets 118 to 119 are missing"],
        &[behind],
    );
    check(
        &|made| {
            for log in made.names(".log") {
                erase(made, &log);
            }
        },
        &["no segment: offsets 0 to 119 are missing"],
        &[],
    );
}

#[test]
fn epochs_and_snapshots_that_the_batches_contradict_are_problems() {
    let whole = made(Ending::Clean);
    let epochs = format!("{DIRECTORY}/leader-epoch-checkpoint");
    whole.edit(&epochs, |bytes| *bytes = b"0\n1\n0 0\n".to_vec());
    whole.check(&["epoch 0 for offset 60, its batch has 1"], &[]);

    let whole = made(Ending::Clean);
    let newest = whole.names(".snapshot").pop().unwrap();
    whole.edit(&newest, |bytes| {
        let mut entries = decode_snapshot(bytes).unwrap();
        entries[0].last_sequence -= 2;
        *bytes = encode_snapshot(&entries);
    });
    whole.check(
        &["producer 4: epoch 0, sequence 117, offset 119; its last batch has 0, 119, 119"],
        &[],
    );
}

#[test]
fn what_a_node_has_set_aside_is_searched_only_where_it_is_named() {
    let made = made(Ending::Clean);
    let disk = made.disk.clone();
    let found = run(&made.executor, async move {
        disk.create_dir("stray/unknown-orders-1").await.unwrap();
        let path = "stray/unknown-orders-1/00000000000000000000.log";
        disk.open(path, commitlog::OpenMode::CreateNew).await.unwrap();
        let all = files::find(&disk, &PathBuf::from("data"), None).await.unwrap();
        all.into_iter().map(|partition| partition.directory).collect::<Vec<_>>()
    });
    assert_eq!(found, [DIRECTORY]);
}

/// What a dump of one file alone finds: its batches, and what is wrong.
fn dump(name: String, bytes: Vec<u8>) -> (u64, Vec<String>) {
    let executor = SimExecutor::new(Prng::new(1), Rc::new(Trace::new(Keep::Hash)));
    let disk = SimDisk::new(&executor, Prng::new(2), Rc::new(Trace::new(Keep::Hash)));
    let on_core = executor.clone();
    run(&executor, async move {
        disk.open(&name, commitlog::OpenMode::CreateNew).await.unwrap();
        disk.poke(&name, bytes);
        let root = PathBuf::from("stray");
        let found = files::find(&disk, &root, Some(&name)).await.unwrap();
        let mut checker = Checker::new(disk, on_core, root, Ground::default(), Depth::Headers);
        let mut problems = Vec::new();
        let mut print = |item: &Item<'_>| {
            if let Item::Finding(finding) = item {
                problems.push(finding.problem.clone());
            }
            Ok(())
        };
        checker.copies(&found[0], &mut print).await.unwrap();
        (checker.finish().batches, problems)
    })
}

#[test]
fn what_recovery_keeps_aside_is_read_from_its_first_whole_batch() {
    const BATCHES_BEFORE: usize = 8;
    let made = made(Ending::Clean);
    let bytes = made.disk.peek(&made.names(".log")[1]).unwrap();
    let ends = |bytes: &[u8]| {
        let mut ends = vec![0];
        while let Ok(header) = BatchHeader::parse(&bytes[*ends.last().unwrap()..]) {
            ends.push(ends.last().unwrap() + header.total_bytes());
        }
        ends
    };
    let ends = ends(&bytes);
    let cut = ends[BATCHES_BEFORE];
    assert!(cut > 4096 && !cut.is_multiple_of(4096), "the copy begins within a batch: {cut}");
    let (name, copy) = (format!("{:020}-at-{cut}", 20), bytes[cut / 4096 * 4096..].to_vec());
    let left = (ends.len() - 1 - BATCHES_BEFORE) as u64;
    assert!(left >= 2, "{ends:?}");
    assert_eq!(dump(name.clone(), copy.clone()), (left, vec![]));
    assert_eq!(dump(format!("{name}.1"), copy.clone()), (left, vec![]));
    // The batch at the cut is what was wrong with the log: whatever its offsets are, they are not missed.
    let mut torn = copy;
    torn[cut % 4096 + 70] ^= 1;
    let (batches, problems) = dump(name, torn);
    assert_eq!((batches, problems.len()), (left - 1, 1), "{problems:?}");
    assert!(problems[0].starts_with("crc ") && !problems[0].contains("offsets"), "{problems:?}");
    assert_eq!(dump(format!("{:020}.log.1", 20), bytes).0, ends.len() as u64 - 1);
}

#[test]
fn what_lies_too_deep_to_be_searched_is_an_error() {
    let made = made(Ending::Clean);
    let disk = made.disk.clone();
    let found = run(&made.executor, async move {
        let deep = vec!["d"; 20].join("/");
        for (at, _) in deep.match_indices('/').chain([(deep.len(), "")]) {
            disk.create_dir(&deep[..at]).await.unwrap();
        }
        files::find(&disk, &PathBuf::from("data"), None).await.map(|_| ())
    });
    assert!(found.unwrap_err().fact.contains("deeper than 16 directories, not searched"));
}

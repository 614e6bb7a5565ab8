//! One store with logs on the disk in memory, and the batches that were appended to them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use commitlog::mutant::Mutant;
use commitlog::{
    AtLeastOneBatch, CheckpointMap, JournalOptions, Log, LogIdentity, LogOptions, ReadError,
    ReadRequest, RecoveryReport, RoomAhead, StartKind, Store, StoreOptions, directory,
};
use record::{
    BatchBuilder, BatchHeader, Codec, Fold, LeaderEpoch, NewRecord, NodeId, Offset, PartitionIndex,
    Producer, ProducerBatch, ProducerEpoch, ProducerId, ProducerSnapshotEntry, Timestamp, TopicId,
};

use super::{MemoryDisk, TestExecutor};

pub(crate) type TestLog = Log<MemoryDisk, TestExecutor>;
pub(crate) type TestStore = Store<MemoryDisk, TestExecutor>;

/// Remembers the last batch of each producer.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
pub(crate) struct LastBatches(pub(crate) Vec<ProducerSnapshotEntry>);

impl Fold for LastBatches {
    fn apply(&mut self, batch: &ProducerBatch) {
        if batch.producer_id == ProducerId::NONE {
            return;
        }
        let entry = ProducerSnapshotEntry {
            producer_id: batch.producer_id,
            producer_epoch: batch.producer_epoch,
            last_sequence: batch.base_sequence + batch.last_offset_delta,
            last_offset: batch.last_offset,
            offset_delta: batch.last_offset_delta,
            timestamp: batch.max_timestamp,
            coordinator_epoch: -1,
            current_transaction_first_offset: -1,
        };
        if let Some(old) = self.0.iter().find(|old| old.producer_id == batch.producer_id) {
            assert!(old.last_offset < batch.last_offset, "a batch is applied once, in order");
        }
        self.0.retain(|old| old.producer_id != batch.producer_id);
        self.0.push(entry);
        self.0.sort_by_key(|entry| entry.producer_id);
    }
    fn snapshot(&self) -> Vec<ProducerSnapshotEntry> {
        self.0.clone()
    }
    fn restore(&mut self, entries: &[ProducerSnapshotEntry]) {
        self.0 = entries.to_vec();
    }
}

pub(crate) const NOW: Timestamp = Timestamp(1_700_000_000_000);
pub(crate) const TOPIC: TopicId = TopicId([9; 16]);
pub(crate) const DIRECTORY: &str = "topics/orders-0";

pub(crate) fn identity(topic_id: TopicId) -> LogIdentity {
    LogIdentity { topic: "orders".into(), topic_id, partition: PartitionIndex(0) }
}

/// How the world's store behaves.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) options: LogOptions,
    pub(crate) tail_cache_bytes: usize,
    pub(crate) read_cache_bytes: usize,
    pub(crate) room_ahead: RoomAhead,
    pub(crate) states_bytes: u64,
    pub(crate) shard: &'static str,
    pub(crate) mutant: Mutant,
    pub(crate) journal: Option<JournalOptions>,
    /// What the metadata says.
    pub(crate) newest_epoch: LeaderEpoch,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            options: LogOptions { segment_bytes: 64 * 1024, ..LogOptions::default() },
            tail_cache_bytes: 1 << 20,
            read_cache_bytes: 1 << 20,
            room_ahead: RoomAhead {
                group_bytes_min: 1,
                step_bytes_min: 1,
                step_bytes_max: 16 * 1024,
                core_bytes_max: 64 * 1024,
                free_bytes_min: 0,
            },
            states_bytes: u64::MAX,
            shard: "0",
            mutant: Mutant::NONE,
            journal: None,
            newest_epoch: LeaderEpoch(i32::MAX),
        }
    }
}

pub(crate) struct World {
    pub(crate) disk: MemoryDisk,
    pub(crate) executor: TestExecutor,
    pub(crate) settings: Settings,
    pub(crate) store: TestStore,
    pub(crate) log: TestLog,
    pub(crate) report: RecoveryReport,
    pub(crate) fold: Rc<RefCell<LastBatches>>,
    /// Every batch accepted, as it must be read.
    pub(crate) model: Vec<Vec<u8>>,
    pub(crate) epoch: LeaderEpoch,
}

pub(crate) fn new_ids() -> directory::NewIds {
    directory::NewIds {
        cluster_id: TopicId([1; 16]),
        node_id: NodeId(1),
        directory_id: TopicId([2; 16]),
    }
}

/// Opens the directory and a store on it.
pub(crate) async fn open_store(
    disk: &MemoryDisk,
    executor: &TestExecutor,
    settings: &Settings,
) -> (TestStore, StartKind) {
    let opened = directory::open_or_create(disk, NodeId(1), new_ids).await.unwrap();
    let (checkpoints, damaged) = CheckpointMap::load_with(disk, settings.mutant).await.unwrap();
    for copy in damaged {
        eprintln!("{copy:?}");
    }
    let replayed =
        commitlog::recover_journals(disk, executor, &checkpoints, |_| true, settings.mutant);
    replayed.await.unwrap();
    let options = StoreOptions {
        name: settings.shard.to_owned(),
        checkpoints: Arc::new(checkpoints),
        start: opened.start,
        sequence_base: u64::from(opened.start_count) << 32,
        tail_cache_bytes: settings.tail_cache_bytes,
        read_cache_bytes: settings.read_cache_bytes,
        open_files_max: 16,
        room_ahead: settings.room_ahead,
        states_bytes: settings.states_bytes,
        journal: settings.journal,
        mutant: settings.mutant,
    };
    let store = Store::open(disk.clone(), executor.clone(), options).await.unwrap();
    (store, opened.start)
}

/// A batch as a producer sends it: `count` records of `bytes` each, one millisecond apart.
pub(crate) fn batch(codec: Codec, first_timestamp: i64, count: usize, bytes: usize) -> Vec<u8> {
    batch_of(BatchBuilder::new(codec), first_timestamp, count, bytes)
}

pub(crate) fn batch_of(
    mut builder: BatchBuilder,
    first_timestamp: i64,
    count: usize,
    bytes: usize,
) -> Vec<u8> {
    for index in 0..count {
        let value: Vec<u8> = (0..bytes).map(|at| (at * 7 + index) as u8).collect();
        builder.append(&NewRecord {
            timestamp: Timestamp(first_timestamp + index as i64),
            key: Some(b"key"),
            value: Some(&value),
            headers: &[],
        });
    }
    builder.build()
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        let (disk, executor) = (MemoryDisk::default(), TestExecutor::default());
        Self::open(disk, executor, settings, Vec::new())
    }

    fn open(
        disk: MemoryDisk,
        executor: TestExecutor,
        settings: Settings,
        model: Vec<Vec<u8>>,
    ) -> Self {
        let fold = Rc::new(RefCell::new(LastBatches::default()));
        let (store, log, report) = executor.run(async {
            let (store, _) = open_store(&disk, &executor, &settings).await;
            let (log, report) = store
                .open_log_under(
                    settings.newest_epoch,
                    identity(TOPIC),
                    settings.options,
                    fold.clone(),
                    NOW,
                )
                .await
                .unwrap();
            (store, log, report)
        });
        log.check();
        Self { disk, executor, settings, store, log, report, fold, model, epoch: LeaderEpoch(0) }
    }

    /// Segments of about 30 batches of two records, sealed but for the last, read from disk alone and checkpointed.
    pub(crate) fn sealed() -> Self {
        let settings = Settings { tail_cache_bytes: 0, read_cache_bytes: 0, ..Settings::default() };
        let mut world = Self::new(settings);
        for index in 0..120 {
            world.append_synced(&batch(Codec::None, NOW.0 + index * 10, 2, 900));
        }
        world.settle();
        world.checkpoint();
        assert!(world.log.segment_count() >= 3);
        world
    }

    /// Appends a batch; the caller decides whether it waits.
    pub(crate) fn append(&mut self, batch: &[u8]) -> Offset {
        let header = BatchHeader::parse(batch).unwrap();
        let appended = self.log.append(NOW, self.epoch, &header, batch).unwrap();
        let mut stored = batch.to_vec();
        record::batch::assign(&mut stored, appended.base_offset, self.epoch);
        self.model.push(stored);
        appended.last_offset
    }

    /// Waits until all that was accepted is durable.
    pub(crate) fn sync(&self) {
        let log = self.log.clone();
        let last = Offset(log.ends().accepted().0 - 1);
        self.executor.run(async { log.durable_through(last).await }).unwrap();
        self.log.check();
    }

    pub(crate) fn append_synced(&mut self, batch: &[u8]) -> Offset {
        let last = self.append(batch);
        self.sync();
        last
    }

    /// Appends `count` batches of a producer, each durable.
    pub(crate) fn fill(&mut self, count: usize, records: usize, bytes: usize) {
        for _ in 0..count {
            let sequence = self.model.len() * 10;
            let producer = Producer {
                id: ProducerId(4),
                epoch: ProducerEpoch(0),
                base_sequence: sequence as i32,
            };
            let builder = BatchBuilder::new(Codec::None).producer(producer);
            let batch = batch_of(builder, NOW.0 + sequence as i64, records, bytes);
            self.append_synced(&batch);
        }
    }

    pub(crate) fn settle(&self) {
        self.executor.settle();
        self.log.check();
    }

    pub(crate) fn checkpoint(&self) {
        self.executor.run(self.store.checkpoint(NOW)).unwrap();
    }

    /// Power off and on: unsynced bytes and tasks are gone.
    pub(crate) fn crash(self) -> Self {
        self.executor.drop_tasks();
        self.disk.crash();
        self.drop_process().start()
    }

    /// The process is killed and started again: the disk keeps what it was given.
    pub(crate) fn kill(self) -> Self {
        self.drop_process().start()
    }

    /// The process is killed: the disk keeps what it was given.
    pub(crate) fn drop_process(self) -> Stopped {
        self.executor.drop_tasks();
        let Self { disk, executor, settings, model, .. } = self;
        Stopped { disk, executor, settings, model }
    }

    /// Stops cleanly, marker included.
    pub(crate) fn stop(self) -> Stopped {
        self.executor.run(async {
            self.store.close(NOW).await.unwrap();
            directory::write_clean_stop(&self.disk).await.unwrap();
        });
        self.executor.settle();
        let Self { disk, executor, settings, model, .. } = self;
        Stopped { disk, executor, settings, model }
    }

    pub(crate) fn read_at(
        &self,
        from: Offset,
        bytes_max: usize,
    ) -> Result<(Vec<u8>, Offset), ReadError> {
        let request = ReadRequest {
            from,
            end: self.log.ends().safe_end(),
            bytes_max,
            minimum: AtLeastOneBatch::Yes,
        };
        let read = self.executor.run(self.log.read(request))?;
        let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.to_vec()).collect();
        assert_eq!(bytes.len(), read.bytes);
        Ok((bytes, read.next_offset))
    }

    /// Reads everything and compares it with what was appended.
    pub(crate) fn verify(&self, bytes_max: usize) {
        let mut from = self.log.ends().log_start();
        let mut read = Vec::new();
        while from < self.log.ends().safe_end() {
            let (bytes, next) = self.read_at(from, bytes_max).unwrap();
            assert!(next > from, "no progress at {from}");
            read.extend_from_slice(&bytes);
            from = next;
        }
        let end = self.log.ends().safe_end();
        let expected: Vec<u8> = self
            .model
            .iter()
            .filter(|batch| BatchHeader::parse(batch).unwrap().next_offset() <= end)
            .flatten()
            .copied()
            .collect();
        assert_eq!(read.len(), expected.len());
        assert!(read == expected, "bytes differ");
    }

    /// The files of what is known of producers.
    pub(crate) fn files_of_states(&self) -> Vec<String> {
        let names = self.disk.names("checkpoints");
        names.into_iter().filter(|name| name.ends_with(".producers")).collect()
    }

    pub(crate) fn files(&self, suffix: &str) -> Vec<String> {
        let names = self.disk.names(DIRECTORY);
        names.into_iter().filter(|name| name.ends_with(suffix)).collect()
    }
}

/// A node that is not running.
pub(crate) struct Stopped {
    pub(crate) disk: MemoryDisk,
    pub(crate) executor: TestExecutor,
    pub(crate) settings: Settings,
    pub(crate) model: Vec<Vec<u8>>,
}

impl Stopped {
    pub(crate) fn start(self) -> World {
        World::open(self.disk, self.executor, self.settings, self.model)
    }
}

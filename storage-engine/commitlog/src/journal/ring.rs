//! The files of one core's journal.
//!
//! Owns their order and their use. Files are made once, full of zeros and synced with their names, so that a write into them changes
//! no metadata; sets go into them one after the other and are never written over while anything in their file is not settled.

use std::rc::Rc;

use crate::disk::{
    AlignedBuffer, BLOCK_BYTES, Disk, DiskError, DiskFile, DiskResult, IO_BYTES_MAX, OpenMode,
};
use crate::error::{AtPath, StoreError};
use crate::journal::entry::{FileHeader, SET_BYTES_MAX, SetPlace, encode_file_header};
use crate::journal::{JOURNAL_DIRECTORY, JournalOptions};
use crate::small_file;

/// Where sets begin in a file: its first block is the header's.
pub(crate) const SETS_AT: u64 = BLOCK_BYTES as u64;

/// What a mark takes, for which each file has room behind its sets.
pub(crate) const MARK_BYTES: usize = BLOCK_BYTES;

/// Whose journal it is, and how it is made.
#[derive(Debug, Clone)]
pub(crate) struct JournalPlace {
    /// Names its directory.
    pub(crate) shard: String,
    pub(crate) options: JournalOptions,
}

impl JournalPlace {
    pub(crate) fn directory(&self) -> String {
        small_file::join(JOURNAL_DIRECTORY, &self.shard)
    }

    /// Largest set, padding included: two at least fit a file, and a mark.
    pub(crate) fn set_bytes_max(&self) -> usize {
        let for_sets = self.options.file_bytes - SETS_AT - MARK_BYTES as u64;
        let half = small_file::block_floor(for_sets / 2);
        usize::try_from(half).unwrap_or(SET_BYTES_MAX).min(SET_BYTES_MAX)
    }
}

/// What a file of the ring is called.
pub(crate) fn file_name(index: u32) -> String {
    format!("{index:04}.journal")
}

struct RingFile<D: Disk> {
    file: Rc<D::File>,
    /// Groups in it that their segments do not hold yet.
    unsettled: u64,
    /// Sequence of its first set and its last; `None` before it is used.
    sequences: Option<(u64, u64)>,
}

/// The ring, ready for sets.
pub(crate) struct Ring<D: Disk> {
    files: Vec<RingFile<D>>,
    file_bytes: u64,
    /// Drawn when it was made.
    pub(crate) number: u64,
    current: usize,
    position: u64,
    /// Of the newest set, the oldest that it calls needed, and the newest that lasts.
    newest: SetPlace,
    /// The oldest set that the newest lasting one calls needed.
    told_oldest: u64,
}

/// Where the next set goes.
pub(crate) struct Slot<D: Disk> {
    pub(crate) file: Rc<D::File>,
    /// Index of that file.
    pub(crate) index: usize,
    pub(crate) position: u64,
    pub(crate) place: SetPlace,
}

impl<D: Disk> Ring<D> {
    /// Makes the files; lasting on return. What an attempt that failed has left is removed first.
    pub(crate) async fn make(
        disk: &D,
        place: &JournalPlace,
        number: u64,
        sequence: u64,
    ) -> Result<Self, StoreError> {
        let directory = place.directory();
        small_file::ensure_directory(disk, "", JOURNAL_DIRECTORY).await.at(JOURNAL_DIRECTORY)?;
        small_file::ensure_directory(disk, JOURNAL_DIRECTORY, &place.shard).await.at(&directory)?;
        let mut files = Vec::new();
        for index in 0..place.options.file_count {
            let path = small_file::join(&directory, &file_name(index));
            let header = FileHeader {
                ring: number,
                index,
                count: place.options.file_count,
                file_bytes: place.options.file_bytes,
            };
            let file = Rc::new(make_file(disk, &path, &header).await.at(&path)?);
            files.push(RingFile { file, unsettled: 0, sequences: None });
        }
        disk.sync_dir(&directory).await.at(&directory)?;
        let file_bytes = place.options.file_bytes;
        let (position, told_oldest) = (SETS_AT, 0);
        let newest = SetPlace { sequence, oldest: sequence, durable: sequence };
        Ok(Self { files, file_bytes, number, current: 0, position, newest, told_oldest })
    }

    fn next(&self) -> usize {
        (self.current + 1) % self.files.len()
    }

    /// Whether a set of `bytes` fits the current file, and a mark behind it.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.position + (bytes + MARK_BYTES) as u64 <= self.file_bytes
    }

    /// Whether a mark has to be written before the next file is used again: the newest set that lasts calls sets needed that lie
    /// there. They were settled since, and a write that is torn would leave it without them.
    pub(crate) fn must_mark(&self) -> bool {
        let sequences = self.files[self.next()].sequences;
        sequences.is_some_and(|(_, last)| self.told_oldest <= last)
    }

    /// The file that takes sets now. Order: all that lie in another are lasting.
    pub(crate) fn file(&self) -> Rc<D::File> {
        self.files[self.current].file.clone()
    }

    /// The newest set is lasting, and all before it.
    pub(crate) fn note_lasting(&mut self) {
        self.newest.durable = self.newest.sequence;
        self.told_oldest = self.newest.oldest;
    }

    /// The file that is used after the current one, if something in it is not settled.
    pub(crate) fn next_unsettled(&self) -> Option<usize> {
        let next = self.next();
        (self.files[next].unsettled > 0).then_some(next)
    }

    /// Goes on in the next file, of which nothing is needed any more.
    pub(crate) fn advance(&mut self) {
        self.current = self.next();
        self.position = SETS_AT;
        self.files[self.current].sequences = None;
    }

    /// Takes the place for a set of `bytes`, which fits the current file.
    pub(crate) fn take(&mut self, bytes: usize) -> Slot<D> {
        assert!(self.position + bytes as u64 <= self.file_bytes);
        assert!(bytes.is_multiple_of(BLOCK_BYTES));
        let sequence = self.newest.sequence + 1;
        let oldest = self.oldest().unwrap_or(sequence);
        self.newest = SetPlace { sequence, oldest, ..self.newest };
        let (file, index, position) = (self.file(), self.current, self.position);
        let slot = Slot { file, index, position, place: self.newest };
        let current = &mut self.files[self.current];
        current.sequences =
            Some((current.sequences.map_or(sequence, |(first, _)| first), sequence));
        self.position += bytes as u64;
        slot
    }

    /// Sequence of the first set of the oldest file that a replay needs.
    fn oldest(&self) -> Option<u64> {
        let needed = self.files.iter().filter(|file| file.unsettled > 0);
        needed.filter_map(|file| file.sequences).map(|(first, _)| first).min()
    }

    /// Groups that went into a file are behind now.
    pub(crate) fn note_unsettled(&mut self, index: usize) {
        self.files[index].unsettled += 1;
    }

    /// And are no more.
    pub(crate) fn note_settled(&mut self, index: usize) {
        assert!(self.files[index].unsettled > 0);
        self.files[index].unsettled -= 1;
    }

    /// Whether the segments hold all of it.
    pub(crate) fn is_settled(&self) -> bool {
        self.files.iter().all(|file| file.unsettled == 0)
    }
}

/// Where a ring's files go before they are removed, one by one: no start takes what is left of them for a ring.
pub(crate) const DONE_SUFFIX: &str = ".done";

/// Removes the ring of a shard, of which nothing is needed any more.
///
/// Order   its directory gets another name first, lasting: a crash leaves the whole ring or none.
pub(crate) async fn drop_ring<D: Disk>(disk: &D, shard: &str) -> Result<(), StoreError> {
    let directory = small_file::join(JOURNAL_DIRECTORY, shard);
    let done = format!("{directory}{DONE_SUFFIX}");
    match disk.rename(&directory, &done).await {
        Ok(()) => {}
        Err(DiskError::NotFound) => return Ok(()),
        Err(error) => return Err(error).at(&directory),
    }
    disk.sync_dir(JOURNAL_DIRECTORY).await.at(JOURNAL_DIRECTORY)?;
    remove_done(disk, &done).await
}

/// Removes such a directory with its files.
pub(crate) async fn remove_done<D: Disk>(disk: &D, done: &str) -> Result<(), StoreError> {
    for entry in disk.list(done).await.at(done)? {
        let path = small_file::join(done, &entry.name);
        disk.remove(&path).await.at(&path)?;
    }
    disk.remove_dir(done).await.at(done)?;
    disk.sync_dir(JOURNAL_DIRECTORY).await.at(JOURNAL_DIRECTORY)
}

/// A file of zeros with a header; synced, its name is not.
async fn make_file<D: Disk>(disk: &D, path: &str, header: &FileHeader) -> DiskResult<D::File> {
    match disk.remove(path).await {
        Ok(()) | Err(DiskError::NotFound) => {}
        Err(error) => return Err(error),
    }
    let file = disk.open(path, OpenMode::CreateNew).await?;
    let zeros = zeros(disk, IO_BYTES_MAX);
    let mut first = zeros_of(disk, BLOCK_BYTES);
    let encoded = encode_file_header(header);
    first.as_bytes_mut()[..encoded.len()].copy_from_slice(&encoded);
    file.write_rc_at(Rc::new(first), 0).await?;
    let mut position = SETS_AT;
    while position < header.file_bytes {
        let left = header.file_bytes - position;
        let piece = match usize::try_from(left) {
            Ok(left) if left < IO_BYTES_MAX => self::zeros(disk, left),
            _ => zeros.clone(),
        };
        let bytes = piece.as_bytes().len() as u64;
        file.write_rc_at(piece, position).await?;
        position += bytes;
    }
    file.full_sync().await?;
    Ok(file)
}

fn zeros<D: Disk>(disk: &D, bytes: usize) -> Rc<D::Buffer> {
    Rc::new(zeros_of(disk, bytes))
}

fn zeros_of<D: Disk>(disk: &D, bytes: usize) -> D::Buffer {
    let mut buffer = disk.allocate(bytes);
    buffer.truncate(bytes);
    buffer.as_bytes_mut().fill(0);
    buffer
}

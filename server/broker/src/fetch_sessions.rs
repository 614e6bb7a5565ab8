//! The fetch sessions of one core (KIP-227): which there are, which epoch each is at, which must go for another.
//!
//! Owns the bounds, the epochs and Kafka's rule of eviction. A session lives on the core that serves the connection which opened
//! it, and moves with that connection; a client that comes back by another core is told that its session is not found, and
//! opens one there. Pure: time and randomness are arguments, and nothing here reads a log.
//!
//! ```text
//! full fetch, epoch 0 ─ create ─► id, epoch 1      incremental, epoch n ─ resume ─ read ─ answering(n) ─► epoch n + 1
//! full fetch, epoch -1, or epoch 0 of a session that is known: it is closed
//! ```

mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use session::{FetchSession, Naming, Read, SessionPartition, SessionTopic, Shown, Wanted};

/// How long a session may be unused before any other may take its place, and how old it must be before a larger one may:
/// Kafka's own bound.
pub const EVICTION_AGE: Duration = Duration::from_secs(120);

/// The memory that the sessions of one core may take: 262,144 partitions. Kafka counts sessions alone; but one request may name
/// millions of partitions, and a thousand clients may send it.
pub const SESSION_BYTES_MAX: usize = 64 << 20;

/// Random numbers that are tried for a new id. Even a million sessions leave 2,146 of 2,147 ids free.
const ID_ATTEMPTS_MAX: usize = 16;

/// The number of a session; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub i32);

impl SessionId {
    /// No session.
    pub const NONE: Self = Self(0);

    /// An id out of a random number: from 1 on.
    fn of_random(random: u32) -> Self {
        let below_max = random % i32::MAX.unsigned_abs();
        Self(i32::try_from(below_max + 1).unwrap_or(i32::MAX))
    }
}

/// The number of a request in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionEpoch(pub i32);

impl SessionEpoch {
    /// A full fetch that opens a session.
    pub const INITIAL: Self = Self(0);
    /// A full fetch that wants none.
    pub const FINAL: Self = Self(-1);

    /// The epoch of the request after this one: 0 never comes again.
    #[must_use]
    pub fn next(self) -> Self {
        match self.0 {
            ..0 => Self::FINAL,
            i32::MAX => Self(1),
            epoch => Self(epoch + 1),
        }
    }
}

/// What the sessions of a core may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// How many there may be.
    pub slots: usize,
    /// Their memory.
    pub bytes_max: usize,
}

impl SessionLimits {
    /// A core's share of the node's slots, rounded up: `max.incremental.fetch.session.cache.slots` over the cores.
    #[must_use]
    pub fn of_core(node_slots: u32, shard_count: u16) -> Self {
        let slots = node_slots.div_ceil(u32::from(shard_count).max(1));
        Self { slots: usize::try_from(slots).unwrap_or(usize::MAX), bytes_max: SESSION_BYTES_MAX }
    }
}

/// Why a request cannot go on in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// It is not here: closed, evicted, of another core, or of an earlier start.
    #[error("no fetch session {0:?}")]
    NotFound(SessionId),
    /// Another request was expected.
    #[error("epoch {asked:?}, the session is at {current:?}")]
    WrongEpoch {
        /// The request's.
        asked: SessionEpoch,
        /// The session's.
        current: SessionEpoch,
    },
    /// It was opened by a version that names topics in the other way.
    #[error("the session names topics by {0:?}")]
    OtherNaming(Naming),
    /// With what the request adds it would be too large: it is closed.
    #[error("no memory for the session")]
    TooLarge,
}

/// What a session is after a request has changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// It goes on.
    Open,
    /// Its last partition was forgotten: it is closed.
    Emptied,
}

/// A request that goes on in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumption {
    /// The session.
    pub id: SessionId,
    /// The request's epoch.
    pub epoch: SessionEpoch,
    /// How it names topics.
    pub naming: Naming,
}

#[derive(Debug)]
struct Entry {
    session: FetchSession,
    epoch: SessionEpoch,
    created_at: Duration,
    used_at: Duration,
    /// Partitions and memory as counted in the totals.
    size: usize,
    bytes: usize,
}

/// A session between two cores, whose connection moves.
#[derive(Debug)]
pub struct CarriedSession {
    id: SessionId,
    entry: Entry,
}

impl CarriedSession {
    /// Its number, which stays the same.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }
}

/// The sessions of one core.
#[derive(Debug)]
pub struct FetchSessions {
    limits: SessionLimits,
    sessions: BTreeMap<SessionId, Entry>,
    /// The one that is unused longest first.
    by_use: BTreeSet<(Duration, SessionId)>,
    /// Those that a larger one may replace, the smallest first.
    evictable: BTreeSet<(usize, SessionId)>,
    partition_count: usize,
    bytes: usize,
    evictions: u64,
}

impl FetchSessions {
    /// None yet.
    #[must_use]
    pub fn new(limits: SessionLimits) -> Self {
        Self {
            limits,
            sessions: BTreeMap::new(),
            by_use: BTreeSet::new(),
            evictable: BTreeSet::new(),
            partition_count: 0,
            bytes: 0,
            evictions: 0,
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.sessions.len()
    }

    /// The partitions of all of them.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// How many had to go for another.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Opens a session of about `size` partitions, which `fill` puts in. `None` where there is no room and none to be made: the
    /// client then goes on with full fetches.
    pub fn create(
        &mut self,
        now: Duration,
        (naming, size): (Naming, usize),
        mut random: impl FnMut() -> u32,
        fill: impl FnOnce(&mut FetchSession),
    ) -> Option<SessionId> {
        let has_slot = self.sessions.len() < self.limits.slots;
        if !has_slot && self.evictee(size, now).is_none() {
            return None;
        }
        let mut session = FetchSession::new(naming);
        fill(&mut session);
        session.settle();
        let bytes = session.bytes();
        let bytes_free = self.limits.bytes_max.checked_sub(bytes)?;
        while self.sessions.len() >= self.limits.slots || self.bytes > bytes_free {
            let evictee = self.evictee(size, now)?;
            self.close(evictee);
            self.evictions += 1;
        }
        let ids = (0..ID_ATTEMPTS_MAX).map(|_| SessionId::of_random(random()));
        let id = ids.into_iter().find(|id| !self.sessions.contains_key(id))?;
        let entry = Entry {
            session,
            epoch: SessionEpoch::INITIAL.next(),
            created_at: now,
            used_at: now,
            size: 0,
            bytes: 0,
        };
        self.sessions.insert(id, entry);
        self.touch(id, now);
        Some(id)
    }

    /// Goes on in a session: `change` puts in and forgets what the request says, and the session is at its next epoch.
    pub fn resume(
        &mut self,
        now: Duration,
        Resumption { id, epoch, naming }: Resumption,
        change: impl FnOnce(&mut FetchSession),
    ) -> Result<Resumed, SessionRefusal> {
        let entry = self.sessions.get_mut(&id).ok_or(SessionRefusal::NotFound(id))?;
        if entry.epoch != epoch {
            return Err(SessionRefusal::WrongEpoch { asked: epoch, current: entry.epoch });
        }
        if entry.session.naming() != naming {
            return Err(SessionRefusal::OtherNaming(entry.session.naming()));
        }
        change(&mut entry.session);
        entry.session.settle();
        if entry.session.partition_count() == 0 {
            self.close(id);
            return Ok(Resumed::Emptied);
        }
        entry.epoch = epoch.next();
        self.touch(id, now);
        if self.bytes > self.limits.bytes_max {
            self.close(id);
            return Err(SessionRefusal::TooLarge);
        }
        Ok(Resumed::Open)
    }

    /// The session that the request of this epoch is answered in. Errors: it has gone, or gone on, while the request waited.
    pub fn answering(
        &mut self,
        id: SessionId,
        epoch: SessionEpoch,
    ) -> Result<&mut FetchSession, SessionRefusal> {
        let entry = self.sessions.get_mut(&id).ok_or(SessionRefusal::NotFound(id))?;
        if entry.epoch != epoch.next() {
            return Err(SessionRefusal::WrongEpoch { asked: epoch, current: entry.epoch });
        }
        Ok(&mut entry.session)
    }

    /// Takes a session out, for the core that its connection moves to.
    pub fn take(&mut self, id: SessionId) -> Option<CarriedSession> {
        let entry = self.remove(id)?;
        Some(CarriedSession { id, entry })
    }

    /// Takes in a session of another core, used now. Where there is no room it is closed, as if it had been evicted: its client is
    /// told that it is not found, and opens another.
    pub fn adopt(&mut self, now: Duration, carried: CarriedSession) {
        let CarriedSession { id, entry } = carried;
        let Some(bytes_free) = self.limits.bytes_max.checked_sub(entry.bytes) else { return };
        if self.sessions.contains_key(&id) {
            return;
        }
        while self.sessions.len() >= self.limits.slots || self.bytes > bytes_free {
            let Some(evictee) = self.evictee(entry.size, now) else { return };
            self.close(evictee);
            self.evictions += 1;
        }
        self.sessions.insert(id, Entry { size: 0, bytes: 0, ..entry });
        self.touch(id, now);
    }

    /// Closes a session; one that is not here is no mistake.
    pub fn close(&mut self, id: SessionId) {
        drop(self.remove(id));
    }

    fn remove(&mut self, id: SessionId) -> Option<Entry> {
        let entry = self.sessions.remove(&id)?;
        self.by_use.remove(&(entry.used_at, id));
        self.evictable.remove(&(entry.size, id));
        self.partition_count -= entry.size;
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// Who goes for a new session of that size: one that was not used for long, else the smallest that is old, if smaller.
    fn evictee(&self, size: usize, now: Duration) -> Option<SessionId> {
        let (used_at, unused) = self.by_use.first()?;
        if now.saturating_sub(*used_at) > EVICTION_AGE {
            return Some(*unused);
        }
        let (smallest, id) = self.evictable.first()?;
        (*smallest < size).then_some(*id)
    }

    /// Notes that a session was used, and how large it is now.
    fn touch(&mut self, id: SessionId, now: Duration) {
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        self.by_use.remove(&(entry.used_at, id));
        self.evictable.remove(&(entry.size, id));
        self.partition_count -= entry.size;
        self.bytes -= entry.bytes;
        entry.used_at = now;
        entry.size = entry.session.partition_count();
        entry.bytes = entry.session.bytes();
        self.partition_count += entry.size;
        self.bytes += entry.bytes;
        self.by_use.insert((now, id));
        if now.saturating_sub(entry.created_at) > EVICTION_AGE {
            self.evictable.insert((entry.size, id));
        }
    }
}

#[cfg(test)]
mod tests;

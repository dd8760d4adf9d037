//! A tick: what the commands of all connections that have sent some do to keys, as two batches.
//!
//! All steps on one key, whoever sent them, make a chain in the order in which they came. Where its
//! first step asks what the key has, the record is read; the steps are applied to it in memory; and
//! what is left is written by one operation that expects the record that was read. If another
//! client of the store was faster, the chain is read and applied again. So:
//!
//! * a chain takes effect in one step, and each command on one key with it;
//! * a tick costs two batches of the store, however many commands it has, and one if all set values
//!   whatever there is, or only read;
//! * a counter that all clients count up is read and written once a tick, not once for each.
//!
//! Commands of one pipeline on different keys take effect in any order, as they would over the
//! nodes of a Redis Cluster. A client that waits for a reply finds its effect.
//!
//! The bytes of a tick are bounded, over all connections ([`TickRoom`]). What steps may take is
//! found once their records are read and before any of them is applied (`weigh`). Where that is too
//! much, requests are taken in their order for as long as there is room, and those of a connection
//! from one on are *cut*: nothing of them is done, and the connection sends them into the next tick
//! again. So a request fails for want of room only where it would fill a tick by itself.
//!
//! A *short* tick has room for short requests alone. Longer ones are cut, and go into a tick with
//! others of their kind.

mod load;
mod long_keys;
mod transaction;

use self::long_keys::LongKeys;
use crate::databases::Databases;
use crate::failure::Failure;
use crate::record::{Entry, RecordBytes, is_dead};
use crate::reply::Reply;
use crate::step::{Slot, Step};
use crate::watch::WatchRegistry;
use farslot::{Operation, Outcome, StoreError};
use foldhash::fast::RandomState;
use hashbrown::hash_table::{self, HashTable};
use std::hash::BuildHasher;
use std::time::Duration;

/// How often a chain is read again because others were faster.
const MOST_ATTEMPTS: u32 = 10_000;

/// Steps of a tick, beyond which no more requests are taken into it: few enough for a processor's
/// cache.
pub(crate) const STEPS_A_TICK: usize = 1 << 10;
/// Stands for no further step.
const END: usize = usize::MAX;

/// Bytes that a step takes besides what it copies: its places in the lists of the tick and of the
/// store's batches.
const STEP: usize = 512;
/// Bytes of a reply besides those of its text.
const REPLY: usize = 32;

/// How many bytes a tick may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickRoom {
    /// The first request, and what is done at all if there is no other.
    pub(crate) alone: usize,
    /// All requests together.
    pub(crate) together: usize,
    /// Replies of one connection, from which on no more of its requests are done.
    pub(crate) replies: usize,
    /// Whether a request that finds no room is cut even if it is the first.
    pub(crate) is_short: bool,
}

/// A step, and its reply once it was applied.
struct PendingStep<'r> {
    step: Step<'r>,
    /// The connection's number in the tick.
    by: usize,
    /// The chain that it is in.
    chain: usize,
    /// Whether it is cut, or its request has failed before any step of it was applied.
    is_undone: bool,
    /// The next one on its key.
    next: usize,
    reply: Option<Reply<'r>>,
}

/// The steps of a request, up to those of the next.
struct RequestSteps {
    /// The connection's number in the tick.
    by: usize,
    first: usize,
}

/// What the tick knows of a connection.
#[derive(Default)]
struct ConnectionTick {
    /// Bytes of its replies.
    replies: usize,
    /// The step from which on its requests are not done.
    cut: Option<usize>,
}

/// All steps on one key.
struct StepChain<'r> {
    database: u8,
    key: &'r [u8],
    /// The first of its steps that is done.
    first: usize,
    last: usize,
    stored: Stored,
    /// Whether a step has changed it, if only to what it was.
    is_changed: bool,
}

/// What the store has of a key.
#[derive(Clone)]
enum Stored {
    /// It was not asked.
    Unknown,
    Absent,
    Record(RecordBytes),
    /// There was no room for the record.
    TooLarge,
    /// The store has failed: that is the reply to all steps.
    Failed(Failure),
}

/// How a chain is written.
enum Write {
    Put(RecordBytes),
    Remove,
    PutIfAbsent(RecordBytes),
    Replace(RecordBytes, RecordBytes),
    /// A record that was dead when it was read. If it is another now, that is as good.
    Bury(RecordBytes),
    RemoveIf(RecordBytes),
}

/// The places of chains, by their databases and keys: memory that one tick after the other uses.
#[derive(Default)]
pub(crate) struct ByKey {
    places: HashTable<usize>,
    hasher: RandomState,
    /// Steps of the tick before, for which the next one has room from the start.
    steps: usize,
    /// Whether the tick before had no room for what all of its requests read: then the next one
    /// does not read it in vain.
    is_tight: bool,
    /// Keys whose records are too long for short ticks.
    long: LongKeys,
}

/// The steps of a tick.
pub(crate) struct TickSteps<'r> {
    /// Milliseconds since 1970: one moment for all of it.
    pub(crate) now: u64,
    pending: Vec<PendingStep<'r>>,
    /// Requests that have not been run.
    requests: Vec<RequestSteps>,
    /// Those that have not been run, and the place of each among them by its database and key.
    chains: Vec<StepChain<'r>>,
    by_key: ByKey,
    connections: Vec<ConnectionTick>,
    room: TickRoom,
    /// Bytes that it has taken.
    taken: usize,
    /// What requests took that ran by themselves.
    apart: Duration,
    /// Whether a request of it is done, so that another may wait for the next tick; in a short one
    /// any may.
    has_done: bool,
}

impl<'r> TickSteps<'r> {
    /// An empty one at a moment, in milliseconds since 1970.
    pub(crate) fn new(now: u64, by_key: ByKey, room: TickRoom) -> Self {
        Self {
            now,
            pending: Vec::with_capacity(by_key.steps),
            requests: Vec::new(),
            chains: Vec::with_capacity(by_key.steps),
            by_key,
            connections: Vec::new(),
            room,
            taken: 0,
            apart: Duration::ZERO,
            has_done: room.is_short,
        }
    }

    /// How many steps it has, run or not.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Bytes that it has taken.
    pub(crate) const fn taken(&self) -> usize {
        self.taken
    }

    /// What requests took that ran by themselves.
    pub(crate) const fn apart(&self) -> Duration {
        self.apart
    }

    /// Notes what a request took that ran by itself.
    pub(crate) fn note_apart(&mut self, took: Duration) {
        self.apart += took;
    }

    /// Whether it has no room for more requests.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= STEPS_A_TICK || self.taken >= self.room.together
    }

    /// Counts in a connection; returns its number.
    pub(crate) fn admit(&mut self) -> usize {
        self.connections.push(ConnectionTick::default());
        self.connections.len() - 1
    }

    /// Whether requests of a connection are not done in this tick.
    pub(crate) fn has_cut(&self, by: usize) -> bool {
        self.connections[by].cut.is_some()
    }

    /// Whether a step of a connection is not done in this tick.
    pub(crate) fn is_cut(&self, by: usize, step: usize) -> bool {
        self.connections[by].cut.is_some_and(|cut| step >= cut)
    }

    /// Takes room for a connection's reply of so many bytes, and for what else its request needs. A
    /// request that finds none waits for the next tick, and fails if it is the first of this one.
    fn take(
        &mut self,
        by: usize,
        reply: usize,
        besides: usize,
        is_first: bool,
    ) -> Result<(), RoomRefusal> {
        let limit = self.limit(is_first);
        let replies = &mut self.connections[by].replies;
        if *replies > 0 && *replies >= self.room.replies {
            return Err(RoomRefusal::Now);
        }
        let all = reply.saturating_add(besides);
        if self.room.is_short && all > 2 * self.room.replies {
            return Err(RoomRefusal::Now);
        }
        if all > limit.saturating_sub(self.taken) {
            return Err(match is_first {
                true => RoomRefusal::Ever(Failure::LongReply { limit }),
                false => RoomRefusal::Now,
            });
        }
        *replies += reply;
        self.taken += all;
        Ok(())
    }

    const fn limit(&self, is_first: bool) -> usize {
        match is_first {
            true => self.room.alone,
            false => self.room.together,
        }
    }

    /// Whether it has no request yet.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_done && self.requests.is_empty()
    }

    /// Takes room for a request of a connection that is no step: for its reply and for what else it
    /// needs, in bytes.
    pub(crate) fn take_besides(
        &mut self,
        by: usize,
        reply: usize,
        besides: usize,
    ) -> Result<(), RoomRefusal> {
        let is_first = self.is_empty();
        self.take(by, reply + REPLY, besides, is_first)?;
        // One behind steps of its connection may be cut with them.
        self.has_done |= self.requests.is_empty();
        Ok(())
    }

    /// Takes what room there is for a request that runs by itself; returns the bytes that its reply
    /// may have, which is written twice. [Give back](TickSteps::give_back) what it has not used.
    pub(crate) fn take_rest(&mut self) -> usize {
        self.has_done = true;
        let rest = self.limit(!self.room.is_short).saturating_sub(self.taken);
        self.taken += rest;
        rest / 2
    }

    /// Gives back all but `used` bytes of what [`take_rest`](TickSteps::take_rest) gave to a
    /// connection.
    pub(crate) fn give_back(&mut self, by: usize, given: usize, used: usize) {
        self.taken -= 2 * given.saturating_sub(used);
        self.connections[by].replies += used;
    }

    /// Counts in a request of a connection, with so many steps, which follow.
    pub(crate) fn begin(&mut self, by: usize, steps: usize) -> Result<(), RoomRefusal> {
        let is_first = self.is_empty();
        self.take(by, 0, steps * STEP, is_first)?;
        let first = self.pending.len();
        self.requests.push(RequestSteps { by, first });
        Ok(())
    }

    /// Adds a step of the last request; returns its number.
    pub(crate) fn push(&mut self, database: u8, key: &'r [u8], step: Step<'r>) -> usize {
        let number = self.pending.len();
        let by = self.requests.last().map_or(0, |request| request.by);
        let ByKey { places, hasher, .. } = &mut self.by_key;
        let hash = hasher.hash_one((database, key));
        let chains = &mut self.chains;
        let is_it =
            |place: &usize| (chains[*place].database, chains[*place].key) == (database, key);
        let hash_of =
            |place: &usize| hasher.hash_one((chains[*place].database, chains[*place].key));
        let entry = places.entry(hash, is_it, hash_of);
        let place = match entry {
            hash_table::Entry::Occupied(place) => *place.get(),
            hash_table::Entry::Vacant(place) => {
                place.insert(chains.len());
                chains.push(StepChain {
                    database,
                    key,
                    first: number,
                    last: number,
                    stored: Stored::Unknown,
                    is_changed: false,
                });
                chains.len() - 1
            }
        };
        let chain = &mut self.chains[place];
        if chain.last != number {
            self.pending[chain.last].next = number;
            chain.last = number;
        }
        self.pending.push(PendingStep {
            step,
            by,
            chain: place,
            is_undone: false,
            next: END,
            reply: None,
        });
        number
    }

    /// The reply to a step; once, when it has been run.
    pub(crate) fn reply(&mut self, step: usize) -> Reply<'r> {
        self.pending[step].reply.take().unwrap_or(Reply::Null)
    }

    /// Runs all steps that have not been run, but for those that are cut. No transaction executes
    /// meanwhile.
    pub(crate) fn run(&mut self, databases: &mut Databases, watches: &WatchRegistry) {
        if self.chains.is_empty() {
            return;
        }
        let (_shared, waited) = watches.shared();
        self.note_apart(waited);
        let numbers = self.databases();
        if !self.room.is_short {
            // Mostly there is room for few of them.
            self.load_in_order(databases);
        } else if self.by_key.is_tight || !self.load_all(databases, &numbers) {
            self.by_key.is_tight = self.load_in_order(databases);
        }
        self.execute(databases, numbers, watches);
    }

    /// The databases of steps that have not been run.
    fn databases(&self) -> Vec<u8> {
        let mut numbers: Vec<u8> = self.chains.iter().map(|chain| chain.database).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Applies the steps of all chains to what was read, and writes what is left.
    fn execute(&mut self, databases: &mut Databases, numbers: Vec<u8>, watches: &WatchRegistry) {
        for chain in 0..self.chains.len() {
            if let Stored::Failed(failure) = &self.chains[chain].stored {
                self.fail(chain, &failure.clone());
            }
        }
        for number in numbers {
            let is_left = |chain: &StepChain<'r>| {
                chain.database == number && chain.first != END && !chain.has_failed()
            };
            let chains = self.chains.iter().enumerate();
            let chains = chains.filter(|(_, chain)| is_left(chain));
            let mut left: Vec<usize> = chains.map(|(chain, _)| chain).collect();
            for attempt in 0.. {
                if attempt == MOST_ATTEMPTS {
                    let message = "others wrote the key, time and again";
                    let failure = Failure::Store(message.into());
                    left.iter().for_each(|chain| self.fail(*chain, &failure));
                    break;
                }
                if attempt > 0 {
                    left = self.load_again(databases, left);
                }
                left = self.attempt(databases, number, left, attempt == 0);
                if left.is_empty() {
                    break;
                }
            }
            if watches.any() {
                let chains = self.chains.iter();
                let changed = chains.filter(|of| of.database == number && of.is_changed);
                watches.touch(number, changed.map(|of| of.key));
            }
        }
        self.forget();
    }

    /// Forgets the chains of steps that were run.
    fn forget(&mut self) {
        self.has_done = true;
        self.requests.clear();
        self.chains.clear();
        self.by_key.places.clear();
    }

    /// Ends it; gives back what the next one is made of.
    pub(crate) fn end(self) -> ByKey {
        match self.by_key.places.capacity() {
            // One request with many keys shall not slow all ticks that follow.
            capacity if capacity > 4 * STEPS_A_TICK => ByKey::default(),
            _ => ByKey {
                steps: self.pending.len().min(STEPS_A_TICK),
                ..self.by_key
            },
        }
    }

    /// Applies and writes chains of a database; returns those that others were faster at.
    fn attempt(
        &mut self,
        databases: &mut Databases,
        database: u8,
        chains: Vec<usize>,
        is_first: bool,
    ) -> Vec<usize> {
        let mut again = Vec::new();
        let mut writes = Vec::new();
        for chain in chains {
            if let Some(write) = self.apply(chain) {
                writes.push((chain, write));
            }
        }
        self.write(databases, database, writes, is_first, &mut again);
        again
    }

    /// Applies a chain's steps to what was read; returns what is to be written.
    fn apply(&mut self, chain: usize) -> Option<Write> {
        let StepChain { first, stored, .. } = &self.chains[chain];
        let mut slot = Slot {
            entry: match stored {
                Stored::Record(record) => Entry::of(record, self.now),
                _ => None,
            },
            changed: false,
            expiry_was_set: false,
            now: self.now,
        };
        let mut at = *first;
        while let Some(pending) = self.pending.get_mut(at) {
            if !pending.is_undone {
                pending.reply = Some(pending.step.apply(&mut slot).into());
            }
            at = pending.next;
        }
        let changed = slot.changed;
        let is_touched = changed || slot.expiry_was_set;
        let new = slot.entry.filter(|_| changed).map(|entry| entry.record());
        let write = match (stored, new) {
            (Stored::Unknown | Stored::TooLarge | Stored::Failed(_), new) => {
                Some(new.map_or(Write::Remove, Write::Put))
            }
            (Stored::Absent, new) => new.map(Write::PutIfAbsent),
            (Stored::Record(old), Some(new)) => Some(Write::Replace(old.clone(), new)),
            (Stored::Record(old), None) if is_dead(old, self.now) => Some(Write::Bury(old.clone())),
            (Stored::Record(old), None) => changed.then(|| Write::RemoveIf(old.clone())),
        };
        self.chains[chain].is_changed |= is_touched;
        write
    }

    fn write(
        &mut self,
        databases: &mut Databases,
        database: u8,
        writes: Vec<(usize, Write)>,
        is_first: bool,
        again: &mut Vec<usize>,
    ) {
        if writes.is_empty() {
            return;
        }
        let table = match databases.made(database) {
            Ok(table) => table,
            Err(error) => {
                let failure = Failure::from(error);
                let chains = writes.iter().map(|(chain, _)| *chain);
                return chains.for_each(|chain| self.fail(chain, &failure));
            }
        };
        let operations = writes.iter();
        let operations = operations.map(|(chain, write)| write.operation(self.chains[*chain].key));
        let operations: Vec<Operation<'_>> = operations.collect();
        let ran = table.run_many(&operations, |number, outcome| {
            let (chain, write) = &writes[number];
            if !write.is_done(&outcome) {
                again.push(*chain);
            }
        });
        for (number, error) in ran.err().into_iter().flatten() {
            self.refused(databases, writes[number].0, error, is_first, again);
        }
    }

    /// A chain that the store has refused is tried once more if its table was another; else all of
    /// its steps fail.
    fn refused(
        &mut self,
        databases: &mut Databases,
        chain: usize,
        error: StoreError,
        is_first: bool,
        again: &mut Vec<usize>,
    ) {
        let database = self.chains[chain].database;
        if databases.is_gone(database, &error) && is_first {
            again.push(chain);
        } else {
            self.fail(chain, &error.into());
        }
    }

    fn fail(&mut self, chain: usize, failure: &Failure) {
        self.chains[chain].stored = Stored::Failed(failure.clone());
        let mut at = self.chains[chain].first;
        while let Some(pending) = self.pending.get_mut(at) {
            pending.reply = Some(Reply::Error(failure.clone()));
            at = pending.next;
        }
    }
}

impl StepChain<'_> {
    const fn has_failed(&self) -> bool {
        matches!(self.stored, Stored::Failed(_))
    }

    /// Bytes of the record that was read.
    fn bytes(&self) -> usize {
        match &self.stored {
            Stored::Record(record) => record.len(),
            _ => 0,
        }
    }
}

/// Why a request is not done in this tick.
#[derive(Debug)]
pub(crate) enum RoomRefusal {
    /// Others have the room.
    Now,
    /// There is never so much.
    Ever(Failure),
}

impl Write {
    fn operation<'w>(&'w self, key: &'w [u8]) -> Operation<'w> {
        match self {
            Self::Put(new) => Operation::Put(key, new),
            Self::Remove => Operation::Remove(key),
            Self::PutIfAbsent(new) => Operation::FindOrPut(key, new),
            Self::Replace(old, new) => Operation::Replace(key, old, new),
            Self::Bury(old) | Self::RemoveIf(old) => Operation::RemoveIf(key, old),
        }
    }

    /// Whether the key is now as it was to be; else another client was faster.
    fn is_done(&self, outcome: &Outcome) -> bool {
        match self {
            Self::Put(_) | Self::Remove | Self::Bury(_) => true,
            Self::PutIfAbsent(_) => *outcome == Outcome::Value(None),
            Self::Replace(..) | Self::RemoveIf(_) => outcome.is_changed(),
        }
    }
}

//! A turn: what the commands of all connections that have sent some do to keys, as two batches.
//!
//! All steps on one key, whoever sent them, make a chain in the order in which they came. Where its
//! first step asks what the key has, the record is read; the steps are applied to it in memory; and
//! what is left is written by one operation that expects the record that was read. If another
//! client of the store was faster, the chain is read and applied again. So:
//!
//! * a chain takes effect in one step, and each command on one key with it;
//! * a turn costs two batches of the store, however many commands it has, and one if all set values
//!   whatever there is, or only read;
//! * a counter that all clients count up is read and written once a turn, not once for each.
//!
//! Commands of one pipeline on different keys take effect in any order, as they would over the
//! nodes of a Redis Cluster. A client that waits for a reply finds its effect.

use crate::databases::Databases;
use crate::failure::Failure;
use crate::record::{Entry, Kept, is_dead};
use crate::reply::Reply;
use crate::step::{Slot, Step};
use farslot::{Operation, Outcome, StoreError};
use foldhash::fast::RandomState;
use hashbrown::hash_table::{self, HashTable};
use std::hash::BuildHasher;

/// How often a chain is read again because others were faster.
const MOST_ATTEMPTS: u32 = 10_000;

/// Steps of a turn, beyond which no more requests are taken into it: few enough for a processor's cache.
pub(crate) const STEPS_A_TURN: usize = 1 << 10;
/// Stands for no further step.
const END: usize = usize::MAX;

/// A step, and its reply once it was applied.
struct Pending<'r> {
    step: Step<'r>,
    /// The next one on its key.
    next: usize,
    reply: Option<Reply<'r>>,
}

/// All steps on one key.
struct Chain<'r> {
    database: u8,
    key: &'r [u8],
    first: usize,
    last: usize,
    /// The connection whose room its record takes: that of its first step.
    by: usize,
    stored: Stored,
}

/// What the store has of a key.
#[derive(Clone)]
enum Stored {
    /// It was not asked.
    Unknown,
    Absent,
    Record(Kept),
}

/// How a chain is written.
enum Write {
    Put(Kept),
    Remove,
    PutIfAbsent(Kept),
    Replace(Kept, Kept),
    /// A record that was dead when it was read. If it is another now, that is as good.
    Bury(Kept),
    RemoveIf(Kept),
}

/// The places of chains, by their databases and keys: memory that one turn after the other uses.
#[derive(Default)]
pub(crate) struct ByKey {
    places: HashTable<usize>,
    hasher: RandomState,
    /// Steps of the turn before, for which the next one has room from the start.
    steps: usize,
}

/// The steps of a turn.
pub(crate) struct Turn<'r> {
    /// Milliseconds since 1970: one moment for all of it.
    pub(crate) now: u64,
    pending: Vec<Pending<'r>>,
    /// Those that have not been run, and the place of each among them by its database and key.
    chains: Vec<Chain<'r>>,
    by_key: ByKey,
    /// Bytes of records that each connection may still have read or copied.
    rooms: Vec<usize>,
}

impl<'r> Turn<'r> {
    /// An empty one at a moment, in milliseconds since 1970.
    pub(crate) fn new(now: u64, by_key: ByKey) -> Self {
        Self {
            now,
            pending: Vec::with_capacity(by_key.steps),
            chains: Vec::with_capacity(by_key.steps),
            by_key,
            rooms: Vec::new(),
        }
    }

    /// How many steps it has, run or not.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Counts in a connection, which may have so many bytes read; returns its number.
    pub(crate) fn admit(&mut self, room: usize) -> usize {
        self.rooms.push(room);
        self.rooms.len() - 1
    }

    /// Adds a step of a connection; returns its number.
    pub(crate) fn push(&mut self, by: usize, database: u8, key: &'r [u8], step: Step<'r>) -> usize {
        let number = self.pending.len();
        self.pending.push(Pending {
            step,
            next: END,
            reply: None,
        });
        let ByKey { places, hasher, .. } = &mut self.by_key;
        let hash = hasher.hash_one((database, key));
        let chains = &mut self.chains;
        let is_it =
            |place: &usize| (chains[*place].database, chains[*place].key) == (database, key);
        let hash_of =
            |place: &usize| hasher.hash_one((chains[*place].database, chains[*place].key));
        let entry = places.entry(hash, is_it, hash_of);
        let chain = match entry {
            hash_table::Entry::Occupied(place) => *place.get(),
            hash_table::Entry::Vacant(place) => {
                place.insert(chains.len());
                chains.push(Chain {
                    database,
                    key,
                    first: number,
                    last: number,
                    by,
                    stored: Stored::Unknown,
                });
                chains.len() - 1
            }
        };
        let chain = &mut self.chains[chain];
        if chain.last != number {
            self.pending[chain.last].next = number;
            chain.last = number;
        }
        number
    }

    /// The reply to a step; once, when it has been run.
    pub(crate) fn reply(&mut self, step: usize) -> Reply<'r> {
        self.pending[step].reply.take().unwrap_or(Reply::Null)
    }

    /// Runs all steps that have not been run.
    pub(crate) fn run(&mut self, databases: &mut Databases) {
        let mut numbers: Vec<u8> = self.chains.iter().map(|chain| chain.database).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let of_it = |(_, chain): &(usize, &Chain<'r>)| chain.database == number;
            let chains = self.chains.iter().enumerate().filter(of_it);
            let mut left: Vec<usize> = chains.map(|(chain, _)| chain).collect();
            for attempt in 0.. {
                if attempt == MOST_ATTEMPTS {
                    let told = "others wrote the key, time and again";
                    let failure = Failure::Store(told.into());
                    left.iter().for_each(|chain| self.fail(*chain, &failure));
                    break;
                }
                left = self.attempt(databases, number, left, attempt == 0);
                if left.is_empty() {
                    break;
                }
            }
        }
        self.chains.clear();
        self.by_key.places.clear();
    }

    /// Ends it; gives back what the next one is made of.
    pub(crate) fn end(self) -> ByKey {
        match self.by_key.places.capacity() {
            // One request with many keys shall not slow all turns that follow.
            capacity if capacity > 4 * STEPS_A_TURN => ByKey::default(),
            _ => ByKey {
                steps: self.pending.len().min(STEPS_A_TURN),
                ..self.by_key
            },
        }
    }

    /// Reads, applies and writes chains of a database; returns those that others were faster at.
    fn attempt(
        &mut self,
        databases: &mut Databases,
        database: u8,
        chains: Vec<usize>,
        is_first: bool,
    ) -> Vec<usize> {
        let mut again = Vec::new();
        let mut writes = Vec::new();
        for chain in self.read(databases, database, chains, is_first, &mut again) {
            if let Some(write) = self.apply(chain) {
                writes.push((chain, write));
            }
        }
        self.write(databases, database, writes, is_first, &mut again);
        again
    }

    /// Reads what chains ask for; returns those that can be applied.
    fn read(
        &mut self,
        databases: &mut Databases,
        database: u8,
        chains: Vec<usize>,
        is_first: bool,
        again: &mut Vec<usize>,
    ) -> Vec<usize> {
        let (blind, asking): (Vec<_>, Vec<_>) = chains
            .into_iter()
            .partition(|chain| self.pending[self.chains[*chain].first].step.is_blind());
        let mut applied = blind;
        if asking.is_empty() {
            return applied;
        }
        let table = match databases.existing(database) {
            Ok(Some(table)) => table,
            Ok(None) => {
                for chain in &asking {
                    self.chains[*chain].stored = Stored::Absent;
                }
                applied.extend(asking);
                return applied;
            }
            Err(error) => {
                let failure = Failure::from(error);
                asking.iter().for_each(|chain| self.fail(*chain, &failure));
                return applied;
            }
        };
        let keys: Vec<&[u8]> = asking.iter().map(|chain| self.chains[*chain].key).collect();
        let mut failed = Vec::new();
        table.get_many(&keys, |number, answer| {
            let chain = &mut self.chains[asking[number]];
            let room = &mut self.rooms[chain.by];
            chain.stored = match answer {
                Ok(None) => Stored::Absent,
                Ok(Some(record)) if record.len() <= *room => {
                    *room -= record.len();
                    Stored::Record(Kept::of([record]))
                }
                Ok(Some(_)) => {
                    let failure = Failure::LongReply { limit: *room };
                    return failed.push((asking[number], Err(failure)));
                }
                Err(error) => return failed.push((asking[number], Ok(error))),
            };
            applied.push(asking[number]);
        });
        for (chain, why) in failed {
            match why {
                Ok(error) => self.refused(databases, chain, error, is_first, again),
                Err(failure) => self.fail(chain, &failure),
            }
        }
        applied
    }

    /// Applies a chain's steps to what was read; returns what is to be written.
    fn apply(&mut self, chain: usize) -> Option<Write> {
        let Chain {
            first, by, stored, ..
        } = &self.chains[chain];
        let mut slot = Slot {
            entry: match stored {
                Stored::Record(record) => Entry::of(record, self.now),
                Stored::Unknown | Stored::Absent => None,
            },
            changed: false,
            now: self.now,
            room: self.rooms[*by],
        };
        let mut at = *first;
        while let Some(pending) = self.pending.get_mut(at) {
            pending.reply = Some(pending.step.apply(&mut slot).into());
            at = pending.next;
        }
        self.rooms[*by] = slot.room;
        let new = slot
            .entry
            .filter(|_| slot.changed)
            .map(|entry| entry.record());
        match (stored, new) {
            (Stored::Unknown, Some(new)) => Some(Write::Put(new)),
            (Stored::Unknown, None) => Some(Write::Remove),
            (Stored::Absent, new) => new.map(Write::PutIfAbsent),
            (Stored::Record(old), Some(new)) => Some(Write::Replace(old.clone(), new)),
            (Stored::Record(old), None) if is_dead(old, self.now) => Some(Write::Bury(old.clone())),
            (Stored::Record(old), None) => slot.changed.then(|| Write::RemoveIf(old.clone())),
        }
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
        let mut failed = Vec::new();
        table.run_many(&operations, |number, outcome| {
            let (chain, write) = &writes[number];
            match outcome {
                Ok(outcome) if write.is_done(&outcome) => {}
                Ok(_) => again.push(*chain),
                Err(error) => failed.push((*chain, error)),
            }
        });
        for (chain, error) in failed {
            self.refused(databases, chain, error, is_first, again);
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
        let mut at = self.chains[chain].first;
        while let Some(pending) = self.pending.get_mut(at) {
            pending.reply = Some(Reply::Error(failure.clone()));
            at = pending.next;
        }
    }
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

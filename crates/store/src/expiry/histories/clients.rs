//! What the clients of a run do, and how it is recorded.

use super::model::{ExpiryOperation, Life, Ret};
use crate::{BatchError, Expiry, Operation, Outcome, Store, StoreError, Table};
use farslot_check::{History, OpId, TableOp, TableRet};
use farslot_fabric::Nanos;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

pub(super) const KEYS: u64 = 2;
/// What a client does at the most, of which each may begin a life of each key.
pub(super) const STEPS: u32 = 12;
/// Records of other keys that it puts before each of these, into a heap that is small.
const FILLED: u64 = 3;

/// What all clients of a run record.
pub(super) struct Record {
    clock: Box<dyn Fn() -> Nanos + Send + Sync>,
    history: Mutex<History<u64, ExpiryOperation, Ret>>,
    /// Lives that may have begun: the operation that has given them, and when they end.
    lives: Mutex<Vec<(OpId, Life, Nanos)>>,
}

impl Record {
    /// By the clients' clock.
    pub(super) fn new(clock: impl Fn() -> Nanos + Send + Sync + 'static) -> Self {
        Self {
            clock: Box::new(clock),
            history: Mutex::default(),
            lives: Mutex::default(),
        }
    }

    fn history(&self) -> MutexGuard<'_, History<u64, ExpiryOperation, Ret>> {
        self.history.lock().unwrap()
    }

    fn begin(&self, client: u32, key: u64, op: ExpiryOperation) -> OpId {
        self.history().invoke(client, key, op, (self.clock)())
    }

    fn end(&self, id: OpId, outcome: Result<Ret, StoreError>) {
        let now = (self.clock)();
        let mut history = self.history();
        match outcome {
            Ok(ret) => history.complete(id, ret, now),
            Err(error) if error.may_have_taken_effect() => history.in_doubt(id, now),
            Err(_) => history.no_effect(id, now),
        }
    }

    /// The operation has had no effect.
    fn undone(&self, id: OpId) {
        self.history().no_effect(id, (self.clock)());
    }

    /// A moment as the simulated clock has it.
    fn lives_until(&self, id: OpId, life: Life, expiry: Expiry) {
        let ends = (expiry.millis() - 1) * 1_000_000;
        self.lives.lock().unwrap().push((id, life, ends));
    }

    /// The history, with the ends of all lives that have begun. A record ends at its moment; or, if
    /// the call that gives it that end takes longer, before that call returns.
    pub(super) fn with_ends(self) -> History<u64, ExpiryOperation, Ret> {
        use farslot_check::Outcome::{InDoubt, NoEffect, Pending, Returned};
        let mut history = self.history.into_inner().unwrap();
        for (number, (id, life, ends)) in self.lives.into_inner().unwrap().into_iter().enumerate() {
            let entry = history.entries()[id.index()].clone();
            let client = 1_000 + number as u32;
            let from = ends.max(entry.start);
            match entry.outcome {
                // Nothing has begun.
                NoEffect { .. } => {}
                Returned {
                    ret: Ret::Is(false),
                    ..
                } if matches!(entry.op, ExpiryOperation::Live(_)) => {}
                Returned { end, .. } => {
                    let ended = history.invoke(client, entry.key, ExpiryOperation::End(life), from);
                    history.complete(ended, Ret::Ended, ends.max(end));
                }
                Pending | InDoubt { .. } => {
                    history.invoke(client, entry.key, ExpiryOperation::End(life), from);
                }
            }
        }
        history
    }
}

/// One client of a run.
pub(super) struct Client<'r> {
    pub(super) number: u32,
    pub(super) record: &'r Record,
    table: Table,
    stored: Table,
    lives: Life,
}

fn bytes(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("a value of 8 bytes"))
}

impl<'r> Client<'r> {
    pub(super) fn open(number: u32, record: &'r Record, store: &Store) -> Self {
        Self {
            number,
            record,
            table: store.table("t").unwrap(),
            stored: store.stored_table("t").unwrap(),
            lives: number * STEPS * KEYS as u32,
        }
    }

    fn new_life(&mut self) -> Life {
        self.lives += 1;
        self.lives - 1
    }

    fn begin(&self, key: u64, op: ExpiryOperation) -> OpId {
        self.record.begin(self.number, key, op)
    }

    /// When a record ends that lives so long from now on.
    fn after(&self, span: Duration) -> Expiry {
        Expiry::after(span, (self.record.clock)() / 1_000_000 + 1)
    }

    /// Puts records of other keys that end soon: the heap is full of them, and has to be cleaned.
    pub(super) fn fill(&self, new: u64) {
        for number in 0..FILLED {
            let key = bytes(KEYS + new * FILLED + number);
            let span = Duration::from_millis(1);
            // Where there is no room, there is none for what is judged either.
            let _ = self.table.put_for(&key, &key, span);
        }
    }

    /// Does something to a key, or to all side by side; what it writes has this number.
    pub(super) fn step(&mut self, new: u64, rng: &mut ChaCha8Rng) {
        let key = rng.random_range(0..KEYS);
        let span = Duration::from_millis(rng.random_range(0..5));
        match rng.random_range(0..16) {
            0..3 => self.get(key, rng.random()),
            3..6 => self.put_for(key, new, span),
            6..9 => self.set_time_to_live(key, Some(span).filter(|_| rng.random_bool(0.8))),
            9..11 => self.one(key, operation(new, rng)),
            11..13 => self.batch(new, rng),
            13 => self.put_all_for(new, span),
            14 => self.live_longer_side_by_side(span),
            _ => drop(self.table.remove_expired()),
        }
    }

    pub(super) fn get(&self, key: u64, with_time: bool) {
        let id = self.begin(key, ExpiryOperation::Table(TableOp::Get));
        let key = bytes(key);
        let found = match with_time {
            false => self.table.get(&key),
            true => {
                let found = self.table.get_with_time_to_live(&key);
                found.map(|found| found.map(|(value, _)| value))
            }
        };
        let ret = |found: Option<Vec<u8>>| Ret::Table(TableRet::Got(found.as_deref().map(number)));
        self.record.end(id, found.map(ret));
    }

    fn put_for(&mut self, key: u64, new: u64, span: Duration) {
        let life = self.new_life();
        let id = self.begin(key, ExpiryOperation::PutFor(new, life));
        self.record.lives_until(id, life, self.after(span));
        let put = self.table.put_for(&bytes(key), &bytes(new), span);
        self.record.end(id, put.map(Ret::Is));
    }

    fn put_all_for(&mut self, new: u64, span: Duration) {
        let ids: Vec<_> = (0..KEYS)
            .map(|key| {
                let life = self.new_life();
                let id = self.begin(key, ExpiryOperation::PutFor(new, life));
                self.record.lives_until(id, life, self.after(span));
                id
            })
            .collect();
        let keys: Vec<_> = (0..KEYS).map(bytes).collect();
        let value = bytes(new);
        let records: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &value[..])).collect();
        let done = |at: usize, is_new| self.record.end(ids[at], Ok(Ret::Is(is_new)));
        let put = self.table.put_many_for(&records, span, done);
        self.failed(&ids, put);
    }

    fn set_time_to_live(&mut self, key: u64, span: Option<Duration>) {
        let life = span.map(|_| self.new_life());
        let id = self.begin(key, ExpiryOperation::Live(life));
        if let (Some(life), Some(span)) = (life, span) {
            self.record.lives_until(id, life, self.after(span));
        }
        let set = self.table.set_time_to_live(&bytes(key), span);
        self.record.end(id, set.map(Ret::Is));
    }

    /// The records of all keys get another end by one batch, as a gateway's do. One that another
    /// has changed meanwhile is left so.
    fn live_longer_side_by_side(&mut self, span: Duration) {
        let expiry = self.after(span);
        let ids: Vec<_> = (0..KEYS)
            .map(|key| {
                let life = self.new_life();
                let id = self.begin(key, ExpiryOperation::Live(Some(life)));
                self.record.lives_until(id, life, expiry);
                id
            })
            .collect();
        let now = (self.record.clock)() / 1_000_000 + 1;
        let keys: Vec<_> = (0..KEYS).map(bytes).collect();
        let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut seen = Vec::new();
        let got = self.stored.get_many(&slices, |at, found| match found {
            Some(found) if Expiry::living(found, now).is_some() => {
                let (_, value) = Expiry::split(found).unwrap();
                seen.push((at, found.to_vec(), expiry.stored(value)));
            }
            _ => self.record.end(ids[at], Ok(Ret::Is(false))),
        });
        self.failed(&ids, got);
        let replacements = seen.iter();
        let replacements: Vec<_> = replacements
            .map(|(at, old, new)| Operation::Replace(&keys[*at], old, new))
            .collect();
        let seen_ids: Vec<_> = seen.iter().map(|(at, ..)| ids[*at]).collect();
        let replaced = self.stored.run_many(&replacements, |number, outcome| {
            match outcome.is_changed() {
                true => self.record.end(seen_ids[number], Ok(Ret::Is(true))),
                false => self.record.undone(seen_ids[number]),
            }
        });
        self.failed(&seen_ids, replaced);
    }

    /// Ends the operations of a batch that failed.
    fn failed(&self, ids: &[OpId], batch: crate::Result<(), BatchError>) {
        for (number, error) in batch.err().into_iter().flatten() {
            self.record.end(ids[number], Err(error));
        }
    }

    /// An operation by the call that does it alone.
    fn one(&self, key: u64, op: TableOp<u64>) {
        let id = self.begin(key, ExpiryOperation::Table(op.clone()));
        let (key, [new, old]) = (bytes(key), values(&op));
        let changed = |changed: crate::Result<bool>| changed.map(Outcome::Changed);
        let outcome = match op {
            TableOp::Get => self.table.get(&key).map(Outcome::Value),
            TableOp::Put(_) => changed(self.table.put(&key, &new)),
            TableOp::FindOrPut(_) => self.table.find_or_put(&key, &new).map(Outcome::Value),
            TableOp::Update(_) => changed(self.table.update(&key, &new)),
            TableOp::Replace(..) => changed(self.table.compare_and_set(&key, Some(&old), &new)),
            TableOp::Remove => changed(self.table.remove(&key)),
            TableOp::RemoveIf(_) => changed(self.table.compare_and_remove(&key, &old)),
        };
        self.record
            .end(id, outcome.map(|outcome| returned(&op, outcome)));
    }

    fn batch(&self, new: u64, rng: &mut ChaCha8Rng) {
        let only_gets = rng.random_bool(0.4);
        let ops: Vec<_> = (0..KEYS)
            .map(|_| match only_gets {
                true => TableOp::Get,
                false => operation(new, rng),
            })
            .collect();
        let keys: Vec<_> = (0..KEYS).map(bytes).collect();
        let values: Vec<_> = ops.iter().map(values).collect();
        let ids: Vec<_> = (0..KEYS)
            .map(|key| self.begin(key, ExpiryOperation::Table(ops[key as usize].clone())))
            .collect();
        if only_gets {
            let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let got = self.table.get_many(&slices, |at, found| {
                let found = Ret::Table(TableRet::Got(found.map(number)));
                self.record.end(ids[at], Ok(found));
            });
            return self.failed(&ids, got);
        }
        let all = ops.iter().zip(&keys).zip(&values);
        let operations: Vec<_> = all
            .map(|((op, key), [new, old])| on_key(op, key, new, old))
            .collect();
        let ran = self.table.run_many(&operations, |at, outcome| {
            let outcome = outcome.map(|value| value.to_vec());
            self.record.end(ids[at], Ok(returned(&ops[at], outcome)));
        });
        self.failed(&ids, ran);
    }
}

/// One that knows nothing of ends; some expect what another may have written just now.
fn operation(new: u64, rng: &mut ChaCha8Rng) -> TableOp<u64> {
    let other = rng.random_range(0..new + 2);
    match rng.random_range(0..9) {
        0 => TableOp::Get,
        1 => TableOp::Put(new),
        2..4 => TableOp::FindOrPut(new),
        4..6 => TableOp::Update(new),
        6 => TableOp::Replace(other, new),
        7 => TableOp::Remove,
        _ => TableOp::RemoveIf(other),
    }
}

/// The value that an operation writes, and the one that it expects.
fn values(op: &TableOp<u64>) -> [[u8; 8]; 2] {
    match op {
        TableOp::Get | TableOp::Remove => [[0; 8]; 2],
        TableOp::Put(new) | TableOp::FindOrPut(new) | TableOp::Update(new) => [bytes(*new), [0; 8]],
        TableOp::Replace(old, new) => [bytes(*new), bytes(*old)],
        TableOp::RemoveIf(old) => [[0; 8], bytes(*old)],
    }
}

fn on_key<'o>(op: &TableOp<u64>, key: &'o [u8], new: &'o [u8], old: &'o [u8]) -> Operation<'o> {
    match op {
        TableOp::Get => Operation::Get(key),
        TableOp::Put(_) => Operation::Put(key, new),
        TableOp::FindOrPut(_) => Operation::FindOrPut(key, new),
        TableOp::Update(_) => Operation::Update(key, new),
        TableOp::Replace(..) => Operation::Replace(key, old, new),
        TableOp::Remove => Operation::Remove(key),
        TableOp::RemoveIf(_) => Operation::RemoveIf(key, old),
    }
}

fn returned(op: &TableOp<u64>, outcome: Outcome<Vec<u8>>) -> Ret {
    let changed = outcome.is_changed();
    Ret::Table(match op {
        TableOp::Get => TableRet::Got(number_of(outcome)),
        // A record that has ended and is still there counts as one that is replaced.
        TableOp::Put(_) => TableRet::Put {
            inserted: changed.then_some(true),
        },
        TableOp::FindOrPut(_) => match number_of(outcome) {
            Some(found) => TableRet::Found(found),
            None => TableRet::Inserted,
        },
        TableOp::Update(_) | TableOp::Replace(..) => TableRet::Updated(changed),
        TableOp::Remove | TableOp::RemoveIf(_) => TableRet::Removed(changed),
    })
}

fn number_of(outcome: Outcome<Vec<u8>>) -> Option<u64> {
    outcome.into_value().as_deref().map(number)
}

//! What clients do, and what of it is written down.

use super::procedures::APPEND;
use super::world::{COROUTINES, KEYS, Key, LEASE, MAP, MAP_KEYS, NODES, OBJECT, Wrong};
use crate::{Database, TableId, Transaction, TxnError};
use farslot_check::serial::{self, Commit, ListOp};
use farslot_fabric::sim::SimEndpoint;
use farslot_fabric::{Endpoint, EndpointExt, Nanos};
use farslot_remote::ordered::KeyRange;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What happened in all runs, so that none of it is vacuous.
#[derive(Default, Debug)]
pub(super) struct HistoryTally {
    pub(super) committed: u64,
    pub(super) aborted: u64,
    pub(super) unknown: u64,
    pub(super) conflicts: u64,
    pub(super) leases_over: u64,
    /// Committed by their owners, of those that committed.
    pub(super) procedures: u64,
}

#[derive(Clone, Default)]
pub(super) struct Record {
    pub(super) history: Rc<RefCell<Vec<serial::Transaction<Key>>>>,
    pub(super) values: Rc<Cell<u64>>,
}

impl Record {
    pub(super) fn begin(&self, start: Nanos) -> usize {
        let mut history = self.history.borrow_mut();
        history.push(serial::Transaction {
            start,
            ops: Vec::new(),
            commit: Commit::Unknown,
        });
        history.len() - 1
    }

    pub(super) fn note(&self, at: usize, op: ListOp<Key>) {
        self.history.borrow_mut()[at].ops.push(op);
    }

    /// What is known now that was noted in part.
    pub(super) fn replace(&self, at: usize, ops: Vec<ListOp<Key>>) {
        self.history.borrow_mut()[at].ops = ops;
    }

    pub(super) fn end(&self, at: usize, commit: Commit) {
        self.history.borrow_mut()[at].commit = commit;
    }

    pub(super) fn value(&self) -> u64 {
        self.values.set(self.values.get() + 1);
        self.values.get()
    }
}

pub(super) fn list(value: Option<Vec<u8>>) -> Vec<u64> {
    let bytes = value.unwrap_or_default();
    let (words, rest) = bytes.as_chunks::<8>();
    assert!(rest.is_empty());
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Appends to a key of each of two nodes, which are locked side by side.
async fn append_to_two(
    transaction: &mut Transaction<'_, SimEndpoint>,
    rng: &mut ChaCha8Rng,
    record: &Record,
    at: usize,
) -> Result<(), TxnError> {
    let first = rng.random_range(0..NODES);
    let second = (first + rng.random_range(1..NODES)) % NODES;
    let keys: [Key; 2] = [first, second].map(|node| (node, rng.random_range(0..KEYS)));
    let bytes = keys.map(|key| [key.1; 3]);
    let names = [0, 1].map(|at| (TableId(keys[at].0.into()), &bytes[at][..]));
    let found = transaction.read_for_update(&names).await?;
    for ((key, (table, bytes)), found) in keys.into_iter().zip(names).zip(found) {
        let mut list = list(found);
        record.note(at, ListOp::Read(key, list.clone()));
        let value = record.value();
        list.push(value);
        record.note(at, ListOp::Append(key, value));
        let list: Vec<u8> = list.into_iter().flat_map(u64::to_le_bytes).collect();
        transaction.write(table, bytes, &list).await?;
    }
    Ok(())
}

/// Some reads and appends, and pauses in between that leases do not always outlast.
pub(super) async fn execute(
    transaction: &mut Transaction<'_, SimEndpoint>,
    endpoint: &SimEndpoint,
    rng: &mut ChaCha8Rng,
    record: &Record,
    (at, own_keys, wrong): (usize, Option<u8>, Wrong),
) -> Result<(), TxnError> {
    let scans = wrong.scans;
    if wrong.late && rng.random_bool(0.3) {
        append_to_two(transaction, rng, record, at).await?;
    }
    for _ in 0..rng.random_range(1..=4) {
        if scans && rng.random_bool(0.4) {
            let (map, from) = (rng.random_range(0..NODES), rng.random_range(0..MAP_KEYS));
            let most = rng.random_range(1..=MAP_KEYS);
            scan(transaction, map, (from, most), record, at).await?;
            continue;
        }
        let appends = rng.random_bool(0.6);
        let key = match own_keys {
            Some(key) if appends => key,
            Some(_) => rng.random_range(0..COROUTINES),
            None => rng.random_range(0..KEYS),
        };
        let mut key: Key = (rng.random_range(0..NODES), key);
        if scans && rng.random_bool(0.8) {
            key = (key.0 + NODES, rng.random_range(0..MAP_KEYS));
        }
        let (table, bytes) = (TableId(key.0.into()), [key.1; 3]);
        // Appends of which nobody is told what they followed.
        if !appends || rng.random_bool(0.7) {
            let read = transaction.read(table, &bytes).await?;
            record.note(at, ListOp::Read(key, list(read)));
        }
        if appends {
            let mut list = transaction.read(table, &bytes).await?.unwrap_or_default();
            let value = record.value();
            list.extend_from_slice(&value.to_le_bytes());
            // Before it is written: it may be there whatever the write returns.
            record.note(at, ListOp::Append(key, value));
            transaction.write(table, &bytes, &list).await?;
        }
        if rng.random_bool(0.02) {
            endpoint.sleep(rng.random_range(0..3 * LEASE)).await;
        }
    }
    Ok(())
}

/// A scan, as a read of all keys of the range that it tells of.
pub(super) async fn scan(
    transaction: &mut Transaction<'_, SimEndpoint>,
    map: u16,
    (from, most): (u8, u8),
    record: &Record,
    at: usize,
) -> Result<(), TxnError> {
    let (table, bound) = (map + NODES, [from; 3]);
    let is_reversed = (from + most) % 2 == 1;
    let range = match is_reversed {
        false => KeyRange::from(&bound),
        true => KeyRange::default().to(&bound).reversed(),
    };
    let pairs = transaction
        .scan(TableId(table.into()), range, most.into())
        .await?;
    assert!(pairs.is_sorted_by(|(a, _), (b, _)| if is_reversed { a > b } else { a < b }));
    let last = pairs.last().map(|(key, _)| key[0]);
    let last = last.filter(|_| pairs.len() == usize::from(most));
    let keys = match is_reversed {
        false => from..last.map_or(MAP_KEYS, |last| last + 1),
        true => last.unwrap_or(0)..from,
    };
    let mut found: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    found.extend(pairs.into_iter().map(|(key, value)| (key[0], value)));
    for key in keys {
        let value = found.remove(&key);
        record.note(at, ListOp::Scanned((table, key), list(value)));
    }
    assert!(found.is_empty(), "keys from elsewhere: {found:?}");
    Ok(())
}

/// Has an owner run some reads and appends.
async fn run_at_owner(
    database: &Database<SimEndpoint>,
    rng: &mut ChaCha8Rng,
    record: &Record,
    (at, scans): (usize, bool),
) -> Result<(), TxnError> {
    let node = rng.random_range(0..NODES);
    let mut input = Vec::new();
    let mut steps: Vec<(Key, u64)> = Vec::new();
    for _ in 0..rng.random_range(1..=4) {
        let in_map = scans && rng.random_bool(0.7);
        let (key, object): (Key, _) = match in_map {
            true => ((node + NODES, rng.random_range(0..MAP_KEYS)), MAP),
            false => ((node, rng.random_range(0..KEYS)), OBJECT),
        };
        let value = match rng.random_bool(0.6) {
            true => record.value(),
            false => 0,
        };
        if value > 0 {
            // Before it is asked for: it may be there whatever comes of this.
            record.note(at, ListOp::Append(key, value));
        }
        input.extend_from_slice(&object.0.to_le_bytes());
        input.push(key.1);
        input.extend_from_slice(&value.to_le_bytes());
        steps.push((key, value));
    }
    let reply = database.execute(node as u8, APPEND, &input, 4096).await?;
    let mut ops = Vec::new();
    let mut rest = &reply[..];
    for (key, value) in steps {
        let (count, lists) = rest.split_first().expect("a count");
        let (list, after) = lists.split_at(usize::from(*count) * 8);
        rest = after;
        let list = list.as_chunks::<8>().0.iter();
        let list = list.map(|word| u64::from_le_bytes(*word)).collect();
        ops.push(ListOp::Read(key, list));
        if value > 0 {
            ops.push(ListOp::Append(key, value));
        }
    }
    assert!(rest.is_empty(), "a reply of more than was asked for");
    record.replace(at, ops);
    Ok(())
}

pub(super) async fn run_one(
    database: &Database<SimEndpoint>,
    endpoint: &SimEndpoint,
    rng: &mut ChaCha8Rng,
    record: &Record,
    tally: &RefCell<HistoryTally>,
    (own_keys, wrong): (Option<u8>, Wrong),
) {
    let at = record.begin(endpoint.now());
    if own_keys.is_none() && database.broken.is_none() && rng.random_bool(0.2) {
        let end = run_at_owner(database, rng, record, (at, wrong.scans)).await;
        tally.borrow_mut().procedures += u64::from(end.is_ok());
        return note_end(end, at, endpoint, record, tally);
    }
    let mut transaction = database.begin();
    let mut end = execute(
        &mut transaction,
        endpoint,
        rng,
        record,
        (at, own_keys, wrong),
    )
    .await;
    let gives_up = own_keys.is_none() && rng.random_bool(0.1);
    if gives_up || end.is_err() {
        transaction.abort().await;
    } else {
        end = transaction.commit().await;
    }
    if gives_up && end.is_ok() {
        return record.end(at, Commit::Aborted);
    }
    note_end(end, at, endpoint, record, tally);
}

fn note_end(
    end: Result<(), TxnError>,
    at: usize,
    endpoint: &SimEndpoint,
    record: &Record,
    tally: &RefCell<HistoryTally>,
) {
    let mut tally = tally.borrow_mut();
    match end {
        Ok(()) => {
            tally.committed += 1;
            record.end(
                at,
                Commit::Committed {
                    end: endpoint.now(),
                },
            );
        }
        Err(TxnError::InDoubt { .. }) => tally.unknown += 1,
        Err(error) => {
            tally.aborted += 1;
            tally.conflicts += u64::from(matches!(error, TxnError::Conflict { .. }));
            tally.leases_over += u64::from(matches!(error, TxnError::LeaseOver { .. }));
            record.end(at, Commit::Aborted);
        }
    }
}

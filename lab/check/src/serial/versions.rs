//! The order of each key's versions, as the reads show it.

use super::report::Anomaly;
use super::transaction::{Commit, ListOp, Transaction};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A read of a committed transaction: who read, how many of the key's versions it saw, and whether
/// by a scan.
pub(super) struct CommittedRead {
    pub(super) reader: usize,
    /// Versions before the reader's own appends.
    pub(super) versions: usize,
    pub(super) scanned: bool,
}

/// What is known of one key.
#[derive(Default)]
pub(super) struct KeyHistory {
    /// The appender of each version, in order, as far as any read shows it.
    pub(super) order: Vec<usize>,
    /// Committed appenders of versions that nobody read: they follow all others.
    pub(super) unread: Vec<usize>,
    pub(super) reads: Vec<CommittedRead>,
}

/// The versions of all keys.
pub(super) struct Versions<K> {
    pub(super) keys: BTreeMap<K, KeyHistory>,
    /// For each transaction, whether it counts as committed.
    pub(super) committed: Vec<bool>,
}

/// Who appended which value to a key, and whether it was that transaction's last append to the key.
struct Append {
    by: usize,
    last: bool,
}

/// All appends, by key and value.
type Appends<'h, K> = BTreeMap<(&'h K, u64), Append>;

impl<K: Ord + Clone + Debug> Versions<K> {
    pub(super) fn of(history: &[Transaction<K>]) -> Result<Self, Box<Anomaly<K>>> {
        let appends = appends(history)?;
        let mut longest: BTreeMap<&K, (usize, &[u64])> = BTreeMap::new();
        for (reader, transaction) in committed(history) {
            check_own_reads(reader, transaction)?;
            for (key, list) in foreign_reads(transaction) {
                let known = longest.entry(key).or_insert((reader, list));
                let (short, long) = if list.len() <= known.1.len() {
                    (list, known.1)
                } else {
                    (known.1, list)
                };
                if !long.starts_with(short) {
                    return Err(Box::new(Anomaly::IncompatibleOrder {
                        key: key.clone(),
                        readers: [known.0, reader],
                        lists: [known.1.to_vec(), list.to_vec()],
                    }));
                }
                if list.len() > known.1.len() {
                    *known = (reader, list);
                }
            }
        }
        let mut counts: Vec<bool> = history
            .iter()
            .map(|transaction| matches!(transaction.commit, Commit::Committed { .. }))
            .collect();
        let mut keys: BTreeMap<K, KeyHistory> = BTreeMap::new();
        for (key, (reader, list)) in &longest {
            let order = order_of(history, &appends, key, *reader, list)?;
            order.iter().for_each(|by| counts[*by] = true);
            keys.entry((*key).clone()).or_default().order = order;
        }
        for (reader, transaction) in committed(history) {
            for (key, list) in foreign_reads(transaction) {
                check_not_intermediate(&appends, reader, key, list)?;
                let scanned = transaction
                    .ops
                    .iter()
                    .all(|op| op.key() != key || !matches!(op, ListOp::Read(..)));
                let known = keys.entry(key.clone()).or_default();
                known.reads.push(CommittedRead {
                    reader,
                    versions: list.len(),
                    scanned,
                });
            }
        }
        for ((key, value), append) in &appends {
            let seen = longest
                .get(key)
                .is_some_and(|(_, list)| list.contains(value));
            if counts[append.by] && !seen {
                let known = keys.entry((*key).clone()).or_default();
                if !known.unread.contains(&append.by) {
                    known.unread.push(append.by);
                }
            }
        }
        Ok(Self {
            keys,
            committed: counts,
        })
    }
}

fn committed<K>(history: &[Transaction<K>]) -> impl Iterator<Item = (usize, &Transaction<K>)> {
    let all = history.iter().enumerate();
    all.filter(|(_, transaction)| matches!(transaction.commit, Commit::Committed { .. }))
}

fn appends<K: Ord + Clone + Debug>(
    history: &[Transaction<K>],
) -> Result<Appends<'_, K>, Box<Anomaly<K>>> {
    let mut appends = BTreeMap::new();
    for (by, transaction) in history.iter().enumerate() {
        let mut last_of: BTreeMap<&K, u64> = BTreeMap::new();
        for op in &transaction.ops {
            let ListOp::Append(key, value) = op else {
                continue;
            };
            if appends
                .insert((key, *value), Append { by, last: true })
                .is_some()
            {
                return Err(Box::new(Anomaly::DuplicateAppend {
                    key: key.clone(),
                    value: *value,
                }));
            }
            if let Some(before) = last_of.insert(key, *value)
                && let Some(append) = appends.get_mut(&(key, before))
            {
                append.last = false;
            }
        }
    }
    Ok(appends)
}

/// The first read of each key that a transaction did before it appended to it: what others had left
/// there.
fn foreign_reads<K: Ord>(transaction: &Transaction<K>) -> impl Iterator<Item = (&K, &[u64])> {
    let mut first: BTreeMap<&K, Option<&[u64]>> = BTreeMap::new();
    for op in &transaction.ops {
        match op {
            ListOp::Append(key, _) => {
                first.entry(key).or_insert(None);
            }
            ListOp::Read(key, list) | ListOp::Scanned(key, list) => {
                first.entry(key).or_insert(Some(list));
            }
        }
    }
    // A list that was first read after own appends shows what others had left as well: all but its
    // end.
    for op in &transaction.ops {
        if let ListOp::Read(key, list) | ListOp::Scanned(key, list) = op
            && first.get(key) == Some(&None)
        {
            let own = transaction
                .ops
                .iter()
                .take_while(|other| !std::ptr::eq(*other, op))
                .filter(|other| matches!(other, ListOp::Append(of, _) if of == key))
                .count();
            first.insert(key, list.get(..list.len().saturating_sub(own)));
        }
    }
    first
        .into_iter()
        .filter_map(|(key, list)| Some((key, list?)))
}

/// Within a transaction every read must show the last one's list, and then the transaction's own
/// appends since.
fn check_own_reads<K: Ord + Clone>(
    reader: usize,
    transaction: &Transaction<K>,
) -> Result<(), Box<Anomaly<K>>> {
    // Of each key: the list if it is known, and own appends since then.
    let mut expected: BTreeMap<&K, (Option<&[u64]>, Vec<u64>)> = BTreeMap::new();
    for op in &transaction.ops {
        let known = expected.entry(op.key()).or_default();
        match op {
            ListOp::Append(_, value) => known.1.push(*value),
            ListOp::Read(key, list) | ListOp::Scanned(key, list) => {
                let as_expected = match known.0 {
                    Some(before) => {
                        list.len() == before.len() + known.1.len()
                            && list.starts_with(before)
                            && list.ends_with(&known.1)
                    }
                    None => list.ends_with(&known.1),
                };
                if !as_expected {
                    return Err(Box::new(Anomaly::InternalRead {
                        key: (*key).clone(),
                        reader,
                        list: list.clone(),
                    }));
                }
                *known = (Some(list), Vec::new());
            }
        }
    }
    Ok(())
}

/// The appenders of a list's values.
fn order_of<K: Ord + Clone + Debug>(
    history: &[Transaction<K>],
    appends: &Appends<'_, K>,
    key: &K,
    reader: usize,
    list: &[u64],
) -> Result<Vec<usize>, Box<Anomaly<K>>> {
    let mut order = Vec::with_capacity(list.len());
    for (at, value) in list.iter().enumerate() {
        if list[..at].contains(value) {
            return Err(Box::new(Anomaly::DuplicateAppend {
                key: key.clone(),
                value: *value,
            }));
        }
        let Some(append) = appends.get(&(key, *value)) else {
            return Err(Box::new(Anomaly::UnknownValue {
                key: key.clone(),
                value: *value,
                reader,
            }));
        };
        if history[append.by].commit == Commit::Aborted {
            return Err(Box::new(Anomaly::AbortedRead {
                key: key.clone(),
                value: *value,
                reader,
                writer: append.by,
            }));
        }
        order.push(append.by);
    }
    Ok(order)
}

/// A read must not end in the middle of another transaction's appends.
fn check_not_intermediate<K: Ord + Clone + Debug>(
    appends: &Appends<'_, K>,
    reader: usize,
    key: &K,
    list: &[u64],
) -> Result<(), Box<Anomaly<K>>> {
    let Some(value) = list.last() else {
        return Ok(());
    };
    match appends.get(&(key, *value)) {
        Some(append) if !append.last && append.by != reader => {
            Err(Box::new(Anomaly::IntermediateRead {
                key: key.clone(),
                value: *value,
                reader,
                writer: append.by,
            }))
        }
        _ => Ok(()),
    }
}

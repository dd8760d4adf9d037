//! The graph of dependencies between transactions.

use super::report::{Anomaly, CycleEdge, CycleKind, Dependency};
use super::transaction::{Commit, Transaction};
use super::versions::{KeyHistory, Versions};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// For each transaction those that must follow it, with the reason.
pub(super) struct Edges<K> {
    pub(super) out: Vec<BTreeMap<usize, Dependency<K>>>,
}

impl<K: Ord + Clone + Debug> Edges<K> {
    pub(super) fn of(history: &[Transaction<K>], versions: &Versions<K>) -> Self {
        let mut edges = Self {
            out: history.iter().map(|_| BTreeMap::new()).collect(),
        };
        for (key, known) in &versions.keys {
            edges.add_key(key, known);
        }
        edges
    }

    /// The first reason for an edge stays.
    fn add(&mut self, from: usize, to: usize, why: Dependency<K>) {
        if from != to {
            self.out[from].entry(to).or_insert(why);
        }
    }

    fn add_key(&mut self, key: &K, known: &KeyHistory) {
        for pair in known.order.windows(2) {
            self.add(pair[0], pair[1], Dependency::WriteWrite(key.clone()));
        }
        if let Some(last) = known.order.last() {
            for unread in &known.unread {
                self.add(*last, *unread, Dependency::WriteWrite(key.clone()));
            }
        }
        for seen in &known.reads {
            if let Some(before) = seen.versions.checked_sub(1) {
                let writer = known.order[before];
                self.add(writer, seen.reader, Dependency::WriteRead(key.clone()));
            }
            let why = || match seen.scanned {
                true => Dependency::ScanWrite(key.clone()),
                false => Dependency::ReadWrite(key.clone()),
            };
            // The next version by another than the reader itself.
            let later = known.order[seen.versions..].iter();
            match later.copied().find(|writer| *writer != seen.reader) {
                Some(next) => self.add(seen.reader, next, why()),
                None => known
                    .unread
                    .iter()
                    .for_each(|unread| self.add(seen.reader, *unread, why())),
            }
        }
    }

    /// Edges from each transaction to those that began after it ended. Only those that no chain of
    /// others implies: the frontier holds the ended transactions that none of the other ended ones
    /// follows.
    pub(super) fn add_real_time(&mut self, history: &[Transaction<K>], committed: &[bool]) {
        let mut begins: Vec<usize> = (0..history.len()).filter(|at| committed[*at]).collect();
        let mut ends: Vec<(u64, usize)> = begins
            .iter()
            .filter_map(|at| match history[*at].commit {
                Commit::Committed { end } => Some((end, *at)),
                _ => None,
            })
            .collect();
        begins.sort_by_key(|at| history[*at].start);
        ends.sort_unstable();
        let mut ended = ends.into_iter().peekable();
        let mut frontier: Vec<(u64, usize)> = Vec::new();
        for at in begins {
            let start = history[at].start;
            while let Some((end, done)) = ended.next_if(|(end, _)| *end < start) {
                frontier.retain(|(earlier, _)| *earlier >= history[done].start);
                frontier.push((end, done));
            }
            for (_, done) in &frontier {
                self.add(*done, at, Dependency::RealTime);
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.out.iter().map(BTreeMap::len).sum()
    }

    /// The anomaly that a cycle of transactions is.
    pub(super) fn anomaly(&self, history: &[Transaction<K>], cycle: &[usize]) -> Anomaly<K> {
        let next = cycle.iter().cycle().skip(1);
        let edges: Vec<CycleEdge<K>> = cycle
            .iter()
            .zip(next)
            .map(|(from, to)| CycleEdge {
                from: *from,
                to: *to,
                why: self.out[*from][to].clone(),
            })
            .collect();
        let kind = CycleKind::of(history, &edges);
        Anomaly::Cycle { kind, edges }
    }
}

//! What insertions cost by occupancy, counted and not timed.

use crate::several::{ComponentSpare, SeveralCuckoo};
use crate::{InsertionCounters, LocalTable};
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};

/// What is done about a record that a table has no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It is dropped, and the next one tried: how paper 004 reaches occupancies of 0.9 with two
    /// hash functions and one slot a bucket. Such a table has lost records.
    Drop,
    /// Nothing more is inserted: what a table that must not lose records can do.
    Stop,
}

/// A table between two occupancies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Records in slots divided by the slots, at its end.
    pub occupancy: f64,
    /// What all insertions up to its end have cost.
    pub so_far: InsertionCounters,
    /// What those of the step alone have cost.
    pub in_step: InsertionCounters,
}

impl Step {
    /// The share of all insertions so far that found no slot: the loop ratio of paper 004, figure
    /// 1.
    #[must_use]
    pub fn failed_so_far(&self) -> f64 {
        self.so_far.failures as f64 / (self.so_far.offered() as f64).max(1.0)
    }

    /// What a counter has come to for each insertion of the step.
    #[must_use]
    pub fn per_insertion(&self, of: impl Fn(&InsertionCounters) -> u64) -> f64 {
        of(&self.in_step) as f64 / (self.in_step.offered() as f64).max(1.0)
    }
}

/// Inserts keys until the table is as full as each of `occupancies`, in ascending order, and
/// returns what that has cost. It ends early, with fewer steps, when there are no more keys, or
/// when a record is refused and `when_full` says so; the last step then is what was reached.
pub fn fill<K, V: Default>(
    table: &mut impl LocalTable<K, V>,
    keys: impl IntoIterator<Item = K>,
    occupancies: &[f64],
    when_full: WhenFull,
) -> Vec<Step> {
    let mut keys = keys.into_iter();
    let mut steps = Vec::with_capacity(occupancies.len());
    let mut before = table.counters();
    for &wanted in occupancies {
        let mut is_at_end = false;
        while occupancy(table) < wanted {
            let Some(key) = keys.next() else {
                is_at_end = true;
                break;
            };
            if table.insert(key, V::default()).is_err() && when_full == WhenFull::Stop {
                is_at_end = true;
                break;
            }
        }
        let so_far = table.counters();
        steps.push(Step {
            occupancy: occupancy(table),
            so_far,
            in_step: so_far - before,
        });
        before = so_far;
        if is_at_end {
            break;
        }
    }
    steps
}

/// Removes the oldest key of a filled table and inserts new ones until one finds a place, again and
/// again: `rounds` times. `held` are the keys from the oldest to the newest. Returns what the
/// insertions have cost; `None` if there were no more keys.
pub fn replace<K: Clone, V: Default>(
    table: &mut impl LocalTable<K, V>,
    mut held: VecDeque<K>,
    new: impl IntoIterator<Item = K>,
    rounds: usize,
) -> Option<Step> {
    let mut new = new.into_iter();
    let before = table.counters();
    for _ in 0..rounds {
        if let Some(oldest) = held.pop_front() {
            table.remove(&oldest);
        }
        loop {
            let key = new.next()?;
            if matches!(table.insert(key.clone(), V::default()), Ok(None)) {
                held.push_back(key);
                break;
            }
        }
    }
    let so_far = table.counters();
    Some(Step {
        occupancy: occupancy(table),
        so_far,
        in_step: so_far - before,
    })
}

/// Records in slots divided by the slots.
pub fn occupancy<K, V>(table: &impl LocalTable<K, V>) -> f64 {
    (table.len() - table.stashed()) as f64 / (table.slots() as f64).max(1.0)
}

/// The occupancy of two tables of one-slot buckets after `offered` random keys for each slot, if
/// those without a place are dropped, and the share of them that were: random-graph theory, for
/// large tables. A subgraph keeps as many edges as it has vertices; the giant one's share S of the
/// vertices solves S = 1 - exp(-2 c S), where c = `offered`, and all others are trees but for a
/// vanishing part.
#[must_use]
pub fn one_slot_theory(offered: f64) -> (f64, f64) {
    let mean_degree = 2.0 * offered;
    let mut giant: f64 = if mean_degree > 1.0 { 1.0 } else { 0.0 };
    // Converges slowly only where the giant subgraph is about to appear, and small.
    for _ in 0..10_000 {
        let next = 1.0 - (-mean_degree * giant).exp();
        if (next - giant).abs() < 1e-15 {
            break;
        }
        giant = next;
    }
    // Trees: all edges outside of the giant subgraph. Of its own it keeps one a vertex.
    let outside = offered * (1.0 - giant) * (1.0 - giant);
    let occupancy = giant + outside;
    (occupancy, 1.0 - occupancy / offered)
}

/// The share of insertions that failed on the way to an occupancy, by [`one_slot_theory`].
///
/// An occupancy outside of 0 to 1 is taken for the nearest one inside.
#[must_use]
pub fn failed_at_occupancy(occupancy: f64) -> f64 {
    let (mut less, mut more) = (0.0, 32.0);
    for _ in 0..64 {
        let offered = (less + more) / 2.0;
        match one_slot_theory(offered).0 < occupancy {
            true => less = offered,
            false => more = offered,
        }
    }
    one_slot_theory(more).1
}

/// How well the vacant slots of connected components tell failures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpareBound {
    /// Records divided by slots, at the end.
    pub occupancy: f64,
    /// Insertions that failed since the step before.
    pub failures: u64,
    /// Of these, those that the bound had declared possible.
    pub falsely_possible: u64,
}

/// Offers keys to a table that knows its failures exactly, drops those that fail, and counts how
/// many of them [`ComponentSpare`] takes for possible. The reverse cannot be.
pub fn spare_bound_error<K: Eq + Hash + Clone, S: BuildHasher>(
    table: &mut SeveralCuckoo<K, (), S>,
    keys: impl IntoIterator<Item = K>,
    occupancies: &[f64],
) -> Vec<SpareBound> {
    let slots = LocalTable::slots(table) as u32 / table.buckets();
    let mut spare = ComponentSpare::new(table.buckets(), slots);
    let mut keys = keys.into_iter();
    let mut steps = Vec::new();
    for &wanted in occupancies {
        let (mut failures, mut falsely_possible) = (0, 0);
        while occupancy(table) < wanted {
            let Some(key) = keys.next() else {
                return steps;
            };
            let candidates = table.candidates_of(&key);
            let is_possible = spare.admits(&candidates);
            match table.insert(key, ()) {
                Ok(None) => spare.connect(&candidates),
                Ok(Some(())) => {}
                Err(_) => {
                    failures += 1;
                    falsely_possible += u64::from(is_possible);
                }
            }
        }
        steps.push(SpareBound {
            occupancy: occupancy(table),
            failures,
            falsely_possible,
        });
    }
    steps
}

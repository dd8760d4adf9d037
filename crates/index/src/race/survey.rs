//! A look at every slot: exact counts, and what splits and dead clients have left.

use super::buckets::SlotSpan;
use super::client::RaceTable;
use super::word::{State, Word};
use crate::client::Parts;
use crate::{Result, SCAN};
use farslot_fabric::{Endpoint, EndpointExt};

/// Slots that one READ fetches.
const SLOTS_READ: u64 = 32 << 10;

/// What was seen, slot by slot. Others may have written meanwhile: it is no snapshot.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Survey {
    /// All slots of all subtables.
    pub slots: u64,
    /// Slots with a record.
    pub live: u64,
    /// Slots of insertions that are not decided. Those of clients that have died stay until
    /// somebody needs the slot, or puts that key.
    pub begun: u64,
    /// Slots whose record is on its way to another subtable, and not there yet.
    pub moving: u64,
    /// Slots that the split of their subtable has not come to; those with a record are among `live`
    /// or `moving` too. Where nobody is splitting, they wait for the first writer who needs them.
    pub behind: u64,
    /// Subtables by how often their line has split: entry `i` counts those that have `i` times.
    pub depths: Vec<u64>,
    /// Slots that are not empty, per slot, in each of 64 equal parts of the table, subtable by
    /// subtable.
    pub parts: Vec<f64>,
}

impl Survey {
    /// Records per slot, 0 to 1.
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        self.live as f64 / self.slots.max(1) as f64
    }

    /// Subtables.
    #[must_use]
    pub fn subtables(&self) -> u64 {
        self.depths.iter().sum()
    }
}

impl<E: Endpoint> RaceTable<E> {
    /// Reads the directory and the whole table, and counts.
    ///
    /// # Errors
    /// What the fabric says, or [`BadDirectory`](crate::IndexError::BadDirectory).
    pub async fn survey(&self) -> Result<Survey> {
        self.endpoint.operation(SCAN, self.look_at_all()).await
    }

    async fn look_at_all(&self) -> Result<Survey> {
        self.read_directory().await?;
        let mut survey = Survey::default();
        let subtables = self.subtables();
        let all = self.layout.subtable_slots();
        let mut parts = Parts::new(subtables * all);
        for subtable in 0..subtables {
            let leaf = self.directory.borrow().leaf(subtable);
            let depth = leaf.depth as usize;
            survey.depths.resize(survey.depths.len().max(depth + 1), 0);
            survey.depths[depth] += 1;
            for first in (0..all).step_by(SLOTS_READ as usize) {
                let slots = SLOTS_READ.min(all - first);
                let view = self
                    .read_spans(leaf, (SlotSpan { first, slots }, None))
                    .await?;
                survey.slots += slots;
                for (slot, word) in view.words() {
                    match word.state() {
                        State::Empty => {}
                        State::Begun => survey.begun += 1,
                        State::Live => survey.live += 1,
                        State::Moving => {
                            let arrived = self.has_arrived(subtable, slot, word).await?;
                            survey.moving += u64::from(!arrived);
                        }
                    }
                    let in_use = u64::from(word.state() != State::Empty);
                    parts.count(subtable * all + slot, in_use, 1);
                    survey.behind += u64::from(word.depth() < leaf.depth);
                }
            }
        }
        survey.parts = parts.load_factors();
        Ok(survey)
    }

    /// Whether a record that is moving is in the other subtable already, by a client that stopped
    /// there.
    async fn has_arrived(&self, subtable: u64, slot: u64, moving: Word) -> Result<bool> {
        let split = self.directory.borrow().last_split(subtable);
        match split.filter(|split| split.parent == subtable && split.depth == moving.depth()) {
            Some(split) => Ok(self.read_word(split.child, slot).await? != Word(0)),
            None => Ok(false),
        }
    }
}

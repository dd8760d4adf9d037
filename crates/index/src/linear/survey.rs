//! A look at every slot: exact counts, and how the keys lie.

use super::client::LinearTable;
use crate::slot::{SlotHead, SlotKind, WordFormat};
use crate::{Result, SCAN};
use farslot_fabric::{Endpoint, EndpointExt};

/// Parts of the table whose occupancy is told apart.
pub const PARTS: usize = 64;
/// Bytes of slots that one READ fetches.
const PIECE: usize = 256 << 10;

/// What was seen, slot by slot. Others may have written meanwhile: it is no snapshot.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Survey {
    /// All slots.
    pub slots: u64,
    /// Slots that hold a record.
    pub live: u64,
    /// Slots of keys that were removed, or never got a value.
    pub dead: u64,
    /// Slots in use, live or dead, per slot, in each of 64 equal parts of the table.
    pub parts: Vec<f64>,
    /// Clusters (runs of slots in use between empty ones) by length: entry i counts those of
    /// 2^i to 2^(i+1) - 1 slots. A cluster over the table's end counts as two.
    pub clusters: Vec<u64>,
    /// The longest cluster, in slots.
    pub longest_cluster: u64,
    /// Slots of the cluster that is being looked at.
    pub(crate) under_way: u64,
}

impl Survey {
    /// Slots in use per slot, 0 to 1.
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        (self.live + self.dead) as f64 / self.slots.max(1) as f64
    }

    /// How many clusters there are.
    #[must_use]
    pub fn cluster_count(&self) -> u64 {
        self.clusters.iter().sum()
    }

    /// Nothing seen yet, of a table of so many slots.
    #[must_use]
    pub fn of_slots(slots: u64) -> Self {
        Self {
            slots,
            parts: vec![0.0; PARTS.min(slots as usize)],
            ..Self::default()
        }
    }

    /// Notes a slot that is in use: with a live record, or not. Those in use are noted in their
    /// order; each other one [ends a cluster](Survey::end_cluster).
    pub fn note(&mut self, slot: u64, is_live: bool) {
        self.under_way += 1;
        let part_slots = self.slots as f64 / self.parts.len().max(1) as f64;
        let part = ((slot as f64 / part_slots) as usize).min(self.parts.len().saturating_sub(1));
        if let Some(part) = self.parts.get_mut(part) {
            *part += 1.0 / part_slots;
        }
        match is_live {
            true => self.live += 1,
            false => self.dead += 1,
        }
    }

    /// Notes an empty slot, or the table's end.
    pub fn end_cluster(&mut self) {
        let length = std::mem::take(&mut self.under_way);
        if length == 0 {
            return;
        }
        let class = length.ilog2() as usize;
        if self.clusters.len() <= class {
            self.clusters.resize(class + 1, 0);
        }
        self.clusters[class] += 1;
        self.longest_cluster = self.longest_cluster.max(length);
    }
}

impl<E: Endpoint> LinearTable<E> {
    /// Reads the whole table and counts.
    ///
    /// # Errors
    /// What the fabric says.
    pub async fn survey(&self) -> Result<Survey> {
        self.endpoint.operation(SCAN, self.look_at_all()).await
    }

    async fn look_at_all(&self) -> Result<Survey> {
        let slots = self.layout.slots;
        let slot_bytes = self.layout.slot_bytes();
        let piece = (PIECE / slot_bytes).max(1) as u64;
        let mut survey = Survey::of_slots(slots);
        for first in (0..slots).step_by(piece as usize) {
            let count = piece.min(slots - first);
            let at = self.layout.slot_at(self.table, first);
            let read = self.endpoint.read(at, count as usize * slot_bytes).await?;
            for (slot, words) in (first..).zip(read.words().chunks_exact(slot_bytes / 8)) {
                match words[0] {
                    0 => survey.end_cluster(),
                    _ => survey.note(slot, self.is_live(words)),
                }
            }
        }
        survey.end_cluster();
        Ok(survey)
    }

    fn is_live(&self, slot: &[u64]) -> bool {
        match self.layout.kind {
            SlotKind::Word => WordFormat::is_live(slot[0]),
            SlotKind::Pair => slot[1] != 0,
            SlotKind::Inline | SlotKind::Heap | SlotKind::Hybrid | SlotKind::Signatures => {
                SlotHead::decode(slot[0]).is_live()
            }
        }
    }
}

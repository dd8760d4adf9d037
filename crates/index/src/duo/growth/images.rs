//! What is written of buckets that are split: as few bytes as is worth while.
//!
//! Of a new bucket its own keys' slots, for the rest of it are zeros as they were taken, unless a
//! split that did not come about may have left something there; then all of it. Of the bucket
//! itself what makes those slots dead whose keys have gone. Slots that lie near each other are
//! written at once.
//!
//! Invariant: when the bits say that a bucket is split, each slot of the new buckets has a key of
//! its bucket's own or is dead; and when the batch is done, so has the bucket itself.

use super::publish::Keys;
use crate::Result;
use crate::duo::bytes::BucketRun;
use crate::duo::changes::Change;
use crate::duo::state::DuoTable;
use farslot_fabric::{Buffer, Endpoint, RemoteAddr};
use std::ops::Range;

/// Bytes between two slots that are written along with both, at most: so many cost as much as a
/// message more. A NIC is occupied by a WRITE for 15 ns and 0.07 ns a byte
/// (`NicProfile::connectx5_edr`), and a client posts it in some 20 ns.
const WORTH_A_MESSAGE: usize = 256;
/// Bytes of a slot, from its head on, without which it is dead: the head, and the word that
/// publishes the record.
const VITAL: usize = 16;

/// A live slot of a run's buckets.
pub(super) struct SurvivingSlot {
    /// Its first byte, from the run's start.
    at: usize,
    /// How many buckets behind its own its key goes on, numbered through both arrays: 0 if it
    /// stays.
    behind: u64,
}

/// Ranges of bytes, ascending.
#[derive(Default)]
struct ByteRanges(Vec<Range<usize>>);

impl ByteRanges {
    /// Adds one behind all others, and what is between it and the last, if that is not worth a
    /// message.
    fn add(&mut self, span: Range<usize>) {
        match self.0.last_mut() {
            Some(last) if span.start - last.end <= WORTH_A_MESSAGE => last.end = span.end,
            _ => self.0.push(span),
        }
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// Where the keys of a run's buckets go, in the order of their slots.
    pub(super) fn goings_of(&self, run: BucketRun, keys: &[Keys]) -> Vec<SurvivingSlot> {
        let (slots, index) = (u64::from(self.layout.bucket_slots), self.index.borrow());
        // Buckets of one array lie side by side: their numbers are two apart.
        let first = run.first * slots;
        let of_bucket = keys.iter().flatten().map(|(slot, hash)| {
            let after = index.slot_after_split(*slot, *hash);
            let (bucket, place) = (slot.0 / slots, slot.0 % slots);
            SurvivingSlot {
                at: (bucket / 2 * slots + place - first) as usize * self.layout.slot_bytes(),
                behind: after.0 / slots - bucket,
            }
        });
        of_bucket.collect()
    }

    /// Writes the buckets that a run's keys go on to, if they are others, each with what is its
    /// own.
    pub(super) fn new_buckets(
        &self,
        run: BucketRun,
        bytes: &Buffer,
        goings: &[SurvivingSlot],
    ) -> Result<Vec<Change>> {
        let first = 2 * run.first + run.array;
        let siblings: Vec<u64> = self.index.borrow().siblings(first).skip(1).collect();
        let slot_bytes = self.layout.slot_bytes();
        let mut steps = Vec::new();
        for sibling in siblings {
            let (mut spans, mut dead) = (ByteRanges::default(), Vec::new());
            for going in goings {
                let slot = going.at..going.at + slot_bytes;
                if going.behind == sibling - first {
                    spans.add(slot);
                } else {
                    // All of it: in a dead slot both of its first words are 0.
                    dead.push(slot);
                }
            }
            if self.vault.is_touched() {
                spans = ByteRanges::default();
                spans.add(0..bytes.len());
            }
            let at = self.vault.bucket_at(&self.layout, sibling);
            self.write_spans(at, bytes, spans, &dead, &mut steps)?;
        }
        Ok(steps)
    }

    /// Makes the slots of a run's buckets dead whose keys go on to others.
    pub(super) fn old_buckets(
        &self,
        run: BucketRun,
        bytes: &Buffer,
        goings: &[SurvivingSlot],
    ) -> Result<Vec<Change>> {
        let gone = goings.iter().filter(|going| going.behind != 0);
        let dead: Vec<Range<usize>> = gone.map(|going| going.at..going.at + VITAL).collect();
        let mut spans = ByteRanges::default();
        dead.iter().for_each(|vital| spans.add(vital.clone()));
        let first = 2 * run.first + run.array;
        let at = self.vault.bucket_at(&self.layout, first);
        let mut steps = Vec::new();
        self.write_spans(at, bytes, spans, &dead, &mut steps)?;
        Ok(steps)
    }

    /// Writes some of the bytes that were read to buckets that lie side by side from `at` on, with
    /// zeros where they are dead.
    fn write_spans(
        &self,
        at: RemoteAddr,
        bytes: &Buffer,
        spans: ByteRanges,
        dead: &[Range<usize>],
        steps: &mut Vec<Change>,
    ) -> Result<()> {
        for span in spans.0 {
            let mut image = self.endpoint.core().buffers.copy_of(&bytes[span.clone()])?;
            let from = dead.partition_point(|slot| slot.start < span.start);
            let within = dead[from..].iter().take_while(|slot| slot.end <= span.end);
            for slot in within {
                image[slot.start - span.start..slot.end - span.start].fill(0);
            }
            steps.push(Change::Write(at.plus(span.start as u64), image));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_written_at_once_and_what_is_far_by_itself() {
        let mut spans = ByteRanges::default();
        for span in [0..16, 16..32, 200..216, 472..488, 745..761] {
            spans.add(span);
        }
        assert_eq!(spans.0, [0..488, 745..761]);
    }
}

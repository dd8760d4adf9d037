//! How an empty slot becomes a key's, in steps.
//!
//! A slot takes one swap from empty to its first record where one word says all of that: in Word
//! and Heap slots, and in Hybrid ones whose record goes out of band. In the others a first swap
//! *claims* it, and a second one *publishes* what it holds: the value's word of a Pair slot, or the
//! bytes of an Inline or a Hybrid one, which the claimant alone writes, in the batch of that swap.
//! Whoever meets a claim for his own key replaces it, and waits for nobody.

use super::client::LinearTable;
use super::write::{LinearSwapAim, LinearWriteSlowPath, LinearWriteState, Write, Writes};
use crate::slot::{SlotHead, SlotKind, in_slot};
use crate::step::{NextStep, Reads};
use crate::{IndexError, Result};
use farslot_fabric::Endpoint;

/// How often a slot that a client has claimed is read before it is taken for one that a dead client
/// has left.
const CLAIM_READS: u32 = 8;

impl<E: Endpoint> Writes<'_, E> {
    /// Takes the empty slot for the key: with the record, where one word says all of that.
    #[inline(always)]
    pub(super) fn claim(
        &self,
        write: &Write<'_>,
        of: &mut LinearWriteState,
    ) -> NextStep<LinearWriteSlowPath> {
        let layout = &self.table.layout;
        (of.aim, of.number, of.expected) = (LinearSwapAim::Claim, 0, 0);
        of.new = match layout.kind {
            SlotKind::Word => write.word,
            SlotKind::Pair => write.key.word,
            _ if write.goes_out(self.table) => return self.name_record(write, of),
            _ => SlotHead::claimed(write.key.hash),
        };
        NextStep::Change(Reads::NONE)
    }

    /// The slot is the key's: publishes what it is to hold, unless it was claimed with that.
    #[inline(always)]
    pub(super) fn claimed(
        &self,
        write: &Write<'_>,
        of: &mut LinearWriteState,
    ) -> NextStep<LinearWriteSlowPath> {
        let (table, key) = (self.table, &write.key);
        match table.layout.kind {
            SlotKind::Pair => (of.number, of.expected, of.new) = (1, 0, write.word),
            SlotKind::Word => return self.is_done(write, of),
            _ if of.new != SlotHead::claimed(key.hash) => return self.is_done(write, of),
            kind => {
                of.expected = of.new;
                let (seed, record) = (table.layout.mask_seed, in_slot(write.operation.record()));
                of.new = match kind {
                    SlotKind::Hybrid => SlotHead::sized(key.hash, &record, key.bytes.len(), seed),
                    _ => SlotHead::inline(key.hash, &record, seed),
                };
            }
        }
        of.aim = LinearSwapAim::Publish;
        NextStep::Change(Reads::NONE)
    }

    /// Makes the key leave its own slot, which has no record, when the heap has no room for one: a
    /// slot's bytes are written once, and a record that fits into a slot can go into another. The
    /// slot is nobody's from then on.
    ///
    /// # Errors
    /// `full` where that is not so.
    #[cold]
    pub(super) fn retire(
        &self,
        write: &Write<'_>,
        of: &mut LinearWriteState,
        full: IndexError,
    ) -> Result<NextStep<LinearWriteSlowPath>> {
        let (table, head) = (self.table, of.expected);
        let is_without = of.aim == LinearSwapAim::Own && !SlotHead::decode(head).is_live();
        if !is_without || write.goes_out(table) {
            return Err(full);
        }
        let is_claimed = matches!(SlotHead::decode(head), SlotHead::Claimed { .. });
        if is_claimed && of.search.rereads < CLAIM_READS {
            // Its client may be about to put the value there; if it is dead, the slot stays so.
            let next = table.read_again(&write.key, &mut of.search, head);
            return Ok(next.map_slow_path(LinearWriteSlowPath::OfWalk));
        }
        (of.aim, of.new) = (LinearSwapAim::Retire, SlotHead::retired());
        Ok(NextStep::Change(Reads::NONE))
    }
}

impl<E: Endpoint> LinearTable<E> {
    pub(super) fn full(&self) -> IndexError {
        IndexError::Full {
            probed: self.layout.longest_probe,
            slots: self.layout.slots,
        }
    }
}

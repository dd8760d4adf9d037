//! Putting a record under a key, and finding or putting (paper 002, figure 1), where slots have
//! heads. Those of words are written in steps (`words.rs`), by the same rule.
//!
//! Invariant: a key is only ever put into the first empty slot of its probe, by a compare-and-swap
//! from empty. Whoever inserts the same key tries for the same slot, and who comes second sees
//! whose it is. A lost compare-and-swap costs no READ: what it found is looked at in place of what
//! was read.

use super::client::{Key, LinearTable};
use super::cluster_hints::Until;
use super::probe::{MOST_RACES, Probe};
use super::walk::Spot;
use crate::heap::{BlockRef, Epoch, Heap, Held, NamedBlocks, encode};
use crate::slot::{Head, KeyRule, SlotKind};
use crate::{IndexError, Result, Value};
use farslot_fabric::{Endpoint, EndpointExt, both, in_order};

/// How often a slot that a client has claimed is read before it is taken for one that a dead client
/// has left.
const CLAIM_READS: u32 = 8;

/// A value on its way into a slot.
pub(super) struct Draft<'v> {
    pub(super) value: &'v [u8],
    /// Whether the record goes out of band even if no slot is the key's yet.
    out: bool,
    /// The record out of band, from when it is written until a slot names it.
    pub(super) block: Option<Held>,
}

impl<E: Endpoint> LinearTable<E> {
    pub(super) async fn put_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let key = self.checked_key(key)?;
        loop {
            let mut draft = self.draft(&key, value)?;
            let outcome = self.put_draft(&key, &mut draft).await;
            let outcome = self.settle(draft, outcome).await;
            if !self.has_room_again(&outcome).await {
                return outcome;
            }
        }
    }

    async fn put_draft(&self, key: &Key<'_>, draft: &mut Draft<'_>) -> Result<bool> {
        if self.replace_at_location(key, draft).await? {
            return Ok(false);
        }
        let mut probe = Probe::new(key, self.until_all());
        // Where the record goes out of band whether the key is there or not, it is written while
        // the slot is looked for.
        let mut spot = if draft.out {
            let (written, spot) =
                both(self.write_out(key, draft), self.locate(key, &mut probe)).await;
            written?;
            spot?
        } else {
            self.locate(key, &mut probe).await?
        };
        loop {
            match spot {
                Spot::End => return Err(self.full()),
                Spot::Empty => {
                    if self.claim(key, &mut probe, draft).await? {
                        return Ok(true);
                    }
                }
                Spot::Mine { value: Some(_), .. } if self.layout.keys == KeyRule::Multi => {
                    probe.skip();
                }
                Spot::Mine { word, value } => {
                    let replaced = match self.replace(key, &mut probe, word, draft).await {
                        Err(full @ IndexError::HeapFull { .. }) if value.is_none() => {
                            self.retire(key, &mut probe, word, draft, full).await?
                        }
                        replaced => replaced?,
                    };
                    if replaced {
                        if value.is_none() {
                            self.entries_changed(1).await;
                        }
                        return Ok(value.is_none());
                    }
                }
            }
            spot = self.locate(key, &mut probe).await?;
        }
    }

    pub(super) async fn find_or_put_record(
        &self,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Value>> {
        let key = self.checked_key(key)?;
        loop {
            let mut draft = self.draft(&key, value)?;
            let outcome = self.find_or_put_draft(&key, &mut draft).await;
            let outcome = self.settle(draft, outcome).await;
            if !self.has_room_again(&outcome).await {
                return outcome;
            }
        }
    }

    async fn find_or_put_draft(
        &self,
        key: &Key<'_>,
        draft: &mut Draft<'_>,
    ) -> Result<Option<Value>> {
        if let Some(value) = self.find_at_location(key).await? {
            return Ok(Some(value));
        }
        let mut probe = Probe::new(key, Until::Match);
        loop {
            let done = match self.locate(key, &mut probe).await? {
                Spot::End => return Err(self.full()),
                Spot::Empty => self.claim(key, &mut probe, draft).await?,
                Spot::Mine {
                    value: Some(value), ..
                } => return Ok(Some(value)),
                Spot::Mine { word, value: None } => {
                    if self.layout.keys == KeyRule::Multi
                        && let Some(value) = self.find_behind_dead(key).await?
                    {
                        return Ok(Some(value));
                    }
                    let revived = match self.replace(key, &mut probe, word, draft).await {
                        Err(full @ IndexError::HeapFull { .. }) => {
                            self.retire(key, &mut probe, word, draft, full).await?
                        }
                        revived => revived?,
                    };
                    if revived {
                        self.entries_changed(1).await;
                    }
                    revived
                }
            };
            if done {
                return Ok(None);
            }
        }
    }

    /// Checks a value and makes ready what can be made ready without a verb.
    pub(super) fn draft<'v>(&self, key: &Key<'_>, value: &'v [u8]) -> Result<Draft<'v>> {
        self.check_value(value)?;
        Ok(Draft {
            value,
            out: self.layout.goes_out(key.bytes.len() + value.len()),
            block: None,
        })
    }

    /// Takes the empty slot for the key and publishes the draft in it; false if another was faster
    /// at either, which the local copy then shows.
    async fn claim<'t>(
        &'t self,
        key: &Key<'_>,
        probe: &mut Probe<'t, E>,
        draft: &mut Draft<'_>,
    ) -> Result<bool> {
        let claim = match draft.out {
            true => Head::out(key.hash, self.write_out(key, draft).await?),
            false => Head::claimed(key.hash),
        };
        if !self.swap(probe, 0, claim).await? {
            return Ok(false);
        }
        self.slot_used();
        self.probe_met_in_use(probe);
        let published = if draft.out {
            self.remember(key, probe.distance, claim);
            draft.block = None;
            true
        } else {
            self.publish_inline(key, probe, claim, draft).await?
        };
        if published {
            self.entries_changed(1).await;
        }
        Ok(published)
    }

    /// Writes key and value into a slot that this client alone has claimed, and publishes them.
    /// Both leave in one batch: a reader whose checksum fails reads again. The compare-and-swap
    /// takes no effect unless the WRITE before it has, or the slot would stay unreadable.
    async fn publish_inline<'t>(
        &'t self,
        key: &Key<'_>,
        probe: &mut Probe<'t, E>,
        claim: u64,
        draft: &Draft<'_>,
    ) -> Result<bool> {
        let key_len = key.bytes.len();
        let mut record = self
            .endpoint
            .core()
            .buffers
            .take(key_len + draft.value.len())?;
        record[..key_len].copy_from_slice(key.bytes);
        record[key_len..].copy_from_slice(draft.value);
        let seed = self.layout.mask_seed;
        let head = match self.layout.kind {
            SlotKind::Hybrid => Head::sized(key.hash, &record, key_len, seed),
            _ => Head::inline(key.hash, &record, seed),
        };
        let body = self.address_of(probe).plus(8);
        let write = self.endpoint.write(body, record);
        in_order(write, self.swap(probe, claim, head)).await?
    }

    /// Replaces the head of the key's own slot by one that names the draft's record; false if
    /// another was faster.
    pub(super) async fn replace<'t>(
        &'t self,
        key: &Key<'_>,
        probe: &mut Probe<'t, E>,
        seen: u64,
        draft: &mut Draft<'_>,
    ) -> Result<bool> {
        if let Some(held) = draft.block
            && !self.heap().still_holds(held).await?
        {
            draft.block = None;
        }
        let since = self.heap().epoch();
        let (new, replaced) = match draft.block {
            Some(held) => {
                let new = Head::out(key.hash, held.block);
                (new, self.swap(probe, seen, new).await?)
            }
            None => self.write_and_swap(key, probe, seen, draft).await?,
        };
        if replaced {
            draft.block = None;
            self.remember(key, probe.distance, new);
            self.free_block_of(seen, since).await;
        }
        Ok(replaced)
    }

    /// Makes the key leave its own slot, which has no value, when the heap has no room for one: a
    /// slot's bytes are written once, and a record that fits into a slot can go into another. The
    /// slot is nobody's from then on. False, for the key is to be located again.
    ///
    /// # Errors
    /// `full` if the record does not fit into a slot, or what the fabric says.
    async fn retire<'t>(
        &'t self,
        key: &Key<'_>,
        probe: &mut Probe<'t, E>,
        seen: u64,
        draft: &Draft<'_>,
        full: IndexError,
    ) -> Result<bool> {
        if draft.out {
            return Err(full);
        }
        let full = Err::<bool, _>(full);
        if self.has_room_again(&full).await {
            return Ok(false);
        }
        let is_claimed = matches!(Head::decode(seen), Head::Claimed { .. });
        if is_claimed && probe.rereads < CLAIM_READS {
            // Its client may be about to put the value there; if it is dead, the slot stays so.
            self.wait_to_read_again(seen, probe).await?;
        } else if self.swap(probe, seen, Head::retired()).await? {
            self.forget(key);
            probe.skip();
        }
        Ok(false)
    }

    /// Writes the draft's record out of band and swaps the slot's head for one that names it, both
    /// in one batch: the compare-and-swap takes no effect unless the WRITE before it has. Returns
    /// that head, and whether the slot has it.
    async fn write_and_swap<'t>(
        &'t self,
        key: &Key<'_>,
        probe: &mut Probe<'t, E>,
        seen: u64,
        draft: &mut Draft<'_>,
    ) -> Result<(u64, bool)> {
        let mut record = encode(&self.endpoint.core().buffers, key.bytes, draft.value)?;
        let block = self.heap().assign(&mut record).await?;
        let held = self.heap().held(block);
        let new = Head::out(key.hash, block);
        let write = self.heap().write_at(block, record);
        // If this fails, the write may come yet: the block is not used again.
        let swapped = in_order(write, self.swap(probe, seen, new)).await?;
        draft.block = Some(held);
        Ok((new, swapped?))
    }

    /// One compare-and-swap of the head of the slot that is looked at. If it is lost, the local
    /// copy shows what was there instead.
    pub(super) async fn swap<'t>(
        &'t self,
        probe: &mut Probe<'t, E>,
        expected: u64,
        new: u64,
    ) -> Result<bool> {
        let at = self.address_of(probe);
        let seen = self.endpoint.compare_swap(at, expected, new).await?;
        if seen == expected {
            return Ok(true);
        }
        probe.patch(self.layout.slot_bytes() / 8, seen);
        if probe.races > MOST_RACES {
            return Err(IndexError::Contended {
                slot: self.slot_of(probe),
                attempts: probe.races,
            });
        }
        Ok(false)
    }

    pub(super) fn heap(&self) -> &Heap<E> {
        self.heap.as_ref().expect("tables with heads have a heap")
    }

    /// Writes the draft's record out of band, unless it is there already.
    async fn write_out(&self, key: &Key<'_>, draft: &mut Draft<'_>) -> Result<BlockRef> {
        loop {
            if let Some(held) = draft.block {
                if self.heap().still_holds(held).await? {
                    return Ok(held.block);
                }
                draft.block = None;
            }
            let mut record = encode(&self.endpoint.core().buffers, key.bytes, draft.value)?;
            let block = self.heap().assign(&mut record).await?;
            let held = self.heap().held(block);
            // If this fails, the write may come yet: the block is not used again.
            self.heap().write_at(block, record).await?;
            draft.block = Some(held);
        }
    }

    /// Gives back the block that a replaced head named; the swap that replaced it was posted at
    /// that epoch.
    pub(super) async fn free_block_of(&self, head: u64, since: Epoch) {
        if let (Some(heap), Head::Out { block, .. }) = (&self.heap, Head::decode(head)) {
            heap.free_since(block, since).await;
        }
    }

    /// Ends an operation: gives back the draft's block if no slot has come to name it. If that is
    /// in doubt, the block is left to a sweep.
    pub(super) async fn settle<T>(&self, draft: Draft<'_>, outcome: Result<T>) -> Result<T> {
        let in_doubt = matches!(&outcome, Err(error) if error.may_have_taken_effect());
        if let (Some(heap), Some(held), false) = (&self.heap, draft.block, in_doubt) {
            heap.give_up(held).await;
        }
        outcome
    }

    pub(super) fn full(&self) -> IndexError {
        IndexError::Full {
            probed: self.layout.longest_probe,
            slots: self.layout.slots,
        }
    }
}

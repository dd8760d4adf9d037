//! What a client's lookups learn of clusters, and how many slots their READs fetch because of it
//! (paper 000, sections 3.4 and 4.4).
//!
//! Opt-in, and each client's own. A hint only sizes READs: whoever relies on a slot to be empty
//! that has been filled since finds no empty slot in what was read, and reads on as without hints.
//! So a stale hint may cost a READ, never an answer.

use super::client::LinearTable;
use crate::cluster_hints::ClusterHints;
use farslot_fabric::Endpoint;
use std::cell::RefCell;

/// A probe that has come so far, in slots, is a long one.
pub(super) const LONG: u64 = 1 << 10;
/// Bytes of the longest READ of such a probe, if more than other READs have.
const FAR_BYTES: u64 = 16 << 10;

/// What ends a walk that finds what it looks for.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) enum WalkGoal {
    /// The key's slot: reading up to the end of a cluster may be reading too much.
    #[default]
    Match,
    /// The empty slot behind all of the key's records.
    EmptySlot,
}

/// How much a READ fetches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReadLength {
    /// Slots; 0 at the end of the probe.
    pub(super) slots: u64,
    /// Whether the last of them was empty when it was last seen, so that no READ should follow.
    pub(super) reaches_empty: bool,
}

impl<E: Endpoint> LinearTable<E> {
    /// The same client with cluster hints: it remembers the `most` largest clusters that its
    /// lookups meet, and reads as far as them. 0 is without hints, as a table is opened.
    ///
    /// Pays where keys have many records, and clusters are long; paper 000 keeps 1000 of them.
    /// Where they are short it changes next to nothing, and costs some CPU time a lookup.
    #[must_use]
    pub fn with_cluster_hints(mut self, most: usize) -> Self {
        let hints = || Box::new(RefCell::new(ClusterHints::new(self.layout.slots, most)));
        self.hints = (most > 0).then(hints);
        self
    }

    /// How many clusters this client's hints know of; 0 without hints.
    #[must_use]
    pub fn known_clusters(&self) -> usize {
        let hints = self.hints.as_ref();
        hints.map_or(0, |hints| hints.borrow().len())
    }

    /// How much to read at a distance from a home slot: all READs of probes get their lengths here.
    #[inline]
    pub(super) fn read_length(&self, home: u64, first: u64, goal: WalkGoal) -> ReadLength {
        let left = self.layout.longest_probe.saturating_sub(first);
        let oblivious = self.read_size().max(self.far_out(first)).min(left);
        match &self.hints {
            Some(hints) if left > 0 => {
                self.hinted_length(hints, self.slot_number(home, first), goal, left)
            }
            _ => ReadLength {
                slots: oblivious,
                reaches_empty: false,
            },
        }
    }

    /// The slots of a READ so far out that the probe has met a long run of slots in use: more of
    /// them are likely to follow.
    #[inline]
    fn far_out(&self, first: u64) -> u64 {
        match first >= LONG {
            true => (first / 8).min(FAR_BYTES / self.layout.slot_bytes() as u64),
            false => 0,
        }
    }

    /// Not inlined, as all that only those with hints need: the lookups of others stay as short as
    /// they were.
    #[inline(never)]
    fn hinted_length(
        &self,
        hints: &RefCell<ClusterHints>,
        slot: u64,
        goal: WalkGoal,
        left: u64,
    ) -> ReadLength {
        let oblivious = self.read_size().min(left);
        let Some(hint) = hints.borrow().at(slot) else {
            return ReadLength {
                slots: oblivious,
                reaches_empty: false,
            };
        };
        let to_empty = hint.to_empty_slot();
        let slots = match goal {
            WalkGoal::Match => oblivious.min(to_empty + 1),
            WalkGoal::EmptySlot => self.sizes.hinted(self.load_factor(), hint).min(left),
        };
        ReadLength {
            slots,
            reaches_empty: slots > to_empty,
        }
    }

    /// Notes that a walk has met the empty slot at a distance from its home slot.
    #[inline]
    pub(super) fn met_empty(&self, home: u64, distance: u64) {
        // Slots are never freed here, so that a run of none can correct nothing.
        if let Some(hints) = &self.hints
            && distance > 0
        {
            self.note(hints, home, distance);
        }
    }

    #[inline(never)]
    fn note(&self, hints: &RefCell<ClusterHints>, home: u64, distance: u64) {
        let empty = self.slot_number(home, distance);
        hints.borrow_mut().note(home, empty);
    }

    /// Notes the run over a walk's slot, which is in use, if the heads from it on that were read
    /// along show where it ends.
    #[inline(never)]
    pub(super) fn met_in_use(&self, home: u64, distance: u64, heads: impl Iterator<Item = u64>) {
        let mut behind = heads.skip(1);
        if let Some(more) = behind.position(|head| head == 0) {
            self.met_empty(home, distance + 1 + more as u64);
        }
    }

    /// Merges what was noted, while READs are under way: the time until they come is free. (The
    /// doorbell of those posted by the same poll rings when the merge is done, a fraction of a us
    /// later for each note. There are notes only while there is something to learn.)
    #[inline]
    pub(super) fn merge_hints(&self) {
        if let Some(hints) = &self.hints {
            hints.borrow_mut().merge();
        }
    }
}

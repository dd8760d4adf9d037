//! Extendible growth: a sub-table at a time, when that one is full (paper 001, section III-D, and its supplement).
//!
//! **What it does.** An extendible table is one sub-table at first, of the dimensions that it was made with. One that is full
//! is split: another of the same size is added, and takes half of its keys, by a further bit of a hash that is the
//! directory's alone. So the table grows by a small part of itself at a time, and is as full as its sub-tables, whose
//! loads are spread between a half and what such a table can hold; growth by a ratio halves the load of the whole each
//! time. [`placement`](super::placement) has the directory, and numbers the buckets of all sub-tables.
//!
//! **A split is a growth** of one sub-table by 2, and done by the same means ([`growth`](super::growth)): memory is taken,
//! an entry is written and counted, and no key has moved. Then buckets are split one by one, each into itself and
//! the same bucket of the new sub-table: before the first insertion into them, or in pieces with other insertions
//! ([`Cleaning`](super::Cleaning)). Any number of sub-tables are split at the same time, a sub-table by one split at a time. A slot
//! with a key that is not of its sub-table is dead, for ever, as sub-tables only ever lose keys to new ones.
//!
//! **The directory** is the owner's, in its memory, and each reader's. What is in the vault is the list of splits, to which
//! one is only ever appended, by the owner: who goes through it has the directory. All splits of a sub-table before its last
//! one are over.
//!
//! ```text
//! header   3200  splits there were | 3208  spare memory (`spare.rs`) | 3264  for each chunk of the list: 0 | region | offset
//! list     in chunks, the first for 128 splits, each of the others for twice as many as the one before
//! chunk    for each split: number of the sub-table that is split | region and offset of the new one
//!          for each of the new sub-tables: counts of changes, a word a segment     if the index is published
//! sub-table which buckets are split of the one that it is split from, as in an extent: see growth/mod.rs
//!          what is published of its index: stash, a word a slot | pages            if it is
//!          first array: m buckets | second array | stash
//! ```
//! Owner, journal and counts are the whole table's. A sub-table costs no more than its slots, its stash, and a bit a bucket;
//! with readers, the pages of these, and a count for each 64 pages, one at least, and one for the stash. The counts lie with the
//! list, so that who asks what has changed reads little of each sub-table: the first one's are behind the journal, with its
//! pages, as those of a table that is none.
//!
//! **The stash** of a sub-table takes keys of its own, and is split with the buckets of the first array (`stash.rs`): a key is in
//! the stash of the sub-table that its bucket there is in, or nowhere in any. Insertions bring keys of it back into buckets
//! once there is room.
//!
//! **Readers** ([`DuoReader`](super::DuoReader)) go by the list and the bits, as those of a table that grows as a whole do by its
//! extents and the bits, and are promised the same. Three things only grow: the count of splits, the bits of a split, the
//! stamps of pages. The READ that fetches a key's two pages fetches its sub-table's stash as well, the count of splits, and the bits of
//! its buckets, if the copy knows of a split of its sub-table that is not over.
//!
//! - *Why a reader that holds an old list cannot believe an old slot.* What it finds there must be live, whole and the key's.
//!   A record that a split takes elsewhere is live where it was until the batch that has written it to its new slot, and has
//!   set the bit, makes the old one dead; nobody changes it in between, for who splits the bucket holds it. Later the slot takes
//!   keys of its own sub-table only, and sub-tables do not get keys back: so this key is never live there again.
//! - *Why it cannot miss a key.* It answers "absent" when the count of splits, as it was read, has no split of the key's sub-table that
//!   the copy has not, the bits are as in the copy, and so are the pages and the stash. None of these goes back: so all
//!   were so when the lookup began. If another sub-table was split meanwhile, the copy learns of it, and the answer stands:
//!   a table that is being filled, with a split at every moment, keeps no reader from its answer.
//! - *Why a refreshed copy is right.* The counts of changes are read before the count of splits: so the split in which a
//!   bucket's segment has changed is known, and its bits are read, before the copy is said to be as of that change.
//! - *What an owner that dies leaves*: entries that are not counted, which nobody reads; a new sub-table's slots and pages that
//!   are written and not in use, for want of the bit; bits that are set and not counted as a change, for which the next
//!   owner counts one of every segment but the last sub-table's.
//!
//! **Where sub-tables are.** In memory that the table shares with others, or in memory of its own behind it, in which each split
//! has its place (`reserve.rs`).
//!
//! **What it costs.** To begin a split takes 1 round trip, and 2 more where memory has to be taken, which is for some
//! small sub-tables at once. All splits that are wanted at the same time begin together. The insertion that found
//! its sub-table full begins the split, splits its own two buckets, and is done.
//!
//! **Limits.** All sub-tables are on the table's node. A directory is at most 24 bits deep. A heap keeps its size. An owner that dies
//! may leave memory taken and not used: of the splits that it was about to begin, and 64 KiB at most besides, if it has taken
//! it just then.

mod entries;
mod list;
mod reserve;
mod spare;
mod stash;

pub(super) use entries::{Split, read_splits};
pub(super) use list::SplitList;
pub(super) use reserve::reserve_bytes;
pub(super) use stash::StashSplit;

use super::client::DuoTable;
use super::growth::{GROWTH_LOCK, Place};
use crate::{BATCH_WIDTH, Result};
use farslot_fabric::Endpoint;

impl<E: Endpoint> DuoTable<E> {
    /// How many sub-tables there are: 1 of a table that is not extendible.
    #[must_use]
    pub fn subtables(&self) -> u64 {
        self.index.borrow().subtables()
    }

    /// The depth of the directory, in bits: the paper's GD, 0 of a table that is not extendible.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.index.borrow().depth()
    }

    /// Begins the split of the fullest sub-table of those that can be split.
    pub(super) async fn split_fullest(&self, place: &Place) -> Result<()> {
        let fullest = self.index.borrow().fullest();
        match fullest {
            Some(fullest) => self.split_one(fullest, place).await,
            // All are being split: what the caller wants is under way.
            None => Ok(()),
        }
    }

    /// Begins the split of a sub-table, unless it has meanwhile begun.
    pub(super) async fn split_one(&self, subtable: u64, place: &Place) -> Result<()> {
        let depth = self.index.borrow().depth_of(subtable);
        let wanted = self.splits.want(subtable);
        loop {
            let held = self.locks.take(&[GROWTH_LOCK]).await;
            let now = self.index.borrow().depth_of(subtable);
            if now != depth {
                return Ok(());
            }
            if self.is_settled() {
                let begun = self.begin_splits(subtable, place).await;
                drop(wanted);
                return begun;
            }
            drop(held);
            drop(self.hold_alone().await?);
        }
    }

    /// Splits all buckets that are left of the split that this one takes part in, in as few round trips as can be.
    pub(super) async fn split_at_once(&self, bucket: u64) -> Result<()> {
        self.split_rest(Some(bucket), BATCH_WIDTH).await
    }
}

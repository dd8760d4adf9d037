//! Changes of a table's bytes and words, in an order: what of them takes effect is their first
//! part, wherever the owner or the fabric stops.
//!
//! They are verbs that are posted together. Where the memory is mapped they are done in it, one
//! after the other, and booked alike.

use super::bytes::SlotNumber;
use super::state::DuoTable;
use crate::Result;
use crate::step::view_to_write;
use farslot_fabric::{
    Buffer, Endpoint, EndpointExt, InPlace, Piece, RemoteAddr, Steps, Tally, all_in_order,
};

/// A change.
pub(super) enum Change {
    Write(RemoteAddr, Buffer),
    WriteWord(RemoteAddr, u64),
    /// Adds to a word to which others add at the same time: to a count, or bits that are not set.
    Add(RemoteAddr, u64),
    /// Changes a word that nobody else changes, from what it is. If it is not, the table has
    /// another owner, who has changed that slot.
    Swap {
        at: RemoteAddr,
        from: u64,
        to: u64,
        slot: SlotNumber,
    },
}

impl Change {
    #[inline(always)]
    fn at(&self) -> RemoteAddr {
        match self {
            Self::Write(at, _) | Self::WriteWord(at, _) | Self::Add(at, _) => *at,
            Self::Swap { at, .. } => *at,
        }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        match self {
            Self::Write(_, bytes) => bytes.len(),
            Self::WriteWord(..) | Self::Add(..) | Self::Swap { .. } => 8,
        }
    }
}

impl<E: Endpoint> DuoTable<E> {
    /// The table's memory, where it is mapped and may be changed.
    pub(super) fn view_to_change(&self) -> Option<InPlace<'_>> {
        view_to_write(&*self.endpoint, self.table)
    }

    /// Makes changes.
    ///
    /// # Errors
    /// What the fabric says of the first that failed, or that the table has another owner.
    pub(super) async fn change(&self, changes: Vec<Change>) -> Result<()> {
        match self.change_in_place(&changes) {
            Some(changed) => changed,
            None => all_in_order(changes.into_iter().map(|one| self.post(one)).collect()).await,
        }
    }

    async fn post(&self, change: Change) -> Result<()> {
        match change {
            Change::Write(at, bytes) => self.endpoint.write(at, bytes).await?,
            Change::WriteWord(at, word) => {
                let pool = &self.endpoint.core().buffers;
                let bytes = pool.copy_of(&word.to_le_bytes())?;
                self.endpoint.write(at, bytes).await?;
            }
            Change::Add(at, addend) => _ = self.endpoint.fetch_add(at, addend).await?,
            Change::Swap { at, from, to, slot } => {
                if self.endpoint.compare_swap(at, from, to).await? != from {
                    return Err(self.lost(slot));
                }
            }
        }
        Ok(())
    }

    /// Makes changes where all of what they change is in memory, booked to the operation that runs.
    fn change_in_place(&self, changes: &[Change]) -> Option<Result<()>> {
        let view = self.view_of(changes)?;
        let mut tally = Tally::default();
        let (changed, (verbs, bytes)) = self.change_in(view, changes, &mut tally);
        let counters = &self.endpoint.core().counters;
        counters.done_in_place(tally, Steps::begun(verbs, bytes));
        Some(changed)
    }

    /// The table's memory, where it has all that these change.
    pub(super) fn view_of(&self, changes: &[Change]) -> Option<InPlace<'_>> {
        let view = self.view_to_change()?;
        let is_mapped = |change: &Change| {
            let (from, len) = (change.at(), change.len());
            view.offset_of(Piece { from, len }).is_some()
        };
        changes.iter().all(is_mapped).then_some(view)
    }

    /// Makes changes in memory that has all of them; returns what is to be booked besides: verbs
    /// that leave together, and their bytes.
    pub(super) fn change_in(
        &self,
        view: InPlace<'_>,
        changes: &[Change],
        tally: &mut Tally,
    ) -> (Result<()>, (u32, u64)) {
        let (mut verbs, mut bytes) = (0, 0);
        let mut changed = Ok(());
        for change in changes {
            let (at, len) = (change.at().offset, change.len());
            (verbs, bytes) = (verbs + 1, bytes + len as u64);
            match change {
                Change::Write(_, from) => {
                    view.write(at, len, from.words());
                    tally.write(len as u64);
                }
                Change::WriteWord(_, word) => {
                    view.write(at, 8, &[*word]);
                    tally.write(8);
                }
                Change::Add(_, addend) => {
                    view.fetch_add(at, *addend);
                    tally.add();
                }
                Change::Swap { from, to, slot, .. } => {
                    tally.swap();
                    if view.compare_swap(at, *from, *to) != *from {
                        changed = Err(self.lost(*slot));
                        break;
                    }
                }
            }
        }
        (changed, (verbs, bytes))
    }
}

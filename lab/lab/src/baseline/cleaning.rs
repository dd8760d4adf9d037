//! Removing the copies that growth has left where they do not belong.

use super::board::BucketBoard;
use super::client::{BaselineTable, Key};
use super::homes::{BucketWindow, Homes};
use farslot::fabric::Endpoint;
use farslot::index::Result;
use farslot::index::internals::locks::Held;

impl<E: Endpoint, P: Homes> BaselineTable<E, P> {
    /// Holds the buckets that a key may be in, with nothing unfinished, for who will write: they
    /// are clean.
    pub(super) async fn hold_to_write(
        &self,
        key: &Key<'_>,
    ) -> Result<(Held<'_>, Option<BucketWindow>)> {
        loop {
            let (held, window) = self.hold(key).await?;
            let unclean = self.unclean(window);
            if unclean.is_empty() {
                return Ok((held, window));
            }
            drop(held);
            self.clean(&unclean).await?;
        }
    }

    /// Removes copies that do not belong where they are from some buckets, and those to be cleaned
    /// with them.
    pub(super) async fn clean(&self, buckets: &[u64]) -> Result<()> {
        let alone = self.hold_alone().await?;
        self.clean_alone(&alone, buckets).await
    }

    /// The same for who holds everything.
    pub(super) async fn clean_alone(&self, _alone: &Held<'_>, buckets: &[u64]) -> Result<()> {
        let mut board = BucketBoard::new(self);
        board.read(buckets).await?;
        self.write_slots(board.changes(None).writes).await?;
        board
            .known()
            .for_each(|bucket| self.placing.cleaned(bucket));
        Ok(())
    }
}

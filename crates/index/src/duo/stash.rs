//! Bringing keys of the stash back into a bucket, when a removal has made room.
//!
//! The stash is small, and its keys cost the insertions that need it room. A removal that leaves a
//! free slot in a bucket of such a key, or takes the key away that it collided with, moves it
//! there.

use super::bytes::{SlotNumber, bucket_entry, head_in};
use super::changes::Batch;
use super::placement::{Candidates, Entry, Path};
use super::state::DuoTable;
use crate::{Result, UPKEEP};
use farslot_fabric::{Endpoint, EndpointExt};

/// A key that can leave the stash.
struct StashDeparture {
    from: SlotNumber,
    hash: u64,
    of: Candidates,
    buckets: [u64; 2],
}

impl<E: Endpoint> DuoTable<E> {
    /// Moves a key of the stash into this bucket, or into its other one, if one of the stash can be
    /// there. This cannot fail: the removal is done. What is in doubt afterwards is settled by the
    /// next operation.
    pub(super) async fn bring_back(&self, bucket: u64) {
        if let Some(key) = self.returning(bucket) {
            let returning = self.endpoint.operation(UPKEEP, self.bring(&key));
            let _ = returning.await;
        }
    }

    /// Whether any can into the buckets of a key with this hash.
    pub(super) fn is_any_returning(&self, hash: u64) -> bool {
        let mut buckets = self.buckets_now(hash).into_iter();
        buckets.any(|bucket| self.returning(bucket).is_some())
    }

    /// A key of the stash that can go back to one of its buckets, of which this is one.
    fn returning(&self, bucket: u64) -> Option<StashDeparture> {
        let index = self.index.borrow();
        let mut stashed = index.stashed_keys();
        stashed.find_map(|(from, hash)| {
            let of = index.candidates(hash);
            let buckets = index.buckets_of(&of);
            let returns = buckets.contains(&bucket)
                && index.entry(&of, &[]) == Entry::Primary
                && index.to_split_of(buckets).is_empty()
                && index.room_in(buckets).is_some();
            returns.then_some(StashDeparture {
                from,
                hash,
                of,
                buckets,
            })
        })
    }

    async fn bring(&self, key: &StashDeparture) -> Result<()> {
        let [first, second] = key.buckets;
        let held = self.locks.take(&[first, second, key.from.0]).await;
        if !self.is_settled() {
            return Ok(());
        }
        let to = {
            // Others may have been here while this waited.
            let index = self.index.borrow();
            let stays = index.stashed_at(key.from) != Some(Some(key.hash))
                || index.entry(&key.of, &[]) != Entry::Primary
                || index.buckets_of(&index.candidates(key.hash)) != key.buckets
                || !index.to_split_of(key.buckets).is_empty();
            match index.room_in(key.buckets) {
                Some(to) if !stays => to,
                _ => return Ok(()),
            }
        };
        let read = self.read_to_move(key.from).await?;
        let head = head_in(&read);
        if head == 0 {
            return Err(self.lost(key.from));
        }
        self.before_moving().await?;
        let entry = bucket_entry(key.of.primary, false, self.layout.fingerprint_bits);
        let mut batch = Batch::default();
        self.publish(&mut batch, &[(to, entry)]);
        self.fill(&mut batch, to, head, self.body_in(&read)?)?;
        self.take_out(&mut batch, key.from, (head, read.second));
        self.run(batch).await?;
        self.change_index(|index| {
            index.vacate(key.from);
            index.enter(&Path::to(to), &key.of, Entry::Primary);
        });
        self.worked(|work| work.brought_back += 1);
        drop(held);
        Ok(())
    }
}

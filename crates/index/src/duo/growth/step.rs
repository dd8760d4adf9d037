//! The verbs of growth, in batches of which what takes effect is the first part.

use super::super::client::DuoTable;
use super::super::placement::SlotNumber;
use crate::Result;
use farslot_fabric::{Buffer, Endpoint, EndpointExt, RemoteAddr, all_in_order};

/// A verb of a batch.
pub(super) enum Step {
    Write(RemoteAddr, Buffer),
    /// Adds to a word to which others add at the same time: to a count, or bits that are not set.
    Add(RemoteAddr, u64),
    /// Counts a word on by one.
    CountFrom(RemoteAddr, u64),
}

impl<E: Endpoint> DuoTable<E> {
    pub(super) async fn run_steps(&self, steps: Vec<Step>) -> Result<()> {
        let steps = steps.into_iter().map(|step| self.take_step(step));
        all_in_order(steps.collect()).await
    }

    async fn take_step(&self, step: Step) -> Result<()> {
        match step {
            Step::Write(at, bytes) => self.endpoint.write(at, bytes).await?,
            Step::Add(at, addend) => {
                self.endpoint.fetch_add(at, addend).await?;
            }
            Step::CountFrom(at, count) => {
                let seen = self.endpoint.compare_swap(at, count, count + 1).await?;
                if seen != count {
                    return Err(self.lost(SlotNumber(0)));
                }
            }
        }
        Ok(())
    }
}

//! The verbs of growth, in batches of which what takes effect is the first part.

use crate::Result;
use crate::duo::bytes::SlotNumber;
use crate::duo::state::DuoTable;
use farslot_fabric::{Buffer, Endpoint, EndpointExt, RemoteAddr, all_in_order};

/// A verb of a batch.
pub(in super::super) enum Step {
    Write(RemoteAddr, Buffer),
    /// Adds to a word to which others add at the same time: to a count, or bits that are not set.
    Add(RemoteAddr, u64),
    /// Counts a word on, from what it is to what it shall be.
    Count(RemoteAddr, u64, u64),
}

impl<E: Endpoint> DuoTable<E> {
    pub(in super::super) async fn run_steps(&self, steps: Vec<Step>) -> Result<()> {
        let steps = steps.into_iter().map(|step| self.take_step(step));
        all_in_order(steps.collect()).await
    }

    async fn take_step(&self, step: Step) -> Result<()> {
        match step {
            Step::Write(at, bytes) => self.endpoint.write(at, bytes).await?,
            Step::Add(at, addend) => {
                self.endpoint.fetch_add(at, addend).await?;
            }
            Step::Count(at, from, to) => {
                let seen = self.endpoint.compare_swap(at, from, to).await?;
                if seen != from {
                    return Err(self.lost(SlotNumber(0)));
                }
            }
        }
        Ok(())
    }
}

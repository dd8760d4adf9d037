//! What a write waits for beside its steps.

use super::write::{DuoWriteAim, DuoWriteSlowPath, DuoWriteState, Write, Writes};
use crate::client::{MOST_READS, pause};
use crate::heap::{Purpose, Relocate};
use crate::step::NextStep;
use crate::{IndexError, Result};
use farslot_fabric::Endpoint;

impl<'t, E: Endpoint> Writes<'t, E> {
    /// Does what is not done in steps.
    pub(super) async fn take_slow_path(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
        slow: DuoWriteSlowPath,
    ) -> Result<NextStep<DuoWriteSlowPath>> {
        let table = self.table;
        match slow {
            DuoWriteSlowPath::Hold { alone } => return self.hold(write, of, alone).await,
            DuoWriteSlowPath::ReadAgain(slot) => {
                pause(&*table.endpoint, of.attempts).await?;
                of.attempts += 1;
                if of.attempts == MOST_READS {
                    return Err(table.unreadable(slot));
                }
                return Ok(self.plan(write, of));
            }
            DuoWriteSlowPath::Journal => {
                let given_up = || !table.is_settled();
                of.journal = table.journal.take(given_up).await;
                if of.journal.is_none() {
                    // It has to wait until what is in doubt is settled.
                    return self.hold(write, of, false).await;
                }
            }
            DuoWriteSlowPath::Block => {
                let heap = table.current_heap().expect("a heap has no room");
                let record = write.operation.record();
                of.record
                    .take_block(heap, record, Purpose::of(write.only_in))
                    .await?;
            }
            DuoWriteSlowPath::CountMoves => table.before_moving().await?,
            DuoWriteSlowPath::Full => {
                // While nobody changes the size: it grows instead only if it has this one still.
                let full = table.full();
                of.held = None;
                table.grow_instead_of(full).await?;
                return self.hold(write, of, true).await;
            }
            DuoWriteSlowPath::After { was_there } => {
                self.after(write, of).await;
                return Ok(NextStep::was_there(was_there));
            }
        }
        Ok(self.write_record(write, of))
    }

    /// Waits until it holds its buckets.
    async fn hold(
        &self,
        write: &Write<'_>,
        of: &mut DuoWriteState<'t>,
        alone: bool,
    ) -> Result<NextStep<DuoWriteSlowPath>> {
        of.held = None;
        of.held = Some(match (write.inserts(), alone) {
            (false, _) => self.table.hold(&write.key).await?,
            (true, false) => self.table.hold_split(&write.key).await?,
            (true, true) => self.table.hold_split_alone(&write.key).await?,
        });
        of.alone = alone && write.inserts();
        Ok(self.plan(write, of))
    }

    /// Has room made in the heap while it holds nothing, and begins again if there is some.
    pub(super) async fn clean(
        &self,
        of: &mut DuoWriteState<'t>,
        full: IndexError,
    ) -> Result<NextStep<DuoWriteSlowPath>> {
        of.held = None;
        let making = self.table.make_room_again(&mut of.cleaned, full);
        making.await?;
        Ok(NextStep::SlowPath(DuoWriteSlowPath::Hold { alone: false }))
    }

    /// Does what there is to do behind a write.
    async fn after(&self, write: &Write<'_>, of: &mut DuoWriteState<'t>) {
        let table = self.table;
        of.held = None;
        match of.aim {
            DuoWriteAim::Insert => table.grow_a_step().await,
            DuoWriteAim::Replace => {}
            DuoWriteAim::Remove => {
                for bucket in table.buckets_now(write.key.hash) {
                    table.bring_back(bucket).await;
                }
            }
        }
    }
}

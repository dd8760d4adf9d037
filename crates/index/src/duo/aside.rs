//! What a write waits for beside its steps.

use super::write::{Aim, Aside, Write, Writes, Writing};
use crate::client::{MOST_READS, pause};
use crate::heap::{Purpose, Relocate};
use crate::step::Next;
use crate::{IndexError, Result};
use farslot_fabric::Endpoint;

impl<'t, E: Endpoint> Writes<'t, E> {
    /// Does what is not done in steps.
    pub(super) async fn beside(
        &self,
        write: &Write<'_>,
        of: &mut Writing<'t>,
        aside: Aside,
    ) -> Result<Next<Aside>> {
        let table = self.table;
        match aside {
            Aside::Hold { alone } => return self.hold(write, of, alone).await,
            Aside::ReadAgain(slot) => {
                pause(&*table.endpoint, of.attempts).await?;
                of.attempts += 1;
                if of.attempts == MOST_READS {
                    return Err(table.unreadable(slot));
                }
                return Ok(self.plan(write, of));
            }
            Aside::Journal => {
                let given_up = || !table.is_settled();
                of.journal = table.journal.take(given_up).await;
                if of.journal.is_none() {
                    // It has to wait until what is in doubt is settled.
                    return self.hold(write, of, false).await;
                }
            }
            Aside::Block => {
                let heap = table.current_heap().expect("a heap has no room");
                let record = write.operation.record();
                of.record
                    .take_block(heap, record, Purpose::of(write.only_in))
                    .await?;
            }
            Aside::CountMoves => table.before_moving().await?,
            Aside::Full => {
                // While nobody changes the size: it grows instead only if it has this one still.
                let full = table.full();
                of.held = None;
                table.grow_instead_of(full).await?;
                return self.hold(write, of, true).await;
            }
            Aside::After { was_there } => {
                self.after(write, of).await;
                return Ok(Next::was_there(was_there));
            }
        }
        Ok(self.write_record(write, of))
    }

    /// Waits until it holds its buckets.
    async fn hold(
        &self,
        write: &Write<'_>,
        of: &mut Writing<'t>,
        alone: bool,
    ) -> Result<Next<Aside>> {
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
        of: &mut Writing<'t>,
        full: IndexError,
    ) -> Result<Next<Aside>> {
        of.held = None;
        let making = self.table.make_room_again(&mut of.cleaned, full);
        making.await?;
        Ok(Next::Aside(Aside::Hold { alone: false }))
    }

    /// Does what there is to do behind a write.
    async fn after(&self, write: &Write<'_>, of: &mut Writing<'t>) {
        let table = self.table;
        of.held = None;
        match of.aim {
            Aim::Insert => table.grow_a_step().await,
            Aim::Replace => {}
            Aim::Remove => {
                for bucket in table.buckets_now(write.key.hash) {
                    table.bring_back(bucket).await;
                }
            }
        }
    }
}

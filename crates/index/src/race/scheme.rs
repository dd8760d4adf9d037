//! What [`Index`](crate::Index) asks of a RACE table.

use super::client::RaceTable;
use crate::answers::Got;
use crate::heap::Heap;
use crate::heap::Relocate;
use crate::index::AtOnce;
use crate::step;
use crate::{
    Answers, ClientState, Cursor, Occupancy, Operation, Outcome, Outcomes, Result, SchemeClient,
    SchemeKind, Survey, UPKEEP, Value, Waits,
};
use farslot_fabric::{Endpoint, EndpointExt, NodeId};

impl<E: Endpoint> SchemeClient for RaceTable<E> {
    type Endpoint = E;

    const NAME: &'static str = SchemeKind::Race.name();

    /// For the one that splits the same subtable.
    const WAITS: Waits = Waits::Writes;

    #[inline]
    fn endpoint(&self) -> &E {
        &self.endpoint
    }

    fn node(&self) -> NodeId {
        self.table.node
    }

    #[inline]
    async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        step::run(self, key).await
    }

    #[inline]
    fn prefetch_slots(&self, key: &[u8]) -> bool {
        step::prefetch(self, key)
    }

    #[inline]
    fn find_at_once<'s>(&'s self, key: &'s [u8]) -> AtOnce<'s, Got> {
        step::find_at_once(self, key)
    }

    #[inline]
    fn write_at_once<'s>(&'s self, write: Operation<'s>) -> AtOnce<'s, Result<Outcome>> {
        step::write_at_once(self.writes(), write)
    }

    async fn find_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(Answers<'_>)) {
        step::find_many(self, keys, done).await;
    }

    async fn write_many(&self, writes: &[Operation<'_>], done: &mut dyn FnMut(Outcomes<'_>)) {
        step::write_many(self, || self.writes(), writes, done).await;
    }

    async fn write(&self, operation: Operation<'_>) -> Result<Outcome> {
        Ok(operation.outcome(step::run(&self.writes(), operation.into()).await?))
    }

    async fn scan_piece(
        &self,
        cursor: Cursor,
        most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        Self::scan_piece(self, cursor, most, visit).await
    }

    async fn read_occupancy(&self) -> Result<Occupancy> {
        self.read_directory().await?;
        let heap = Heap::in_use(Some(&self.heap)).await?;
        let counted = self.counts.occupancy(&*self.endpoint, heap).await?;
        let slots = self.subtables() * self.layout.subtable_slots();
        Ok(Occupancy {
            used_slots: counted.used_slots.min(slots),
            slots,
            ..counted
        })
    }

    async fn report_all(&self) -> Result<()> {
        let finishing = self.finish_splits();
        let finished = self.endpoint.operation(UPKEEP, finishing).await;
        let reported = self.report_changes().await;
        self.heap.flush().await?;
        finished.and(reported)
    }

    async fn look_at_slots(&self) -> Result<Survey> {
        let survey = self.survey().await?;
        let live = survey.live + survey.moving;
        // What was seen holds whatever becomes of the counts.
        let _ = self.counts.seen(&*self.endpoint, live, live).await;
        Ok(Survey::Race(survey))
    }

    async fn make_room_ahead(&self) -> Result<()> {
        match self.heap_of_records() {
            Some(heap) => heap.clean_ahead(self).await,
            None => Ok(()),
        }
    }

    fn known(&self) -> ClientState {
        ClientState {
            read_size: 2 * u64::from(self.layout.bucket_slots),
            client_bytes: self.directory.borrow().bytes(),
            ..ClientState::default()
        }
    }
}

//! What [`Index`](crate::Index) asks of a linear table.

use super::client::LinearTable;
use crate::answers::Got;
use crate::heap::Heap;
use crate::heap::Relocate;
use crate::index::AtOnce;
use crate::step;
use crate::{
    Answers, ClientState, Cursor, Occupancy, Operation, Outcome, Outcomes, Result, SchemeClient,
    SchemeKind, Survey, Value,
};
use farslot_fabric::{Endpoint, NodeId};

impl<E: Endpoint> SchemeClient for LinearTable<E> {
    type Endpoint = E;

    const NAME: &'static str = SchemeKind::Linear.name();

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

    async fn find_all(&self, key: &[u8]) -> Result<Vec<Value>> {
        self.values_of(key).await
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
        let heap = Heap::in_use(self.heap.as_ref()).await?;
        self.counts.occupancy(&*self.endpoint, heap).await
    }

    async fn report_all(&self) -> Result<()> {
        let reported = self.report().await;
        if let Some(heap) = &self.heap {
            heap.flush().await?;
        }
        reported
    }

    async fn look_at_slots(&self) -> Result<Survey> {
        let survey = self.survey().await?;
        let used = survey.live + survey.dead;
        // What was seen holds whatever becomes of the counts.
        let _ = self.counts.seen(&*self.endpoint, used, survey.live).await;
        Ok(Survey::Linear(survey))
    }

    async fn make_room_ahead(&self) -> Result<()> {
        match self.heap_of_records() {
            Some(heap) => heap.clean_ahead(self).await,
            None => Ok(()),
        }
    }

    fn known(&self) -> ClientState {
        let of_clusters = self.hints.as_ref();
        let of_clusters = of_clusters.map_or(0, |hints| hints.borrow().most_bytes());
        let of_records = self.records.as_ref();
        ClientState {
            read_size: self.read_size(),
            client_bytes: of_clusters + of_records.map_or(0, |hints| hints.most_bytes()),
            ..ClientState::default()
        }
    }
}

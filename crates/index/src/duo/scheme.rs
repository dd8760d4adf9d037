//! What [`Index`](crate::Index) asks of the owner of a CuckooDuo table.

use super::state::{DuoTable, PageVersions};
use crate::heap::Heap;
use crate::index::AtOnce;
use crate::{
    Answers, ClientState, Cursor, Occupancy, Operation, Outcome, Outcomes, Result, SchemeClient,
    SchemeKind, Survey, UPKEEP, Value, Waits, WriterChange, step,
};
use farslot_fabric::{Endpoint, EndpointExt, NodeId};

impl<E: Endpoint> SchemeClient for DuoTable<E> {
    type Endpoint = E;

    const NAME: &'static str = SchemeKind::Duo.name();

    /// For those that change the same buckets, or make the index.
    const WAITS: Waits = Waits::All;

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
        if !self.is_owner() {
            // Whoever is the owner may have let it grow.
            let counting = self.endpoint.operation(UPKEEP, self.slots_counted());
            self.counts.set_slots(counting.await?);
        }
        let heap = Heap::in_use(self.heap.as_ref()).await?;
        self.counts.occupancy(&*self.endpoint, heap).await
    }

    async fn report_all(&self) -> Result<()> {
        let _held = self.locks.take(&[]).await;
        self.hand_over().await
    }

    async fn look_at_slots(&self) -> Result<Survey> {
        let survey = self.survey().await?;
        let live = survey.counts.live;
        // What was seen holds whatever becomes of the counts.
        let _ = self.counts.seen(&*self.endpoint, live, live).await;
        Ok(Survey::Duo(survey))
    }

    async fn current_writer(&self) -> Result<Option<u64>> {
        self.owner().await
    }

    async fn become_or_resign(&self, change: WriterChange) -> Result<()> {
        match change {
            WriterChange::Start => self.start().await,
            WriterChange::TakeOver => self.take_over().await,
            WriterChange::ForceTakeOver => self.force_take_over().await,
            WriterChange::Resign => self.resign().await,
        }
    }

    async fn count_of_moves(&self) -> Result<u64> {
        self.moves().await
    }

    fn known(&self) -> ClientState {
        let versions = self.versions.as_ref().map_or(0, PageVersions::bytes);
        ClientState {
            read_size: 1,
            client_bytes: (self.index.borrow().bytes() + versions) as u64,
            ..ClientState::default()
        }
    }
}

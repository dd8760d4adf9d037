//! What [`Index`](crate::Index) asks of a cuckoo table.

use super::client::CuckooTable;
use crate::answers::Got;
use crate::heap::Heap;
use crate::index::AtOnce;
use crate::step;
use crate::{
    Answers, ClientState, Cursor, Occupancy, Operation, Outcome, Outcomes, Record, Result,
    SchemeClient, SchemeKind, Survey, Value, Waits, WriterChange,
};
use farslot_fabric::{Endpoint, NodeId};

impl<E: Endpoint> SchemeClient for CuckooTable<E> {
    type Endpoint = E;

    const NAME: &'static str = SchemeKind::Cuckoo.name();

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

    async fn find_all(&self, key: &[u8]) -> Result<Vec<Value>> {
        let mut values = Vec::new();
        Self::find_all(self, key, |value| values.push(value.into())).await?;
        Ok(values)
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
        let heap = match &self.uniform {
            Some(uniform) => uniform.in_use().await?,
            None => Heap::in_use(self.heap.as_ref()).await?,
        };
        self.counts.occupancy(&*self.endpoint, heap).await
    }

    async fn report_all(&self) -> Result<()> {
        let _held = match &self.heap {
            Some(_) => Some(self.locks.take(&[]).await),
            None => None,
        };
        self.hand_over().await
    }

    async fn look_at_slots(&self) -> Result<Survey> {
        let survey = self.survey().await?;
        let live = survey.counts.live;
        // What was seen holds whatever becomes of the counts.
        let _ = self.counts.seen(&*self.endpoint, live, live).await;
        Ok(Survey::Cuckoo(survey))
    }

    async fn current_writer(&self) -> Result<Option<u64>> {
        self.writer().await
    }

    async fn become_or_resign(&self, change: WriterChange) -> Result<()> {
        match change {
            WriterChange::Start => self.start_writing().await,
            WriterChange::TakeOver => self.take_over().await,
            WriterChange::ForceTakeOver => self.force_take_over().await,
            WriterChange::Resign => self.resign().await,
        }
    }

    async fn count_of_moves(&self) -> Result<u64> {
        self.displacements().await
    }

    async fn build_whole(&self, records: &[Record<'_>]) -> Result<()> {
        self.build(records).await
    }

    fn known(&self) -> ClientState {
        ClientState {
            sealed: self.is_sealed(),
            read_size: u64::from(self.layout.bucket_slots),
            client_bytes: match self.predetermines {
                true => self.layout.predetermination_bytes(),
                false => 0,
            },
            ..ClientState::default()
        }
    }
}

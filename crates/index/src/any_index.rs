//! A client of any scheme, behind one type: what is written over it is compiled once.

use crate::answers::Got;
use crate::index::Rest;
use crate::{
    Answers, ClientState, Cursor, Index, Occupancy, Operation, Outcome, Outcomes, Record, Result,
    Survey, Waits, WriterChange,
};
use farslot_fabric::Nanos;
use std::pin::Pin;
use std::rc::Rc;

/// An [`Index`] whose scheme only the running program knows. Clones are the same client.
///
/// Each operation that has to wait costs an allocation more than it would on the index itself; a
/// batch costs one for all of its operations, and a get that is [answered at
/// once](Index::get_at_once) none.
///
/// ```no_run
/// # use farslot_index::{AnyIndex, Index, Result};
/// # async fn example(linear: impl Index + 'static, cuckoo: impl Index + 'static) -> Result<()> {
/// for index in [AnyIndex::new(linear), AnyIndex::new(cuckoo)] {
///     index.get(b"key").await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct AnyIndex(Rc<dyn Erased>);

impl AnyIndex {
    /// The index, whatever it is.
    #[must_use]
    pub fn new(index: impl Index + 'static) -> Self {
        Self(Rc::new(index))
    }
}

impl std::fmt::Debug for AnyIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AnyIndex").field(&self.0.state()).finish()
    }
}

type Running<'s, T> = Pin<Box<dyn Future<Output = T> + 's>>;

/// [`Index`] with futures in boxes.
trait Erased {
    fn waits(&self) -> Waits;
    fn get<'s>(&'s self, key: &'s [u8]) -> Rest<'s>;
    fn prefetch(&self, key: &[u8]) -> bool;
    fn get_at_once<'s>(&'s self, key: &'s [u8]) -> Option<std::result::Result<Got, Rest<'s>>>;
    fn run<'s>(&'s self, operation: Operation<'s>) -> Running<'s, Result<Outcome>>;
    fn look_up<'s>(
        &'s self,
        keys: &'s [&'s [u8]],
        done: &'s mut dyn FnMut(Answers<'_>),
    ) -> Running<'s, ()>;
    fn run_many<'s>(
        &'s self,
        operations: &'s [Operation<'s>],
        done: &'s mut dyn FnMut(Outcomes<'_>),
    ) -> Running<'s, ()>;
    fn write_many<'s>(
        &'s self,
        operations: &'s [Operation<'s>],
        done: &'s mut dyn FnMut(Outcomes<'_>),
    ) -> Running<'s, ()>;
    fn scan<'s>(
        &'s self,
        cursor: Cursor,
        most: u64,
        visit: &'s mut dyn FnMut(&[u8], &[u8]),
    ) -> Running<'s, Result<Option<Cursor>>>;
    fn occupancy(&self) -> Running<'_, Result<Occupancy>>;
    fn flush(&self) -> Running<'_, Result<()>>;
    fn survey(&self) -> Running<'_, Result<Survey>>;
    fn writer(&self) -> Running<'_, Result<Option<u64>>>;
    fn change_writer(&self, change: WriterChange) -> Running<'_, Result<()>>;
    fn moves(&self) -> Running<'_, Result<u64>>;
    fn build<'s>(&'s self, records: &'s [Record<'s>]) -> Running<'s, Result<()>>;
    fn state(&self) -> ClientState;
    fn now(&self) -> Nanos;
    fn is_up(&self) -> bool;
}

impl<I: Index> Erased for I {
    fn waits(&self) -> Waits {
        Index::waits(self)
    }

    fn get<'s>(&'s self, key: &'s [u8]) -> Rest<'s> {
        Box::pin(Index::get(self, key))
    }

    fn prefetch(&self, key: &[u8]) -> bool {
        Index::prefetch(self, key)
    }

    fn get_at_once<'s>(&'s self, key: &'s [u8]) -> Option<std::result::Result<Got, Rest<'s>>> {
        Index::get_at_once(self, key)
    }

    fn run<'s>(&'s self, operation: Operation<'s>) -> Running<'s, Result<Outcome>> {
        Box::pin(Index::run(self, operation))
    }

    fn look_up<'s>(
        &'s self,
        keys: &'s [&'s [u8]],
        done: &'s mut dyn FnMut(Answers<'_>),
    ) -> Running<'s, ()> {
        Box::pin(Index::look_up(self, keys, done))
    }

    fn run_many<'s>(
        &'s self,
        operations: &'s [Operation<'s>],
        done: &'s mut dyn FnMut(Outcomes<'_>),
    ) -> Running<'s, ()> {
        Box::pin(Index::run_many(self, operations, done))
    }

    fn write_many<'s>(
        &'s self,
        operations: &'s [Operation<'s>],
        done: &'s mut dyn FnMut(Outcomes<'_>),
    ) -> Running<'s, ()> {
        Box::pin(Index::write_many(self, operations, done))
    }

    fn scan<'s>(
        &'s self,
        cursor: Cursor,
        most: u64,
        visit: &'s mut dyn FnMut(&[u8], &[u8]),
    ) -> Running<'s, Result<Option<Cursor>>> {
        Box::pin(Index::scan(self, cursor, most, visit))
    }

    fn occupancy(&self) -> Running<'_, Result<Occupancy>> {
        Box::pin(Index::occupancy(self))
    }

    fn flush(&self) -> Running<'_, Result<()>> {
        Box::pin(Index::flush(self))
    }

    fn survey(&self) -> Running<'_, Result<Survey>> {
        Box::pin(Index::survey(self))
    }

    fn writer(&self) -> Running<'_, Result<Option<u64>>> {
        Box::pin(Index::writer(self))
    }

    fn change_writer(&self, change: WriterChange) -> Running<'_, Result<()>> {
        Box::pin(Index::change_writer(self, change))
    }

    fn moves(&self) -> Running<'_, Result<u64>> {
        Box::pin(Index::moves(self))
    }

    fn build<'s>(&'s self, records: &'s [Record<'s>]) -> Running<'s, Result<()>> {
        Box::pin(Index::build(self, records))
    }

    fn state(&self) -> ClientState {
        Index::state(self)
    }

    fn now(&self) -> Nanos {
        Index::now(self)
    }

    fn is_up(&self) -> bool {
        Index::is_up(self)
    }
}

impl Index for AnyIndex {
    fn waits(&self) -> Waits {
        self.0.waits()
    }

    async fn get(&self, key: &[u8]) -> Got {
        self.0.get(key).await
    }

    #[inline]
    fn prefetch(&self, key: &[u8]) -> bool {
        self.0.prefetch(key)
    }

    #[inline]
    fn get_at_once<'s>(&'s self, key: &'s [u8]) -> Option<std::result::Result<Got, Rest<'s>>> {
        self.0.get_at_once(key)
    }

    async fn run(&self, operation: Operation<'_>) -> Result<Outcome> {
        self.0.run(operation).await
    }

    async fn look_up(&self, keys: &[&[u8]], mut done: impl FnMut(Answers<'_>)) {
        self.0.look_up(keys, &mut done).await;
    }

    async fn run_many(&self, operations: &[Operation<'_>], mut done: impl FnMut(Outcomes<'_>)) {
        self.0.run_many(operations, &mut done).await;
    }

    async fn write_many(&self, operations: &[Operation<'_>], mut done: impl FnMut(Outcomes<'_>)) {
        self.0.write_many(operations, &mut done).await;
    }

    async fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.0.scan(cursor, most, &mut visit).await
    }

    async fn occupancy(&self) -> Result<Occupancy> {
        self.0.occupancy().await
    }

    async fn flush(&self) -> Result<()> {
        self.0.flush().await
    }

    async fn survey(&self) -> Result<Survey> {
        self.0.survey().await
    }

    async fn writer(&self) -> Result<Option<u64>> {
        self.0.writer().await
    }

    async fn change_writer(&self, change: WriterChange) -> Result<()> {
        self.0.change_writer(change).await
    }

    async fn moves(&self) -> Result<u64> {
        self.0.moves().await
    }

    async fn build(&self, records: &[Record<'_>]) -> Result<()> {
        self.0.build(records).await
    }

    fn state(&self) -> ClientState {
        self.0.state()
    }

    fn now(&self) -> Nanos {
        self.0.now()
    }

    fn is_up(&self) -> bool {
        self.0.is_up()
    }
}

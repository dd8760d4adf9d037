//! The cache as an [`Index`].

use super::sets::Fetch;
use super::{Cached, Writing};
use crate::{
    Answers, ClientState, Cursor, Index, IndexExt, Occupancy, Operation, Outcome, Outcomes, Record,
    Result, Survey, Value, Waits, WriterChange,
};
use farslot_fabric::Nanos;

/// How an operation of a batch uses the cache.
enum Use<'c> {
    Fetch(Option<Fetch>),
    /// A write, which lasts until its outcome is known.
    Write(Option<Writing<'c>>),
}

impl<I: Index> Index for Cached<I> {
    fn waits(&self) -> Waits {
        self.index.waits()
    }

    #[inline]
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.look(key) {
            Ok(answer) => Ok(answer),
            Err(fetch) => {
                let answer = self.index.get(key).await;
                self.keep(fetch, key, &answer);
                answer
            }
        }
    }

    async fn run(&self, operation: Operation<'_>) -> Result<Outcome> {
        match operation {
            Operation::Get(key) => self.get(key).await.map(Outcome::Value),
            // What a get-all tells is not kept, and may be newer than what is.
            _ => {
                let _writing = self.writing(operation.key());
                self.index.run(operation).await
            }
        }
    }

    /// Those that are not in the cache are one batch of the index.
    async fn look_up(&self, keys: &[&[u8]], mut done: impl FnMut(Answers<'_>)) {
        let mut fetches = Vec::new();
        for (number, key) in keys.iter().copied().enumerate() {
            match self.look(key) {
                Ok(answer) => done(Answers::One(number, Ok(answer))),
                Err(fetch) => fetches.push((number, key, fetch)),
            }
        }
        let keys: Vec<&[u8]> = fetches.iter().map(|(_, key, _)| *key).collect();
        let mut fetched = |missed: usize, answer| {
            let (number, key, fetch) = &mut fetches[missed];
            self.keep(fetch.take(), key, &answer);
            done(Answers::One(*number, answer));
        };
        let fetching = (self.index).look_up(&keys, |answers| answers.each(&mut fetched));
        fetching.await;
    }

    /// Those that are not in the cache are one batch of the index.
    async fn run_many(&self, operations: &[Operation<'_>], mut done: impl FnMut(Outcomes<'_>)) {
        let (mut asked, mut uses) = (Vec::new(), Vec::new());
        for (number, operation) in operations.iter().enumerate() {
            let how = match operation {
                Operation::Get(key) => match self.look(key) {
                    Ok(answer) => {
                        done(Outcomes::One(number, Ok(Outcome::Value(answer))));
                        continue;
                    }
                    Err(fetch) => Use::Fetch(fetch),
                },
                _ => Use::Write(Some(self.writing(operation.key()))),
            };
            asked.push(*operation);
            uses.push((number, how));
        }
        let told = |at: usize, outcome: Result<Outcome>| {
            let (number, how) = &mut uses[at];
            match how {
                Use::Fetch(fetch) => {
                    let answer = outcome.map(Outcome::into_value);
                    self.keep(fetch.take(), asked[at].key(), &answer);
                    done(Outcomes::One(*number, answer.map(Outcome::Value)));
                }
                Use::Write(writing) => {
                    writing.take();
                    done(Outcomes::One(*number, outcome));
                }
            }
        };
        self.index.run_each(&asked, told).await;
    }

    async fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.index.scan(cursor, most, visit).await
    }

    async fn occupancy(&self) -> Result<Occupancy> {
        self.index.occupancy().await
    }

    async fn flush(&self) -> Result<()> {
        self.index.flush().await
    }

    async fn survey(&self) -> Result<Survey> {
        self.index.survey().await
    }

    async fn writer(&self) -> Result<Option<u64>> {
        self.index.writer().await
    }

    async fn change_writer(&self, change: WriterChange) -> Result<()> {
        self.index.change_writer(change).await
    }

    async fn moves(&self) -> Result<u64> {
        self.index.moves().await
    }

    /// A table that is built is no longer what was known of it.
    async fn build(&self, records: &[Record<'_>]) -> Result<()> {
        let built = self.index.build(records).await;
        self.clear();
        built
    }

    fn state(&self) -> ClientState {
        let state = self.index.state();
        let cache = self.counts();
        ClientState {
            client_bytes: state.client_bytes + cache.bytes,
            cache,
            ..state
        }
    }

    fn now(&self) -> Nanos {
        self.index.now()
    }

    fn is_up(&self) -> bool {
        self.index.is_up()
    }
}

//! The cache as an [`Index`].

use super::sets::Fetch;
use super::{Cached, UncachedWrite};
use crate::{
    Admin, AdminOutcome, Answers, BoxFuture, ClientState, Cursor, Got, Index, IndexExt, Operation,
    Outcome, Outcomes, Result, Waits,
};
use farslot_fabric::Nanos;

/// How an operation of a batch uses the cache.
enum Use<'c> {
    Fetch(Option<Fetch>),
    /// A write, which lasts until its outcome is known.
    Write(Option<UncachedWrite<'c>>),
}

impl<I: Index + ?Sized> Cached<I> {
    #[inline]
    async fn find(&self, key: &[u8]) -> Got {
        match self.look(key) {
            Ok(answer) => Ok(answer),
            Err(fetch) => {
                let answer = self.index.get(key).await;
                self.keep(fetch, key, &answer);
                answer
            }
        }
    }

    /// Those that are not in the cache are one batch of the index.
    async fn look_up_missed(&self, keys: &[&[u8]], done: &mut dyn FnMut(Answers<'_>)) {
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
        let mut fetched = |answers: Answers<'_>| answers.each(&mut fetched);
        self.index.look_up(&keys, &mut fetched).await;
    }

    /// Those that are not in the cache are one batch of the index.
    async fn run_missed(&self, operations: &[Operation<'_>], done: &mut dyn FnMut(Outcomes<'_>)) {
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
        let done_with = |at: usize, outcome: Result<Outcome>| {
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
        self.index.run_each(&asked, done_with).await;
    }
}

impl<I: Index + ?Sized> Index for Cached<I> {
    fn waits(&self) -> Waits {
        self.index.waits()
    }

    fn get<'s>(&'s self, key: &'s [u8]) -> BoxFuture<'s, Got> {
        Box::pin(self.find(key))
    }

    fn run<'s>(&'s self, operation: Operation<'s>) -> BoxFuture<'s, Result<Outcome>> {
        Box::pin(async move {
            match operation {
                Operation::Get(key) => self.find(key).await.map(Outcome::Value),
                // What a get-all tells is not kept, and may be newer than what is.
                _ => {
                    let _writing = self.writing(operation.key());
                    self.index.run(operation).await
                }
            }
        })
    }

    fn look_up<'s>(
        &'s self,
        keys: &'s [&'s [u8]],
        done: &'s mut dyn FnMut(Answers<'_>),
    ) -> BoxFuture<'s, ()> {
        Box::pin(self.look_up_missed(keys, done))
    }

    fn run_many<'s>(
        &'s self,
        operations: &'s [Operation<'s>],
        done: &'s mut dyn FnMut(Outcomes<'_>),
    ) -> BoxFuture<'s, ()> {
        Box::pin(self.run_missed(operations, done))
    }

    fn scan<'s>(
        &'s self,
        cursor: Cursor,
        most: u64,
        visit: &'s mut dyn FnMut(&[u8], &[u8]),
    ) -> BoxFuture<'s, Result<Option<Cursor>>> {
        self.index.scan(cursor, most, visit)
    }

    fn admin<'s>(&'s self, request: Admin<'s>) -> BoxFuture<'s, Result<AdminOutcome>> {
        match request {
            // A table that is built is no longer what was known of it.
            Admin::Build(_) => Box::pin(async move {
                let built = self.index.admin(request).await;
                self.clear();
                built
            }),
            _ => self.index.admin(request),
        }
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

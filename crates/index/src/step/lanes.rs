//! Many lookups side by side, over verbs.
//!
//! A lookup that READs alone decide needs no future: its state is a key, a search and READs on
//! their way. A batch is a fixed row of *lanes* that hold one such lookup each, and look and read
//! on in place. A [slow path](NextStep::SlowPath) goes on as the ordinary lookup, in its lane, from
//! where it stands.
//!
//! Lanes that begin prepare first, all of them, so that what they will look at in the client's
//! memory is fetched side by side. Lookups that are known to end with their READs are posted behind
//! those that may take more: the answers to these are here the sooner, and what follows from them
//! is under way while the others are answered.

use super::drive::{drive, not_read};
use super::lookup::{Answer, Lookup, NextStep, Reads};
use super::received::ReceivedPieces;
use crate::BATCH_WIDTH;
use farslot_fabric::{Accounting, EndpointExt, OperationClass, Piece, Reader};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A place for one lookup at a time. `F` is the future of the rest of an ordinary lookup.
struct LookupLane<'t, 'k, L: Lookup, F> {
    stage: Stage,
    class: OperationClass,
    /// The key's number in the batch.
    number: usize,
    key: Option<L::Key<'k>>,
    search: L::Search,
    /// One for each piece of a step, but one for all that are gathered. The first books for all.
    readers: Vec<Reader<'t, L::Endpoint>>,
    rest: Option<Pin<Box<F>>>,
}

#[derive(Clone, Copy)]
enum Stage {
    Idle,
    /// Has a key, for which this client's memory is being fetched.
    Prepared,
    /// Waits until the other lanes have posted.
    Holding(Reads),
    /// Waits for its readers.
    Reading(Reads),
    /// Waits for `rest`.
    GoingOn,
}

/// Looks keys up, [`BATCH_WIDTH`] at a time.
pub(super) async fn do_many<'k, L: Lookup>(
    table: &L,
    class: OperationClass,
    mut keys: impl Iterator<Item = (usize, L::Asked<'k>)>,
    mut done: impl FnMut(usize, Answer),
) {
    let width = keys.size_hint().1.unwrap_or(BATCH_WIDTH).min(BATCH_WIDTH);
    let go_on = |key: L::Key<'k>, mut search: L::Search, next, accounting| {
        let rest = async move { drive(table, &key, &mut search, next).await };
        table.endpoint().operation_begun(class, accounting, rest)
    };
    let mut lanes: Vec<_> = (0..width).map(|_| LookupLane::new(table, class)).collect();
    poll_fn(|cx| {
        loop {
            let mut has_taken = false;
            for lane in &mut lanes {
                lane.go_on(table, &go_on, &mut done, cx);
                has_taken |= lane.take_key(table, &mut keys, &mut done);
            }
            for lane in &mut lanes {
                if let Stage::Prepared = lane.stage {
                    lane.begin(table, &go_on, &mut done);
                }
            }
            for lane in &mut lanes {
                if let Stage::Holding(reads) = lane.stage {
                    lane.read(table, reads, &go_on, &mut done);
                }
            }
            if !has_taken {
                break;
            }
        }
        if lanes.iter().all(|lane| matches!(lane.stage, Stage::Idle)) {
            return Poll::Ready(());
        }
        table.while_waiting();
        Poll::Pending
    })
    .await;
}

impl<'t, 'k, L: Lookup, F: Future<Output = Answer>> LookupLane<'t, 'k, L, F> {
    fn new(table: &'t L, class: OperationClass) -> Self {
        Self {
            stage: Stage::Idle,
            class,
            number: 0,
            key: None,
            search: L::Search::default(),
            readers: vec![table.endpoint().reader()],
            rest: None,
        }
    }

    /// Takes the next key if the lane is idle; false if it is not, or there is none.
    #[inline]
    fn take_key(
        &mut self,
        table: &'t L,
        keys: &mut impl Iterator<Item = (usize, L::Asked<'k>)>,
        done: &mut impl FnMut(usize, Answer),
    ) -> bool {
        while let Stage::Idle = self.stage {
            let Some((number, bytes)) = keys.next() else {
                return false;
            };
            self.number = number;
            match table.key(bytes) {
                Ok(key) => {
                    table.prepare(&key, &mut self.search);
                    self.key = Some(key);
                    self.stage = Stage::Prepared;
                    return true;
                }
                Err(error) => self.end(Err(error), done),
            }
        }
        false
    }

    #[inline]
    fn begin(
        &mut self,
        table: &'t L,
        go_on: &impl Fn(L::Key<'k>, L::Search, NextStep<L::SlowPath>, Accounting) -> F,
        done: &mut impl FnMut(usize, Answer),
    ) {
        match table.begin(key_of(&self.key), &mut self.search) {
            NextStep::Read(reads) if reads.is_last => self.stage = Stage::Holding(reads),
            next => self.follow(table, next, go_on, done),
        }
    }

    /// Goes on with what the lane waits for, as long as that has come.
    #[inline]
    fn go_on(
        &mut self,
        table: &'t L,
        go_on: &impl Fn(L::Key<'k>, L::Search, NextStep<L::SlowPath>, Accounting) -> F,
        done: &mut impl FnMut(usize, Answer),
        cx: &mut Context<'_>,
    ) {
        while let Stage::Reading(reads) = self.stage {
            let next = match self.poll_readers(reads, cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {
                    let mut received = self.received(table, reads);
                    match table.look(key_of(&self.key), &mut self.search, &mut received) {
                        NextStep::Found(found) => {
                            self.end(Ok(Some(received.into_value(found))), done);
                            return;
                        }
                        next => next,
                    }
                }
                Poll::Ready(Err(error)) => {
                    not_read(table, key_of(&self.key), &mut self.search, error)
                }
            };
            self.follow(table, next, go_on, done);
        }
        if let Some(rest) = &mut self.rest
            && let Poll::Ready(answer) = rest.as_mut().poll(cx)
        {
            self.rest = None;
            self.stage = Stage::Idle;
            done(self.number, answer);
        }
    }

    /// Does what the lookup has to do next.
    #[inline]
    fn follow(
        &mut self,
        table: &'t L,
        next: NextStep<L::SlowPath>,
        go_on: &impl Fn(L::Key<'k>, L::Search, NextStep<L::SlowPath>, Accounting) -> F,
        done: &mut impl FnMut(usize, Answer),
    ) {
        match next {
            NextStep::Read(reads) if !reads.ahead => self.read(table, reads, go_on, done),
            NextStep::Absent => self.end(Ok(None), done),
            NextStep::Failed(error) => self.end(Err(*error), done),
            next => {
                let key = self.key.take().expect("a lane that goes on has a key");
                let search = std::mem::take(&mut self.search);
                let (_, accounting) = self.readers[0].hand_over();
                self.rest = Some(Box::pin(go_on(key, search, next, accounting)));
                self.stage = Stage::GoingOn;
            }
        }
    }

    /// Posts what is to be read.
    #[inline]
    fn read(
        &mut self,
        table: &'t L,
        reads: Reads,
        go_on: &impl Fn(L::Key<'k>, L::Search, NextStep<L::SlowPath>, Accounting) -> F,
        done: &mut impl FnMut(usize, Answer),
    ) {
        let piece = |number| table.piece(key_of(&self.key), &self.search, number);
        let posted = if reads.gathered {
            self.readers[0].read_many(reads.numbers().map(piece).collect())
        } else {
            while self.readers.len() < reads.pieces {
                self.readers.push(table.endpoint().reader());
            }
            let readers = self.readers[..reads.pieces].iter_mut();
            readers
                .zip(reads.numbers())
                .try_for_each(|(reader, number)| {
                    let Piece { from, len } = piece(number);
                    reader.read(from, len)
                })
        };
        match posted {
            Ok(()) => self.stage = Stage::Reading(reads),
            Err(error) => {
                let next = not_read(table, key_of(&self.key), &mut self.search, error.into());
                self.follow(table, next, go_on, done);
            }
        }
    }

    /// Ready when all pieces are here; with an error if one will not come.
    #[inline]
    fn poll_readers(&mut self, reads: Reads, cx: &mut Context<'_>) -> Poll<crate::Result<()>> {
        if reads.gathered || reads.pieces == 1 {
            return self.readers[0].poll(cx).map_err(Into::into);
        }
        let mut all = Poll::Ready(Ok(()));
        for reader in self.readers[..reads.pieces].iter_mut() {
            if !reader.is_reading() {
                continue;
            }
            match reader.poll(cx) {
                Poll::Pending if matches!(all, Poll::Ready(Ok(()))) => all = Poll::Pending,
                Poll::Ready(Err(error)) => all = Poll::Ready(Err(error.into())),
                _ => {}
            }
        }
        if all.is_ready() {
            let (first, others) = self.readers.split_at_mut(1);
            for other in others {
                first[0].count_with(other);
            }
        }
        all
    }

    /// What the readers have read.
    #[inline]
    fn received(&mut self, table: &'t L, reads: Reads) -> ReceivedPieces {
        let mut buffers = self.readers.iter_mut().map(|reader| {
            let buffer = reader.take();
            buffer.expect("a READ that has completed has filled its buffer")
        });
        if reads.gathered {
            let piece = |number| table.piece(key_of(&self.key), &self.search, number);
            let all = buffers.next().expect("a lane has a reader");
            return ReceivedPieces::gathered(all, reads.numbers().map(piece));
        }
        match reads.pieces {
            1 => ReceivedPieces::One(buffers.next().expect("a lane has a reader")),
            pieces => ReceivedPieces::Apart(buffers.take(pieces).collect()),
        }
    }

    /// Ends the lookup.
    #[inline]
    fn end(&mut self, answer: Answer, done: &mut impl FnMut(usize, Answer)) {
        self.readers[0].end_operation(self.class);
        self.stage = Stage::Idle;
        done(self.number, answer);
    }
}

#[inline(always)]
fn key_of<K>(key: &Option<K>) -> &K {
    key.as_ref().expect("a lane that has begun has a key")
}

//! Looking up many keys side by side.
//!
//! As in the linear table ([`LinearTable`](crate::linear::LinearTable)), a batch is a fixed row of
//! *lanes*, each with one lookup and a READ on its way, and no future. Here most of a lookup is a
//! look at the index, two buckets of it anywhere in the client's memory: so the lanes that begin
//! name their buckets first, all of them, for the processor to fetch side by side, and look
//! afterwards. A key that is absent costs nothing else.
//!
//! Invariant: a lane takes the steps of the ordinary lookup (`lookup.rs`); who has to hold the
//! key's buckets goes on as a future, in its lane.

use super::lookup::{Fetched, Next, Search};
use super::records::SlotRead;
use super::state::{DuoTable, Key};
use crate::{BATCH_WIDTH, GET, Result, Value};
use farslot_fabric::{Booking, Endpoint, EndpointExt, Reader};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

type Answer = Result<Option<Value>>;

/// A place for one lookup at a time. `F` is the future of one that holds the key's buckets.
struct Lane<'t, 'k, E: Endpoint, F> {
    stage: Stage,
    /// The key's number in the batch.
    number: usize,
    key: Option<Key<'k>>,
    search: Search,
    reader: Reader<'t, E>,
    holding: Option<Pin<Box<F>>>,
}

#[derive(Clone, Copy)]
enum Stage {
    Idle,
    /// Has a key whose part of the index is being fetched.
    Fetching(Fetched),
    /// Waits for its reader.
    Reading,
    /// Waits for `holding`.
    Holding,
}

impl<E: Endpoint> DuoTable<E> {
    /// Looks keys up whose records are in their slots.
    pub(super) async fn get_in_lanes<'t, 'k>(
        &'t self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        mut done: impl FnMut(usize, Answer),
    ) {
        let mut keys = keys.into_iter().enumerate();
        let width = keys.size_hint().1.unwrap_or(BATCH_WIDTH).min(BATCH_WIDTH);
        let hold = |key, booking| {
            let holding = async move { self.find_holding(&key).await };
            self.endpoint.operation_begun(GET, booking, holding)
        };
        let mut lanes: Vec<_> = (0..width).map(|_| Lane::new(self)).collect();
        poll_fn(|cx| {
            loop {
                let mut begun = false;
                for lane in &mut lanes {
                    self.go_on(lane, &hold, &mut done, cx);
                    begun |= self.take_key(lane, &mut keys, &mut done);
                }
                if !begun {
                    break;
                }
                for lane in &mut lanes {
                    if let Stage::Fetching(fetched) = lane.stage {
                        self.begin_in(lane, fetched, &hold, &mut done);
                    }
                }
            }
            let idle = lanes.iter().all(|lane| matches!(lane.stage, Stage::Idle));
            if idle { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Gives an idle lane a key, if there is one left, and has the key's part of the index fetched.
    #[inline]
    fn take_key<'k, F>(
        &self,
        lane: &mut Lane<'_, 'k, E, F>,
        keys: &mut impl Iterator<Item = (usize, &'k [u8])>,
        done: &mut impl FnMut(usize, Answer),
    ) -> bool {
        while let Stage::Idle = lane.stage {
            let Some((number, key)) = keys.next() else {
                return false;
            };
            lane.number = number;
            match self.key(key) {
                Ok(key) => {
                    lane.stage = Stage::Fetching(self.fetch(&key));
                    lane.key = Some(key);
                    return true;
                }
                Err(error) => lane.end(Err(error), done),
            }
        }
        false
    }

    /// Begins the lookup of a lane's key.
    #[inline]
    fn begin_in<'t, 'k, F>(
        &'t self,
        lane: &mut Lane<'t, 'k, E, F>,
        fetched: Fetched,
        hold: &impl Fn(Key<'k>, Booking) -> F,
        done: &mut impl FnMut(usize, Answer),
    ) {
        let key = lane.key.as_ref().expect("a lane that has begun has a key");
        let next = self.begin_search(&mut lane.search, key, Some(fetched));
        self.follow_in(lane, next, hold, done);
    }

    /// Goes on with what a lane waits for, if it has come.
    #[inline]
    fn go_on<'t, 'k, F: Future<Output = Answer>>(
        &'t self,
        lane: &mut Lane<'t, 'k, E, F>,
        hold: &impl Fn(Key<'k>, Booking) -> F,
        done: &mut impl FnMut(usize, Answer),
        cx: &mut Context<'_>,
    ) {
        while let Stage::Reading = lane.stage {
            match lane.reader.poll(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {
                    let key = lane.key.as_ref().expect("a lane that reads has a key");
                    let read = lane.reader.take();
                    let read = read.expect("a READ that has completed has filled its buffer");
                    let next = self.judge(&mut lane.search, key, SlotRead::in_place(read));
                    self.follow_in(lane, next, hold, done);
                }
                Poll::Ready(Err(error)) => lane.end(Err(error.into()), done),
            }
        }
        if let Some(holding) = &mut lane.holding
            && let Poll::Ready(answer) = holding.as_mut().poll(cx)
        {
            lane.holding = None;
            lane.stage = Stage::Idle;
            done(lane.number, answer);
        }
    }

    /// Does in a lane what its lookup has to do next.
    #[inline]
    fn follow_in<'t, 'k, F>(
        &'t self,
        lane: &mut Lane<'t, 'k, E, F>,
        next: Next,
        hold: &impl Fn(Key<'k>, Booking) -> F,
        done: &mut impl FnMut(usize, Answer),
    ) {
        match next {
            Next::Read(at) => match lane.reader.read(at, self.layout.slot_bytes()) {
                Ok(()) => lane.stage = Stage::Reading,
                Err(error) => lane.end(Err(error.into()), done),
            },
            Next::Answer(answer) => lane.end(Ok(answer), done),
            Next::Hold => {
                let key = lane.key.take().expect("a lane that goes on has a key");
                let (_, booking) = lane.reader.hand_over();
                lane.holding = Some(Box::pin(hold(key, booking)));
                lane.stage = Stage::Holding;
            }
        }
    }
}

impl<'t, E: Endpoint, F> Lane<'t, '_, E, F> {
    fn new(table: &'t DuoTable<E>) -> Self {
        Self {
            stage: Stage::Idle,
            number: 0,
            key: None,
            search: Search::default(),
            reader: table.endpoint.reader(),
            holding: None,
        }
    }

    /// Ends the lookup.
    #[inline]
    fn end(&mut self, answer: Answer, done: &mut impl FnMut(usize, Answer)) {
        self.reader.end_operation(GET);
        self.stage = Stage::Idle;
        done(self.number, answer);
    }
}

//! Looking up many keys side by side.
//!
//! A lookup that its READs alone decide needs no future: its state is a key, a place on the key's
//! probe and a READ on its way. A batch is a fixed row of *lanes* that hold one such lookup each,
//! and answer, scan and read on in place: slots, the record out of band that one of them names, or both at once where
//! the client remembers them. What takes more than that (a record that is not whole or another key's, a slot to be read
//! again, a chunk round the table's end, a refresh of the load factor) goes on as the ordinary lookup, in its lane, from
//! where the probe stands.
//!
//! Lookups that are known to take one round trip are posted behind those that may take more: the answers to these are
//! here the sooner, and what follows from them is under way while the others are answered.
//!
//! Invariant: a lane and the ordinary lookup walk the same probe by the same steps. They differ in
//! who posts the READs, never in which, and each lookup is booked once, by whoever ends it.

use super::client::{Key, LinearTable};
use super::lookup::Seen;
use super::probe::{NextRead, Probe};
use super::record_locations::{AtLocation, is_too_much_at_once};
use crate::record_locations::RecordLocation;
use crate::slot::{Head, KeyRule};
use crate::{BATCH_WIDTH, GET, IndexError, Result, Value};
use farslot_fabric::{Booking, Buffer, Endpoint, EndpointExt, Piece, Reader};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

type Answer = Result<Option<Value>>;

/// A place for one lookup at a time. `F` is the future of an ordinary lookup. All of it stays where
/// it is: a lookup is written into its lane, not moved there.
struct Lane<'t, 'k, E: Endpoint, F> {
    stage: Stage,
    /// The key's number in the batch.
    number: usize,
    key: Option<Key<'k>>,
    home: u64,
    /// The chunk that is read: where it begins, in slots from the key's home, and its slots.
    first: u64,
    slots: u64,
    reads: u32,
    /// The slot of the record that is read: its head, and how far it is from the key's home.
    head: u64,
    met: u64,
    /// The load factor has to be asked for first.
    refresh: bool,
    reader: Reader<'t, E>,
    rest: Option<Pin<Box<F>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Waits until the other lanes have posted: its key is remembered to be there.
    Remembering(RecordLocation),
    /// Waits for its reader: for the record and the slot that are remembered.
    Recalling(RecordLocation),
    /// Waits for its reader: for slots.
    Reading,
    /// Waits for its reader: for the record that a slot names.
    ReadingRecord,
    /// Waits for `rest`.
    GoingOn,
}

/// What follows from a chunk. Small: it is made for every one.
enum Next {
    /// The word that holds the key's value.
    Found(u64),
    Absent,
    Failed(Box<IndexError>),
    /// The key's value, out of band.
    Value(Value),
    /// The record and the slot that are remembered are being read.
    Recall(RecordLocation),
    /// The chunk at the lane's place has to be read.
    Read,
    /// The record that the lane's head names has to be read.
    ReadRecord,
    /// More than a lane can do.
    More,
}

/// What the rest of a lookup begins with.
struct Rest<'t, 'k, E: Endpoint> {
    key: Key<'k>,
    probe: Probe<'t, E>,
    refresh: bool,
}

impl<E: Endpoint> LinearTable<E> {
    pub(super) async fn get_in_lanes<'t, 'k>(
        &'t self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        mut done: impl FnMut(usize, Answer),
    ) {
        let mut keys = keys.into_iter().enumerate();
        let width = keys.size_hint().1.unwrap_or(BATCH_WIDTH).min(BATCH_WIDTH);
        let go_on = |rest, booking| {
            let rest = self.go_on(rest);
            self.endpoint.operation_begun(GET, booking, rest)
        };
        let mut lanes: Vec<_> = (0..width).map(|_| Lane::new(self)).collect();
        poll_fn(|cx| {
            let mut idle = true;
            for lane in &mut lanes {
                let ran = self.run(lane, true, &mut keys, &go_on, &mut done, cx);
                idle &= ran.is_ready() || lane.is_remembering();
            }
            for lane in &mut lanes {
                if lane.is_remembering() {
                    let ran = self.run(lane, false, &mut keys, &go_on, &mut done, cx);
                    idle &= ran.is_ready();
                }
            }
            if idle {
                Poll::Ready(())
            } else {
                self.polled(Poll::Pending)
            }
        })
        .await;
    }

    /// Runs a lane until it waits; ready when there are no more keys for it. One whose key is remembered waits to be run
    /// once more if that is to be `later`.
    #[inline]
    fn run<'t, 'k, F: Future<Output = Answer>>(
        &'t self,
        lane: &mut Lane<'t, 'k, E, F>,
        later: bool,
        keys: &mut impl Iterator<Item = (usize, &'k [u8])>,
        go_on: &impl Fn(Rest<'t, 'k, E>, Booking) -> F,
        done: &mut impl FnMut(usize, Answer),
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            let next = match lane.stage {
                Stage::Idle => {
                    let Some((number, key)) = keys.next() else {
                        return Poll::Ready(());
                    };
                    lane.number = number;
                    match self.begin(lane, key) {
                        Next::Recall(hint) if later => {
                            lane.stage = Stage::Remembering(hint);
                            return Poll::Pending;
                        }
                        next => next,
                    }
                }
                Stage::Remembering(hint) => Next::Recall(hint),
                Stage::Recalling(_) | Stage::Reading | Stage::ReadingRecord => {
                    match ready!(lane.reader.poll(cx)) {
                        Ok(()) => self.judge(lane),
                        Err(error) => failed(error.into()),
                    }
                }
                Stage::GoingOn => {
                    let rest = lane
                        .rest
                        .as_mut()
                        .expect("a lane that goes on has a future");
                    let answer = ready!(rest.as_mut().poll(cx));
                    lane.rest = None;
                    lane.stage = Stage::Idle;
                    done(lane.number, answer);
                    continue;
                }
            };
            let next = match next {
                Next::Recall(hint) => self.read_at_location(lane, hint),
                Next::Read => self.read_on(lane),
                Next::ReadRecord => self.read_record(lane),
                decided => decided,
            };
            match next {
                Next::Recall(hint) => lane.stage = Stage::Recalling(hint),
                Next::Read => lane.stage = Stage::Reading,
                Next::ReadRecord => lane.stage = Stage::ReadingRecord,
                Next::Value(value) => {
                    lane.end();
                    done(lane.number, Ok(Some(value)));
                }
                Next::Found(word) => {
                    lane.end();
                    done(lane.number, Ok(self.value_of(word)));
                }
                Next::Absent => {
                    lane.end();
                    done(lane.number, Ok(None));
                }
                Next::Failed(error) => {
                    lane.end();
                    done(lane.number, Err(*error));
                }
                Next::More => {
                    let (rest, booking) = lane.hand_over();
                    lane.rest = Some(Box::pin(go_on(rest, booking)));
                    lane.stage = Stage::GoingOn;
                }
            }
        }
    }

    /// The rest of a lookup, by the ordinary way.
    async fn go_on(&self, mut rest: Rest<'_, '_, E>) -> Answer {
        if rest.refresh {
            self.refresh().await?;
        }
        self.find_from(&rest.key, &mut rest.probe).await
    }

    /// Begins the lookup of a key.
    #[inline]
    fn begin<'t, 'k, F>(&'t self, lane: &mut Lane<'t, 'k, E, F>, key: &'k [u8]) -> Next {
        let key = match self.key(key) {
            Ok(key) => key,
            Err(error) => return failed(error),
        };
        let hint = self.known_location(&key);
        lane.home = key.home;
        lane.key = Some(key);
        lane.first = 0;
        lane.slots = 0;
        lane.reads = 0;
        lane.refresh = self.refresh_is_due();
        if lane.refresh {
            return Next::More;
        }
        hint.map_or(Next::Read, Next::Recall)
    }

    /// Looks at what has come.
    #[inline]
    fn judge<'t, F>(&'t self, lane: &mut Lane<'t, '_, E, F>) -> Next {
        match lane.stage {
            Stage::Recalling(hint) => self.judge_at_location(lane, hint),
            Stage::ReadingRecord => self.judge_record(lane),
            Stage::Reading | Stage::Idle | Stage::Remembering(_) | Stage::GoingOn => {
                self.look(lane)
            }
        }
    }

    /// Looks at the record and the slot that were remembered.
    #[inline]
    fn judge_at_location<'t, F>(
        &'t self,
        lane: &mut Lane<'t, '_, E, F>,
        hint: RecordLocation,
    ) -> Next {
        let (key, read) = lane.take_read();
        match self.at_location(key, hint, read) {
            AtLocation::Value(value) => Next::Value(value),
            AtLocation::Changed(head) if Head::decode(head).is_out_of(key.hash) => {
                lane.head = head;
                lane.met = hint.distance;
                Next::ReadRecord
            }
            AtLocation::Changed(_) => Next::Read,
        }
    }

    /// Looks at the record that a slot names.
    #[inline]
    fn judge_record<'t, F>(&'t self, lane: &mut Lane<'t, '_, E, F>) -> Next {
        // The chunk that its slot came with is gone: whoever goes on reads it again.
        lane.slots = 0;
        let (head, met) = (lane.head, lane.met);
        let (key, read) = lane.take_read();
        let Some(value) = self.value_in(key, head, read) else {
            return Next::More;
        };
        self.remember(key, met, head);
        self.lookup_took(lane.reads);
        Next::Value(value)
    }

    /// Looks through the chunk that has come.
    #[inline]
    fn look<'t, F>(&'t self, lane: &mut Lane<'t, '_, E, F>) -> Next {
        let key = lane.key.as_ref().expect("a lane that reads has a key");
        let words = lane.reader.words();
        let (passed, seen) = self.scan_words(key, words);
        let distance = lane.first + passed;
        let next = match seen {
            Seen::Nothing => {
                lane.first += lane.slots;
                lane.slots = 0;
                return Next::Read;
            }
            Seen::Empty => {
                self.met_empty(lane.home, distance);
                Next::Absent
            }
            Seen::Word(word) if self.layout.keys == KeyRule::Unique || self.has_value(word) => {
                if self.hints.is_some() {
                    let from = passed as usize * (self.layout.slot_bytes() / 8);
                    self.met_in_use(lane.home, distance, &words[from..]);
                }
                Next::Found(word)
            }
            Seen::Head(head) if Head::decode(head).is_out_of(key.hash) => {
                if self.hints.is_some() {
                    let from = passed as usize * (self.layout.slot_bytes() / 8);
                    self.met_in_use(lane.home, distance, &words[from..]);
                }
                lane.head = head;
                lane.met = distance;
                return Next::ReadRecord;
            }
            Seen::Word(_) | Seen::Head(_) => return Next::More,
        };
        self.lookup_took(lane.reads);
        next
    }

    /// Has the key's record and its slot read, where they are remembered to be.
    #[inline]
    fn read_at_location<'t, F>(
        &'t self,
        lane: &mut Lane<'t, '_, E, F>,
        hint: RecordLocation,
    ) -> Next {
        let key = lane.key.as_ref().expect("a lane that reads has a key");
        match lane.reader.read_many(self.pieces_of(key, hint)) {
            Ok(()) => Next::Recall(hint),
            Err(error) if is_too_much_at_once(&error) => {
                self.forget(key);
                self.read_on(lane)
            }
            Err(error) => failed(error.into()),
        }
    }

    /// Has the record read that the lane's head names.
    #[inline]
    fn read_record<'t, F>(&'t self, lane: &mut Lane<'t, '_, E, F>) -> Next {
        let Head::Out { block, .. } = Head::decode(lane.head) else {
            return Next::More;
        };
        let Piece { from, len } = self.heap().piece(block);
        match lane.reader.read(from, len) {
            Ok(()) => Next::ReadRecord,
            Err(error) => failed(error.into()),
        }
    }

    /// Has the chunk at the lane's place read, if one READ does it.
    #[inline]
    fn read_on<'t, F>(&'t self, lane: &mut Lane<'t, '_, E, F>) -> Next {
        match self.next_read(lane.home, lane.first) {
            NextRead::Slots { from, slots } => {
                lane.slots = slots;
                lane.reads += 1;
                let bytes = slots as usize * self.layout.slot_bytes();
                match lane.reader.read(from, bytes) {
                    Ok(()) => Next::Read,
                    Err(error) => failed(error.into()),
                }
            }
            NextRead::Several => Next::More,
            NextRead::End => {
                self.lookup_took(lane.reads);
                Next::Absent
            }
        }
    }
}

impl<'t, 'k, E: Endpoint, F> Lane<'t, 'k, E, F> {
    fn new(table: &'t LinearTable<E>) -> Self {
        Self {
            stage: Stage::Idle,
            number: 0,
            key: None,
            home: 0,
            first: 0,
            slots: 0,
            reads: 0,
            head: 0,
            met: 0,
            refresh: false,
            reader: table.endpoint.reader(),
            rest: None,
        }
    }

    fn is_remembering(&self) -> bool {
        matches!(self.stage, Stage::Remembering(_))
    }

    /// The lane's key, and what has been read for it.
    #[inline]
    fn take_read(&mut self) -> (&Key<'k>, Buffer) {
        let key = self.key.as_ref().expect("a lane that reads has a key");
        let read = self.reader.take();
        (
            key,
            read.expect("a READ that has completed has filled its buffer"),
        )
    }

    /// Ends the lookup.
    #[inline]
    fn end(&mut self) {
        self.reader.end_operation(GET);
        self.stage = Stage::Idle;
    }

    /// The lookup as it stands, for the ordinary way. The chunk that is here is looked through again.
    fn hand_over(&mut self) -> (Rest<'t, 'k, E>, Booking) {
        let key = self.key.take().expect("a lane that goes on has a key");
        let (buffer, booking) = self.reader.hand_over();
        let chunk = buffer
            .filter(|_| self.slots > 0)
            .map(|buffer| (buffer, self.slots));
        let probe = Probe::walked(&key, self.first, self.reads, chunk);
        let rest = Rest {
            key,
            probe,
            refresh: self.refresh,
        };
        (rest, booking)
    }
}

#[cold]
fn failed(error: IndexError) -> Next {
    Next::Failed(Box::new(error))
}

//! Looking up many keys side by side.
//!
//! A lookup that its READs alone decide needs no future: its state is a key, a place on the key's
//! probe and a READ on its way. A batch is a fixed row of *lanes* that hold one such lookup each,
//! and answer, scan and read on in place. What takes more than READs of consecutive slots (a record
//! out of band, a slot to be read again, a chunk round the table's end, a refresh of the load
//! factor) goes on as the ordinary lookup, in its lane, from where the probe stands.
//!
//! Invariant: a lane and the ordinary lookup walk the same probe by the same steps. They differ in
//! who posts the READs, never in which, and each lookup is booked once, by whoever ends it.

use super::client::{Key, LinearTable};
use super::lookup::Seen;
use super::probe::{NextRead, Probe};
use crate::slot::KeyRule;
use crate::{BATCH_WIDTH, GET, IndexError, Result, Value};
use farslot_fabric::{Booking, Endpoint, EndpointExt, Reader};
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
    /// The load factor has to be asked for first.
    refresh: bool,
    reader: Reader<'t, E>,
    rest: Option<Pin<Box<F>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Waits for its reader.
    Reading,
    /// Waits for `rest`.
    GoingOn,
}

/// What follows from a chunk. Small: it is made for every one.
enum Next {
    /// The word that holds the key's value.
    Found(u64),
    Absent,
    Failed(Box<IndexError>),
    /// The chunk at the lane's place has to be read.
    Read,
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
                idle &= self.run(lane, &mut keys, &go_on, &mut done, cx).is_ready();
            }
            if idle {
                Poll::Ready(())
            } else {
                self.polled(Poll::Pending)
            }
        })
        .await;
    }

    /// Runs a lane until it waits; ready when there are no more keys for it.
    #[inline]
    fn run<'t, 'k, F: Future<Output = Answer>>(
        &'t self,
        lane: &mut Lane<'t, 'k, E, F>,
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
                    self.begin(lane, key)
                }
                Stage::Reading => match ready!(lane.reader.poll(cx)) {
                    Ok(()) => self.look(lane),
                    Err(error) => failed(error.into()),
                },
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
                Next::Read => self.read_on(lane),
                decided => decided,
            };
            match next {
                Next::Read => lane.stage = Stage::Reading,
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
        lane.home = key.home;
        lane.key = Some(key);
        lane.first = 0;
        lane.slots = 0;
        lane.reads = 0;
        lane.refresh = self.refresh_is_due();
        if lane.refresh {
            return Next::More;
        }
        Next::Read
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
            Seen::Word(_) | Seen::Head(_) => return Next::More,
        };
        self.lookup_took(lane.reads);
        next
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
            refresh: false,
            reader: table.endpoint.reader(),
            rest: None,
        }
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

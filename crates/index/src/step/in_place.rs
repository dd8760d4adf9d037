//! Lookups on the memory itself, where that is mapped.
//!
//! A batch is done in windows: the first pieces of all its keys are asked for, then each lookup
//! looks at what has come, and what it wants next is asked for in turn. So the processor fetches
//! side by side what a network would. Words are loaded from the mapping where they are looked at;
//! only what has to be had in one piece (a record whose checksum is to be made) is copied first.

use super::drive::drive;
use super::lookup::{Answer, Lookup, Next, Reads};
use super::mapped::{Mapped, locate};
use crate::GET;
use crate::client::let_others_run;
use farslot_fabric::counters::Tally;
use farslot_fabric::{Booking, Endpoint, EndpointExt, InPlace};

/// Lookups of a window: their first pieces are about what a processor can have under way.
const WINDOW: usize = 16;

/// Lookups of a window, field by field: a step touches few of them.
struct Window<'k, L: Lookup> {
    keys: [Option<L::Key<'k>>; WINDOW],
    searches: [L::Search; WINDOW],
    /// What those that are in `reading` are about to look at.
    reads: [Reads; WINDOW],
    /// The keys' numbers in the batch.
    numbers: [usize; WINDOW],
    bookings: [Booking; WINDOW],
    /// What those do next that cannot go on here.
    stuck: Vec<(usize, Next<L::Aside>)>,
}

/// Looks keys up for as long as the memory is there. Keys that are not taken are left in `keys`.
pub(super) async fn find_many<'k, L: Lookup>(
    table: &L,
    keys: &mut impl Iterator<Item = (usize, &'k [u8])>,
    done: &mut impl FnMut(usize, Answer),
) {
    let endpoint = table.endpoint();
    if table.in_place().is_none() {
        return;
    }
    let mut window = Box::new(Window::new());
    while let Some(view) = table.in_place() {
        let taken = window.run(table, view, keys, done);
        while let Some((lane, next)) = window.stuck.pop() {
            let (key, search) = (&window.keys[lane], &mut window.searches[lane]);
            let key = key.as_ref().expect("a lookup has a key");
            let rest = drive(table, key, search, next);
            let answer = endpoint.operation_begun(GET, window.bookings[lane], rest);
            done(window.numbers[lane], answer.await);
        }
        if taken < WINDOW {
            return;
        }
        if endpoint.core().is_turn_over() {
            let_others_run().await;
        }
    }
}

impl<'k, L: Lookup> Window<'k, L> {
    fn new() -> Self {
        Self {
            keys: [const { None }; WINDOW],
            searches: std::array::from_fn(|_| L::Search::default()),
            reads: [Reads::ONE; WINDOW],
            numbers: [0; WINDOW],
            bookings: [Booking::default(); WINDOW],
            stuck: Vec::new(),
        }
    }

    /// Takes keys and looks them up; returns how many it took: fewer than a window has where there
    /// are no more.
    #[inline(never)]
    fn run(
        &mut self,
        table: &L,
        view: InPlace<'_>,
        keys: &mut impl Iterator<Item = (usize, &'k [u8])>,
        done: &mut impl FnMut(usize, Answer),
    ) -> usize {
        let mut batch = Batch {
            table,
            read: Mapped::new(view),
            tally: Tally::default(),
        };
        let taken = self.take_keys(&mut batch, keys, done);
        let mut reading = 0;
        for lane in 0..taken {
            let key = self.keys[lane].as_ref().expect("a lookup has a key");
            let next = table.begin(key, &mut self.searches[lane]);
            reading |= self.follow(lane, next, &mut batch, done);
        }
        while reading != 0 {
            let mut left = reading;
            while left != 0 {
                let lane = left.trailing_zeros() as usize;
                left &= left - 1;
                if !self.look(lane, &mut batch, done) {
                    reading &= !(1 << lane);
                }
            }
        }
        table.endpoint().core().counters.add(GET, &batch.tally);
        taken
    }

    #[inline(always)]
    fn take_keys(
        &mut self,
        batch: &mut Batch<'_, L>,
        keys: &mut impl Iterator<Item = (usize, &'k [u8])>,
        done: &mut impl FnMut(usize, Answer),
    ) -> usize {
        let mut taken = 0;
        while taken < WINDOW {
            let Some((number, bytes)) = keys.next() else {
                break;
            };
            match batch.table.key(bytes) {
                Ok(key) => {
                    batch.table.prepare(&key, &mut self.searches[taken]);
                    self.keys[taken] = Some(key);
                    self.numbers[taken] = number;
                    self.bookings[taken] = Booking::default();
                    taken += 1;
                }
                Err(error) => {
                    batch.tally.operation_ended(Booking::default());
                    done(number, Err(error));
                }
            }
        }
        taken
    }

    /// Lets a lookup look at what it has asked for; false if it waits for nothing any more.
    #[inline(always)]
    fn look(
        &mut self,
        lane: usize,
        batch: &mut Batch<'_, L>,
        done: &mut impl FnMut(usize, Answer),
    ) -> bool {
        let key = self.keys[lane].as_ref().expect("a lookup has a key");
        let search = &mut self.searches[lane];
        locate(batch.table, key, search, self.reads[lane], &mut batch.read);
        let next = batch.table.look(key, search, &mut batch.read);
        batch.read.view.acquire();
        self.follow(lane, next, batch, done) != 0
    }

    /// Does what a lookup has to do next; returns the bit of its lane if it has asked for
    /// something.
    #[inline(always)]
    fn follow(
        &mut self,
        lane: usize,
        next: Next<L::Aside>,
        batch: &mut Batch<'_, L>,
        done: &mut impl FnMut(usize, Answer),
    ) -> u32 {
        let answer = match next {
            Next::Read(reads) if self.ask(lane, reads, batch) => return 1 << lane,
            Next::Found(found) => {
                let pool = &batch.table.endpoint().core().buffers;
                batch.read.value(found, pool).map(Some)
            }
            Next::Absent => Ok(None),
            Next::Failed(error) => Err(*error),
            next => {
                self.stuck.push((lane, next));
                return 0;
            }
        };
        batch.tally.operation_ended(self.bookings[lane]);
        done(self.numbers[lane], answer);
        0
    }

    /// Asks for the pieces of a step; false if one is not in the mapping.
    #[inline(always)]
    fn ask(&mut self, lane: usize, reads: Reads, batch: &mut Batch<'_, L>) -> bool {
        let key = self.keys[lane].as_ref().expect("a lookup has a key");
        let (table, search) = (batch.table, &self.searches[lane]);
        let mut bytes = 0;
        for number in reads.numbers() {
            let piece = table.piece(key, search, number);
            let Some(start) = batch.read.view.offset_of(piece) else {
                return false;
            };
            batch
                .read
                .view
                .prefetch(start, table.likely_bytes(search, piece.len));
            bytes += piece.len as u64;
        }
        batch.tally.read(reads.pieces as u32, reads.gathered, bytes);
        self.bookings[lane].read(reads.verbs(), bytes);
        self.reads[lane] = reads;
        true
    }
}

/// What the lookups of a window share.
struct Batch<'t, L> {
    table: &'t L,
    read: Mapped<'t>,
    tally: Tally,
}

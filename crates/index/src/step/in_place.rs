//! Operations on the memory itself, where that is mapped.
//!
//! A batch goes through two rows of lanes, in turns. Each lane of a row looks at what it has asked
//! for and, if its operation has ended, takes the next key, hashes it and says what it wants. What
//! all of the row want is then prefetched in one burst, and is fetched while the other row has its
//! turn. (A processor walks the page table for several addresses at a time, but only for those that
//! stand close together in its instructions: prefetches among the instructions of lookups wait for
//! each other's walks, which takes half of the time.) Words are loaded from the mapping where they
//! are looked at, and swapped there; only what has to be had in one piece (a record whose checksum
//! is to be made) is copied first.
//!
//! Answers are given after a run of the rows: a callback may take its time, and the memory is known
//! to be the table's only for a short while after a view of it was made.

use super::drive::{drive, run};
use super::lookup::{Answer, Found, Lookup, Next, Reads, Rest};
use super::mapped::{Mapped, bytes_of, locate};
use crate::Value;
use crate::client::let_others_run;
use farslot_fabric::counters::Tally;
use farslot_fabric::{Booking, Endpoint, EndpointExt, InPlace, OperationClass, Piece};

/// Lanes of a row. Their pieces are fetched while the other row has its turn; of larger rows the
/// prefetches wait for each other, while nothing else is done.
const ROW: usize = 8;

/// Lanes of both rows.
const LANES: usize = 2 * ROW;

/// Pieces that are prefetched in one burst at most.
const BURST: usize = 2 * ROW;

/// The most operations of a run.
const RUN: usize = 128;

/// The lanes, field by field: a step touches few of them.
struct Rows<'k, L: Lookup> {
    keys: [Option<L::Key<'k>>; LANES],
    searches: [L::Search; LANES],
    /// What those that are under way are about to look at, and where its first piece starts: a byte
    /// of the region.
    reads: [Reads; LANES],
    starts: [u64; LANES],
    bookings: [Booking; LANES],
    /// The operations' places in the run.
    places: [usize; LANES],
    /// Lanes, a bit each, that wait for what they have asked for.
    reading: u32,
    /// Those that have a key, for which this client's memory is being fetched.
    prepared: u32,
    /// What is to be prefetched: the byte at which it starts, and how many.
    wanted: [(u64, usize); BURST],
    wanted_count: usize,
    /// What those do next that cannot go on here.
    stuck: Vec<(usize, Next<L::Aside>)>,
    ended: Ended,
}

/// How the operations of a run have ended.
struct Ended {
    /// Their numbers in the batch.
    numbers: [usize; RUN],
    ends: [End; RUN],
    /// The words of those that have ended by one.
    words: [u64; RUN],
    /// The places and answers of those that have ended otherwise.
    others: Vec<(usize, Answer)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Absent,
    /// The value is so many bytes of a word.
    Word(u8),
    /// Otherwise, or not yet.
    Other,
}

/// Does operations of a class for as long as the memory is there. Those that are not taken are left
/// in `asked`.
pub(super) async fn do_many<'k, L: Lookup>(
    table: &L,
    class: OperationClass,
    asked: &mut impl Iterator<Item = (usize, L::Asked<'k>)>,
    done: &mut impl FnMut(usize, Answer),
) {
    let endpoint = table.endpoint();
    if table.in_place().is_none() {
        return;
    }
    let mut rows = Box::new(Rows::new());
    while let Some(view) = table.in_place() {
        let (taken, are_all) = rows.run(table, class, view, asked);
        rows.ended.tell(taken, done);
        while let Some((lane, next)) = rows.stuck.pop() {
            let (key, search) = (key_of(&rows.keys[lane]), &mut rows.searches[lane]);
            let rest = drive(table, key, search, next);
            let answer = endpoint.operation_begun(class, rows.bookings[lane], rest);
            done(rows.ended.numbers[rows.places[lane]], answer.await);
        }
        if are_all {
            return;
        }
        // A turn has as many rows as it has single operations.
        let mut windows = 0..taken.div_ceil(ROW);
        if windows.any(|_| endpoint.core().is_turn_over()) {
            let_others_run().await;
        }
    }
}

/// Does one operation: its answer, or the rest of it, if that has to wait for something. Nothing
/// where the memory is elsewhere.
#[inline]
pub(super) fn do_one<'s, L: Lookup>(
    table: &'s L,
    class: OperationClass,
    asked: L::Asked<'s>,
) -> Option<std::result::Result<Answer, Rest<'s>>> {
    let view = table.in_place()?;
    let core = table.endpoint().core();
    if core.is_turn_over() {
        let rest = async move {
            let_others_run().await;
            run(table, asked).await
        };
        let rest = table.endpoint().operation(class, rest);
        return Some(Err(Box::pin(rest)));
    }
    let (mut read, mut tally) = (Mapped::new(view, &core.buffers), Tally::default());
    let mut booking = Booking::default();
    let ended = |mut tally: Tally, booking| {
        tally.operation_ended(booking);
        core.counters.add(class, &tally);
    };
    let key = match table.key(asked) {
        Ok(key) => key,
        Err(error) => {
            ended(tally, booking);
            return Some(Ok(Err(error)));
        }
    };
    let mut search = L::Search::default();
    table.prepare(&key, &mut search);
    let mut next = table.begin(&key, &mut search);
    let answer = loop {
        next = match next {
            Next::Read(reads) if locate(table, &key, &search, reads, &mut read) => {
                let bytes = bytes_of(table, &key, &search, reads);
                tally.read(reads.pieces as u32, reads.gathered, bytes);
                booking.read(reads.verbs(), bytes);
                let next = table.look(&key, &mut search, &mut read);
                view.acquire();
                next
            }
            Next::Found(found) => break read.value(found).map(Some),
            Next::Absent => break Ok(None),
            Next::Failed(error) => break Err(*error),
            next => {
                core.counters.add(class, &tally);
                let rest = async move { drive(table, &key, &mut search, next).await };
                let rest = table.endpoint().operation_begun(class, booking, rest);
                return Some(Err(Box::pin(rest)));
            }
        };
    };
    ended(tally, booking);
    Some(Ok(answer))
}

impl<'k, L: Lookup> Rows<'k, L> {
    fn new() -> Self {
        Self {
            keys: [const { None }; LANES],
            searches: std::array::from_fn(|_| L::Search::default()),
            reads: [Reads::ONE; LANES],
            starts: [0; LANES],
            bookings: [Booking::default(); LANES],
            places: [0; LANES],
            reading: 0,
            prepared: 0,
            wanted: [(0, 0); BURST],
            wanted_count: 0,
            stuck: Vec::new(),
            ended: Ended {
                numbers: [0; RUN],
                ends: [End::Other; RUN],
                words: [0; RUN],
                others: Vec::new(),
            },
        }
    }

    /// Takes operations and does them; returns how many it took, and whether there are no more.
    #[inline(never)]
    fn run(
        &mut self,
        table: &L,
        class: OperationClass,
        view: InPlace<'_>,
        asked: &mut impl Iterator<Item = (usize, L::Asked<'k>)>,
    ) -> (usize, bool) {
        let pool = &table.endpoint().core().buffers;
        let (mut read, mut tally) = (Mapped::new(view, pool), Tally::default());
        let mut shared = Shared {
            table,
            read: &mut read,
            tally: &mut tally,
        };
        let (mut taken, mut are_all) = (0, false);
        for lane in (0..LANES).cycle() {
            if lane % ROW == 0 {
                self.prefetch(&mut shared);
                let goes_on = taken < RUN && !are_all && self.stuck.is_empty();
                if !goes_on && self.reading | self.prepared == 0 {
                    break;
                }
            }
            let bit = 1 << lane;
            if self.reading & bit != 0 && self.look(lane, &mut shared) {
                continue;
            }
            if L::PREPARES && self.prepared & bit != 0 {
                self.prepared &= !bit;
                self.begin(lane, &mut shared);
                continue;
            }
            // One that is stuck has its lane still, and is looked after when the others have ended.
            while taken < RUN && !are_all && self.stuck.is_empty() {
                let Some((number, asked)) = asked.next() else {
                    are_all = true;
                    break;
                };
                let place = taken;
                taken += 1;
                self.ended.numbers[place] = number;
                if self.take(lane, place, asked, &mut shared) {
                    break;
                }
            }
        }
        table.endpoint().core().counters.add(class, &tally);
        (taken, are_all)
    }

    /// Takes an operation; false if that has ended it.
    #[inline(always)]
    fn take(
        &mut self,
        lane: usize,
        place: usize,
        asked: L::Asked<'k>,
        shared: &mut Shared<'_, '_, L>,
    ) -> bool {
        self.places[lane] = place;
        self.bookings[lane] = Booking::default();
        match shared.table.key(asked) {
            Ok(key) => self.keys[lane] = Some(key),
            Err(error) => {
                shared.tally.operation_ended(Booking::default());
                self.ended.otherwise(place, Err(error));
                return false;
            }
        }
        if L::PREPARES {
            let (key, search) = (key_of(&self.keys[lane]), &mut self.searches[lane]);
            shared.table.prepare(key, search);
            self.prepared |= 1 << lane;
            return true;
        }
        self.begin(lane, shared)
    }

    /// Begins an operation; false if that has ended it.
    #[inline(always)]
    fn begin(&mut self, lane: usize, shared: &mut Shared<'_, '_, L>) -> bool {
        let (key, search) = (key_of(&self.keys[lane]), &mut self.searches[lane]);
        let mut next = shared.table.begin(key, search);
        let is_reading = self.follow(lane, &mut next, shared);
        self.reading |= u32::from(is_reading) << lane;
        is_reading
    }

    /// Lets an operation look at what it has asked for; false if it waits for nothing any more.
    #[inline(always)]
    fn look(&mut self, lane: usize, shared: &mut Shared<'_, '_, L>) -> bool {
        let mut next = self.look_on(lane, shared);
        let is_reading = self.follow(lane, &mut next, shared);
        self.reading &= !(u32::from(!is_reading) << lane);
        is_reading
    }

    #[inline(always)]
    fn look_on(&mut self, lane: usize, shared: &mut Shared<'_, '_, L>) -> Next<L::Aside> {
        let (key, search) = (key_of(&self.keys[lane]), &mut self.searches[lane]);
        let reads = self.reads[lane];
        if reads.pieces == 1 {
            shared.read.starts[0] = self.starts[lane];
        } else {
            locate(shared.table, key, search, reads, shared.read);
        }
        let next = shared.table.look(key, search, shared.read);
        shared.read.view.acquire();
        next
    }

    /// Does what an operation has to do next; true if it has asked for something. By reference: a
    /// small enum that is written field by field and moved at once stalls the processor.
    #[inline(always)]
    fn follow(
        &mut self,
        lane: usize,
        next: &mut Next<L::Aside>,
        shared: &mut Shared<'_, '_, L>,
    ) -> bool {
        if L::WRITES {
            self.write_on(lane, next, shared);
        }
        let place = self.places[lane];
        match next {
            Next::Read(reads) if self.ask(lane, *reads, shared) => return true,
            Next::Absent => self.ended.ends[place] = End::Absent,
            Next::Found(Found::Word { word, len }) => {
                self.ended.words[place] = *word;
                self.ended.ends[place] = End::Word(*len as u8);
            }
            _ => {
                let next = std::mem::replace(next, Next::Absent);
                if !self.end_otherwise(lane, next, shared) {
                    return false;
                }
            }
        }
        shared.tally.operation_ended(self.bookings[lane]);
        false
    }

    /// Ends an operation that has found more than a word, or has failed; false if it has not ended,
    /// and is stuck.
    #[inline(never)]
    fn end_otherwise(
        &mut self,
        lane: usize,
        next: Next<L::Aside>,
        shared: &mut Shared<'_, '_, L>,
    ) -> bool {
        let place = self.places[lane];
        let answer = match next {
            Next::Found(found) => shared.read.value(found).map(Some),
            Next::Failed(error) => Err(*error),
            next => {
                self.ended.ends[place] = End::Other;
                self.stuck.push((lane, next));
                return false;
            }
        };
        self.ended.otherwise(place, answer);
        true
    }

    /// Swaps what an operation wants swapped, for as long as it does.
    #[inline(always)]
    fn write_on(&mut self, lane: usize, next: &mut Next<L::Aside>, shared: &mut Shared<'_, '_, L>) {
        loop {
            *next = match next {
                Next::Swap => match self.swap(lane, shared) {
                    Some(next) => next,
                    None => return,
                },
                Next::LookOn => self.look_on(lane, shared),
                _ => return,
            };
        }
    }

    /// Asks for the pieces of a step; false if one is not in the mapping.
    #[inline(always)]
    fn ask(&mut self, lane: usize, reads: Reads, shared: &mut Shared<'_, '_, L>) -> bool {
        let (key, search) = (key_of(&self.keys[lane]), &self.searches[lane]);
        let mut bytes = 0;
        for number in reads.numbers() {
            let piece = shared.table.piece(key, search, number);
            let Some(start) = shared.read.view.offset_of(piece) else {
                return false;
            };
            if number == 0 {
                self.starts[lane] = start;
            }
            let likely = shared.table.likely_bytes(search, piece.len);
            match self.wanted.get_mut(self.wanted_count) {
                Some(wanted) => {
                    *wanted = (start, likely);
                    self.wanted_count += 1;
                }
                None => shared.read.view.prefetch(start, likely),
            }
            bytes += piece.len as u64;
        }
        shared
            .tally
            .read(reads.pieces as u32, reads.gathered, bytes);
        self.bookings[lane].read(reads.verbs(), bytes);
        self.reads[lane] = reads;
        true
    }

    /// Prefetches what is wanted.
    #[inline(always)]
    fn prefetch(&mut self, shared: &mut Shared<'_, '_, L>) {
        for (start, len) in &self.wanted[..self.wanted_count] {
            shared.read.view.prefetch(*start, *len);
        }
        self.wanted_count = 0;
    }

    /// Swaps the word that an operation wants swapped; nothing if that is not in the mapping.
    #[inline(always)]
    fn swap(&mut self, lane: usize, shared: &mut Shared<'_, '_, L>) -> Option<Next<L::Aside>> {
        let (key, search) = (key_of(&self.keys[lane]), &mut self.searches[lane]);
        let swap = shared.table.swap(key, search);
        let word = Piece {
            from: swap.at,
            len: 8,
        };
        let view = &shared.read.view;
        let seen = view.compare_swap(view.offset_of(word)?, swap.expected, swap.new);
        shared.tally.swap();
        self.bookings[lane].swap();
        Some(shared.table.swapped(key, search, seen))
    }
}

impl Ended {
    fn otherwise(&mut self, place: usize, answer: Answer) {
        self.ends[place] = End::Other;
        self.others.push((place, answer));
    }

    /// Gives the answers of a run.
    #[inline(always)]
    fn tell(&mut self, taken: usize, done: &mut impl FnMut(usize, Answer)) {
        for place in 0..taken {
            let number = self.numbers[place];
            match self.ends[place] {
                End::Absent => done(number, Ok(None)),
                End::Word(len) => {
                    let value = Value::of_word(self.words[place], len.into());
                    done(number, Ok(Some(value)));
                }
                End::Other => {}
            }
        }
        for (place, answer) in self.others.drain(..) {
            done(self.numbers[place], answer);
        }
    }
}

/// What the lanes share.
struct Shared<'b, 't, L> {
    table: &'t L,
    read: &'b mut Mapped<'t>,
    tally: &'b mut Tally,
}

#[inline(always)]
fn key_of<K>(key: &Option<K>) -> &K {
    key.as_ref().expect("an operation under way has a key")
}

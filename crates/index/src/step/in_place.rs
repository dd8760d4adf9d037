//! Operations on the memory itself, where that is mapped.
//!
//! A batch is done in windows: the first pieces of all its keys are asked for, then each operation
//! looks at what has come, and what it wants next is asked for in turn. So the processor fetches
//! side by side what a network would. Words are loaded from the mapping where they are looked at,
//! and swapped there; only what has to be had in one piece (a record whose checksum is to be made)
//! is copied first.
//!
//! Answers are given when their window has ended: a callback may take its time, and the memory is
//! known to be the table's only for a short while after a view of it was made.

use super::drive::drive;
use super::lookup::{Answer, Found, Lookup, Next, Reads};
use super::mapped::{Mapped, locate};
use crate::Value;
use crate::client::let_others_run;
use farslot_fabric::counters::Tally;
use farslot_fabric::{Booking, Endpoint, EndpointExt, InPlace, OperationClass, Piece};

/// Operations of a window: their first pieces are about what a processor can have under way.
const WINDOW: usize = 16;

/// Operations of a window, field by field: a step touches few of them.
struct Window<'k, L: Lookup> {
    /// Nothing of those that were refused.
    keys: [Option<L::Key<'k>>; WINDOW],
    searches: [L::Search; WINDOW],
    /// What those that are under way are about to look at, and where its first piece starts: a byte
    /// of the region.
    reads: [Reads; WINDOW],
    starts: [u64; WINDOW],
    /// The operations' numbers in the batch.
    numbers: [usize; WINDOW],
    bookings: [Booking; WINDOW],
    ends: [End; WINDOW],
    /// The words of those that have ended by one.
    words: [u64; WINDOW],
    /// The answers of those that have ended otherwise.
    others: [Option<Answer>; WINDOW],
    /// What those do next that cannot go on here.
    stuck: Vec<(usize, Next<L::Aside>)>,
}

/// How an operation has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Absent,
    /// The value is so many bytes of a word.
    Word(u8),
    Otherwise,
    /// It has not, and cannot go on here.
    Stuck,
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
    let mut window = Box::new(Window::new());
    while let Some(view) = table.in_place() {
        let taken = window.run(table, class, view, asked);
        window.tell(taken, done);
        while let Some((lane, next)) = window.stuck.pop() {
            let (key, search) = (&window.keys[lane], &mut window.searches[lane]);
            let key = key.as_ref().expect("an operation has a key");
            let rest = drive(table, key, search, next);
            let answer = endpoint.operation_begun(class, window.bookings[lane], rest);
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
            starts: [0; WINDOW],
            numbers: [0; WINDOW],
            bookings: [Booking::default(); WINDOW],
            ends: [End::Stuck; WINDOW],
            words: [0; WINDOW],
            others: [const { None }; WINDOW],
            stuck: Vec::new(),
        }
    }

    /// Takes operations and does them; returns how many it took: fewer than a window has where
    /// there are no more.
    #[inline(never)]
    fn run(
        &mut self,
        table: &L,
        class: OperationClass,
        view: InPlace<'_>,
        asked: &mut impl Iterator<Item = (usize, L::Asked<'k>)>,
    ) -> usize {
        let mut read = Mapped::new(view);
        let mut tally = Tally::default();
        let mut batch = Batch {
            table,
            read: &mut read,
            tally: &mut tally,
        };
        let taken = self.take(&mut batch, asked);
        let mut reading = 0;
        for lane in 0..taken {
            if let Some(key) = &self.keys[lane] {
                let next = table.begin(key, &mut self.searches[lane]);
                reading |= self.follow(lane, next, &mut batch);
            }
        }
        while reading != 0 {
            let mut left = reading;
            while left != 0 {
                let lane = left.trailing_zeros() as usize;
                left &= left - 1;
                if !self.look(lane, &mut batch) {
                    reading &= !(1 << lane);
                }
            }
        }
        table.endpoint().core().counters.add(class, &tally);
        taken
    }

    #[inline(always)]
    fn take(
        &mut self,
        batch: &mut Batch<'_, '_, L>,
        asked: &mut impl Iterator<Item = (usize, L::Asked<'k>)>,
    ) -> usize {
        for lane in 0..WINDOW {
            let Some((number, asked)) = asked.next() else {
                return lane;
            };
            self.numbers[lane] = number;
            self.bookings[lane] = Booking::default();
            match batch.table.key(asked) {
                Ok(key) => {
                    batch.table.prepare(&key, &mut self.searches[lane]);
                    self.keys[lane] = Some(key);
                }
                Err(error) => {
                    self.keys[lane] = None;
                    self.ends[lane] = End::Otherwise;
                    self.others[lane] = Some(Err(error));
                    batch.tally.operation_ended(Booking::default());
                }
            }
        }
        WINDOW
    }

    /// Gives the answers of those that have ended.
    #[inline(always)]
    fn tell(&mut self, taken: usize, done: &mut impl FnMut(usize, Answer)) {
        for lane in 0..taken {
            let number = self.numbers[lane];
            match self.ends[lane] {
                End::Absent => done(number, Ok(None)),
                End::Word(len) => {
                    let value = Value::of_word(self.words[lane], len.into());
                    done(number, Ok(Some(value)));
                }
                End::Otherwise => {
                    let answer = self.others[lane].take();
                    done(number, answer.expect("an operation ends with an answer"));
                }
                End::Stuck => {}
            }
        }
    }

    /// Lets an operation look at what it has asked for; false if it waits for nothing any more.
    #[inline(always)]
    fn look(&mut self, lane: usize, batch: &mut Batch<'_, '_, L>) -> bool {
        let next = self.look_on(lane, batch);
        self.follow(lane, next, batch) != 0
    }

    #[inline(always)]
    fn look_on(&mut self, lane: usize, batch: &mut Batch<'_, '_, L>) -> Next<L::Aside> {
        let (key, search) = (key_of(&self.keys[lane]), &mut self.searches[lane]);
        let reads = self.reads[lane];
        if reads.pieces == 1 {
            batch.read.starts[0] = self.starts[lane];
        } else {
            locate(batch.table, key, search, reads, batch.read);
        }
        let next = batch.table.look(key, search, batch.read);
        batch.read.view.acquire();
        next
    }

    /// Does what an operation has to do next; returns the bit of its lane if it has asked for
    /// something.
    #[inline(always)]
    fn follow(
        &mut self,
        lane: usize,
        mut next: Next<L::Aside>,
        batch: &mut Batch<'_, '_, L>,
    ) -> u32 {
        if L::WRITES {
            loop {
                next = match next {
                    Next::Swap => match self.swap(lane, batch) {
                        Some(next) => next,
                        None => break,
                    },
                    Next::LookOn => self.look_on(lane, batch),
                    _ => break,
                };
            }
        }
        self.ends[lane] = match next {
            Next::Read(reads) if self.ask(lane, reads, batch) => return 1 << lane,
            Next::Absent => End::Absent,
            Next::Found(Found::Word { word, len }) => {
                self.words[lane] = word;
                End::Word(len as u8)
            }
            Next::Found(found) => {
                let pool = &batch.table.endpoint().core().buffers;
                self.others[lane] = Some(batch.read.value(found, pool).map(Some));
                End::Otherwise
            }
            Next::Failed(error) => {
                self.others[lane] = Some(Err(*error));
                End::Otherwise
            }
            next => {
                self.stuck.push((lane, next));
                self.ends[lane] = End::Stuck;
                return 0;
            }
        };
        batch.tally.operation_ended(self.bookings[lane]);
        0
    }

    /// Asks for the pieces of a step; false if one is not in the mapping.
    #[inline(always)]
    fn ask(&mut self, lane: usize, reads: Reads, batch: &mut Batch<'_, '_, L>) -> bool {
        let (key, search) = (key_of(&self.keys[lane]), &self.searches[lane]);
        let mut bytes = 0;
        for number in reads.numbers() {
            let piece = batch.table.piece(key, search, number);
            let Some(start) = batch.read.view.offset_of(piece) else {
                return false;
            };
            if number == 0 {
                self.starts[lane] = start;
            }
            let likely = batch.table.likely_bytes(search, piece.len);
            batch.read.view.prefetch(start, likely);
            bytes += piece.len as u64;
        }
        batch
            .tally
            .read(reads.pieces as u32, reads.gathered, bytes);
        self.bookings[lane].read(reads.verbs(), bytes);
        self.reads[lane] = reads;
        true
    }

    /// Swaps the word that an operation wants swapped; nothing if that is not in the mapping.
    #[inline(always)]
    fn swap(&mut self, lane: usize, batch: &mut Batch<'_, '_, L>) -> Option<Next<L::Aside>> {
        let (key, search) = (key_of(&self.keys[lane]), &mut self.searches[lane]);
        let swap = batch.table.swap(key, search);
        let word = Piece {
            from: swap.at,
            len: 8,
        };
        let view = &batch.read.view;
        let seen = view.compare_swap(view.offset_of(word)?, swap.expected, swap.new);
        batch.tally.swap();
        self.bookings[lane].swap();
        Some(batch.table.swapped(key, search, seen))
    }
}

/// What the operations of a window share.
struct Batch<'b, 't, L> {
    table: &'t L,
    read: &'b mut Mapped<'t>,
    tally: &'b mut Tally,
}

#[inline(always)]
fn key_of<K>(key: &Option<K>) -> &K {
    key.as_ref().expect("an operation under way has a key")
}

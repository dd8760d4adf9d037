//! Operations on the memory itself, where that is mapped.
//!
//! A batch goes through two rows of lanes, in turns. In its turn a row first looks at what its
//! lanes have asked for; lanes whose operations have ended take the next keys, hash them and say
//! what they want. What all of the row want is then prefetched in one burst, and is fetched while
//! the other row has its turn. (A processor walks the page table for several addresses at a time,
//! but only for those that stand close together in its instructions: prefetches among the
//! instructions of lookups wait for each other's walks, which takes half of the time.) Words are
//! loaded from the mapping where they are looked at, and swapped there; only what has to be had in
//! one piece (a record whose checksum is to be made) is copied first.
//!
//! Answers are given after a run of the rows, together: a callback may take its time, and the
//! memory is known to be the table's only for a short while after a view of it was made. What is
//! counted is added up once a run.

use super::drive::{drive, run};
use super::fast_paths::take_fast_paths;
use super::lookup::{Answer, Lookup, NextStep, Reads, ValueLocation};
use super::mapped::{book, locate};
use super::scratch::{Mapped, Scratch};
use crate::answers::{AnswerCode, Answers, SmallAnswers};
use crate::client::end_turns;
use farslot_fabric::{Endpoint, EndpointExt, InPlace, OperationClass, Steps, window};

/// Lanes of a row. Their pieces are fetched while the other row has its turn; of larger rows the
/// prefetches wait for each other, while nothing else is done.
const ROW: usize = 8;

/// Lanes of both rows.
const LANES: usize = 2 * ROW;

/// Pieces of a step whose places a lane keeps. Those of a longer one are asked for again.
const STARTS: usize = 4;

/// Pieces that are prefetched in one burst at most.
const BURST: usize = 2 * LANES;

/// The most operations of a run.
const RUN: usize = 128;

/// The lanes, and what comes of a run of them.
struct Rows<'k, L: Lookup> {
    lanes: [InPlaceLane<'k, L>; LANES],
    /// Lanes, a bit each, that wait for what they have asked for.
    reading: u32,
    /// Those that have a key, for which this client's memory is being fetched.
    prepared: u32,
    /// What is to be prefetched: the byte at which it starts, and how many.
    wanted: [(u64, usize); BURST],
    wanted_count: usize,
    /// Those that cannot go on here.
    stuck: u32,
    /// The places in the run of operations that are not decided by the fast path, how many these
    /// are, and how many of them are taken.
    left: [u8; RUN],
    lefts: usize,
    taken: usize,
    /// How the operations of the run have ended, and the words of those that have ended by one.
    ends: [AnswerCode; RUN],
    words: [u64; RUN],
    /// The values of those that have found longer ones.
    scratch: Option<Scratch>,
    /// The places in the run, and the answers, of those that have ended otherwise.
    others: Vec<(usize, Answer)>,
}

/// One operation under way. Never moved: a small struct that is written field by field and moved at
/// once stalls the processor.
struct InPlaceLane<'k, L: Lookup> {
    key: Option<L::Key<'k>>,
    search: L::Search,
    /// What it is about to look at, and where the first pieces start: bytes of the region.
    reads: Reads,
    bytes: u64,
    starts: [u64; STARTS],
    /// Whether it makes a change before it looks, and whether it has looked at anything.
    changes: bool,
    has_looked: bool,
    steps: Steps,
    /// Its place in the run.
    place: usize,
    /// What it does next, if it cannot go on here.
    stuck: Option<NextStep<L::SlowPath>>,
}

/// What the lanes share in a run.
struct RunContext<'t, L> {
    table: &'t L,
    read: Mapped<'t>,
}

/// Does operations of a class for as long as the memory is there; returns how many of them.
pub(super) async fn do_many<'k, L: Lookup>(
    table: &L,
    class: OperationClass,
    asked: &[impl Copy + Into<L::Asked<'k>>],
    done: &mut dyn FnMut(Answers<'_>),
) -> usize {
    let endpoint = table.endpoint();
    let mut taken = 0;
    if table.in_place().is_none() {
        return taken;
    }
    let mut rows = Box::new(Rows::new());
    while taken < asked.len()
        && let Some(view) = table.in_place()
    {
        let first = taken;
        let most = table.most_at_once(asked[first].into());
        let most = RUN.min(most).max(1);
        let asked_now = &asked[first..][..most.min(asked.len() - first)];
        let count = asked_now.len();
        rows.fast_path(table, class, view, asked_now);
        while let Some(place) = rows.next_left() {
            let Some(view) = table.in_place() else {
                rows.taken += 1;
                let answer = endpoint.operation(class, run(table, asked_now[place].into()));
                done(Answers::One(first + place, answer.await));
                continue;
            };
            rows.run(table, class, view, asked_now);
            if rows.stuck != 0 {
                let done = |place, answer| done(Answers::One(first + place, answer));
                rows.drive_stuck(table, class, done).await;
            }
        }
        let told = (&rows.ends[..count], &rows.words[..count]);
        let kept = rows.scratch.as_ref().map_or(&[][..], Scratch::kept);
        done(Answers::Small(SmallAnswers::new(first, told, kept)));
        rows.scratch.iter_mut().for_each(Scratch::forget);
        for (place, answer) in rows.others.drain(..) {
            done(Answers::One(first + place, answer));
        }
        taken += count;
        if L::REPORTS {
            table.report_if_due().await;
        }
        if taken < asked.len() {
            end_turns(endpoint.core(), count).await;
        }
    }
    if let Some(scratch) = rows.scratch {
        scratch.give_back(endpoint.core());
    }
    taken
}

impl<'k, L: Lookup> Rows<'k, L> {
    fn new() -> Self {
        let lane = || InPlaceLane {
            key: None,
            search: L::Search::default(),
            reads: Reads::ONE,
            bytes: 0,
            starts: [0; STARTS],
            changes: false,
            has_looked: false,
            steps: Steps::default(),
            place: 0,
            stuck: None,
        };
        Self {
            lanes: std::array::from_fn(|_| lane()),
            reading: 0,
            prepared: 0,
            wanted: [(0, 0); BURST],
            wanted_count: 0,
            stuck: 0,
            left: [0; RUN],
            lefts: 0,
            taken: 0,
            ends: [AnswerCode::ELSEWHERE; RUN],
            words: [0; RUN],
            scratch: None,
            others: Vec::new(),
        }
    }

    /// Does what the fast path decides of a run of operations. The others are left.
    fn fast_path(
        &mut self,
        table: &L,
        class: OperationClass,
        view: InPlace<'_>,
        asked: &[impl Copy + Into<L::Asked<'k>>],
    ) {
        let mut read = self.mapped(table, view);
        let results = (&mut self.ends[..], &mut self.words[..], &mut self.left[..]);
        self.lefts = take_fast_paths(table, &mut read, asked, results);
        self.taken = 0;
        self.has_run(table, class, read);
    }

    /// A look at the mapping beside what is kept.
    fn mapped<'v>(&mut self, table: &L, view: InPlace<'v>) -> Mapped<'v> {
        let scratch = self.scratch.take();
        let scratch = scratch.unwrap_or_else(|| Scratch::of(table.endpoint().core()));
        Mapped::new(view, scratch)
    }

    /// Counts what was booked, and has what is kept.
    fn has_run(&mut self, table: &L, class: OperationClass, read: Mapped<'_>) {
        let (tally, scratch) = read.into_parts();
        self.scratch = Some(scratch);
        table.endpoint().core().counters.add(class, &tally);
    }

    /// The place in the run of the next operation that is left.
    fn next_left(&self) -> Option<usize> {
        let left = &self.left[..self.lefts];
        left.get(self.taken).map(|place| usize::from(*place))
    }

    /// Does the operations of a run that are left, or those up to one that is stuck.
    #[inline(never)]
    fn run(
        &mut self,
        table: &L,
        class: OperationClass,
        view: InPlace<'_>,
        asked: &[impl Copy + Into<L::Asked<'k>>],
    ) {
        let mut shared = RunContext {
            table,
            read: self.mapped(table, view),
        };
        for row in [0, ROW].into_iter().cycle() {
            self.look_at_all(row, &mut shared);
            self.take_more(row, asked, &mut shared);
            self.prefetch(&mut shared);
            let takes_more = self.taken < self.lefts && self.stuck == 0;
            if !takes_more && self.reading | self.prepared == 0 {
                break;
            }
        }
        self.has_run(table, class, shared.read);
    }

    /// Does what is left of the operations that are stuck: side by side, for one may wait for what
    /// another holds.
    async fn drive_stuck(
        &mut self,
        table: &L,
        class: OperationClass,
        mut done: impl FnMut(usize, Answer),
    ) {
        let count = self.stuck.count_ones() as usize;
        self.stuck = 0;
        let mut rests = self.lanes.iter_mut().filter_map(|lane| {
            let next = lane.stuck.take()?;
            let rest = drive(table, key_of(&lane.key), &mut lane.search, next);
            let rest = table
                .endpoint()
                .operation_begun(class, lane.steps.into(), rest);
            let place = lane.place;
            Some(async move { (place, rest.await) })
        });
        if count == 1 {
            // In a window its verbs would be posted, in place of done at once.
            if let Some(rest) = rests.next() {
                let (place, answer) = rest.await;
                done(place, answer);
            }
            return;
        }
        window(count, rests, |_, (place, answer)| done(place, answer)).await;
    }

    /// Has a row look at what it has asked for.
    #[inline(always)]
    fn look_at_all(&mut self, row: usize, shared: &mut RunContext<'_, L>) {
        let mut left = self.reading & lanes_of(row);
        while left != 0 {
            let number = first_of(left);
            left &= left - 1;
            self.look(number, shared);
        }
    }

    /// Has a row's lanes that are free take the next operations.
    #[inline(always)]
    fn take_more(
        &mut self,
        row: usize,
        asked: &[impl Copy + Into<L::Asked<'k>>],
        shared: &mut RunContext<'_, L>,
    ) {
        let mut free = lanes_of(row) & !self.reading;
        if L::PREPARES {
            let mut prepared = self.prepared & lanes_of(row);
            self.prepared &= !prepared;
            while prepared != 0 {
                let number = first_of(prepared);
                prepared &= prepared - 1;
                self.begin(number, shared);
            }
            free &= !self.reading;
        }
        // One that is stuck has its lane still, and is looked after when the others have ended.
        let mut taken = 0;
        while free != 0 && self.stuck == 0 {
            let number = first_of(free);
            free &= free - 1;
            let Some(place) = self.next_left() else { break };
            self.taken += 1;
            let lane = &mut self.lanes[number];
            lane.place = place;
            match shared.table.key(asked[place].into()) {
                Ok(key) => lane.key = Some(key),
                Err(error) => {
                    shared.read.tally.operation_ended(Steps::default());
                    self.ended_otherwise(place, Err(error));
                    continue;
                }
            }
            if L::PREPARES {
                taken |= 1 << number;
            } else {
                self.begin(number, shared);
            }
        }
        // Behind the hashes of all: keys are fetched side by side, if nothing comes between.
        self.prepared |= taken;
        while taken != 0 {
            let lane = &mut self.lanes[first_of(taken)];
            taken &= taken - 1;
            shared.table.prepare(key_of(&lane.key), &mut lane.search);
        }
    }

    /// Has an operation look at what it has asked for. A function of its own, as that which begins
    /// one: in one with both the processor's registers would not do.
    #[inline(never)]
    fn look(&mut self, number: usize, shared: &mut RunContext<'_, L>) {
        let next = self.lanes[number].look(shared);
        if !self.follow(number, next, shared) {
            self.reading &= !(1 << number);
        }
    }

    /// Begins an operation.
    #[inline(never)]
    fn begin(&mut self, number: usize, shared: &mut RunContext<'_, L>) {
        let lane = &mut self.lanes[number];
        lane.steps = Steps::default();
        (lane.changes, lane.has_looked) = (false, false);
        let next = shared.table.begin(key_of(&lane.key), &mut lane.search);
        if self.follow(number, next, shared) {
            self.reading |= 1 << number;
        }
    }

    /// Does what an operation has to do next; true if it has asked for something.
    #[inline(always)]
    fn follow(
        &mut self,
        number: usize,
        mut next: NextStep<L::SlowPath>,
        shared: &mut RunContext<'_, L>,
    ) -> bool {
        let lane = &mut self.lanes[number];
        if L::WRITES {
            next = lane.write_on(next, shared);
        }
        let (place, changes) = (lane.place % RUN, lane.changes);
        match next {
            NextStep::Read(reads) if self.ask(number, reads, shared) => return true,
            NextStep::Change(reads) if L::WRITES && !changes => {
                self.lanes[number].changes = true;
                if self.ask(number, reads, shared) {
                    return true;
                }
                self.end_otherwise(number, NextStep::Change(reads), shared);
                return false;
            }
            NextStep::Absent => self.ends[place] = AnswerCode::ABSENT,
            NextStep::Found(ValueLocation::Word { word, len }) => {
                (self.words[place], self.ends[place]) = (word, AnswerCode::word(len));
            }
            NextStep::Found(ValueLocation::Bytes { piece, bytes }) => {
                match shared.read.keep(bytes.clone()) {
                    Some(kept) => {
                        (self.words[place], self.ends[place]) = (kept, AnswerCode::KEPT);
                    }
                    None => {
                        let found = ValueLocation::Bytes { piece, bytes };
                        self.end_otherwise(number, NextStep::Found(found), shared);
                    }
                }
            }
            next => {
                if !self.end_otherwise(number, next, shared) {
                    return false;
                }
            }
        }
        shared.read.tally.operation_ended(self.lanes[number].steps);
        false
    }

    /// Ends an operation that has found more than a word, or has failed; false if it has not ended,
    /// and is stuck.
    #[inline(never)]
    fn end_otherwise(
        &mut self,
        number: usize,
        next: NextStep<L::SlowPath>,
        shared: &mut RunContext<'_, L>,
    ) -> bool {
        let lane = &self.lanes[number];
        let answer = match next {
            NextStep::Found(found) => Ok(Some(shared.read.value(found))),
            // What a write has begun is put right as it is over verbs.
            NextStep::Failed(error) if !L::WRITES => Err(*error),
            next => {
                shared.read.tally.goes_on(lane.steps);
                self.ends[lane.place] = AnswerCode::ELSEWHERE;
                self.lanes[number].stuck = Some(next);
                self.stuck |= 1 << number;
                return false;
            }
        };
        self.ended_otherwise(lane.place, answer);
        true
    }

    fn ended_otherwise(&mut self, place: usize, answer: Answer) {
        self.ends[place] = AnswerCode::ELSEWHERE;
        self.others.push((place, answer));
    }

    /// Asks for the pieces of a step; false if one is not in the mapping.
    #[inline(always)]
    fn ask(&mut self, number: usize, reads: Reads, shared: &mut RunContext<'_, L>) -> bool {
        let lane = &mut self.lanes[number];
        let key = key_of(&lane.key);
        let mut bytes = 0;
        for piece in reads.numbers() {
            let of = shared.table.piece(key, &lane.search, piece);
            let Some(start) = shared.read.view.offset_of(of) else {
                return false;
            };
            if let Some(kept) = lane.starts.get_mut(piece) {
                *kept = start;
            }
            let likely = shared.table.likely_bytes(&lane.search, of.len);
            match self.wanted.get_mut(self.wanted_count) {
                Some(wanted) => {
                    *wanted = (start, likely);
                    self.wanted_count += 1;
                }
                None => shared.read.view.prefetch(start, likely),
            }
            bytes += of.len as u64;
        }
        // What is read behind a change is booked with it.
        if !(L::WRITES && lane.changes) {
            book(&mut shared.read.tally, &mut lane.steps, reads, bytes);
        }
        (lane.reads, lane.bytes) = (reads, bytes);
        true
    }

    /// Prefetches what is wanted.
    #[inline(always)]
    fn prefetch(&mut self, shared: &mut RunContext<'_, L>) {
        for (start, len) in &self.wanted[..self.wanted_count] {
            shared.read.view.prefetch(*start, *len);
        }
        self.wanted_count = 0;
    }
}

impl<L: Lookup> InPlaceLane<'_, L> {
    /// Looks at what it has asked for, behind the change that it makes first, if it does.
    #[inline(always)]
    fn look(&mut self, shared: &mut RunContext<'_, L>) -> NextStep<L::SlowPath> {
        self.has_looked = true;
        let (key, table) = (key_of(&self.key), shared.table);
        if self.reads.pieces == 1 {
            shared.read.set_start(0, self.starts[0]);
        } else if self.reads.pieces <= STARTS {
            let starts = self.starts.iter().enumerate();
            starts.for_each(|(piece, start)| shared.read.set_start(piece, *start));
        } else {
            locate(table, key, &self.search, self.reads, &mut shared.read);
        }
        if L::WRITES && self.changes {
            return self.change((self.reads, self.bytes), shared);
        }
        let next = table.look(key, &mut self.search, &mut shared.read);
        shared.read.view.acquire();
        next
    }

    /// Makes the changes that the operation wants, for as long as it wants any. Others shall not
    /// come between what it has looked at and what it changes, so it waits for no memory that it
    /// has looked at before.
    #[inline(always)]
    fn write_on(
        &mut self,
        mut next: NextStep<L::SlowPath>,
        shared: &mut RunContext<'_, L>,
    ) -> NextStep<L::SlowPath> {
        loop {
            next = match next {
                NextStep::Change(reads) if self.is_at_once(reads) => {
                    self.changes = true;
                    let (key, read) = (key_of(&self.key), &mut shared.read);
                    match locate(shared.table, key, &self.search, reads, read) {
                        Some(bytes) => self.change((reads, bytes), shared),
                        None => return NextStep::Change(reads),
                    }
                }
                // What lies on top is a record that was read beside what is to be looked at.
                NextStep::LookOn if self.reads.keeps => {
                    shared.table.read_on(key_of(&self.key), &mut self.search)
                }
                NextStep::LookOn => self.look(shared),
                next => return next,
            };
        }
    }

    /// Whether a change is made without waiting for what is read behind it.
    #[inline(always)]
    const fn is_at_once(&self, reads: Reads) -> bool {
        !self.changes && (reads.pieces == 0 || self.has_looked)
    }

    /// Makes a change and looks at what came of it. One that reaches beyond the mapping is still
    /// wanted then.
    #[inline(always)]
    fn change(
        &mut self,
        (reads, bytes): (Reads, u64),
        shared: &mut RunContext<'_, L>,
    ) -> NextStep<L::SlowPath> {
        let (key, search) = (key_of(&self.key), &mut self.search);
        let (read, steps) = (&mut shared.read, &mut self.steps);
        let looked = read.change_and_look(shared.table, key, search, (reads, bytes), steps);
        self.changes = looked.is_none();
        looked.unwrap_or(NextStep::Change(reads))
    }
}

/// The lanes of the row that begins with one.
const fn lanes_of(row: usize) -> u32 {
    ((1 << ROW) - 1) << row
}

/// The number of the first of some lanes.
#[inline(always)]
const fn first_of(lanes: u32) -> usize {
    lanes.trailing_zeros() as usize % LANES
}

#[inline(always)]
fn key_of<K>(key: &Option<K>) -> &K {
    key.as_ref().expect("an operation under way has a key")
}

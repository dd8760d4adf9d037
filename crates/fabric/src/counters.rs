//! What an endpoint counts: verbs, bytes, doorbells, and the round trips of every operation.
//!
//! "Reads per lookup" in any table comes from here, never from an index's own idea of itself. An
//! *operation* is a future that was wrapped by [`operation`](crate::EndpointExt::operation); the
//! verbs that it posts are counted for it. Its *round trips* are the length of the longest chain of
//! dependent completions: verbs that are posted before any of them was waited for share one.

use crate::VerbKind;
pub use crate::tally::OperationCounters;
use crate::tally::{Steps, Tally};
use crate::window::{chain, chain_reaches, set_chain};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The class of an operation: a small number, named by the layer above.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct OperationClass(pub u8);

/// How many operation classes there are.
pub const OPERATION_CLASSES: usize = 16;

/// The counters of one endpoint. Reading them is a copy; nothing is locked.
#[derive(Default)]
pub struct Counters {
    verbs: [Cell<u64>; VerbKind::COUNT],
    bytes_read: Cell<u64>,
    bytes_written: Cell<u64>,
    doorbells: Cell<u64>,
    queue_full: Cell<u64>,
    current: Cell<Accounting>,
    operations: RefCell<[OperationCounters; OPERATION_CLASSES]>,
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

/// The verbs of an operation under way. Begins empty.
#[derive(Clone, Copy, Default, Debug)]
pub struct Accounting {
    verbs: u32,
    doorbells: u32,
    bytes: u64,
    /// Length of the longest chain of completions that the operation has seen so far; while it is
    /// polled, the thread has it ([`chain`]).
    depth: u32,
    /// Those of the verbs that were done in place, each step of them with a doorbell that is
    /// counted already.
    in_place: u32,
    /// The length of the longest chain of which the last verb was done at once, with a doorbell
    /// that is counted already.
    rung: u32,
    /// The length of the longest chain of which the last verb was posted, and not done at once.
    sent: u32,
    /// Whether a verb was posted whose doorbell is not counted yet.
    rings: bool,
    /// The class of the operation that it is of, if it is of one.
    of: Option<OperationClass>,
    /// Whether the operation around it, or one within it, has posted verbs.
    others_posted: bool,
}

impl Accounting {
    /// Verbs that left with a doorbell.
    #[inline]
    const fn posted(&self) -> u32 {
        self.verbs - self.in_place
    }

    /// Takes verbs for done in place at this length of the chain.
    #[inline]
    fn done_at(&mut self, depth: u32, verbs: u32) {
        self.in_place += verbs;
        if depth > self.rung.max(self.sent) {
            self.rung = depth;
            self.doorbells += 1;
        }
    }

    /// Whether no verb is counted.
    pub(crate) const fn is_empty(&self) -> bool {
        self.verbs == 0
    }

    #[inline]
    const fn has_posted(&self) -> bool {
        self.of.is_some() && (self.verbs > 0 || self.others_posted)
    }

    /// Counts a call that answers several operations to one of them: its part of the bytes, and the
    /// call itself where no other has it.
    #[inline]
    pub fn called(&mut self, calls: u32, bytes: u64) {
        self.verbs += calls;
        self.bytes += bytes;
        self.doorbells += 1;
        self.depth += 1;
    }

    /// Takes in verbs that were under way side by side with its own last ones.
    pub(crate) fn merge(&mut self, other: Self) {
        self.verbs += other.verbs;
        self.bytes += other.bytes;
    }
}

/// Each step is as if it had left with a doorbell of its own.
impl From<Steps> for Accounting {
    #[inline]
    fn from(of: Steps) -> Self {
        Self {
            verbs: of.verbs,
            doorbells: of.steps,
            bytes: of.bytes,
            depth: of.steps,
            in_place: of.verbs,
            ..Self::default()
        }
    }
}

/// A copy of an endpoint's counters.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// Verbs posted, by [`VerbKind`].
    pub verbs: [u64; VerbKind::COUNT],
    /// Payload bytes of reads, gathers and atomics, and of replies.
    pub bytes_read: u64,
    /// Payload bytes of writes, messages and requests.
    pub bytes_written: u64,
    /// Doorbells rung; each carries one signaled verb, its last.
    pub doorbells: u64,
    /// Times that a verb had to wait for a place in the send queue.
    pub queue_full: u64,
    /// By operation class.
    pub operations: [OperationCounters; OPERATION_CLASSES],
}

impl CounterSnapshot {
    /// Verbs of one kind.
    #[must_use]
    pub fn verbs_of(&self, kind: VerbKind) -> u64 {
        self.verbs[kind as usize]
    }

    /// Operations of one class.
    #[must_use]
    pub fn operation(&self, class: OperationClass) -> OperationCounters {
        self.operations[usize::from(class.0) % OPERATION_CLASSES]
    }

    /// What was counted between an earlier copy and this one. The most round trips are those of
    /// this copy: a maximum cannot be taken back.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.combined(earlier, u64::wrapping_sub, |now, _| now)
    }

    /// The counters of two endpoints together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.combined(other, u64::wrapping_add, u32::max)
    }

    fn combined(&self, other: &Self, sum: fn(u64, u64) -> u64, most: fn(u32, u32) -> u32) -> Self {
        Self {
            verbs: std::array::from_fn(|kind| sum(self.verbs[kind], other.verbs[kind])),
            bytes_read: sum(self.bytes_read, other.bytes_read),
            bytes_written: sum(self.bytes_written, other.bytes_written),
            doorbells: sum(self.doorbells, other.doorbells),
            queue_full: sum(self.queue_full, other.queue_full),
            operations: std::array::from_fn(|class| {
                self.operations[class].combined(&other.operations[class], sum, most)
            }),
        }
    }
}

impl OperationCounters {
    #[inline(always)]
    fn count_one(&mut self, accounting: Accounting) {
        self.count += 1;
        self.verbs += u64::from(accounting.verbs);
        self.bytes += accounting.bytes;
        self.doorbells += u64::from(accounting.doorbells);
        self.round_trips += u64::from(accounting.depth);
        self.most_round_trips = self.most_round_trips.max(accounting.depth);
    }
}

impl Counters {
    /// A copy of all counters.
    #[must_use]
    pub fn snapshot(&self) -> CounterSnapshot {
        CounterSnapshot {
            verbs: std::array::from_fn(|kind| self.verbs[kind].get()),
            bytes_read: self.bytes_read.get(),
            bytes_written: self.bytes_written.get(),
            doorbells: self.doorbells.get(),
            queue_full: self.queue_full.get(),
            operations: *self.operations.borrow(),
        }
    }

    /// Whether the operation that runs has posted verbs, or one within or around it. Of verbs of no
    /// operation each is for itself.
    pub(crate) fn has_sent(&self) -> bool {
        self.current.get().has_posted()
    }

    /// The class of the operation that runs, if one does.
    pub(crate) fn current_class(&self) -> Option<OperationClass> {
        self.current.get().of
    }

    /// Counts a verb that was posted; returns its place in the operation's chain of completions.
    #[inline]
    pub(crate) fn verb_posted(&self, kind: VerbKind, bytes: u64) -> u32 {
        self.count_verbs(kind, 1, bytes);
        let mut current = self.current.get();
        current.verbs += 1;
        current.bytes += bytes;
        self.current.set(current);
        chain() + 1
    }

    #[inline]
    fn count_verbs(&self, kind: VerbKind, verbs: u64, bytes: u64) {
        add(&self.verbs[kind as usize], verbs);
        if kind.writes() {
            add(&self.bytes_written, bytes);
        } else {
            add(&self.bytes_read, bytes);
        }
    }

    /// Counts a read that is the only verb of its operation under way.
    #[inline]
    pub(crate) fn lone_read_posted(&self, accounting: &mut Accounting, kind: VerbKind, bytes: u64) {
        self.count_verbs(kind, 1, bytes);
        accounting.verbs += 1;
        accounting.bytes += bytes;
        accounting.doorbells += 1;
        accounting.depth += 1;
    }

    /// Counts the completion of a verb that [`Counters::verb_posted`] put at `depth`.
    #[inline]
    pub(crate) fn verb_completed(&self, depth: u32) {
        chain_reaches(depth);
    }

    /// Counts that such a verb is on its way.
    #[inline]
    pub(crate) fn verb_sent(&self, depth: u32) {
        let mut current = self.current.get();
        current.sent = current.sent.max(depth);
        current.rings |= depth > current.rung;
        self.current.set(current);
    }

    /// Counts that such a verb was done when it was posted, with those of as long a chain.
    #[inline]
    pub(crate) fn verb_done(&self, depth: u32) {
        chain_reaches(depth);
        let mut current = self.current.get();
        current.done_at(depth, 1);
        self.current.set(current);
    }

    /// Counts verbs of a kind that were done in place side by side, with those of as long a chain.
    #[inline]
    pub(crate) fn done_side_by_side(&self, kind: VerbKind, verbs: u32, bytes: u64) {
        self.count_verbs(kind, u64::from(verbs), bytes);
        let mut current = self.current.get();
        current.verbs += verbs;
        current.bytes += bytes;
        let depth = chain() + 1;
        current.done_at(depth, verbs);
        self.current.set(current);
        set_chain(depth);
    }

    /// Counts the bytes of a reply, which were not known when its call was posted.
    #[inline]
    pub(crate) fn reply_arrived(&self, bytes: u64) {
        add(&self.bytes_read, bytes);
        let mut current = self.current.get();
        current.bytes += bytes;
        self.current.set(current);
    }

    pub(crate) fn doorbell_rung(&self) {
        add(&self.doorbells, 1);
    }

    pub(crate) fn send_queue_was_full(&self) {
        add(&self.queue_full, 1);
    }

    /// Counts an operation of a class whose verbs were counted so.
    #[inline]
    pub fn operation_ended(&self, class: OperationClass, accounting: Accounting) {
        let mut operations = self.operations.borrow_mut();
        operations[usize::from(class.0) % OPERATION_CLASSES].count_one(accounting);
    }

    /// Counts steps in place, one after the other, to the operation that runs: at once, where there
    /// is no [`Tally`] of many.
    pub fn done_in_place(&self, mut tally: Tally, of: Steps) {
        tally.goes_on(of);
        self.add_verbs(&tally);
        let mut current = self.current.get();
        current.verbs += of.verbs;
        current.in_place += of.verbs;
        current.bytes += of.bytes;
        current.doorbells += of.steps;
        self.current.set(current);
        set_chain(chain() + of.steps);
    }

    #[inline]
    fn add_verbs(&self, tally: &Tally) {
        let (verbs, bytes) = tally.left;
        let all = tally.ended.verbs + verbs;
        add(
            &self.verbs[VerbKind::Read as usize],
            all - tally.gathers - tally.swaps - tally.adds - tally.writes,
        );
        add(&self.verbs[VerbKind::ReadMany as usize], tally.gathers);
        add(&self.verbs[VerbKind::CompareSwap as usize], tally.swaps);
        add(&self.verbs[VerbKind::FetchAdd as usize], tally.adds);
        add(&self.verbs[VerbKind::Write as usize], tally.writes);
        add(&self.bytes_read, tally.ended.bytes + bytes - tally.written);
        add(&self.bytes_written, tally.written);
    }

    /// Adds operations of a class, and their verbs. No doorbell was rung for them.
    #[inline]
    pub fn add(&self, class: OperationClass, tally: &Tally) {
        self.add_verbs(tally);
        let ended = OperationCounters {
            doorbells: tally.ended.round_trips,
            ..tally.ended
        };
        let mut operations = self.operations.borrow_mut();
        let totals = &mut operations[usize::from(class.0) % OPERATION_CLASSES];
        *totals = totals.combined(&ended, u64::wrapping_add, u32::max);
    }
}

#[inline]
fn add(counter: &Cell<u64>, amount: u64) {
    counter.set(counter.get() + amount);
}

/// A future whose verbs are counted for one operation. Made by
/// [`operation`](crate::EndpointExt::operation). An operation that is dropped before it ends is not
/// counted; its verbs are. An operation within an operation is counted for the inner one.
pub struct Operation<'c, F> {
    counters: &'c Counters,
    class: OperationClass,
    accounting: Accounting,
    future: F,
}

impl<F> fmt::Debug for Operation<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("class", &self.class)
            .field("accounting", &self.accounting)
            .finish_non_exhaustive()
    }
}

impl<'c, F> Operation<'c, F> {
    #[inline]
    pub(crate) fn new(
        counters: &'c Counters,
        class: OperationClass,
        accounting: Accounting,
        future: F,
    ) -> Self {
        Self {
            counters,
            class,
            accounting: Accounting {
                of: Some(class),
                ..accounting
            },
            future,
        }
    }
}

impl<F: Future> Future for Operation<'_, F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned structurally: it is never moved out of `self`, and `Operation`
        // has no `Drop` and is `Unpin` only where `F` is. The other fields are plain data.
        let (this, future) = unsafe {
            let this = self.get_unchecked_mut();
            let future = Pin::new_unchecked(&mut this.future);
            ((this.counters, this.class, &mut this.accounting), future)
        };
        let (counters, class, accounting) = this;
        let posted_before = accounting.posted();
        let mut outer = counters.current.get();
        accounting.others_posted |= outer.has_posted();
        counters.current.set(*accounting);
        let outer_chain = chain();
        set_chain(accounting.depth);
        let polled = future.poll(cx);
        *accounting = counters.current.get();
        accounting.depth = chain();
        set_chain(outer_chain);
        outer.others_posted |= accounting.has_posted();
        counters.current.set(outer);
        if accounting.posted() > posted_before && std::mem::take(&mut accounting.rings) {
            accounting.doorbells += 1;
        }
        if polled.is_ready() {
            counters.operation_ended(class, *accounting);
        }
        polled
    }
}

//! What is counted of operations that are done in place, before it is added to an endpoint's
//! [`Counters`](crate::Counters).

/// The verbs of an operation under way whose every step was done in place: a step is one READ,
/// READs that wait for no other of them, or a compare-and-swap, and a WRITE before it. Begins
/// empty.
#[derive(Clone, Copy, Default, Debug)]
pub struct Steps {
    pub(crate) steps: u32,
    pub(crate) verbs: u32,
    pub(crate) bytes: u64,
}

impl Steps {
    /// Those of an operation whose first step is so many verbs side by side, of so many bytes in
    /// all.
    #[inline(always)]
    #[must_use]
    pub const fn begun(verbs: u32, bytes: u64) -> Self {
        Self {
            steps: 1,
            verbs,
            bytes,
        }
    }

    /// Counts READs of so many bytes in all.
    #[inline(always)]
    pub const fn read(&mut self, verbs: u32, bytes: u64) {
        self.steps += 1;
        self.verbs += verbs;
        self.bytes += bytes;
    }

    /// Counts verbs of so many bytes in all that leave with the last step.
    #[inline(always)]
    pub const fn add_to_step(&mut self, verbs: u32, bytes: u64) {
        self.verbs += verbs;
        self.bytes += bytes;
    }

    /// Counts that verbs which were counted beside each other leave as a step.
    #[inline(always)]
    pub const fn leave(&mut self) {
        self.steps += 1;
    }

    /// Counts a compare-and-swap.
    #[inline(always)]
    pub const fn swap(&mut self) {
        self.read(1, 8);
    }

    /// Counts a WRITE of so many bytes, and a compare-and-swap behind it that does not wait for it.
    #[inline(always)]
    pub const fn write_and_swap(&mut self, bytes: u64) {
        self.read(2, bytes + 8);
    }
}

/// Operations that were done in place, not yet added to an endpoint's
/// [`Counters`](crate::Counters): added up once for many.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub(crate) gathers: u64,
    pub(crate) swaps: u64,
    pub(crate) adds: u64,
    pub(crate) writes: u64,
    pub(crate) written: u64,
    /// Operations that have ended. Their steps stand for their doorbells and round trips.
    pub(crate) ended: OperationCounters,
    /// Verbs and bytes of those that go on elsewhere, where they are counted with their operation.
    pub(crate) left: (u64, u64),
}

impl Tally {
    /// Counts READs of which one request gathers all: an operation's, in whose [`Steps`] they are
    /// one verb.
    #[inline(always)]
    pub const fn gather(&mut self) {
        self.gathers += 1;
    }

    /// Counts a compare-and-swap: an operation's, in whose [`Steps`] it is.
    #[inline(always)]
    pub const fn swap(&mut self) {
        self.swaps += 1;
    }

    /// Counts a fetch-and-add: an operation's, in whose [`Steps`] it is.
    #[inline(always)]
    pub const fn add(&mut self) {
        self.adds += 1;
    }

    /// Counts a WRITE of so many bytes: an operation's, in whose [`Steps`] it is.
    #[inline(always)]
    pub const fn write(&mut self, bytes: u64) {
        self.writes += 1;
        self.written += bytes;
    }

    /// Counts an operation.
    #[inline(always)]
    pub fn operation_ended(&mut self, of: Steps) {
        self.ended.count += 1;
        self.ended.verbs += u64::from(of.verbs);
        self.ended.bytes += of.bytes;
        self.ended.round_trips += u64::from(of.steps);
        self.ended.most_round_trips = self.ended.most_round_trips.max(of.steps);
    }

    /// Counts operations which have all taken the same steps.
    #[inline]
    pub fn usual_ended(&mut self, operations: u64, usual: Steps) {
        self.ended.count += operations;
        self.ended.verbs += operations * u64::from(usual.verbs);
        self.ended.bytes += operations * usual.bytes;
        self.ended.round_trips += operations * u64::from(usual.steps);
        if operations > 0 {
            self.ended.most_round_trips = self.ended.most_round_trips.max(usual.steps);
        }
    }

    /// Counts READs of so many bytes each that some of those have taken besides, one after the
    /// other; of these and swaps one operation has taken `most`. To be called right behind
    /// [`Tally::usual_ended`].
    #[inline]
    pub fn took_more(&mut self, reads: u64, bytes: u64, most: u32) {
        self.ended.verbs += reads;
        self.ended.bytes += reads * bytes;
        self.ended.round_trips += reads;
        self.ended.most_round_trips += most;
    }

    /// Counts compare-and-swaps that some of those have taken besides, each behind all before it.
    #[inline]
    pub fn took_swaps(&mut self, swaps: u64) {
        self.swaps += swaps;
        self.ended.verbs += swaps;
        self.ended.bytes += 8 * swaps;
        self.ended.round_trips += swaps;
    }

    /// Counts the verbs of an operation that goes on elsewhere: with the
    /// [`Accounting`](crate::Accounting) that these steps come to.
    #[inline]
    pub fn goes_on(&mut self, of: Steps) {
        self.left.0 += u64::from(of.verbs);
        self.left.1 += of.bytes;
    }
}

/// Totals over the operations of one class.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct OperationCounters {
    /// Operations that ended.
    pub count: u64,
    /// Verbs that they posted.
    pub verbs: u64,
    /// Payload bytes of these verbs.
    pub bytes: u64,
    /// Doorbells that carried these verbs, a doorbell counted once for each operation in it.
    pub doorbells: u64,
    /// Sum of their round trips.
    pub round_trips: u64,
    /// The most round trips of any of them.
    pub most_round_trips: u32,
}

impl OperationCounters {
    #[inline]
    pub(crate) fn combined(
        &self,
        other: &Self,
        sum: fn(u64, u64) -> u64,
        most: fn(u32, u32) -> u32,
    ) -> Self {
        Self {
            count: sum(self.count, other.count),
            verbs: sum(self.verbs, other.verbs),
            bytes: sum(self.bytes, other.bytes),
            doorbells: sum(self.doorbells, other.doorbells),
            round_trips: sum(self.round_trips, other.round_trips),
            most_round_trips: most(self.most_round_trips, other.most_round_trips),
        }
    }
}

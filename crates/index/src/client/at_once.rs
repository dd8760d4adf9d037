//! Writes that are done at once where the memory is mapped: what is common, without waiting.
//!
//! A scheme says how it begins a write, finds its slot and ends it, by its own protocol: the same
//! words are read, written and swapped as over verbs, in the same order, and the same is booked.
//! Whatever is rare it leaves, with nothing changed, to the protocol over verbs: a slot that is not
//! settled, a client without a block at hand, a race that was lost often.
//!
//! Of many writes the slots are fetched first, then the records that they name; then each is done.

use super::let_others_run;
use crate::heap::{BlockRef, Heap};
use crate::{Operation, Outcome, Result};
use farslot_fabric::counters::Tally;
use farslot_fabric::{Booking, Endpoint, InPlace};

/// Writes that are done in turns.
const RUN: usize = 64;
/// How often a write begins again because another was faster.
pub(crate) const MOST_TRIES: u32 = 8;

/// A scheme's writes.
pub(crate) trait AtOnce {
    type Endpoint: Endpoint;
    /// A write under way: its key, and how far it has come.
    type Write<'k>;

    fn endpoint(&self) -> &Self::Endpoint;

    fn blocks(&self) -> &Heap<Self::Endpoint>;

    /// The table's memory, where it is mapped and this client may write there, and does nothing
    /// beside its writes.
    fn view_to_write(&self) -> Option<InPlace<'_>>;

    /// Begins a write, no lookup, and asks for its slots. Nothing of one that is refused.
    fn begin<'k>(&self, view: InPlace<'_>, operation: &Operation<'k>) -> Option<Self::Write<'k>>;

    /// Looks for the key's slot, and asks for the record that it names.
    fn find(&self, view: InPlace<'_>, write: &mut Self::Write<'_>, cost: &mut Cost);

    /// Does a write whose slot was looked for; whether it has changed anything, or, of a put and a
    /// find-or-put, whether the key is new. Nothing if it is left, and then nothing has changed.
    fn finish(
        &self,
        view: InPlace<'_>,
        write: &mut Self::Write<'_>,
        operation: &Operation<'_>,
        cost: &mut Cost,
        chores: &mut Chores,
    ) -> Option<bool>;

    /// Reports what this client has counted.
    async fn report_counts(&self);
}

/// What a write has read, written and swapped.
#[derive(Default)]
pub(crate) struct Cost {
    tally: Tally,
    booking: Booking,
}

impl Cost {
    /// READs of so many bytes in all, side by side.
    #[inline]
    pub(crate) fn read(&mut self, verbs: u32, bytes: usize) {
        self.tally.read(verbs, false, bytes as u64);
        self.booking.read(verbs, bytes as u64);
    }

    #[inline]
    pub(crate) fn swap(&mut self) {
        self.tally.swap();
        self.booking.swap();
    }

    /// A WRITE of a record, a compare-and-swap behind it, and READs behind that, in one batch.
    #[inline]
    pub(crate) fn write_and_swap(&mut self, bytes: u64, reads: (u32, usize)) {
        self.tally.write(bytes);
        self.tally.swap();
        self.tally.read(reads.0, false, reads.1 as u64);
        self.booking.read(2 + reads.0, bytes + 8 + reads.1 as u64);
    }
}

/// What writes leave to be done for all clients.
#[derive(Default)]
pub(crate) struct Chores {
    /// Whether this client has counted enough to report.
    pub(crate) reports: bool,
    /// A size class of which too many free blocks are kept.
    surplus: Option<usize>,
    /// Memory for values that are compared.
    pub(crate) scratch: Vec<u64>,
}

impl Chores {
    /// Gives back a block that no slot names.
    pub(crate) fn free<E: Endpoint>(&mut self, heap: &Heap<E>, block: BlockRef) {
        if heap.keep(block) {
            self.surplus = Some(block.class);
        }
    }

    /// This cannot fail: the writes are done.
    async fn see_to(&self, table: &impl AtOnce) {
        if self.reports {
            table.report_counts().await;
        }
        if let Some(class) = self.surplus {
            table.blocks().give_surplus(class).await;
        }
    }
}

impl<'r> Operation<'r> {
    /// The value that must be there.
    pub(crate) const fn expected(&self) -> Option<&'r [u8]> {
        match self {
            Self::Replace(_, expected, _) | Self::RemoveIf(_, expected) => Some(expected),
            _ => None,
        }
    }

    /// Whether it puts a key that is absent.
    pub(crate) const fn takes_absent(&self) -> bool {
        matches!(self, Self::Put(..) | Self::FindOrPut(..))
    }

    /// The outcome of a write that was done at once.
    const fn done(&self, changed: bool) -> Outcome {
        match self {
            Self::FindOrPut(..) => Outcome::Value(None),
            _ => Outcome::Changed(changed),
        }
    }
}

/// Does those of many writes that can be done at once, each booked to its class; returns the
/// numbers of the others.
pub(crate) async fn write_many<T: AtOnce>(
    table: &T,
    writes: &[Operation<'_>],
    mut done: impl FnMut(usize, Result<Outcome>),
) -> Vec<usize> {
    let core = table.endpoint().core();
    let (mut left, mut begun) = (Vec::new(), Vec::new());
    let mut ended = Vec::with_capacity(writes.len().min(RUN));
    for (run, some) in writes.chunks(RUN).enumerate() {
        let numbered = (run * RUN..).zip(some);
        let mut chores = Chores::default();
        match table.view_to_write() {
            None => left.extend(numbered.map(|(number, _)| number)),
            Some(view) => {
                for (number, operation) in numbered {
                    let write = match operation.is_lookup() {
                        true => None,
                        false => table.begin(view, operation),
                    };
                    match write {
                        Some(write) => begun.push((number, write, Cost::default())),
                        None => left.push(number),
                    }
                }
                for (_, write, cost) in &mut begun {
                    table.find(view, write, cost);
                }
                for (number, mut write, mut cost) in begun.drain(..) {
                    let operation = &writes[number];
                    match table.finish(view, &mut write, operation, &mut cost, &mut chores) {
                        Some(changed) => {
                            cost.tally.operation_ended(cost.booking);
                            core.counters.add(operation.class(), &cost.tally);
                            ended.push((number, operation.done(changed)));
                        }
                        None => left.push(number),
                    }
                }
            }
        }
        chores.see_to(table).await;
        for (number, outcome) in ended.drain(..) {
            done(number, Ok(outcome));
        }
        // A turn has some more of these than of single writes.
        let mut turns = 0..some.len().div_ceil(8);
        if turns.any(|_| core.is_turn_over()) {
            let_others_run().await;
        }
    }
    left.sort_unstable();
    left
}

/// Does a write if it can be done at once, booked to the operation that runs; returns what
/// [`AtOnce::finish`] does.
pub(crate) async fn write_one<T: AtOnce>(table: &T, operation: Operation<'_>) -> Option<bool> {
    let core = table.endpoint().core();
    let (mut cost, mut chores) = (Cost::default(), Chores::default());
    let changed = {
        let view = table.view_to_write()?;
        let mut write = table.begin(view, &operation)?;
        table.find(view, &mut write, &mut cost);
        table.finish(view, &mut write, &operation, &mut cost, &mut chores)?
    };
    core.counters.done_in_place(&cost.tally, cost.booking);
    chores.see_to(table).await;
    if core.is_turn_over() {
        let_others_run().await;
    }
    Some(changed)
}

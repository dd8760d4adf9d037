//! Keys without a path of one move (paper 001, theorem IV.3 for L = 1), in the limit of many
//! buckets.
//!
//! The theorem takes the chance that a key finds no path to be β^(2 + 2d), as if the 2 buckets of
//! the key and the 2d buckets that their records could move to were full independently of each
//! other, each with the share β of full buckets. They are not. A record is where it is because of
//! how full its other bucket was when it came; and a record whose other bucket still has room is
//! moved there as soon as a path needs its slot, and never comes back. A full bucket's records are
//! *pinned*, one after the other: because their other bucket fills up, for buckets never get less
//! full; or because they came by a move, or beside a full bucket. A bucket all of whose records are
//! pinned is *stuck*, and a key has no path if both of its buckets are: those are independent of
//! each other.
//!
//! So this follows, while keys arrive, for each of the two arrays
//!
//! - the share of buckets with i records, for all i;
//! - the records in buckets with i whose other bucket has j, for all i and j;
//! - the share of full buckets with u records that are not pinned, for all u.
//!
//! The first two are closed: a new key's buckets are any two. Of the third two things are taken to
//! be independent, which nearly are: how full the other buckets of one bucket's records are, when
//! it becomes full; and which of them becomes full next. And a bucket that is reached by a record's
//! move is taken to have as many others pointing to it as any that is as full.

use crate::ModelError;

/// The most slots of a bucket here, which is what an index can have.
pub const MOST_BUCKET_SLOTS: u32 = 16;
/// Steps from an empty table to a full one.
const STEPS: f64 = 8192.0;

/// Which of its two buckets a key goes to while both have room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillOrder {
    /// The one with more room; that of the second array, if both have as much.
    RoomierBucket,
    /// That of the first array.
    FirstArray,
}

/// Keys for which no path of at most one move was found, by the table's slots, when so many keys by
/// its slots have been offered: for each of `loads`, which ascend. Keys that found none are counted
/// as offered, and are not in the table.
///
/// # Errors
/// [`ModelError::BucketSlots`] if there are none or more than [`MOST_BUCKET_SLOTS`];
/// [`ModelError::LoadFactor`] for a load outside 0..=1, or below the one before.
pub fn without_path(
    bucket_slots: u32,
    order: FillOrder,
    loads: &[f64],
) -> Result<Vec<f64>, ModelError> {
    if !(1..=MOST_BUCKET_SLOTS).contains(&bucket_slots) {
        return Err(ModelError::BucketSlots {
            slots: bucket_slots,
            limit: MOST_BUCKET_SLOTS,
        });
    }
    let mut filling = FillTrajectory::new(bucket_slots as usize, order);
    let (mut at, mut lost) = (0.0, Vec::with_capacity(loads.len()));
    for load in loads {
        if !(at..=1.0).contains(load) {
            return Err(ModelError::LoadFactor(*load));
        }
        filling.offer(*load - at);
        at = *load;
        lost.push(filling.state.lost / filling.keys_of(1.0));
    }
    Ok(lost)
}

/// One of the two arrays, by its buckets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Array {
    /// The share of buckets with so many records.
    pub(super) with: Vec<f64>,
    /// Records by a bucket of the array: those in buckets with so many, whose other bucket has so
    /// many.
    pub(super) records: Vec<Vec<f64>>,
    /// The share of buckets that are full, with so many records that are not pinned.
    pub(super) loose: Vec<f64>,
}

impl Array {
    fn zeros(d: usize) -> Self {
        Self {
            with: vec![0.0; d + 1],
            records: vec![vec![0.0; d + 1]; d + 1],
            loose: vec![0.0; d + 1],
        }
    }

    fn add(&mut self, by: f64, other: &Self) {
        let both = |sums: &mut Vec<f64>, addends: &Vec<f64>| {
            sums.iter_mut()
                .zip(addends)
                .for_each(|(near, far)| *near += by * far);
        };
        both(&mut self.with, &other.with);
        both(&mut self.loose, &other.loose);
        let rows = self.records.iter_mut().zip(&other.records);
        rows.for_each(|(sums, addends)| both(sums, addends));
    }
}

/// The table, or how it changes with each key by a bucket of an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub(super) arrays: [Array; 2],
    /// Keys without a path, by a bucket of an array.
    pub(super) lost: f64,
}

impl State {
    fn zeros(d: usize) -> Self {
        Self {
            arrays: [Array::zeros(d), Array::zeros(d)],
            lost: 0.0,
        }
    }

    fn plus(&self, by: f64, change: &Self) -> Self {
        let mut sum = self.clone();
        let arrays = sum.arrays.iter_mut().zip(&change.arrays);
        arrays.for_each(|(array, change)| array.add(by, change));
        sum.lost += by * change.lost;
        sum
    }
}

/// A table that is filled.
pub(super) struct FillTrajectory {
    d: usize,
    order: FillOrder,
    pub(super) state: State,
}

impl FillTrajectory {
    pub(super) fn new(d: usize, order: FillOrder) -> Self {
        let mut state = State::zeros(d);
        state
            .arrays
            .iter_mut()
            .for_each(|array| array.with[0] = 1.0);
        Self { d, order, state }
    }

    /// Keys by a bucket of an array, for so many by a slot.
    fn keys_of(&self, load: f64) -> f64 {
        2.0 * self.d as f64 * load
    }

    /// Offers keys, so many by the table's slots.
    pub(super) fn offer(&mut self, load: f64) {
        let steps = (load * STEPS).ceil();
        let step = self.keys_of(load) / steps.max(1.0);
        for _ in 0..steps as u32 {
            let halfway = self.state.plus(step / 2.0, &self.change(&self.state));
            self.state = self.state.plus(step, &self.change(&halfway));
        }
    }

    /// What a key by a bucket changes.
    fn change(&self, state: &State) -> State {
        let mut flow = Flow {
            d: self.d,
            state,
            change: State::zeros(self.d),
            filled: [0.0; 2],
        };
        for first in 0..=self.d {
            for second in 0..=self.d {
                let keys = state.arrays[0].with[first] * state.arrays[1].with[second];
                match self.array_of(first, second) {
                    Some(0) => flow.arrive(0, first, second, keys),
                    Some(_) => flow.arrive(1, second, first, keys),
                    None => {}
                }
            }
        }
        flow.displace();
        flow.pin();
        flow.change
    }

    /// The array that a key goes to without a move, if its buckets have so many records.
    fn array_of(&self, first: usize, second: usize) -> Option<usize> {
        let goes_second = match self.order {
            FillOrder::RoomierBucket => second <= first,
            FillOrder::FirstArray => first == self.d,
        };
        match goes_second {
            true => (second < self.d).then_some(1),
            false => Some(0),
        }
    }
}

/// What a key changes, summed up.
struct Flow<'s> {
    d: usize,
    state: &'s State,
    change: State,
    /// Buckets of each array that become full.
    filled: [f64; 2],
}

impl Flow<'_> {
    /// Records arrive in buckets of an array with `load` records, less than d; their other buckets
    /// have `other`.
    fn arrive(&mut self, array: usize, load: usize, other: usize, records: f64) {
        let buckets = self.state.arrays[array].with[load];
        if buckets <= 0.0 || records <= 0.0 {
            return;
        }
        let part = records / buckets;
        let (near, far) = (&self.state.arrays[array], &self.state.arrays[1 - array]);
        let [first, second] = &mut self.change.arrays;
        let (change, other_change) = if array == 0 {
            (first, second)
        } else {
            (second, first)
        };
        change.with[load] -= records;
        change.with[load + 1] += records;
        for of_other in 0..=self.d {
            let held = part * near.records[load][of_other];
            change.records[load][of_other] -= held;
            change.records[load + 1][of_other] += held;
            let pointing = part * far.records[of_other][load];
            other_change.records[of_other][load] -= pointing;
            other_change.records[of_other][load + 1] += pointing;
        }
        change.records[load + 1][other] += records;
        if load + 1 == self.d {
            self.filled[array] += records;
            self.begin_full(array, records, other < self.d);
        }
    }

    /// Notes buckets of an array that become full, and whether the record that fills them is not
    /// pinned.
    fn begin_full(&mut self, array: usize, buckets: f64, last_is_loose: bool) {
        let remaining = self.d - 1;
        let records = &self.state.arrays[array].records[remaining];
        let all: f64 = records.iter().sum();
        let loose: f64 = records[..self.d].iter().sum();
        let chance = if all > 0.0 {
            (loose / all).min(1.0)
        } else {
            0.0
        };
        let begun = &mut self.change.arrays[array].loose[usize::from(last_is_loose)..];
        let mut ways = 1.0;
        for (of_others, share) in begun.iter_mut().enumerate().take(remaining + 1) {
            let kept =
                chance.powi(of_others as i32) * (1.0 - chance).powi((remaining - of_others) as i32);
            *share += buckets * ways * kept;
            ways *= (remaining - of_others) as f64 / (of_others + 1) as f64;
        }
    }

    /// Keys with two full buckets: a record that is not pinned makes room, of the second array if
    /// there is one.
    fn displace(&mut self) {
        let [first, second] = &self.state.arrays;
        let (full, stuck) = (first.with[self.d], [first.loose[0], second.loose[0]]);
        let of_second = full * (second.with[self.d] - stuck[1]);
        let of_first = stuck[1] * (full - stuck[0]);
        self.change.lost += stuck[0] * stuck[1];
        for (array, keys, both) in [(1, of_second, full), (0, of_first, stuck[1])] {
            let near = &self.state.arrays[array];
            let loose: f64 = near.records[self.d][..self.d].iter().sum();
            if loose <= 0.0 || keys <= 0.0 {
                continue;
            }
            for unpinned in 1..=self.d {
                let moved = both * near.loose[unpinned];
                let change = &mut self.change.arrays[array].loose;
                change[unpinned] -= moved;
                change[unpinned - 1] += moved;
            }
            for other in 0..self.d {
                let moved = keys * near.records[self.d][other] / loose;
                let change = &mut self.change.arrays[array].records[self.d];
                change[other] -= moved;
                change[self.d] += moved;
                self.arrive(1 - array, other, self.d, moved);
            }
        }
    }

    /// Pins records of full buckets whose other buckets become full: those records are counted by
    /// then.
    fn pin(&mut self) {
        for array in [0, 1] {
            let (near, far) = (&self.state.arrays[array], &self.state.arrays[1 - array]);
            let loose: f64 = near.records[self.d][..self.d].iter().sum();
            let nearly_full = far.with[self.d - 1];
            if loose <= 0.0 || nearly_full <= 0.0 {
                continue;
            }
            let chance =
                self.filled[1 - array] / nearly_full * near.records[self.d][self.d - 1] / loose;
            let change = &mut self.change.arrays[array].loose;
            for unpinned in 1..=self.d {
                let pinned = chance * unpinned as f64 * near.loose[unpinned];
                change[unpinned] -= pinned;
                change[unpinned - 1] += pinned;
            }
        }
    }
}

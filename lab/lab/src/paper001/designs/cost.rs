//! What insertions cost, counted without a fabric.

use std::ops::AddAssign;

/// What one insertion took, or several together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cost {
    /// Insertions.
    pub(crate) insertions: u64,
    /// Batches of READs and of WRITEs, one after the other.
    pub(crate) round_trips: u64,
    /// READs and WRITEs, of a slot or of a bucket each.
    pub(crate) accesses: u64,
    /// Slots that they read and wrote.
    pub(crate) items: u64,
    /// Records of the table that were written to another slot.
    pub(crate) moved: u64,
    /// Keys whose fingerprints collide with another's, where that was resolved in the bucket.
    pub(crate) adjusted: u64,
    /// Keys whose fingerprints collide with another's, where that was not resolved.
    pub(crate) collided: u64,
    /// Keys for which no path to a free slot was found.
    pub(crate) pathless: u64,
}

impl Cost {
    /// One insertion that has cost nothing yet.
    pub(crate) const fn begun() -> Self {
        Self {
            insertions: 1,
            round_trips: 0,
            accesses: 0,
            items: 0,
            moved: 0,
            adjusted: 0,
            collided: 0,
            pathless: 0,
        }
    }

    /// Notes a READ or a WRITE of so many slots.
    pub(crate) fn access(&mut self, items: u64) {
        self.accesses += 1;
        self.items += items;
    }

    /// The mean of something, an insertion.
    pub(crate) fn mean(&self, of: impl Fn(&Self) -> u64) -> f64 {
        of(self) as f64 / self.insertions.max(1) as f64
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, more: Self) {
        self.insertions += more.insertions;
        self.round_trips += more.round_trips;
        self.accesses += more.accesses;
        self.items += more.items;
        self.moved += more.moved;
        self.adjusted += more.adjusted;
        self.collided += more.collided;
        self.pathless += more.pathless;
    }
}

/// A table in which keys are placed, as far as that can be counted without a fabric.
pub(crate) trait CountedTable {
    /// Slots that count for the load factor.
    fn slots(&self) -> u64;

    /// Inserts a key that is not there, by its hash; nothing if it is refused.
    fn insert(&mut self, hash: u64) -> Option<Cost>;
}

/// Insertions up to a load factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Band {
    /// The load factor that they brought the table to.
    pub(crate) load: f64,
    /// What they cost together.
    pub(crate) cost: Cost,
}

/// What filling a table has cost.
#[derive(Clone, Debug)]
pub(crate) struct FillingCost {
    /// Its insertions, in steps of the load factor.
    pub(crate) bands: Vec<Band>,
    /// How full it was in the end: when the first key was refused, if one was.
    pub(crate) load: f64,
}

impl FillingCost {
    /// Inserts keys until one is refused, or the load factor is `until`; in bands of `step`.
    pub(crate) fn of(table: &mut impl CountedTable, until: f64, step: f64, seed: u64) -> Self {
        let slots = table.slots() as f64;
        let (mut filled, mut keys, mut cost) = (
            Self {
                bands: Vec::new(),
                load: 0.0,
            },
            0_u64,
            Cost::default(),
        );
        while filled.load < until {
            let Some(spent) = table.insert(farslot::index::hash::derive(seed, keys)) else {
                break;
            };
            keys += 1;
            cost += spent;
            filled.load = keys as f64 / slots;
            if filled.load >= (filled.bands.len() + 1) as f64 * step {
                filled.bands.push(Band {
                    load: filled.load,
                    cost: std::mem::take(&mut cost),
                });
            }
        }
        if cost.insertions > 0 {
            filled.bands.push(Band {
                load: filled.load,
                cost,
            });
        }
        filled
    }

    /// The insertions that brought the table to this load factor, or the last ones.
    #[cfg(test)]
    pub(crate) fn at(&self, load: f64) -> Band {
        let band = self.bands.iter().find(|band| band.load >= load - 1e-9);
        *band.or(self.bands.last()).expect("a table takes one key")
    }

    /// All insertions up to a load factor.
    pub(crate) fn until(&self, load: f64) -> Cost {
        let bands = self.bands.iter().filter(|band| band.load <= load + 1e-9);
        bands.fold(Cost::default(), |mut sum, band| {
            sum += band.cost;
            sum
        })
    }
}

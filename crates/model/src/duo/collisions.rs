//! How many keys collide by their fingerprints (paper 001, theorems IV.1 and IV.2).
//!
//! Two keys collide if they have the same primary fingerprint and a bucket in common; then both
//! buckets are the same, since the fingerprint gives either bucket from the other. So keys fall
//! into *classes*, by their bucket in the first array, and these into *cells*, by their primary
//! fingerprint: m classes of F cells each, where F is the number of fingerprints. All keys of a
//! cell but one collide. A class has n keys while the table is filled, in the end λ = 2dα on
//! average, half of them in its bucket and half in the second array.

use crate::ModelError;

/// Steps in which a class is filled: more change nothing in the fifth digit.
const STEPS: u32 = 2048;

/// A table of CuckooDuo, as far as its collisions depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprints {
    buckets: u64,
    bucket_slots: u32,
    values: u64,
}

/// Which slots of a bucket of the first array may hold backup fingerprints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupRoom {
    /// Any. A key has a backup fingerprint only if its primary one collides.
    AnySlot,
    /// So many that are set aside for that, and are filled before all others: the paper's d2, in
    /// the order of its published code.
    SetAside {
        /// How many: at most as many as the bucket has.
        slots: u32,
    },
}

impl Fingerprints {
    /// A table with `buckets` buckets in each of two arrays (the paper's m), `bucket_slots` slots
    /// in each (d), and `values` different fingerprints (2^f; one less where one of them marks a
    /// free slot).
    ///
    /// # Errors
    /// [`ModelError::NoSlots`] if there are no buckets or no slots, [`ModelError::TooManySlots`]
    /// beyond 2^40 of them, [`ModelError::Fingerprints`] for fewer than 2 or more than 2^32
    /// fingerprints.
    pub const fn new(buckets: u64, bucket_slots: u32, values: u64) -> Result<Self, ModelError> {
        let slots = buckets
            .saturating_mul(2)
            .saturating_mul(bucket_slots as u64);
        if slots == 0 {
            return Err(ModelError::NoSlots);
        }
        if slots > crate::MAX_SLOTS {
            return Err(ModelError::TooManySlots { slots });
        }
        if values < 2 || values > 1 << 32 {
            return Err(ModelError::Fingerprints { values });
        }
        Ok(Self {
            buckets,
            bucket_slots,
            values,
        })
    }

    /// Keys of a class, on average, at a load factor.
    fn of_class(&self, load: f64) -> Result<f64, ModelError> {
        if !(0.0..=1.0).contains(&load) {
            return Err(ModelError::LoadFactor(load));
        }
        Ok(2.0 * f64::from(self.bucket_slots) * load)
    }

    /// Keys that collide with another in a table with one fingerprint, of those that bring it to
    /// this load factor: what theorem IV.1 is about, exactly.
    ///
    /// N keys fall into C = mF cells, of which C (1 - (1 - 1/C)^N) are met on average; each of the
    /// other keys collides. For N far below C that is N^2 / 2C, the theorem's 2 m d^2 α^2 / F.
    ///
    /// # Errors
    /// [`ModelError::LoadFactor`] outside 0..=1.
    pub fn collisions(&self, load: f64) -> Result<f64, ModelError> {
        let keys = self.of_class(load)? * self.buckets as f64;
        let cells = self.buckets as f64 * self.values as f64;
        Ok(keys + cells * (keys * (-1.0 / cells).ln_1p()).exp_m1())
    }

    /// Keys whose collisions two fingerprints do not resolve, of those that bring the table to this
    /// load factor.
    ///
    /// Theorem IV.2 says that they are at most 4 m d (d+1)(d-1) / (3 F^2). It counts one event: a
    /// key's primary fingerprint is met, and its backup fingerprint is met too, among the i - 1
    /// other keys of a bucket with i. What it leaves out is as large. With [`BackupRoom::AnySlot`],
    /// to the leading order in 1/F, a new key is not resolved if
    ///
    /// - its backup fingerprint is that of a key which stands by it: whoever asks for the new key
    ///   would be sent there, whatever its primary fingerprint. Of n keys n^2 / 2F stand so;
    /// - or its primary fingerprint is met, and its backup fingerprint is that of a key of its
    ///   bucket which would then be taken for it; unless its twin, whose primary fingerprint it
    ///   has, is in that bucket and can stand by its backup fingerprint instead. So it is lost for
    ///   n/2 twins in the second array with n/2 keys of the bucket each, and for n/2 twins in the
    ///   bucket that are themselves that key.
    ///
    /// A class loses n^2/2 + n^2/4 + n/2 by F^2 of its key after n others; from 0 to 2dα that is
    /// **E(X) = m d^2 α^2 (2dα + 1) / F^2**, of which the first event alone is the theorem's bound,
    /// but for d^2 in the place of (d+1)(d-1). The full table has about 1.5 times the bound. This
    /// function follows a class step by step, so that a class with many collisions is right as
    /// well: for 8 bits that is some percent less.
    ///
    /// With [`BackupRoom::SetAside`] there are d2 slots for keys that need a backup fingerprint:
    ///
    /// - of K keys of a class that collide, those beyond d2 are lost. K is the sum over the class's
    ///   cells of their keys but one, n + F (e^(-n/F) - 1) on average, and its distribution the
    ///   F-fold convolution of a cell's;
    /// - a new key is lost if its backup fingerprint is that of one of the first d2 of these, which
    ///   cannot give way;
    /// - or of any other key in these slots, if its primary fingerprint is met as well;
    /// - or if both of its fingerprints are those of one key of its bucket.
    ///
    /// With 8 bits the first of these is most of all, and the theorem does not know of it.
    ///
    /// # Errors
    /// [`ModelError::LoadFactor`] outside 0..=1; [`ModelError::BackupSlots`] if more slots are set
    /// aside than a bucket has.
    pub fn unresolved(&self, load: f64, room: BackupRoom) -> Result<f64, ModelError> {
        let keys = self.of_class(load)?;
        let of_class = match room {
            BackupRoom::AnySlot => self.unresolved_in_any_slot(keys),
            BackupRoom::SetAside { slots } if slots > self.bucket_slots => {
                return Err(ModelError::BackupSlots {
                    slots,
                    bucket_slots: self.bucket_slots,
                });
            }
            BackupRoom::SetAside { slots } => self.unresolved_beside(keys, slots),
        };
        Ok(of_class * self.buckets as f64)
    }

    /// Slots that a client has to read for a key that is not there, on average, at this load
    /// factor.
    ///
    /// 2dα slots are in use in two buckets, each has the key's fingerprint with chance 1/F, and
    /// fingerprints of a class are all different, so that their chances add: 2dα / F exactly.
    /// Section III-B's 1 - (1 - 1/F)^2d is for a full table of fingerprints that are not, and
    /// differs by half of that rate: 3 % for 8 bits.
    ///
    /// # Errors
    /// [`ModelError::LoadFactor`] outside 0..=1.
    pub fn false_positives(&self, load: f64) -> Result<f64, ModelError> {
        Ok(self.of_class(load)? / self.values as f64)
    }

    /// Whether one of so many backup fingerprints is a given one.
    fn met(&self, among: f64) -> f64 {
        -(among.max(0.0) * (-1.0 / self.values as f64).ln_1p()).exp_m1()
    }

    fn unresolved_in_any_slot(&self, keys: f64) -> f64 {
        let values = self.values as f64;
        // By how much the keys that stand by backup fingerprints, and those that are lost, grow
        // with each key.
        let growth = |n: f64, [backed, lost]: [f64; 2]| {
            let in_bucket = (n / 2.0 - backed).max(0.0);
            let in_second = (n / 2.0 - lost).max(0.0);
            let by_backup = backed / values;
            let beside_twin = self.met(in_bucket - 1.0);
            let not_resolved = in_second * self.met(in_bucket) / values
                + in_bucket * (1.0 / values + beside_twin.powi(2)) / values;
            let met = (in_bucket + in_second) / values;
            [
                (1.0 - by_backup) * (met - not_resolved),
                by_backup + (1.0 - by_backup) * not_resolved,
            ]
        };
        let step = keys / f64::from(STEPS);
        let mut state = [0.0; 2];
        for number in 0..STEPS {
            let n = f64::from(number) * step;
            let moved =
                |by: f64, growth: [f64; 2]| [state[0] + by * growth[0], state[1] + by * growth[1]];
            let halfway = moved(step / 2.0, growth(n, state));
            state = moved(step, growth(n + step / 2.0, halfway));
        }
        state[1]
    }

    fn unresolved_beside(&self, keys: f64, slots: u32) -> f64 {
        let values = self.values as f64;
        let lost = |n: f64| {
            let pinned = self.pinned(n, slots);
            let in_bucket = n / 2.0;
            let unpinned = at_most(in_bucket, slots) - pinned;
            pinned / values
                + unpinned.max(0.0) / values * (n / values)
                + in_bucket / values.powi(2)
                + self.met(in_bucket).powi(2) * n / values
        };
        let step = keys / f64::from(STEPS);
        let middles = (0..STEPS).map(|number| (f64::from(number) + 0.5) * step);
        let all = keys + values * (-keys / values).exp_m1();
        all - self.pinned(keys, slots) + step * middles.map(lost).sum::<f64>()
    }

    /// Of a class with n keys on average, those that need a backup fingerprint and have one of so
    /// many slots.
    pub(super) fn pinned(&self, n: f64, slots: u32) -> f64 {
        let chances = self.colliding(n, slots);
        let free = (0..slots).rev().map(|free| f64::from(free + 1));
        f64::from(slots)
            - chances
                .iter()
                .zip(free)
                .map(|(chance, free)| chance * free)
                .sum::<f64>()
    }

    /// The chances that 0, 1, ... of the keys of a class collide, if it has n on average: so many
    /// of them.
    ///
    /// A cell has x = n/F keys on average, by Poisson's distribution, and so i that collide with
    /// chance e^-x x^(i+1) / (i+1)!, none with chance e^-x (1 + x). The F-fold convolution is a
    /// power of the generating function, by its recurrence: for b = g^F, b_k = sum over i = 1..k of
    /// (iF - k + i) g_i b_(k-i) / (k g_0).
    fn colliding(&self, n: f64, most: u32) -> Vec<f64> {
        let values = self.values as f64;
        let x = n / values;
        // g_i / g_0.
        let mut cell = vec![1.0];
        let mut term = x / (1.0 + x);
        for i in 1..most {
            term *= x / f64::from(i + 1);
            cell.push(term);
        }
        let mut class = Vec::with_capacity(most as usize);
        for k in 0..most {
            let sum = (1..=k).map(|i| {
                let weight = f64::from(i) * (values + 1.0) - f64::from(k);
                weight * cell[i as usize] * class[(k - i) as usize]
            });
            class.push(match k {
                0 => (values * (x.ln_1p() - x)).exp(),
                _ => sum.sum::<f64>() / f64::from(k),
            });
        }
        class
    }
}

/// The mean of what is Poisson distributed with this mean, but no more than `most`.
fn at_most(mean: f64, most: u32) -> f64 {
    let mut chance = (-mean).exp();
    let mut sum = f64::from(most);
    for k in 0..most {
        sum -= chance * f64::from(most - k);
        chance *= mean / f64::from(k + 1);
    }
    sum
}

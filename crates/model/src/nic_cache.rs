//! How much of what a NIC needs it finds in its cache (paper 003, sections 2.1 and 3.3).
//!
//! A NIC keeps the state of connections, translations of pages and protection entries of regions in
//! a small cache. What is needed of each class is a number of equal items, used one after the other
//! *in turn*, or *at random*. The cache replaces at random: an item that is in it goes at a rate
//! that is the same for all, and is such that what is left fills the cache.
//!
//! With items of one class, used at random, the hit ratio is the part of the working set that the
//! cache holds, as in a cache that replaces the least recently used. Used in turn it is less: 0.2
//! where the cache holds half of them, 0.06 where it holds a third. (There a cache that replaces
//! the least recently used would never hit.)

use crate::ModelError;

/// In which order the items of a class are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Each item with the same chance.
    Random,
    /// One after the other, again and again.
    InTurn,
}

/// Items of a NIC's cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheClass {
    /// How many there are.
    pub items: u64,
    /// Bytes of each.
    pub item_bytes: u64,
    /// How many of them a verb uses, in the mean.
    pub uses: f64,
    /// In which order.
    pub reuse: Reuse,
}

impl CacheClass {
    /// Verbs between two uses of an item, in the mean.
    fn interval(&self) -> f64 {
        self.items as f64 / self.uses
    }

    /// The hit ratio, and the part of the items in the cache, where an item in the cache goes at
    /// `rate` per verb.
    fn at(&self, rate: f64) -> (f64, f64) {
        let gone = rate * self.interval();
        match self.reuse {
            Reuse::Random => {
                let hit = 1.0 / (1.0 + gone);
                (hit, hit)
            }
            Reuse::InTurn => ((-gone).exp(), -(-gone).exp_m1() / gone),
        }
    }

    fn bytes(&self) -> f64 {
        if self.uses > 0.0 {
            self.items as f64 * self.item_bytes as f64
        } else {
            0.0
        }
    }
}

/// The hit ratio of each class in a cache of `capacity_bytes`. All are 1 where everything that is
/// used fits; that of a class that is not used is 1.
///
/// # Errors
/// [`ModelError::Weight`] if the uses of a class are negative or not finite.
pub fn hit_ratios(capacity_bytes: u64, classes: &[CacheClass]) -> Result<Vec<f64>, ModelError> {
    let wrong = |class: &&CacheClass| !class.uses.is_finite() || class.uses < 0.0;
    if let Some(class) = classes.iter().find(wrong) {
        return Err(ModelError::Weight(class.uses));
    }
    let capacity = capacity_bytes as f64;
    if classes.iter().map(CacheClass::bytes).sum::<f64>() <= capacity {
        return Ok(vec![1.0; classes.len()]);
    }
    let used = || {
        classes
            .iter()
            .filter(|class| class.uses > 0.0 && class.items > 0)
    };
    let held = |rate: f64| -> f64 { used().map(|class| class.bytes() * class.at(rate).1).sum() };
    // Between rates at which nearly all and nearly none of the items are in the cache.
    let intervals = used().map(CacheClass::interval);
    let [shortest, longest] = intervals.fold([f64::INFINITY, 0.0f64], |[least, most], interval| {
        [least.min(interval), most.max(interval)]
    });
    let [mut low, mut high] = [1e-9 / longest, 1e18 / shortest];
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if held(middle) > capacity {
            low = middle;
        } else {
            high = middle;
        }
    }
    let hit = |class: &CacheClass| {
        if class.uses > 0.0 && class.items > 0 {
            class.at(high).0
        } else {
            1.0
        }
    };
    Ok(classes.iter().map(hit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(items: u64, item_bytes: u64, uses: f64, reuse: Reuse) -> CacheClass {
        CacheClass {
            items,
            item_bytes,
            uses,
            reuse,
        }
    }

    /// Hit ratios of a cache of equal items that replaces at random, each class used once a verb.
    fn simulated(capacity: usize, classes: &[(u64, Reuse)]) -> Vec<f64> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        let mut cached: Vec<(usize, u64)> = Vec::new();
        let mut hits = vec![0u32; classes.len()];
        let (verbs, warm) = (60_000u64, 20_000);
        for verb in 0..verbs {
            for (number, (items, reuse)) in classes.iter().enumerate() {
                let item = match reuse {
                    Reuse::Random => (number, random(*items)),
                    Reuse::InTurn => (number, verb % items),
                };
                if cached.contains(&item) {
                    hits[number] += u32::from(verb >= warm);
                } else if cached.len() < capacity {
                    cached.push(item);
                } else {
                    let evicted = random(capacity as u64) as usize;
                    cached[evicted] = item;
                }
            }
        }
        let measured = (verbs - warm) as f64;
        hits.iter()
            .map(|hits| f64::from(*hits) / measured)
            .collect()
    }

    #[test]
    fn what_fits_always_hits_and_what_does_not_is_as_simulated() {
        for (capacity, classes) in [
            (100, vec![(60, Reuse::Random), (40, Reuse::InTurn)]),
            (100, vec![(200, Reuse::Random)]),
            (100, vec![(150, Reuse::InTurn)]),
            (100, vec![(300, Reuse::InTurn)]),
            (100, vec![(90, Reuse::InTurn), (400, Reuse::Random)]),
            (100, vec![(20, Reuse::Random), (130, Reuse::Random)]),
        ] {
            let of_model = |(items, reuse): &(u64, Reuse)| class(*items, 64, 1.0, *reuse);
            let modelled: Vec<_> = classes.iter().map(of_model).collect();
            let modelled = hit_ratios(64 * capacity as u64, &modelled).unwrap();
            let counted = simulated(capacity, &classes);
            for (model, count) in modelled.iter().zip(&counted) {
                assert!(
                    (model - count).abs() < 0.02,
                    "{classes:?} {modelled:?} {counted:?}"
                );
            }
        }
    }

    #[test]
    fn a_class_at_random_hits_by_its_part_in_the_cache() {
        let hits = hit_ratios(2 << 20, &[class(10_000, 375, 1.0, Reuse::Random)]).unwrap();
        let part = f64::from(2 << 20) / 3_750_000.0;
        assert!((hits[0] - part).abs() < 1e-6, "{hits:?}");
    }

    #[test]
    fn what_is_not_used_takes_no_room_and_nonsense_is_refused() {
        let idle = class(1 << 40, 64, 0.0, Reuse::Random);
        let busy = class(100, 64, 1.0, Reuse::InTurn);
        assert_eq!(hit_ratios(6_400, &[idle, busy]), Ok(vec![1.0, 1.0]));
        let tiny = hit_ratios(0, &[busy]).unwrap();
        assert!(tiny[0] < 1e-6, "{tiny:?}");
        for uses in [f64::NAN, -1.0] {
            assert!(hit_ratios(1, &[CacheClass { uses, ..busy }]).is_err());
        }
    }
}

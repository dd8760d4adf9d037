//! Operations in RACE tables, whose records are out of band.

use super::draws::Draws;
use super::work::{VerbCosts, Work};

/// How full the slots are that an operation of a RACE table reads.
///
/// Buckets come in groups of three, of which the middle one takes what the others overflow; a key
/// goes to the emptier of two pairs of an outer one and the middle one. How the load factor is
/// spread over them has no closed form, so a small table is filled here by the index's own rule,
/// and counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RacePlaces {
    /// Slots of a bucket.
    pub bucket_slots: u32,
    /// Its load factor.
    pub load: f64,
    /// Keys among the slots that are read for a key that is not there.
    pub others_to_miss: f64,
    /// Other keys among the slots that are read for a key that is there.
    pub others_to_hit: f64,
}

/// Slots of the table that is filled.
const SLOTS: usize = 1 << 15;
/// Buckets of a group.
const GROUP: usize = 3;
/// A table is no good at its very limit: it must get fuller by this part.
const RESERVE: f64 = 0.01;
/// The probability that a slot of another key has a key's tag: 8 bits.
const SAME_TAG: f64 = 1.0 / 256.0;
/// Bytes of a slot.
const SLOT_BYTES: f64 = 8.0;

impl RacePlaces {
    /// Fills a table to a load factor; nothing if it does not get that full and a little fuller, or
    /// for buckets or a load that no table has. The same every time.
    #[must_use]
    pub fn find(bucket_slots: u32, load: f64) -> Option<Self> {
        if !((1..=32).contains(&bucket_slots) && load > 0.0 && load <= 1.0) {
            return None;
        }
        let mut table = Table::new(bucket_slots as usize);
        let keys = ((load * table.slots() as f64).round() as usize).max(1);
        table.insert_up_to(keys)?;
        let mean = |pairs: &[Pairs]| {
            let used = pairs.iter().map(|pairs| table.used_by(*pairs));
            used.sum::<usize>() as f64 / pairs.len() as f64
        };
        let others_to_hit = mean(&table.keys) - 1.0;
        let mut random = Draws::default();
        let absent: Vec<Pairs> = (0..keys).map(|_| table.draw(&mut random)).collect();
        let others_to_miss = mean(&absent);
        let reserve = (keys as f64 * (1.0 + RESERVE)).round() as usize;
        table.insert_up_to(reserve.min(table.slots()))?;
        Some(Self {
            bucket_slots,
            load,
            others_to_miss,
            others_to_hit,
        })
    }
}

/// The two pairs of buckets of a key: of each the outer bucket and the middle one.
type Pairs = [(usize, usize); 2];

/// A table of nothing but how full its buckets are.
struct Table {
    bucket_slots: usize,
    used: Vec<usize>,
    keys: Vec<Pairs>,
    random: Draws,
}

impl Table {
    fn new(bucket_slots: usize) -> Self {
        let groups = SLOTS / (GROUP * bucket_slots);
        Self {
            bucket_slots,
            used: vec![0; groups * GROUP],
            keys: Vec::new(),
            // Others than those of absent keys.
            random: Draws::from(1),
        }
    }

    fn slots(&self) -> usize {
        self.used.len() * self.bucket_slots
    }

    /// The pairs of a key: by two different outer buckets.
    fn draw(&self, random: &mut Draws) -> Pairs {
        let outer = self.used.len() / GROUP * 2;
        let first = random.below(outer) as usize;
        let other = random.below(outer - 1) as usize;
        [first, other + usize::from(other >= first)].map(|main| {
            let group = main / 2 * GROUP;
            (group + main % 2 * 2, group + 1)
        })
    }

    /// Keys in the slots of both pairs; the middle bucket may be that of both.
    fn used_by(&self, [first, second]: Pairs) -> usize {
        let shared = match first.1 == second.1 {
            true => self.used[first.1],
            false => 0,
        };
        self.used_in(first) + self.used_in(second) - shared
    }

    fn used_in(&self, (main, overflow): (usize, usize)) -> usize {
        self.used[main] + self.used[overflow]
    }

    /// Puts new keys until there are so many; nothing if one finds no slot.
    fn insert_up_to(&mut self, keys: usize) -> Option<()> {
        let mut random = std::mem::take(&mut self.random);
        while self.keys.len() < keys {
            let pairs = self.draw(&mut random);
            let [first, second] = pairs;
            let order = match self.used_in(second) < self.used_in(first) {
                true => [second, first],
                false => [first, second],
            };
            let mut buckets = order.into_iter().flat_map(|(main, over)| [main, over]);
            let bucket = buckets.find(|bucket| self.used[*bucket] < self.bucket_slots)?;
            self.used[bucket] += 1;
            self.keys.push(pairs);
        }
        self.random = random;
        Some(())
    }
}

/// The READs of a key's slots, two pairs of buckets side by side.
fn spans(costs: &VerbCosts, places: &RacePlaces) -> [Work; 2] {
    let slots = 2.0 * f64::from(places.bucket_slots);
    [costs.transfer(slots * SLOT_BYTES); 2]
}

/// A lookup that hits with probability `hit_ratio`, in a table whose blocks have `block_bytes`
/// bytes on average: two READs side by side; then the records of all keys with the key's tag, of
/// which a hit's is one.
#[must_use]
pub fn race_lookup(
    costs: &VerbCosts,
    places: &RacePlaces,
    hit_ratio: f64,
    block_bytes: f64,
) -> Work {
    let read = costs.together(&spans(costs, places));
    let (hit, miss) = (
        found(costs, places, block_bytes),
        missed(costs, places, block_bytes),
    );
    read + hit * hit_ratio + miss * (1.0 - hit_ratio)
}

/// The READ of the record of a key that is there, and those of others beside it.
fn found(costs: &VerbCosts, places: &RacePlaces, block_bytes: f64) -> Work {
    let record = costs.transfer(block_bytes);
    record + record.waited_for(costs.post_ns) * (places.others_to_hit * SAME_TAG)
}

/// The READs of others' records for a key that is not there.
fn missed(costs: &VerbCosts, places: &RacePlaces, block_bytes: f64) -> Work {
    costs.transfer(block_bytes) * (places.others_to_miss * SAME_TAG)
}

/// The put of a new key whose record has `record_bytes` bytes, into a table that does not grow
/// meanwhile: the record is written while the key's slots are read; a swap begins the insertion,
/// and the slots are read behind it; another swap makes it live.
#[must_use]
pub fn race_put(
    costs: &VerbCosts,
    places: &RacePlaces,
    block_bytes: f64,
    record_bytes: f64,
) -> Work {
    let [first, second] = spans(costs, places);
    let looked = costs.together(&[costs.transfer(record_bytes), first, second]);
    let begun = costs.together(&[costs.atomic(), first, second]);
    looked + missed(costs, places, block_bytes) + begun + costs.atomic()
}

/// The replacement of the value of a key that is there: the record is written while the key's slots
/// are read, the old record is read, and a swap names the new one.
#[must_use]
pub fn race_update(
    costs: &VerbCosts,
    places: &RacePlaces,
    block_bytes: f64,
    record_bytes: f64,
) -> Work {
    let [first, second] = spans(costs, places);
    let looked = costs.together(&[costs.transfer(record_bytes), first, second]);
    looked + found(costs, places, block_bytes) + costs.atomic()
}

#[cfg(test)]
mod tests {
    use super::super::work::tests::COSTS;
    use super::*;

    fn places(load: f64) -> RacePlaces {
        RacePlaces::find(8, load).unwrap()
    }

    #[test]
    fn middle_buckets_fill_last() {
        // As long as nothing overflows, the outer buckets of a key, which are 16 of the 24 slots of
        // a group, have all.
        let half = places(0.5);
        assert!((half.others_to_miss - 24.0 * 0.5).abs() < 0.05, "{half:?}");
        for load in [0.75, 0.9] {
            let (places, read) = (places(load), 32.0 * load);
            let looked_at = places.others_to_miss;
            assert!((0.75 * read..read).contains(&looked_at), "{places:?}");
            assert!((looked_at - places.others_to_hit).abs() < 2.0, "{places:?}");
        }
    }

    #[test]
    fn tables_that_do_not_get_so_full_are_told() {
        assert_eq!(RacePlaces::find(8, 0.97), None);
        assert_eq!(RacePlaces::find(0, 0.5), None);
        assert_eq!(RacePlaces::find(8, f64::NAN), None);
        assert!(RacePlaces::find(32, 0.95).is_some());
    }

    #[test]
    fn verbs_and_round_trips_are_those_of_the_protocol() {
        let places = RacePlaces {
            others_to_miss: 0.0,
            others_to_hit: 0.0,
            ..places(0.5)
        };
        let close = |work: Work, verbs: f64, round_trips: f64, bytes: f64| {
            assert_eq!(
                (work.verbs, work.round_trips),
                (verbs, round_trips),
                "{work:?}"
            );
            assert!((work.bytes - bytes).abs() < 1e-9, "{work:?}");
        };
        close(race_lookup(&COSTS, &places, 0.0, 96.0), 2.0, 1.0, 256.0);
        close(race_lookup(&COSTS, &places, 1.0, 96.0), 3.0, 2.0, 352.0);
        close(race_put(&COSTS, &places, 96.0, 80.0), 7.0, 3.0, 608.0);
        close(race_update(&COSTS, &places, 96.0, 80.0), 5.0, 3.0, 440.0);
    }
}

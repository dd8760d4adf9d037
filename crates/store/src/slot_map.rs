//! Which partition of a table that is sharded over several nodes a key belongs to.
//!
//! ```text
//! key -> hash slot, one of 4096 -> partition -> node
//! ```
//! The first step is a hash with a seed that the table draws for it alone: neither do the keys of a
//! partition crowd in any part of its table, nor can anybody prepare keys that all fall on one
//! node. The second is the slot map, a small, versioned piece of the catalog, coded as runs of hash
//! slots. The third is what the nodes' catalogs say.
//!
//! A table keeps the map that it was made with. Moving partitions to other nodes would publish a
//! map of the next version; whoever finds two takes the later.

use farslot_index::Record;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Hash slots of a table: what the slot map distributes.
pub const HASH_SLOTS: u16 = 4096;

/// The most nodes of a store: each partition then has 16 hash slots.
pub const MOST_NODES: usize = 256;

/// How the hash slots of a table are distributed over its partitions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Coded", into = "Coded")]
pub struct SlotMap {
    version: u64,
    seed: u64,
    partitions: u16,
    /// The partition of each hash slot.
    of_slot: Box<[u16]>,
}

/// The map in the catalog.
#[derive(Serialize, Deserialize)]
struct Coded {
    version: u64,
    seed: u64,
    /// A partition and how many consecutive hash slots are its.
    runs: Vec<(u16, u16)>,
}

impl From<SlotMap> for Coded {
    fn from(map: SlotMap) -> Self {
        let runs = map.of_slot.chunk_by(|one, next| one == next);
        Self {
            version: map.version,
            seed: map.seed,
            runs: runs.map(|run| (run[0], run.len() as u16)).collect(),
        }
    }
}

impl TryFrom<Coded> for SlotMap {
    type Error = String;

    fn try_from(coded: Coded) -> Result<Self, String> {
        let total: u64 = coded.runs.iter().map(|(_, slots)| u64::from(*slots)).sum();
        if total != u64::from(HASH_SLOTS) {
            return Err(format!("a map of {total} hash slots, not {HASH_SLOTS}"));
        }
        let of_slot: Box<[u16]> = (coded.runs.iter())
            .flat_map(|(partition, slots)| std::iter::repeat_n(*partition, usize::from(*slots)))
            .collect();
        let partitions = 1 + of_slot.iter().copied().max().unwrap_or(0);
        if usize::from(partitions) > MOST_NODES {
            return Err(format!("partition {} of {MOST_NODES}", partitions - 1));
        }
        Ok(Self {
            version: coded.version,
            seed: coded.seed,
            partitions,
            of_slot,
        })
    }
}

impl SlotMap {
    /// The first map of a table: so many partitions, from 1 to [`MOST_NODES`], as equal as can be.
    pub(crate) fn even(partitions: u16, seed: u64) -> Self {
        let of_slot = 0..u32::from(HASH_SLOTS);
        let of_slot =
            of_slot.map(|slot| (slot * u32::from(partitions) / u32::from(HASH_SLOTS)) as u16);
        Self {
            version: 1,
            seed,
            partitions,
            of_slot: of_slot.collect(),
        }
    }

    /// The map's version: one that replaces another has a higher one.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// How many partitions the table has.
    #[must_use]
    pub const fn partitions(&self) -> u16 {
        self.partitions
    }

    /// Hash slots of a partition.
    #[must_use]
    pub fn slots_of(&self, partition: u16) -> u16 {
        self.of_slot.iter().filter(|of| **of == partition).count() as u16
    }

    /// The partition that a key belongs to.
    #[inline]
    #[must_use]
    pub fn partition_of(&self, key: &[u8]) -> u16 {
        let slot = xxh3_64_with_seed(key, self.seed) >> (64 - HASH_SLOTS.trailing_zeros());
        self.of_slot[slot as usize]
    }

    /// The records of each partition, by number.
    pub(crate) fn split<'r>(&self, records: &[Record<'r>]) -> Vec<Vec<Record<'r>>> {
        let mut parts = vec![Vec::new(); usize::from(self.partitions)];
        for record in records {
            parts[usize::from(self.partition_of(record.0))].push(*record);
        }
        parts
    }
}

/// What the largest of so many partitions is laid out for, when the table is for `total` in all
/// (keys, or bytes of records) and no single thing takes more than `largest` of it (1 key, or the
/// bytes of the largest record):
///
/// `total * p + 5 * sqrt(total * largest * p * (1 - p))`, at most `total`, where `p` is the
/// partition's share of the hash slots. What falls into a partition is a sum over things that each
/// fall there with probability `p`; for keys it is binomially distributed. This is its mean and
/// five standard deviations, or more if not all things are the largest: of partitions of many keys,
/// about three in ten million get more.
pub(crate) fn partition_share(total: u64, largest: u64, partitions: u16) -> u64 {
    let share = f64::from(HASH_SLOTS.div_ceil(partitions)) / f64::from(HASH_SLOTS);
    let mean = total as f64 * share;
    let deviation = (mean * largest as f64 * (1.0 - share)).sqrt();
    ((mean + 5.0 * deviation).ceil() as u64).min(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_equal_and_the_code_is_small_and_gives_the_map_back() {
        for partitions in [1, 2, 3, 7, 100, MOST_NODES as u16] {
            let map = SlotMap::even(partitions, 5);
            assert_eq!((map.version(), map.partitions()), (1, partitions));
            let sizes = (0..partitions).map(|partition| map.slots_of(partition));
            let equal = HASH_SLOTS / partitions;
            assert!(
                sizes
                    .clone()
                    .all(|slots| slots == equal || slots == equal + 1)
            );
            assert_eq!(sizes.sum::<u16>(), HASH_SLOTS);
            let coded = serde_json::to_string(&map).unwrap();
            assert!(coded.len() < 64 + 12 * usize::from(partitions), "{coded}");
            assert_eq!(serde_json::from_str::<SlotMap>(&coded).unwrap(), map);
        }
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for runs in ["[]", "[[0,4095]]", "[[0,4096],[1,1]]", "[[300,4096]]"] {
            let coded = format!("{{\"version\":1,\"seed\":0,\"runs\":{runs}}}");
            assert!(serde_json::from_str::<SlotMap>(&coded).is_err(), "{runs}");
        }
    }

    #[test]
    fn keys_spread_evenly_whatever_they_are() {
        let map = SlotMap::even(3, 77);
        let mut of = [0_u32; 3];
        for number in 0..30_000_u64 {
            of[usize::from(map.partition_of(&number.to_le_bytes()))] += 1;
        }
        // Five standard deviations of 30,000 draws: 408.
        assert!(of.iter().all(|keys| keys.abs_diff(10_000) < 408), "{of:?}");
        let other = SlotMap::even(3, 78);
        let moved = (0..30_000_u64).filter(|number| {
            let key = number.to_le_bytes();
            map.partition_of(&key) != other.partition_of(&key)
        });
        assert!(moved.count().abs_diff(20_000) < 500);
    }

    #[test]
    fn no_partition_gets_more_keys_than_it_is_laid_out_for() {
        for (capacity, partitions) in [(10, 3), (1_000, 3), (1_000, 7), (100_000, 3), (20_000, 64)]
        {
            let most = partition_share(capacity, 1, partitions);
            assert!(most <= capacity && most >= capacity / u64::from(partitions));
            for seed in 0..40_000_000 / capacity.max(100_000) / 4 {
                let map = SlotMap::even(partitions, seed);
                let mut of = vec![0; usize::from(partitions)];
                for number in 0..capacity {
                    of[usize::from(map.partition_of(&number.to_le_bytes()))] += 1;
                }
                let fullest = of.into_iter().max().unwrap();
                assert!(
                    fullest <= most,
                    "{capacity} over {partitions}, seed {seed}: {fullest} > {most}"
                );
            }
        }
        assert_eq!(partition_share(0, 1, 3), 0);
        assert_eq!(partition_share(500, 1, 1), 500);
        assert!(partition_share(u64::MAX, 1, 3) > u64::MAX / 3);
    }

    #[test]
    fn no_partition_gets_more_bytes_than_it_is_laid_out_for() {
        // A few large records among many small ones.
        let size = |number: u64| {
            if number.is_multiple_of(100) {
                10_000
            } else {
                10
            }
        };
        let total = (0..10_000).map(size).sum();
        let most = partition_share(total, 10_000, 3);
        assert!(most < total * 3 / 4, "{most} of {total}");
        for seed in 0..100 {
            let map = SlotMap::even(3, seed);
            let mut of = [0; 3];
            for number in 0..10_000_u64 {
                of[usize::from(map.partition_of(&number.to_le_bytes()))] += size(number);
            }
            assert!(of.iter().all(|bytes| *bytes <= most), "{of:?} > {most}");
        }
        assert_eq!(partition_share(1_000, 1_000, 3), 1_000);
    }
}

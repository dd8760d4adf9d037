//! Lookups in cuckoo tables.

use super::OutOfBand;
use super::places::CuckooPlaces;
use super::work::{VerbCosts, Work};

/// How the buckets of a key are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CuckooReads {
    /// One after the other, until the key is found.
    Sequential,
    /// All side by side.
    Parallel,
    /// All by one request, where the NIC gathers.
    Gathered,
}

/// Bytes of the 64 counts of displacements and of the seal, all of which a miss reads in a table
/// that is not known to be sealed.
const MOVES_BYTES: f64 = 520.0;

/// A lookup that hits with probability `hit_ratio`, in buckets of `bucket_bytes` bytes whose keys
/// stand as in `places`; nothing where buckets shall be gathered and the NIC cannot.
///
/// A hit reads its record too, where those are out of band. A miss reads all
/// buckets and, unless the table is `sealed`, whether a key was displaced meanwhile.
#[must_use]
pub fn cuckoo_lookup(
    costs: &VerbCosts,
    places: &CuckooPlaces,
    bucket_bytes: usize,
    reads: CuckooReads,
    hit_ratio: f64,
    records: Option<OutOfBand>,
    sealed: bool,
) -> Option<Work> {
    let bytes = bucket_bytes as f64;
    let ways = places.shape.ways;
    let (hit, miss) = match reads {
        CuckooReads::Sequential => {
            let one = costs.transfer(bytes);
            (one * places.buckets_to_hit, one * f64::from(ways))
        }
        // In mapped memory nothing is gained by fetching all before the first is looked at.
        CuckooReads::Parallel if costs.in_place.is_some() => {
            let further = costs.batch(ways - 1, bytes);
            let hit = costs.transfer(bytes) + further * (1.0 - places.in_first_bucket);
            (hit, costs.transfer(bytes) + further)
        }
        CuckooReads::Parallel => {
            let all = costs.batch(ways, bytes);
            (all, all)
        }
        CuckooReads::Gathered => {
            let all = costs.gather(ways, bytes)?;
            (all, all)
        }
    };
    let (mut hit, mut miss) = (hit, miss);
    if let Some(records) = records {
        let slots = f64::from(places.shape.bucket_slots) * places.load;
        let all = f64::from(ways) * slots;
        let before_hit = match reads {
            _ if !records.together => {
                (places.buckets_to_hit - 1.0) * slots + (slots - 1.0).max(0.0) / 2.0
            }
            CuckooReads::Sequential => places.buckets_to_hit * slots - 1.0,
            CuckooReads::Parallel | CuckooReads::Gathered => all - 1.0,
        };
        hit = hit + records.found(costs) + records.in_vain(costs, before_hit, true);
        miss = miss + records.in_vain(costs, all, false);
    }
    if !sealed {
        miss = miss + costs.transfer(MOVES_BYTES);
    }
    Some(hit * hit_ratio + miss * (1.0 - hit_ratio))
}

#[cfg(test)]
mod tests {
    use super::super::places::{CuckooShape, Filling};
    use super::super::work::tests::{COSTS, IN_PLACE};
    use super::*;

    fn lookup(reads: CuckooReads, hit_ratio: f64, record: Option<f64>, sealed: bool) -> Work {
        let shape = CuckooShape {
            ways: 3,
            bucket_slots: 4,
        };
        let places = CuckooPlaces::find(shape, 0.8, Filling::Inserted).unwrap();
        let record = record.map(|bytes| OutOfBand::tagged(1.0, bytes));
        cuckoo_lookup(&COSTS, &places, 32, reads, hit_ratio, record, sealed).unwrap()
    }

    #[test]
    fn in_place_the_others_are_loaded_where_the_first_bucket_has_not_the_key() {
        let shape = CuckooShape {
            ways: 3,
            bucket_slots: 4,
        };
        let places = CuckooPlaces::find(shape, 0.8, Filling::Inserted).unwrap();
        let lines = |hit_ratio| {
            let reads = CuckooReads::Parallel;
            let work = cuckoo_lookup(&IN_PLACE, &places, 96, reads, hit_ratio, None, true);
            work.unwrap().lines
        };
        let in_first = places.in_first_bucket;
        assert!((0.5..0.7).contains(&in_first), "{in_first}");
        assert!((lines(1.0) - 6.0 + 4.0 * in_first).abs() < 1e-9);
        assert!((lines(0.0) - 6.0).abs() < 1e-9);
    }

    #[test]
    fn a_miss_reads_all_buckets_and_the_counts_of_displacements() {
        for (sealed, verbs, bytes) in [(true, 3.0, 96.0), (false, 4.0, 616.0)] {
            for reads in [CuckooReads::Sequential, CuckooReads::Parallel] {
                let miss = lookup(reads, 0.0, None, sealed);
                assert_eq!((miss.verbs, miss.bytes), (verbs, bytes));
            }
        }
        assert_eq!(
            lookup(CuckooReads::Sequential, 0.0, None, false).round_trips,
            4.0
        );
        assert_eq!(
            lookup(CuckooReads::Parallel, 0.0, None, false).round_trips,
            2.0
        );
    }

    #[test]
    fn a_hit_reads_on_until_it_is_found_and_its_record_then() {
        let sequential = lookup(CuckooReads::Sequential, 1.0, None, false);
        assert!((1.5..2.5).contains(&sequential.verbs), "{sequential:?}");
        let parallel = lookup(CuckooReads::Parallel, 1.0, Some(64.0), false);
        assert!((4.0..4.01).contains(&parallel.verbs), "{parallel:?}");
        assert!(parallel.latency_ns > 2.0 * COSTS.nic.read_latency_ns);
    }

    #[test]
    fn only_a_nic_that_gathers_is_asked_to() {
        let shape = CuckooShape {
            ways: 2,
            bucket_slots: 4,
        };
        let places = CuckooPlaces::find(shape, 0.5, Filling::Built).unwrap();
        let gathered = cuckoo_lookup(&COSTS, &places, 32, CuckooReads::Gathered, 1.0, None, true);
        assert_eq!(gathered, None);
    }
}

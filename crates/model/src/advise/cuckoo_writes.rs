//! Writes to cuckoo tables, by their writer.

use super::places::{CuckooInsertion, CuckooPlaces};
use super::work::{VerbCosts, Work};
use super::{CuckooReads, OutOfBand};

/// How a record comes into its slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CuckooWrite {
    /// The slot is one word.
    Word,
    /// Into the slot; a new value first goes out of band.
    Inline {
        /// Bytes of a slot behind its first word.
        body_bytes: f64,
        /// Bytes of a record out of band.
        record_bytes: f64,
    },
    /// Out of band.
    Out {
        /// Bytes of the record.
        record_bytes: f64,
    },
    /// Out of band, into a heap bucket, which has four records.
    Signed {
        /// Bytes of the record.
        record_bytes: f64,
        /// Bytes of a heap bucket's room for each.
        region_bytes: f64,
    },
}

/// The slots of a cuckoo table, as its writer reads and writes them.
#[derive(Debug, Clone, PartialEq)]
pub struct CuckooSlots {
    /// Where its keys stand.
    pub places: CuckooPlaces,
    /// Bytes of a bucket.
    pub bucket_bytes: f64,
    /// How lookups read buckets: a writer reads all those of a key at once.
    pub reads: CuckooReads,
    /// The records, where they are out of band.
    pub records: Option<OutOfBand>,
    /// How they come there.
    pub write: CuckooWrite,
}

/// Records of a heap bucket.
const SIGNATURES: f64 = 4.0;

impl CuckooSlots {
    fn key_buckets(&self, costs: &VerbCosts) -> Work {
        let ways = self.places.shape.ways;
        let gathered = match self.reads {
            CuckooReads::Gathered => costs.gather(ways, self.bucket_bytes),
            CuckooReads::Parallel | CuckooReads::Sequential => None,
        };
        gathered.unwrap_or_else(|| costs.batch(ways, self.bucket_bytes))
    }

    /// Keys in the buckets of another.
    fn foreign_keys(&self) -> f64 {
        let shape = self.places.shape;
        f64::from(shape.ways * shape.bucket_slots) * self.places.load
    }

    /// The READs that tell where the records of full buckets could go.
    fn hashes_of(&self, costs: &VerbCosts, buckets: u32) -> Work {
        match (self.write, self.records) {
            (CuckooWrite::Signed { region_bytes, .. }, _) => {
                costs.batch(buckets, SIGNATURES * region_bytes)
            }
            (_, Some(records)) => {
                let slots = buckets * self.places.shape.bucket_slots;
                costs.batch(slots, records.bytes / records.reads)
            }
            (_, None) => Work::default(),
        }
    }

    fn insertion(&self, costs: &VerbCosts, insertion: &CuckooInsertion) -> Work {
        let (mut work, mut level) = (Work::default(), self.places.shape.ways);
        for buckets in &insertion.searched {
            work = work + self.hashes_of(costs, level) + costs.batch(*buckets, self.bucket_bytes);
            level = *buckets;
        }
        let moves = insertion.searched.len();
        match self.write {
            CuckooWrite::Signed { region_bytes, .. } => {
                work = work + costs.batch(moves as u32, region_bytes);
            }
            CuckooWrite::Word | CuckooWrite::Inline { .. } | CuckooWrite::Out { .. } => {}
        }
        work + costs.together(&self.batch(costs, moves))
    }

    /// What an insertion that moves so many records writes. Before other bytes come into a slot,
    /// its head goes.
    fn batch(&self, costs: &VerbCosts, moves: usize) -> Vec<Work> {
        let body = match self.write {
            CuckooWrite::Inline { body_bytes, .. } => Some(body_bytes),
            CuckooWrite::Signed { record_bytes, .. } => Some(record_bytes),
            CuckooWrite::Word | CuckooWrite::Out { .. } => None,
        };
        let mut verbs = Vec::new();
        for slot in 0..=moves {
            if let CuckooWrite::Out { record_bytes } = self.write
                && slot == moves
            {
                verbs.push(costs.transfer(record_bytes));
            }
            if let Some(bytes) = body {
                if slot > 0 {
                    verbs.push(costs.atomic());
                }
                verbs.push(costs.transfer(bytes));
            }
            verbs.push(costs.atomic());
            if slot < moves {
                // The count of displacements.
                verbs.push(costs.atomic());
            }
        }
        verbs
    }
}

/// The put of a new key: the key's buckets are read; where none has room, a way to one that has is
/// searched, a level of buckets in one round trip; all is written in one batch, records out of band
/// too.
#[must_use]
pub fn cuckoo_put(costs: &VerbCosts, slots: &CuckooSlots) -> Work {
    let mut looked = slots.key_buckets(costs);
    if let Some(records) = slots.records {
        looked = looked + records.in_vain(costs, slots.foreign_keys(), false);
    }
    let insertions = &slots.places.insertions;
    // Most of them are alike.
    let (direct, searching): (Vec<_>, Vec<_>) =
        insertions.iter().partition(|one| one.searched.is_empty());
    let at_once = slots.insertion(costs, &CuckooInsertion::default()) * direct.len() as f64;
    let work = searching.iter().map(|one| slots.insertion(costs, one));
    let sum = work.fold(at_once, |sum, one| sum + one);
    looked + sum * (1.0 / insertions.len().max(1) as f64)
}

/// The replacement of the value of a key that is there: the key's buckets and its record are read,
/// the new record is written if it is out of band, and with it a word is swapped. Where records
/// stand in their slots, a second batch takes the new one there. A bucket of signatures has no free
/// position sometimes: its records go to another heap bucket then.
#[must_use]
pub fn cuckoo_update(costs: &VerbCosts, slots: &CuckooSlots) -> Work {
    let mut found = slots.key_buckets(costs);
    if let Some(records) = slots.records {
        let foreign_keys = slots.foreign_keys() - 1.0;
        found = found + records.found(costs) + records.in_vain(costs, foreign_keys, true);
    }
    let swap = costs.atomic();
    found
        + match slots.write {
            CuckooWrite::Word => swap,
            CuckooWrite::Inline {
                body_bytes,
                record_bytes,
            } => {
                let written = |bytes| costs.together(&[costs.transfer(bytes), swap]);
                written(record_bytes) + written(body_bytes)
            }
            CuckooWrite::Out { record_bytes } => {
                costs.together(&[costs.transfer(record_bytes), swap])
            }
            CuckooWrite::Signed {
                record_bytes,
                region_bytes,
            } => {
                let all = costs.transfer(SIGNATURES * region_bytes);
                let copied = all + costs.together(&[all, swap]);
                let placed = costs.together(&[costs.transfer(record_bytes), swap]);
                let full = slots.places.in_full_buckets;
                copied * full + placed * (1.0 - full)
            }
        }
}

#[cfg(test)]
mod tests {
    use super::super::places::{CuckooShape, Filling};
    use super::super::work::tests::COSTS;
    use super::*;

    fn slots(write: CuckooWrite, searched: &[u32]) -> CuckooSlots {
        let shape = CuckooShape {
            ways: 3,
            bucket_slots: 4,
        };
        let places = CuckooPlaces::find(shape, 0.8, Filling::Inserted).unwrap();
        CuckooSlots {
            places: CuckooPlaces {
                in_full_buckets: 0.5,
                insertions: vec![CuckooInsertion {
                    searched: searched.to_vec(),
                }],
                ..places
            },
            bucket_bytes: 32.0,
            reads: CuckooReads::Parallel,
            records: match write {
                CuckooWrite::Out { .. } => Some(OutOfBand {
                    false_match: 0.0,
                    ..OutOfBand::tagged(1.0, 96.0)
                }),
                CuckooWrite::Signed { .. } => Some(OutOfBand {
                    false_match: 0.0,
                    ..OutOfBand::signed(96.0)
                }),
                _ => None,
            },
            write,
        }
    }

    const INLINE: CuckooWrite = CuckooWrite::Inline {
        body_bytes: 24.0,
        record_bytes: 40.0,
    };
    const OUT: CuckooWrite = CuckooWrite::Out { record_bytes: 80.0 };
    const SIGNED: CuckooWrite = CuckooWrite::Signed {
        record_bytes: 80.0,
        region_bytes: 96.0,
    };

    #[test]
    fn a_put_takes_the_verbs_of_its_search_and_of_its_batch() {
        let cases: [(CuckooWrite, &[u32], f64, f64); 7] = [
            (CuckooWrite::Word, &[], 3.0 + 1.0, 2.0),
            (INLINE, &[], 3.0 + 2.0, 2.0),
            (OUT, &[], 3.0 + 2.0, 2.0),
            (SIGNED, &[], 3.0 + 2.0, 2.0),
            // One level of 24 buckets, one record moved.
            (CuckooWrite::Word, &[24], 3.0 + 24.0 + 3.0, 3.0),
            (INLINE, &[24], 3.0 + 24.0 + 6.0, 3.0),
            (OUT, &[24], 3.0 + 12.0 + 24.0 + 4.0, 4.0),
        ];
        for (write, searched, verbs, round_trips) in cases {
            let put = cuckoo_put(&COSTS, &slots(write, searched));
            assert_eq!(
                (put.verbs, put.round_trips),
                (verbs, round_trips),
                "{write:?} {searched:?}"
            );
        }
        let moved = cuckoo_put(&COSTS, &slots(SIGNED, &[24]));
        assert_eq!(
            (moved.verbs, moved.round_trips),
            (3.0 + 3.0 + 24.0 + 1.0 + 6.0, 5.0)
        );
    }

    #[test]
    fn an_update_reads_the_record_that_it_replaces() {
        let update = |write| {
            let work = cuckoo_update(&COSTS, &slots(write, &[]));
            (work.verbs, work.round_trips)
        };
        assert_eq!(update(CuckooWrite::Word), (4.0, 2.0));
        assert_eq!(update(INLINE), (7.0, 3.0));
        assert_eq!(update(OUT), (6.0, 3.0));
        // Half of the buckets have no free position.
        assert_eq!(update(SIGNED), (6.5, 3.5));
    }
}

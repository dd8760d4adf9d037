//! Operations in CuckooDuo tables, whose clients know the slot of each key beforehand.

use super::work::{VerbCosts, Work};

/// The slots of a CuckooDuo table, and what else its operations read and write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DuoSlots {
    /// Bytes of a slot.
    pub slot_bytes: f64,
    /// Bytes that are written of a slot behind its head, on average.
    pub body_bytes: f64,
    /// Slots of a bucket.
    pub bucket_slots: u32,
    /// Its load factor.
    pub load: f64,
    /// Bits of a fingerprint.
    pub fingerprint_bits: u32,
    /// The published index, where clients beside the writer look keys up; nothing where the writer
    /// alone does.
    pub published: Option<DuoPages>,
    /// The records, where they are out of band.
    pub records: Option<DuoRecords>,
}

/// What a reader fetches of the published index, for a key that its own copy of the index does not
/// have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DuoPages {
    /// Bytes of the page of a bucket.
    pub page_bytes: f64,
    /// Bytes of the page of the stash.
    pub stash_bytes: f64,
}

/// Records out of band.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DuoRecords {
    /// Bytes of the block that is read, on average.
    pub block_bytes: f64,
    /// Bytes of a record that is written, on average.
    pub record_bytes: f64,
}

/// What an insertion meets: counted, since the index says all of it beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DuoInsertion {
    /// Slots of other keys with a fingerprint of the new one's.
    pub matches: u32,
    /// Records that are moved to make room.
    pub moves: u32,
}

impl DuoSlots {
    /// Keys in the buckets of another key whose fingerprints are the other key's: 2d/2^f of a table
    /// that is full (paper 001, section IV).
    #[must_use]
    pub fn false_matches(&self) -> f64 {
        let candidates = 2.0 * f64::from(self.bucket_slots) * self.load;
        // No fingerprint is 0.
        candidates / (2f64.powi(self.fingerprint_bits as i32) - 1.0)
    }

    /// The READ of a slot, and of its record if that is elsewhere.
    fn found(&self, costs: &VerbCosts) -> Work {
        let slot = costs.transfer(self.slot_bytes);
        match self.records {
            Some(records) => slot + costs.transfer(records.block_bytes),
            None => slot,
        }
    }

    /// The READ of a slot that turns out to be another key's.
    fn in_vain(&self, costs: &VerbCosts) -> Work {
        match self.published {
            // A reader goes by the head, which has 63 bits of the key's hash.
            Some(_) => costs.transfer(self.slot_bytes),
            None => self.found(costs),
        }
    }

    /// The verbs that make a slot live; in a published table with the word of the index that says
    /// so, and the count of changes.
    fn filling(&self, costs: &VerbCosts) -> Vec<Work> {
        [self.publishing(costs), self.writing(costs)].concat()
    }

    /// The verbs that write a record and its head. The last of them publishes the record: the head,
    /// or in a published table the word behind it, of 8 bytes, for which head and record are apart.
    fn writing(&self, costs: &VerbCosts) -> Vec<Work> {
        let mut verbs = match self.published {
            Some(_) => vec![costs.transfer(8.0)],
            None => vec![costs.transfer(self.body_bytes)],
        };
        if self.published.is_some() && self.body_bytes > 8.0 {
            verbs.push(costs.transfer(self.body_bytes - 8.0));
        }
        verbs.push(costs.atomic());
        verbs
    }

    fn publishing(&self, costs: &VerbCosts) -> Vec<Work> {
        match self.published {
            Some(_) => vec![costs.transfer(8.0), costs.atomic()],
            None => Vec::new(),
        }
    }

    /// The verbs that make a slot dead: its head, and of a published table the word behind it.
    fn killing(&self, costs: &VerbCosts) -> Vec<Work> {
        vec![costs.atomic(); if self.published.is_some() { 2 } else { 1 }]
    }
}

/// A lookup that hits with probability `hit_ratio`: one READ of a slot, and of its record if that
/// is out of band. A miss is none for who has the index; a reader beside the writer looks whether
/// its copy is current. By clients that have read the index whole.
#[must_use]
pub fn duo_lookup(costs: &VerbCosts, slots: &DuoSlots, hit_ratio: f64) -> Work {
    let in_vain = slots.in_vain(costs) * slots.false_matches();
    // Of the matches, as many stand before the key's own as behind it.
    let hit = slots.found(costs) + in_vain * 0.5;
    let miss = match slots.published {
        Some(pages) => {
            in_vain + costs.pieces(&[pages.stash_bytes, pages.page_bytes, pages.page_bytes])
        }
        None => in_vain,
    };
    hit * hit_ratio + miss * (1.0 - hit_ratio)
}

/// The put of a new key by the writer: what `insertions` met, on average. What is to be moved, and
/// what has the same fingerprint, is read in one batch, if there is any; all is written in another.
#[must_use]
pub fn duo_put(costs: &VerbCosts, slots: &DuoSlots, insertions: &[DuoInsertion]) -> Work {
    let work = insertions.iter().map(|one| insertion(costs, slots, *one));
    work.fold(Work::default(), |sum, one| sum + one) * (1.0 / insertions.len().max(1) as f64)
}

fn insertion(costs: &VerbCosts, slots: &DuoSlots, of: DuoInsertion) -> Work {
    let bare = |count: u32| vec![costs.transfer(slots.slot_bytes); count as usize];
    let mut read = costs.together(&bare(of.matches + of.moves));
    if let (Some(records), true) = (slots.records, of.matches > 0) {
        // The records of the slots that match; those that are moved stay where they are.
        read = read
            + costs.together(&vec![
                costs.transfer(records.block_bytes);
                of.matches as usize
            ]);
    }
    let mut verbs = Vec::new();
    for _ in 0..of.moves {
        verbs.extend(slots.filling(costs));
        verbs.extend(slots.killing(costs));
    }
    verbs.extend(
        slots
            .records
            .map(|records| costs.transfer(records.record_bytes)),
    );
    verbs.extend(slots.filling(costs));
    read + costs.together(&verbs)
}

/// The replacement of the value of a key that is there, by the writer: its record is read; then the
/// new one is written, with records in the slots to the journal first.
#[must_use]
pub fn duo_update(costs: &VerbCosts, slots: &DuoSlots) -> Work {
    let found = slots.found(costs) + slots.in_vain(costs) * (0.5 * slots.false_matches());
    let written = match slots.records {
        Some(records) => vec![costs.transfer(records.record_bytes), costs.atomic()],
        None => {
            let body = costs.transfer(slots.body_bytes);
            // Nobody is told of the journal's slot.
            [slots.writing(costs), vec![body], slots.killing(costs)].concat()
        }
    };
    found + costs.together(&written)
}

#[cfg(test)]
mod tests {
    use super::super::work::tests::COSTS;
    use super::*;

    const INLINE: DuoSlots = DuoSlots {
        slot_bytes: 32.0,
        body_bytes: 24.0,
        bucket_slots: 8,
        load: 0.95,
        // So many that no other key has the same.
        fingerprint_bits: 32,
        published: None,
        records: None,
    };
    const HEAP: DuoSlots = DuoSlots {
        slot_bytes: 16.0,
        body_bytes: 8.0,
        records: Some(DuoRecords {
            block_bytes: 128.0,
            record_bytes: 120.0,
        }),
        ..INLINE
    };

    fn published(slots: DuoSlots) -> DuoSlots {
        DuoSlots {
            published: Some(DuoPages {
                page_bytes: 32.0,
                stash_bytes: 264.0,
            }),
            ..slots
        }
    }

    fn is(work: Work, verbs: f64, round_trips: f64) {
        let close = |one: f64, other: f64| (one - other).abs() < 1e-6;
        assert!(
            close(work.verbs, verbs) && close(work.round_trips, round_trips),
            "{work:?}"
        );
    }

    #[test]
    fn a_hit_is_one_read_and_a_miss_none_or_a_look_at_the_index() {
        is(duo_lookup(&COSTS, &INLINE, 1.0), 1.0, 1.0);
        is(duo_lookup(&COSTS, &HEAP, 1.0), 2.0, 2.0);
        is(duo_lookup(&COSTS, &INLINE, 0.0), 0.0, 0.0);
        is(duo_lookup(&COSTS, &published(INLINE), 1.0), 1.0, 1.0);
        is(duo_lookup(&COSTS, &published(HEAP), 0.0), 3.0, 1.0);
    }

    #[test]
    fn false_matches_are_two_buckets_of_fingerprints() {
        let slots = DuoSlots {
            fingerprint_bits: 10,
            ..INLINE
        };
        let missed = duo_lookup(&COSTS, &slots, 0.0).verbs;
        assert!((missed / (16.0 * 0.95 / 1023.0) - 1.0).abs() < 1e-9);
    }

    /// The table of `index::duo`: round trips, and slots read and written.
    #[test]
    fn writes_take_the_verbs_of_their_batches() {
        let put = |slots: &DuoSlots, matches, moves| {
            duo_put(&COSTS, slots, &[DuoInsertion { matches, moves }])
        };
        is(put(&INLINE, 0, 0), 2.0, 1.0);
        is(put(&INLINE, 1, 0), 3.0, 2.0);
        is(put(&INLINE, 0, 2), 10.0, 2.0);
        is(put(&published(INLINE), 0, 0), 5.0, 1.0);
        is(put(&published(INLINE), 0, 1), 13.0, 2.0);
        is(put(&HEAP, 0, 0), 3.0, 1.0);
        is(put(&HEAP, 1, 0), 5.0, 3.0);
        is(duo_update(&COSTS, &INLINE), 5.0, 2.0);
        is(duo_update(&COSTS, &published(INLINE)), 7.0, 2.0);
        is(put(&published(HEAP), 0, 0), 5.0, 1.0);
        is(duo_update(&COSTS, &HEAP), 4.0, 3.0);
        // The mean of two.
        let both = [
            DuoInsertion::default(),
            DuoInsertion {
                matches: 0,
                moves: 2,
            },
        ];
        is(duo_put(&COSTS, &INLINE, &both), 6.0, 1.5);
    }
}

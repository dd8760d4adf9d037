//! Where keys stand in tables of each shape: what is counted by filling small ones, once for all
//! schemes of a question.

use farslot::index::duo::DuoLayout;
use farslot::index::duo::placement::Shape;
use farslot::index::duo::placement::counting::Vault;
use farslot::index::hash::derive;
use farslot::model::advise::{CuckooPlaces, CuckooShape, DuoInsertion, Filling, RacePlaces};
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

/// What was counted so far, by load factors.
#[derive(Default)]
pub(super) struct PlacementCounts {
    cuckoo: HashMap<(CuckooShape, Filling, u64), Option<Rc<CuckooPlaces>>>,
    race: HashMap<(u32, u64), Option<RacePlaces>>,
    duo: HashMap<u64, Option<Rc<[DuoInsertion]>>>,
}

/// Slots of the CuckooDuo table that is filled.
const DUO_SLOTS: u64 = 1 << 15;
/// Insertions are noted from so much of the keys below a load factor to so much above; a table must
/// get as full.
const DUO_NOTED: f64 = 0.01;

impl PlacementCounts {
    /// As [`CuckooPlaces::find`].
    pub(super) fn cuckoo(
        &mut self,
        shape: CuckooShape,
        load: f64,
        filling: Filling,
    ) -> Option<Rc<CuckooPlaces>> {
        known(&mut self.cuckoo, (shape, filling, load.to_bits()), || {
            CuckooPlaces::find(shape, load, filling).map(Rc::new)
        })
    }

    /// As [`RacePlaces::find`].
    pub(super) fn race(&mut self, bucket_slots: u32, load: f64) -> Option<RacePlaces> {
        known(&mut self.race, (bucket_slots, load.to_bits()), || {
            RacePlaces::find(bucket_slots, load)
        })
    }

    /// What insertions meet into a table of this layout, by the index's own placement. All layouts
    /// of one question have buckets and fingerprints of the same size.
    pub(super) fn duo(&mut self, layout: &DuoLayout, load: f64) -> Option<Rc<[DuoInsertion]>> {
        known(&mut self.duo, load.to_bits(), || {
            duo_insertions(layout, load)
        })
    }
}

/// What is known for a key, or is found now.
fn known<K: Hash + Eq, V: Clone>(of: &mut HashMap<K, V>, key: K, find: impl FnOnce() -> V) -> V {
    of.entry(key).or_insert_with(find).clone()
}

/// Nothing if the table does not get that full.
fn duo_insertions(layout: &DuoLayout, load: f64) -> Option<Rc<[DuoInsertion]>> {
    let shape = Shape {
        buckets: DUO_SLOTS / (2 * u64::from(layout.bucket_slots)),
        bucket_slots: layout.bucket_slots,
        fingerprint_bits: layout.fingerprint_bits,
        longest_path: layout.longest_path,
        stash: layout.stash,
        backups: true,
    };
    let mut vault = Vault::new(shape);
    let keys = |part: f64| ((shape.slots() as f64 * load * part) as u64).min(shape.slots());
    let mut insert = |key: u64| {
        let hash = derive(0, key);
        let matches = vault.index.matches(hash).count() as u32;
        let moves = vault.insert(hash)?.moved as u32;
        Some(DuoInsertion { matches, moves })
    };
    let noted = keys(1.0 - DUO_NOTED);
    for key in 0..noted {
        insert(key)?;
    }
    let insertions = (noted..keys(1.0 + DUO_NOTED).max(noted + 1)).map(insert);
    insertions.collect()
}

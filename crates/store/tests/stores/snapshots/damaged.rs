//! Files that are damaged, cut or made up are refused, with the place, and leave nothing behind.

use super::{any, fill, go_on, record, store};
use farslot::snapshots::{SnapshotError, check_snapshot};
use farslot::{ErrorKind, SlotKind, StoreError, TableOptions};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use tempfile::TempDir;

/// A small snapshot, and its file.
fn small(directory: &TempDir) -> (PathBuf, Vec<u8>) {
    let store = store();
    let options = any(SlotKind::Heap).capacity(100);
    store.create("t", &options).unwrap();
    let records: Vec<_> = (0..15).map(|number| record(&options, number)).collect();
    fill(&store.table("t").unwrap(), &records);
    let path = store.snapshot("t", directory.path(), &go_on).unwrap().path;
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}

/// The place that a refusal names.
fn place_of(error: &StoreError) -> u64 {
    let StoreError::Snapshot(error) = error else {
        panic!("{error}");
    };
    assert!(error.to_string().contains("t.snapshot"), "{error}");
    match **error {
        SnapshotError::Damaged { offset, .. } => offset,
        _ => panic!("{error}"),
    }
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let directory = TempDir::new().unwrap();
    let (path, bytes) = small(&directory);
    let target = store();
    for bit in 0..8 * bytes.len() {
        let at = bit / 8;
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (bit % 8);
        std::fs::write(&path, damaged).unwrap();
        let refused = check_snapshot(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Damaged);
        assert!(place_of(&refused) <= at as u64, "bit {bit}: {refused}");
        if bit % 509 == 0 {
            let refused = target.restore("t", directory.path(), &go_on).unwrap_err();
            place_of(&refused);
        }
    }
    assert_eq!(target.tables().unwrap(), []);
    std::fs::write(&path, &bytes).unwrap();
    target.restore("t", directory.path(), &go_on).unwrap();
}

/// One of several blocks, so that most of what is flipped is in records.
#[test]
fn a_byte_flipped_at_1000_random_places_is_refused_with_the_place() {
    let seed = match std::env::var("FARSLOT_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => rand::random(),
    };
    println!("FARSLOT_SEED={seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let directory = TempDir::new().unwrap();
    let source = store();
    let options = any(SlotKind::Heap).capacity(20_000);
    source.create("t", &options).unwrap();
    let records: Vec<_> = (0..18_000).map(|number| record(&options, number)).collect();
    fill(&source.table("t").unwrap(), &records);
    let taken = source.snapshot("t", directory.path(), &go_on).unwrap();
    // A block, and a record beyond it at the most.
    const BLOCK: u64 = (1 << 20) + 400;
    assert!(taken.bytes > 2 * BLOCK, "{}", taken.bytes);
    let file = OpenOptions::new().read(true).write(true).open(&taken.path);
    let (file, target) = (file.unwrap(), store());
    let mut byte = [0];
    for turn in 0..1_000 {
        let at = rng.random_range(0..taken.bytes);
        file.read_exact_at(&mut byte, at).unwrap();
        let flipped = byte[0] ^ rng.random_range(1..=u8::MAX);
        file.write_all_at(&[flipped], at).unwrap();
        let refused = match turn % 10 {
            0 => target.restore("t", directory.path(), &go_on).map(drop),
            _ => check_snapshot(&taken.path).map(drop),
        };
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Damaged);
        let place = place_of(&refused);
        assert!(place <= at && at - place < BLOCK, "{at}: {refused}");
        file.write_all_at(&byte, at).unwrap();
    }
    assert_eq!(target.tables().unwrap(), []);
    target.restore("t", directory.path(), &go_on).unwrap();
    assert_eq!(target.table("t").unwrap().survey().unwrap().live(), 18_000);
}

#[test]
fn a_file_that_is_cut_anywhere_or_goes_on_is_refused() {
    let directory = TempDir::new().unwrap();
    let (path, bytes) = small(&directory);
    for length in 0..bytes.len() {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let refused = check_snapshot(&path).unwrap_err();
        assert!(place_of(&refused) <= length as u64, "{length}: {refused}");
    }
    for more in [1, 48, 100] {
        let longer = [&bytes[..], &vec![0; more]].concat();
        std::fs::write(&path, longer).unwrap();
        assert_eq!(
            place_of(&check_snapshot(&path).unwrap_err()),
            bytes.len() as u64
        );
    }
    // Twice the same is no snapshot either.
    std::fs::write(&path, [&bytes[..], &bytes[..]].concat()).unwrap();
    assert_eq!(
        place_of(&check_snapshot(&path).unwrap_err()),
        bytes.len() as u64
    );
}

#[test]
fn a_snapshot_under_the_name_of_another_table_is_refused() {
    let directory = TempDir::new().unwrap();
    let (path, _) = small(&directory);
    std::fs::rename(&path, directory.path().join("other.snapshot")).unwrap();
    let refused = store()
        .restore("other", directory.path(), &go_on)
        .unwrap_err();
    assert!(refused.to_string().contains("\"other\""), "{refused}");
    let missing = store().restore("t", directory.path(), &go_on).unwrap_err();
    assert!(missing.to_string().contains("t.snapshot"), "{missing}");
}

#[test]
fn a_table_that_the_memory_does_not_hold_is_refused() {
    let directory = TempDir::new().unwrap();
    let large = store();
    large.create("t", &TableOptions::new(10_000)).unwrap();
    large.snapshot("t", directory.path(), &go_on).unwrap();
    let tiny = farslot::Store::embedded_with(1 << 20, Default::default()).unwrap();
    let refused = tiny.restore("t", directory.path(), &go_on).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{refused}");
    assert_eq!(tiny.tables().unwrap(), []);
}

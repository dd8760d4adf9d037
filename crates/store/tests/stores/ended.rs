//! Memory of records that have ended: whoever needs room has it, without a sweeper.

use farslot::layout::RaceShape;
use farslot::{ErrorKind, FieldSize, SlotKind, Store, TableOptions};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::time::Duration;

/// Puts records that live for so many milliseconds, each another time, until as many bytes have
/// passed as three such heaps have; of those that live there are never more than two thirds of one.
fn passes_through(store: &Store, options: &TableOptions, heap: u64, lives: std::ops::Range<u64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    store
        .create("t", &options.clone().heap_bytes(heap))
        .unwrap();
    let table = store.table("t").unwrap();
    let world = store.sim_world().unwrap();
    let millis = || world.now() / 1_000_000 + 1;
    let mut living: VecDeque<(u64, u64, usize)> = VecDeque::new();
    let (mut live_bytes, mut passed) = (0, 0);
    for number in 0.. {
        let bytes = rng.random_range(100..2_000);
        let life = rng.random_range(lives.clone());
        while live_bytes + bytes as u64 > heap * 2 / 3 {
            // The one that ends first is waited for, if it has not ended.
            let first = living
                .iter()
                .enumerate()
                .min_by_key(|(_, (_, end, _))| *end);
            let at = first.unwrap().0;
            let (_, end, bytes) = living.remove(at).unwrap();
            live_bytes -= bytes as u64;
            while millis() <= end {
                table.get(b"nothing.").unwrap();
            }
        }
        let key = u64::to_le_bytes(number);
        let put = table.put_for(&key, &vec![7; bytes], Duration::from_millis(life));
        assert_eq!(
            put,
            Ok(true),
            "record {number}, {bytes} bytes, {live_bytes} live"
        );
        living.push_back((number, millis() + life, bytes));
        (live_bytes, passed) = (live_bytes + bytes as u64, passed + bytes as u64);
        if passed > 3 * heap {
            break;
        }
    }
    // None has gone before its time.
    for (number, end, bytes) in living {
        let value = table.get(&number.to_le_bytes()).unwrap();
        // It ends a moment before it was noted to.
        assert!(
            value.is_some_and(|value| value.len() == bytes) || millis() + 1 >= end,
            "{number}"
        );
    }
}

fn sized() -> TableOptions {
    TableOptions::new(20_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(2_000))
        .expiring(true)
}

#[test]
fn who_needs_room_has_that_of_records_that_have_ended() {
    for options in [
        sized().race(RaceShape::default()),
        sized().slots(SlotKind::Heap),
    ] {
        for lives in [20..60, 5..200] {
            let store = Store::open("sim://cx5-edr?seed=1&memory=16MiB").unwrap();
            passes_through(&store, &options, 1 << 20, lives);
        }
    }
}

/// What never ends is not forgotten for what is put, and what lives for long is moved.
#[test]
fn what_lives_stays_beside_what_ends() {
    let store = Store::open("sim://cx5-edr?seed=1&memory=16MiB").unwrap();
    let options = sized().race(RaceShape::default()).heap_bytes(1 << 20);
    store.create("t", &options).unwrap();
    let table = store.table("t").unwrap();
    let key = |number: u64| number.to_le_bytes();
    for number in 0..400 {
        // Beside each other in the same runs, as far as they end at about the same time.
        match number % 4 {
            0 => table.put(&key(number), &[1; 700]).map(drop),
            1 => table
                .put_for(&key(number), &[2; 700], Duration::from_secs(60))
                .map(drop),
            _ => table
                .put_for(&key(number), &[3; 700], Duration::from_millis(1))
                .map(drop),
        }
        .unwrap();
    }
    let mut refused = None;
    for number in 1_000..10_000 {
        if let Err(error) = table.put(&key(number), &[4; 700]) {
            refused = Some((number, error));
            break;
        }
    }
    let (put, error) = refused.expect("the heap is full some time");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    // What has ended has made room: with it there would be none for so many.
    assert!(put - 1_000 > 1_000, "{put}");
    for number in (0..400).filter(|number| number % 4 < 2).chain(1_000..put) {
        assert!(table.get(&key(number)).unwrap().is_some(), "{number}");
    }
}

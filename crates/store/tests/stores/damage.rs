//! Hostile memory, from many seeds: see `tests/common/damaged.rs`.
//!
//! `FARSLOT_SEED=N cargo test -p farslot --test stores damage` replays one seed.

use crate::damaged::{Shape, damage, shapes};
use farslot::index::SlotKind;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::ops::Range;
use std::process::Command;

/// Says in a process that it is one of its own, whose memory is limited.
const ALONE: &str = "FARSLOT_TEST_ALONE";
/// Bytes of memory that may be allocated, all tests' threads together: what forged sizes ask for is
/// far more.
const MOST_MEMORY: u64 = 4 << 30;

fn one(shapes: &[Shape], seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let shape = &shapes[(seed % shapes.len() as u64) as usize];
    damage(shape, Box::new(move || random.next_u64()));
}

/// Runs all of them in a process that can take no more memory than that: an allocation beyond it
/// aborts it.
fn seeds(test: &str, seeds: Range<u64>) {
    if std::env::var(ALONE).is_err() {
        let mut alone = Command::new("sh");
        let program = std::env::current_exe().unwrap();
        let limited = format!("ulimit -v {} && exec \"$0\" \"$@\"", MOST_MEMORY >> 10);
        alone.args(["-c", &limited]).arg(program);
        alone.args(["--include-ignored", "--exact", test]);
        let told = alone.env(ALONE, "").output().unwrap();
        let text = String::from_utf8_lossy(&told.stdout) + String::from_utf8_lossy(&told.stderr);
        assert!(told.status.success(), "{text}");
        assert!(text.contains("1 passed"), "{text}");
        return;
    }
    let shapes = shapes();
    let asked = std::env::var("FARSLOT_SEED").ok();
    if let Some(seed) = asked.and_then(|seed| seed.parse().ok()) {
        return one(&shapes, seed);
    }
    let failed: Vec<_> = seeds
        .filter(|seed| std::panic::catch_unwind(|| one(&shapes, *seed)).is_err())
        .map(|seed| (seed, &shapes[(seed % shapes.len() as u64) as usize].name))
        .collect();
    assert!(
        failed.is_empty(),
        "replay with FARSLOT_SEED=...: {failed:?}"
    );
}

#[test]
fn every_kind_of_slots_of_every_scheme_is_damaged() {
    let all = shapes();
    let kinds_of = |scheme: &str| {
        let own = all.iter().filter(|shape| shape.scheme == scheme);
        let mut kinds: Vec<SlotKind> = own.map(|shape| shape.slots).collect();
        kinds.dedup();
        kinds
    };
    use SlotKind::{Heap, Hybrid, Inline, Pair, Signatures, Word};
    assert_eq!(kinds_of("linear"), [Word, Pair, Inline, Heap, Hybrid]);
    assert_eq!(kinds_of("cuckoo"), [Word, Inline, Heap, Signatures]);
    assert_eq!(kinds_of("race"), [Heap]);
    assert_eq!(kinds_of("duo"), [Inline, Heap]);
    assert_eq!(kinds_of("set"), [Word, Heap]);
    assert_eq!(kinds_of("sealed"), [Inline, Heap]);
    assert!(!kinds_of("perfect").is_empty() && !kinds_of("filtered").is_empty());
}

#[test]
fn damaged_words_hurt_nobody() {
    seeds("damage::damaged_words_hurt_nobody", 0..640);
}

#[test]
#[ignore = "takes long"]
fn damaged_words_of_200_000_seeds_hurt_nobody() {
    let end = std::env::var("FARSLOT_SEEDS").map_or(200_000, |seeds| seeds.parse().unwrap());
    let test = "damage::damaged_words_of_200_000_seeds_hurt_nobody";
    seeds(test, 560..560 + end);
}

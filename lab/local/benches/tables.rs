//! Insertions, hits, misses and a mixture, of all tables side by side: `cargo bench -p
//! farslot-local`.
//!
//! Keys and values are 8 bytes; keys are random, made before the clock starts, and hashed by the
//! same hasher everywhere. Each table has room for all entries from the start, at the load that it
//! is made for: 0.45 where a bucket is one slot and keys have two, 0.9 for four slots, its own
//! choice for `std` and `hashbrown`. `ENTRIES=1000000,10000000` says how many there are (these are
//! the default).

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use farslot_local::smart_cuckoo::MAX_LOAD;
use farslot_local::{
    BucketizedCuckoo, ConcurrentSmartCuckoo, CuckooWithStash, LocalTable, OptimisticCuckoo,
    SmartCuckooMap,
};
use foldhash::fast::FixedState;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;

type Hashing = FixedState;

/// Operations whose time is one sample, at most.
const BATCH: usize = 1_000_000;

/// What is measured of a table.
trait Table {
    const NAME: &'static str;

    /// With room for so many entries.
    fn with_room(entries: usize) -> Self;
    fn put(&mut self, key: u64, value: u64);
    fn value(&self, key: u64) -> Option<u64>;
    fn delete(&mut self, key: u64);
}

/// A table of fixed size is made with so many slots for each entry.
macro_rules! of_fixed_size {
    ($table:ty, $name:literal, $make:expr) => {
        impl Table for $table {
            const NAME: &'static str = $name;

            fn with_room(entries: usize) -> Self {
                $make(entries)
            }

            fn put(&mut self, key: u64, value: u64) {
                let placed = LocalTable::insert(self, key, value);
                assert!(placed.is_ok(), "{} is full", Self::NAME);
            }

            fn value(&self, key: u64) -> Option<u64> {
                LocalTable::get(self, &key)
            }

            fn delete(&mut self, key: u64) {
                LocalTable::remove(self, &key);
            }
        }
    };
}

fn slots(entries: usize, load: f64) -> usize {
    (entries as f64 / load) as usize
}

of_fixed_size!(CuckooWithStash<u64, u64, Hashing>, "CHS", |entries| {
    CuckooWithStash::with_slots(slots(entries, MAX_LOAD), 4, Hashing::default())
});
of_fixed_size!(BucketizedCuckoo<u64, u64, Hashing>, "BCHT", |entries| {
    BucketizedCuckoo::with_slots(slots(entries, 0.9), 4, Hashing::default())
});
of_fixed_size!(OptimisticCuckoo<u64, u64, Hashing>, "libcuckoo-like", |entries| {
    OptimisticCuckoo::with_slots_and_hasher(slots(entries, 0.9), Hashing::default())
});
of_fixed_size!(
    ConcurrentSmartCuckoo<u64, u64, Hashing>,
    "concurrent SmartCuckoo",
    |entries| {
        let slots = slots(entries, MAX_LOAD);
        ConcurrentSmartCuckoo::with_slots_and_hasher(slots, 1, Hashing::default())
    }
);

macro_rules! of_map {
    ($map:ty, $name:literal) => {
        impl Table for $map {
            const NAME: &'static str = $name;

            fn with_room(entries: usize) -> Self {
                Self::with_capacity_and_hasher(entries, Hashing::default())
            }

            fn put(&mut self, key: u64, value: u64) {
                self.insert(key, value);
            }

            fn value(&self, key: u64) -> Option<u64> {
                self.get(&key).copied()
            }

            fn delete(&mut self, key: u64) {
                self.remove(&key);
            }
        }
    };
}

of_map!(SmartCuckooMap<u64, u64, Hashing>, "SmartCuckoo");
of_map!(hashbrown::HashMap<u64, u64, Hashing>, "hashbrown");
of_map!(std::collections::HashMap<u64, u64, Hashing>, "std");

/// Keys that are in the tables, and ones that are not.
struct Keys {
    present: Vec<u64>,
    absent: Vec<u64>,
    /// Which present key each lookup asks for.
    order: Vec<u32>,
}

impl Keys {
    fn new(entries: usize) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(entries as u64);
        let asked = entries.min(BATCH);
        Self {
            // The highest bit tells the two kinds apart.
            present: (0..entries).map(|_| random.next_u64() >> 1).collect(),
            absent: (0..asked).map(|_| random.next_u64() | 1 << 63).collect(),
            order: (0..asked)
                .map(|_| random.random_range(0..entries as u32))
                .collect(),
        }
    }

    fn fill<T: Table>(&self) -> T {
        let mut table = T::with_room(self.present.len());
        for &key in &self.present {
            table.put(key, !key);
        }
        table
    }
}

/// The time of `iterations` rounds, each given by `round`.
fn total(iterations: u64, mut round: impl FnMut() -> Duration) -> Duration {
    (0..iterations).map(|_| round()).sum()
}

/// The processor time of this thread, the only one: what else runs on the machine counts less so.
fn timed(work: impl FnOnce()) -> Duration {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(now).expect("the clock has not been running for 500 years")
    };
    let start = now();
    work();
    now() - start
}

fn measure<T: Table>(criterion: &mut Criterion, keys: &Keys) {
    let entries = keys.present.len();
    let mut bench = |label: &str, operations: usize, round: &mut dyn FnMut() -> Duration| {
        let mut group = criterion.benchmark_group(label);
        group.sample_size(10);
        group.warm_up_time(Duration::from_millis(200));
        group.measurement_time(Duration::from_secs(1));
        group.throughput(Throughput::Elements(operations as u64));
        group.bench_function(BenchmarkId::new(T::NAME, entries), |bencher| {
            bencher.iter_custom(|iterations| total(iterations, &mut *round));
        });
        group.finish();
    };
    bench("insert", entries, &mut || {
        let mut table = T::with_room(entries);
        timed(|| {
            for &key in &keys.present {
                table.put(key, !key);
            }
        })
    });
    let mut table: T = keys.fill();
    bench("hit", keys.order.len(), &mut || {
        timed(|| {
            for &index in &keys.order {
                let key = keys.present[index as usize];
                assert_eq!(black_box(table.value(key)), Some(!key));
            }
        })
    });
    bench("miss", keys.absent.len(), &mut || {
        timed(|| {
            for &key in &keys.absent {
                assert_eq!(black_box(table.value(key)), None);
            }
        })
    });
    // Half lookups, a quarter removals, a quarter insertions; the number of entries stays the same.
    bench("mixed", 2 * keys.order.len(), &mut || {
        timed(|| {
            for pair in keys.order.chunks_exact(2) {
                let [one, two] = [pair[0], pair[1]].map(|index| keys.present[index as usize]);
                for key in [one, two] {
                    black_box(table.value(key));
                }
                table.delete(one);
                table.put(one, !one);
            }
        })
    });
}

fn all(criterion: &mut Criterion) {
    let entries = std::env::var("ENTRIES").unwrap_or_else(|_| "1000000,10000000".into());
    for entries in entries.split(',') {
        let keys = Keys::new(entries.trim().parse().expect("ENTRIES: numbers and commas"));
        measure::<SmartCuckooMap<u64, u64, Hashing>>(criterion, &keys);
        measure::<CuckooWithStash<u64, u64, Hashing>>(criterion, &keys);
        measure::<BucketizedCuckoo<u64, u64, Hashing>>(criterion, &keys);
        measure::<ConcurrentSmartCuckoo<u64, u64, Hashing>>(criterion, &keys);
        measure::<OptimisticCuckoo<u64, u64, Hashing>>(criterion, &keys);
        measure::<hashbrown::HashMap<u64, u64, Hashing>>(criterion, &keys);
        measure::<std::collections::HashMap<u64, u64, Hashing>>(criterion, &keys);
    }
}

criterion_group!(tables, all);
criterion_main!(tables);

//! What all processes know.

use farslot_remote::ObjectId;
use farslot_remote::chained::{Shape, Table};
use farslot_remote::ordered::{Tree, TreeShape};
use std::time::Duration;

/// What addresses begin with that are names of shared memory.
pub const SHARED: &str = "shm://";
/// The lease of locks: longer than a transaction takes while others want the processors as well.
pub const LEASE: Duration = Duration::from_millis(60);
/// Keys of a generation, at each node's table, and at its map.
pub const KEYS: u32 = 3;
/// How long a generation of keys is used: so that lists do not grow too long.
pub const GENERATION: Duration = Duration::from_millis(300);
/// Most values of a list.
pub const LONGEST: usize = 60;

pub const TABLE: ObjectId = ObjectId(0);
pub const MAP: ObjectId = ObjectId(1);

pub fn table() -> Table {
    Table::new(Shape {
        at: 0,
        key_bytes: 4,
        value_bytes: 8 * LONGEST as u16,
        slots: 2,
        buckets: 1024,
        most_buckets: 4096,
        overflow: 4096,
        split_after: 4,
        seed: 7,
    })
    .expect("a shape")
}

pub fn map() -> Tree {
    let below = *table().shape();
    Tree::new(TreeShape {
        at: below.at + below.bytes(),
        key_bytes: 4,
        value_bytes: 8 * LONGEST as u16,
        leaf_pairs: 4,
        children: 8,
        nodes: 8000,
    })
    .expect("a shape")
}

pub fn bytes() -> u64 {
    let shape = *map().shape();
    shape.at + shape.bytes()
}

/// The clock that all processes of a machine share, in nanoseconds.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

//! The tables of a node, one behind the other.

use crate::Result;
use crate::transactions::workload::{TableOf, Workload};
use farslot_remote::ObjectId;
use farslot_remote::chained::{Shape, Table};
use farslot_remote::ordered::{Tree, TreeShape};
use farslot_txn::{Structure, TxnError};

/// Pairs of a map's leaf, which a READ moves.
const LEAF_PAIRS: u16 = 16;
/// Children of a map's inner node.
const CHILDREN: u16 = 64;

/// How full chained tables are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets {
    /// Slots of a bucket.
    pub(super) slots: u8,
    /// Keys a bucket, but for a factor of the square root of 2 at most: buckets are a power of two.
    pub(super) keys: f64,
}

impl Buckets {
    /// Those of Farslot's own tables: half a key to one key a bucket.
    pub(super) const OWN: Self = Self {
        slots: 2,
        keys: std::f64::consts::FRAC_1_SQRT_2,
    };
}

/// The structures of a node's tables, where so many nodes share all subscribers, accounts or
/// records; and the bytes of the node's region.
pub(super) fn tables(
    workload: &dyn Workload,
    nodes: u64,
    buckets: Buckets,
) -> Result<(Vec<(ObjectId, Structure)>, u64)> {
    let each = workload.size().div_ceil(nodes);
    let (mut at, mut tables) = (0, Vec::new());
    for (number, table) in workload.tables().iter().enumerate() {
        let rows = (each as f64 * table.rows) as u64 + 16;
        let (structure, bytes) = match table.ordered {
            true => ordered(table, at, rows),
            false => chained(table, at, (rows, buckets)),
        }?;
        tables.push((ObjectId(number as u64), structure));
        at += bytes.next_multiple_of(64);
    }
    Ok((tables, at))
}

fn chained(
    table: &TableOf,
    at: u64,
    (rows, Buckets { slots, keys }): (u64, Buckets),
) -> std::result::Result<(Structure, u64), TxnError> {
    let bits = (rows as f64 / keys).log2().round().clamp(0.0, 31.0);
    let buckets = 1 << bits as u32;
    let shape = Shape {
        at,
        key_bytes: table.key_bytes,
        value_bytes: table.value_bytes,
        slots,
        buckets,
        most_buckets: buckets,
        overflow: (rows / 4 + 1024) as u32,
        split_after: 0,
        seed: 7,
    };
    Ok((Table::new(shape)?.into(), shape.bytes()))
}

fn ordered(table: &TableOf, at: u64, rows: u64) -> std::result::Result<(Structure, u64), TxnError> {
    // Rows that come in order leave leaves half full.
    let leaves = rows / u64::from(LEAF_PAIRS / 2) + 64;
    let shape = TreeShape {
        at,
        key_bytes: table.key_bytes,
        value_bytes: table.value_bytes,
        leaf_pairs: LEAF_PAIRS,
        children: CHILDREN,
        nodes: (leaves + leaves / 8).min(u32::MAX.into()) as u32,
    };
    Ok((Tree::new(shape)?.into(), shape.bytes()))
}

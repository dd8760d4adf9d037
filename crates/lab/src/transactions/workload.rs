//! What a workload is, to the systems that run it.

use crate::Result;
use farslot_remote::chained::Shape;
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

/// Most numbers that a transaction is given.
pub(super) const MOST_NUMBERS: usize = 5;

/// A transaction to be run: which of the workload's kinds, and its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Call {
    pub kind: usize,
    pub numbers: [i64; MOST_NUMBERS],
}

impl Call {
    pub(super) fn new(kind: usize, numbers: &[i64]) -> Self {
        let mut call = Self {
            kind,
            ..Self::default()
        };
        call.numbers[..numbers.len()].copy_from_slice(numbers);
        call
    }
}

/// What a transaction came to: a number that tells what it has read or changed; nothing if it found
/// what its specification calls a failure, and changed nothing.
pub(super) type Outcome = Option<i64>;

/// A kind of transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub name: &'static str,
    /// Of a hundred transactions, how many are of this kind.
    pub share: u32,
    /// Numbers that it is given.
    pub numbers: usize,
    /// Of a hundred, how many succeed by the specification; nothing where it does not say.
    pub succeeds: Option<f64>,
    /// The Lua script of Redis; one command where that is enough.
    pub redis: Redis,
    /// The statement of PostgreSQL, with as many parameters as there are numbers.
    pub postgres: &'static str,
}

/// How Redis runs a kind of transaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Redis {
    /// The words of one command, where `{0}` stands for the first number, and so on; and how its
    /// reply is a number.
    Command(&'static [&'static str], fn(&redis::Value) -> Outcome),
    /// A script, which returns a number, or false.
    Script(&'static str),
}

/// A row to be loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// The table's place in [`Workload::tables`].
    pub table: usize,
    /// By which the tables of one subscriber or account lie at one node.
    pub part: i64,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// Redis' key and value.
    pub redis: (String, Vec<u8>),
    /// PostgreSQL's columns, as COPY takes them; empty if it has no such table.
    pub columns: String,
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableOf {
    pub name: &'static str,
    pub key_bytes: u16,
    pub value_bytes: u16,
    /// About how many rows there are for each subscriber or account.
    pub rows: f64,
}

/// A workload: TATP or SmallBank.
pub(super) trait Workload: Sync {
    fn name(&self) -> &'static str;

    /// The same, to be kept.
    fn shared(&self) -> Rc<dyn Workload>;

    /// How many subscribers or accounts there are.
    fn size(&self) -> u64;

    fn kinds(&self) -> &'static [Kind];

    fn tables(&self) -> &'static [TableOf];

    /// PostgreSQL's tables and functions.
    fn schema(&self) -> &'static str;

    /// What of the schema is for after the load.
    fn schema_after_load(&self) -> &'static str;

    /// All rows, one after the other.
    fn load(&self, put: &mut dyn FnMut(Row) -> Result<()>) -> Result<()>;

    /// Draws a transaction.
    fn draw(&self, random: &mut ChaCha8Rng) -> Call;

    /// Whether a transaction may have come to this.
    fn is_right(&self, call: &Call, outcome: Outcome) -> bool;

    /// By how much a transaction has changed the total.
    fn change(&self, call: &Call, outcome: Outcome) -> i64;

    /// The total after the load, and how each system tells what it is now.
    fn total(&self) -> Option<Total>;
}

/// What all transactions together may change by no more than they say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Total {
    pub loaded: i64,
    /// PostgreSQL's query of it.
    pub postgres: &'static str,
}

/// The shapes of a node's tables, one behind the other, where so many nodes share all subscribers
/// or accounts.
pub(super) fn shapes(workload: &dyn Workload, nodes: u64) -> Vec<Shape> {
    let each = workload.size().div_ceil(nodes);
    let mut at = 0;
    let mut shapes = Vec::new();
    for table in workload.tables() {
        let rows = (each as f64 * table.rows) as u64 + 16;
        let buckets = rows.next_power_of_two().min(1 << 31) as u32;
        let shape = Shape {
            at,
            key_bytes: table.key_bytes,
            value_bytes: table.value_bytes,
            slots: 2,
            buckets,
            most_buckets: buckets,
            overflow: (rows / 4 + 1024) as u32,
            split_after: 0,
        };
        at += shape.bytes().next_multiple_of(64);
        shapes.push(shape);
    }
    shapes
}

/// Numbers that look drawn, but are the same for the same row in every run: a hash of its names.
pub(super) fn mixed(names: [u64; 4]) -> u64 {
    let bytes: Vec<u8> = names.iter().flat_map(|name| name.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

//! What a workload is, to the systems that run it.

use crate::Result;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

/// Most numbers that a transaction is given.
pub(super) const MOST_NUMBERS: usize = 8;

/// A client thread from round to round.
#[derive(Clone, Debug)]
pub(super) struct WorkloadClient {
    pub random: ChaCha8Rng,
    /// Which of the client threads, from 0, and how many there are.
    pub thread: u64,
    pub threads: u64,
    /// Rows that it has inserted, where the workload counts them.
    pub inserted: u64,
}

impl WorkloadClient {
    pub(super) fn new(seed: u64, thread: u64, threads: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(thread);
        Self {
            random,
            thread,
            threads,
            inserted: 0,
        }
    }
}

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
    /// The statement of PostgreSQL, with as many parameters as there are numbers, and one more
    /// where there are [values](Workload::values).
    pub postgres: &'static str,
}

/// Draws one of the kinds by their shares, whose sum is 100; returns its place.
pub(super) fn draw_kind(kinds: &[Kind], random: &mut ChaCha8Rng) -> usize {
    let mut drawn = random.random_range(0..100);
    let kind = kinds.iter().position(|kind| {
        let is_this = drawn < kind.share;
        drawn = drawn.saturating_sub(kind.share);
        is_this
    });
    kind.unwrap_or(0)
}

/// How Redis runs a kind of transaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Redis {
    /// The words of one command, where `{0}` stands for the first number, and so on; and how its
    /// reply is a number.
    Command(&'static [&'static str], fn(&redis::Value) -> Outcome),
    /// A script, which returns a number, false, or what [`Workload::outcome_of`] reads.
    Script(&'static str),
}

/// A row to be loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct InsertedRow {
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
    /// About how many rows there are for each subscriber, account or record.
    pub rows: f64,
    /// Whether it is scanned: an ordered map, and not a bucket table.
    pub ordered: bool,
}

/// A workload: TATP, SmallBank, or one of YCSB.
pub(super) trait Workload: Sync {
    fn name(&self) -> &'static str;

    /// The same, to be kept.
    fn shared(&self) -> Rc<dyn Workload>;

    /// How many subscribers, accounts or records there are.
    fn size(&self) -> u64;

    fn kinds(&self) -> &'static [Kind];

    fn tables(&self) -> &'static [TableOf];

    /// PostgreSQL's tables and functions.
    fn schema(&self) -> &'static str;

    /// What of the schema is for after the load.
    fn schema_after_load(&self) -> &'static str;

    /// All rows, one after the other.
    fn load(&self, put: &mut dyn FnMut(InsertedRow) -> Result<()>) -> Result<()>;

    /// Draws a client's next transaction.
    fn draw(&self, client: &mut WorkloadClient) -> Call;

    /// How many of the first numbers of a kind of transaction are subscribers or accounts, on whose
    /// rows it works.
    fn parts(&self, _kind: usize) -> usize {
        1
    }

    /// The values that a transaction writes, one behind the other, where they are no numbers of its
    /// call.
    fn values(&self, _: &Call) -> Option<Vec<u8>> {
        None
    }

    /// What a transaction came to, from what Redis' script or PostgreSQL's statement returned: a
    /// number's digits, unless the workload says otherwise.
    fn outcome_of(&self, _: &Call, returned: &[u8]) -> Outcome {
        std::str::from_utf8(returned).ok()?.parse().ok()
    }

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

/// Numbers that look drawn, but are the same for the same row in every run: a hash of its names.
pub(super) fn mixed(names: [u64; 4]) -> u64 {
    let bytes: Vec<u8> = names.iter().flat_map(|name| name.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

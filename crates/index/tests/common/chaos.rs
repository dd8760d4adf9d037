//! A table hammered by many simulated clients while everything goes wrong, and the judge of it.
//!
//! A run is determined by its seed and its slot kind. Clients of one or more coroutines work on few
//! keys of a tiny table; words are torn and late, nodes slow, clients cut off or stopped between
//! two verbs. What each operation returned, and what a fresh client finds in the end, is the
//! history.

use super::from_sim;
use super::run::{Run, look_around};
use super::{Reads, Slot, TABLE, faults, region_bytes};
use farslot_check::{CheckError, OpId, Recorder, Summary, TableOp, TableRet};
use farslot_fabric::sim::{FaultPlan, HostId, NicProfile, SimEndpoint, Simulation, World};
use farslot_fabric::{Endpoint, EndpointExt, Limits, Nanos, Rights, window};
use farslot_index::linear::{LinearLayout, LinearTable};
use farslot_index::{Index, IndexError, IndexExt, Operation, Outcome, Survey};
use farslot_testbed::AnyEndpoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::ops::AddAssign;
use std::rc::Rc;

/// Operations on numbered keys with numbered values.
pub type Record = Recorder<u64, TableOp<u64>, TableRet<u64>>;

/// Long enough for the slowest verb of a run.
const VERB_TIMEOUT: Nanos = 100_000;

/// The most operations of a batch.
const BATCH: u64 = 6;

/// What has happened in one run or more, so that none of it is vacuous.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Tally {
    pub runs: u64,
    /// The worlds' digests, added up.
    pub digest: u64,
    /// Operations with a result.
    pub returned: u64,
    /// Batches of writes that ended.
    pub batches: u64,
    /// Lookups and `find_or_put`s that found a value.
    pub seen: u64,
    /// Puts that found no slot.
    pub full: u64,
    /// Records that found no room in the heap.
    pub heap_full: u64,
    /// Operations that failed with their effect in doubt.
    pub in_doubt: u64,
    /// Clients that stopped half way.
    pub stopped: u64,
    /// Operations that needed many round trips.
    pub laborious: u64,
    /// Records that a cuckoo table has moved to another of their places.
    pub moves: u64,
    /// READs of several pieces: of records that were remembered, with their slots, and of slots
    /// round a table's end.
    pub gathers: u64,
    /// What owners of a CuckooDuo table have found begun and not finished.
    pub repairs: u64,
    /// Keys that readers beside such an owner have found.
    pub read_beside: u64,
    /// CuckooDuo tables that have grown.
    pub grown: u64,
    /// Records that were moved to other blocks, or removed there.
    pub relocated: u64,
    /// Relocations of records that were in another block by then.
    pub stale: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.digest = self.digest.wrapping_add(other.digest);
        self.returned += other.returned;
        self.batches += other.batches;
        self.seen += other.seen;
        self.full += other.full;
        self.heap_full += other.heap_full;
        self.in_doubt += other.in_doubt;
        self.stopped += other.stopped;
        self.laborious += other.laborious;
        self.moves += other.moves;
        self.gathers += other.gathers;
        self.repairs += other.repairs;
        self.read_beside += other.read_beside;
        self.grown += other.grown;
        self.relocated += other.relocated;
        self.stale += other.stale;
    }
}

/// The bytes of an operation on a numbered key: the key, the value that it writes, and the one that
/// it expects.
struct Bytes([Vec<u8>; 3]);

impl Bytes {
    fn of(slot: Slot, key: u64, op: &TableOp<u64>) -> Self {
        use TableOp::{FindOrPut, Get, Put, Remove, RemoveIf, Replace, Update};
        let value = |number: Option<u64>| number.map_or(Vec::new(), |number| slot.value(number));
        let (written, expected) = match *op {
            Get | Remove => (None, None),
            Put(value) | FindOrPut(value) | Update(value) => (Some(value), None),
            Replace(expected, value) => (Some(value), Some(expected)),
            RemoveIf(expected) => (None, Some(expected)),
        };
        Self([slot.key(key), value(written), value(expected)])
    }

    fn operation(&self, op: &TableOp<u64>) -> Operation<'_> {
        let [key, value, expected] = &self.0;
        match op {
            TableOp::Get => Operation::Get(key),
            TableOp::Put(_) => Operation::Put(key, value),
            TableOp::FindOrPut(_) => Operation::FindOrPut(key, value),
            TableOp::Update(_) => Operation::Update(key, value),
            TableOp::Replace(..) => Operation::Replace(key, expected, value),
            TableOp::Remove => Operation::Remove(key),
            TableOp::RemoveIf(_) => Operation::RemoveIf(key, expected),
        }
    }
}

/// What an operation has returned, in numbers.
fn returned(slot: Slot, op: &TableOp<u64>, outcome: Outcome) -> TableRet<u64> {
    use TableOp::{FindOrPut, Get, Put, Remove, RemoveIf, Replace, Update};
    match (op, outcome) {
        (Get, Outcome::Value(value)) => TableRet::Got(value.map(|value| slot.number(&value))),
        (FindOrPut(_), Outcome::Value(None)) => TableRet::Inserted,
        (FindOrPut(_), Outcome::Value(Some(value))) => TableRet::Found(slot.number(&value)),
        (Put(_), outcome) => TableRet::Put {
            inserted: Some(outcome.is_changed()),
        },
        (Update(_) | Replace(..), outcome) => TableRet::Updated(outcome.is_changed()),
        (Remove | RemoveIf(_), outcome) => TableRet::Removed(outcome.is_changed()),
        (op, outcome) => panic!("{op:?} has returned {outcome:?}"),
    }
}

/// Does an operation on a numbered key.
pub async fn perform(
    table: &(impl Index + ?Sized),
    slot: Slot,
    key: u64,
    op: TableOp<u64>,
) -> Result<TableRet<u64>, IndexError> {
    let bytes = Bytes::of(slot, key, &op);
    let outcome = match bytes.operation(&op) {
        Operation::Get(key) => Outcome::Value(table.get(key).await?),
        operation => table.run_alone(operation).await?,
    };
    Ok(returned(slot, &op, outcome))
}

/// One coroutine's operations on a table, recorded.
pub struct Caller<'t, T: ?Sized = LinearTable<AnyEndpoint>> {
    pub table: &'t T,
    pub slot: Slot,
    pub record: &'t Record,
    pub tally: &'t Cell<Tally>,
    /// Its number in the history.
    pub client: u32,
}

impl<T: Index + ?Sized> Caller<'_, T> {
    /// Runs an operation and records what became of it.
    pub async fn run(&self, key: u64, op: TableOp<u64>) {
        let started = self
            .record
            .invoke(self.client, key, op.clone(), self.table.now());
        let outcome = perform(self.table, self.slot, key, op).await;
        self.ended(started, outcome);
    }

    pub fn ended(&self, id: OpId, outcome: Result<TableRet<u64>, IndexError>) {
        let now = self.table.now();
        let mut tally = self.tally.get();
        match outcome {
            Ok(ret) => {
                tally.returned += 1;
                let seen = matches!(ret, TableRet::Got(Some(_)) | TableRet::Found(_));
                tally.seen += u64::from(seen);
                self.record.complete(id, ret, now);
            }
            Err(error) if error.may_have_taken_effect() => {
                tally.in_doubt += 1;
                self.record.in_doubt(id, now);
            }
            Err(error) => {
                match error {
                    IndexError::Full { .. } => tally.full += 1,
                    IndexError::HeapFull { .. } => tally.heap_full += 1,
                    other => panic!("{}: {other}", self.slot.name),
                }
                self.record.no_effect(id, now);
            }
        }
        self.tally.set(tally);
    }

    /// Looks up all keys as one batch, each a lookup of the history.
    pub async fn get_many(&self, keys: u64) {
        let start = self.table.now();
        let lookup = |key| self.record.invoke(self.client, key, TableOp::Get, start);
        let lookups: Vec<OpId> = (0..keys).map(lookup).collect();
        let keys: Vec<Vec<u8>> = (0..keys).map(|number| self.slot.key(number)).collect();
        let mut answered = 0;
        let done = |number: usize, got: Result<Option<_>, IndexError>| {
            let number_of = |value: farslot_index::Value| self.slot.number(&value);
            let ret = got.map(|value| TableRet::Got(value.map(number_of)));
            self.ended(lookups[number], ret);
            answered += 1;
        };
        let keys = keys.iter().map(|key| &key[..]);
        self.table.get_many(keys, done).await;
        assert_eq!(answered, lookups.len(), "each key has one answer");
    }

    /// Runs some operations on random keys as one batch, each an operation of the history: all of
    /// one kind, or of several. No two batches with different `number`s write the same value.
    pub async fn run_many(&self, keys: u64, number: u64, rng: &mut ChaCha8Rng) {
        let (start, count) = (self.table.now(), rng.random_range(2..=BATCH));
        let alike = Some(rng.random_range(0..8)).filter(|kind| *kind < 4);
        let ops: Vec<(u64, TableOp<u64>)> = (0..count)
            .map(|place| {
                let value = self.slot.fitted(10_000 + number * BATCH + place);
                let op = match alike.unwrap_or_else(|| rng.random_range(0..5)) {
                    0 => TableOp::Put(value),
                    1 => TableOp::Update(value),
                    2 => TableOp::Remove,
                    3 => TableOp::FindOrPut(value),
                    _ => TableOp::Get,
                };
                (rng.random_range(0..keys), op)
            })
            .collect();
        let invoke = |(key, op): &(u64, TableOp<u64>)| {
            self.record.invoke(self.client, *key, op.clone(), start)
        };
        let invoked: Vec<OpId> = ops.iter().map(invoke).collect();
        let bytes = ops.iter().map(|(key, op)| Bytes::of(self.slot, *key, op));
        let bytes: Vec<Bytes> = bytes.collect();
        let operations = bytes.iter().zip(&ops);
        let operations: Vec<_> = operations
            .map(|(bytes, (_, op))| bytes.operation(op))
            .collect();
        let mut answered = vec![false; ops.len()];
        let done = |number: usize, outcome: Result<Outcome, IndexError>| {
            let (_, op) = &ops[number];
            let ret = outcome.map(|outcome| returned(self.slot, op, outcome));
            self.ended(invoked[number], ret);
            let twice = std::mem::replace(&mut answered[number], true);
            assert!(!twice, "an operation has one outcome");
        };
        self.table.run_each(&operations, done).await;
        assert!(answered.iter().all(|answered| *answered), "{answered:?}");
        self.count_batch();
    }

    /// Runs an operation of any kind on random keys, in this `turn` of the caller; each kind as
    /// often as its weight says: get, put, find-or-put, update, remove, a batch of gets, one of all
    /// kinds, a scan. No two operations of a run write the same value, where values are long
    /// enough.
    pub async fn run_any(&self, keys: u64, turn: u32, weights: [u32; 8], rng: &mut ChaCha8Rng) {
        let key = rng.random_range(0..keys);
        let unique = u64::from(self.client * 16 + turn + 1);
        let value = self.slot.fitted(unique);
        let mut drawn = rng.random_range(0..weights.iter().sum());
        let kind = weights.iter().position(|weight| {
            let is_it = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            is_it
        });
        match kind {
            Some(0) => self.run(key, TableOp::Get).await,
            Some(1) => self.run(key, TableOp::Put(value)).await,
            Some(2) => self.run(key, TableOp::FindOrPut(value)).await,
            Some(3) => self.run(key, TableOp::Update(value)).await,
            Some(4) => self.run(key, TableOp::Remove).await,
            Some(5) => self.get_many(keys).await,
            Some(6) => self.run_many(keys, unique, rng).await,
            _ => self.scan(keys).await,
        }
    }

    fn count_batch(&self) {
        let mut tally = self.tally.get();
        tally.batches += 1;
        self.tally.set(tally);
    }

    /// Puts every key that is this one's of so many callers side by side, numbered from 0.
    pub async fn fill(&self, keys: u64, callers: u32) {
        for key in (u64::from(self.client)..keys).step_by(callers as usize) {
            let value = self.slot.fitted(2_000 + key);
            self.run(key, TableOp::Put(value)).await;
        }
    }

    /// Looks at every key, twice.
    pub async fn look_around(&self, keys: u64) {
        for key in 0..keys {
            self.run(key, TableOp::Get).await;
        }
        self.scan(keys).await;
    }

    /// How long an operation may take before it is dropped: of half the callers each eighth, in
    /// runs where some are.
    pub fn span(&self, turn: u32, some_are_dropped: bool) -> Option<Nanos> {
        (some_are_dropped && turn % 8 == 7 && self.client % 2 == 1).then_some(4_000)
    }

    /// Visits the whole table, by pieces of any size; what it meets of each key, and what it does
    /// not, are lookups. If records have moved meanwhile, what it has not met is not known.
    pub async fn scan(&self, keys: u64) {
        let Ok(moves) = self.table.moves().await else {
            return;
        };
        let start = self.table.now();
        let mut rng = ChaCha8Rng::seed_from_u64(start ^ u64::from(self.client) << 32);
        let limits: Vec<u64> = (0..4).map(|_| rng.random_range(1..32)).collect();
        let limits = if rng.random() {
            &limits
        } else {
            &[u64::MAX][..]
        };
        let lookup = |key| self.record.invoke(self.client, key, TableOp::Get, start);
        let lookups: Vec<OpId> = (0..keys).map(lookup).collect();
        let scanned = super::scan_in_pieces(self.table, limits).await;
        let now = self.table.now();
        let Ok(met) = scanned else {
            let error = scanned.unwrap_err();
            assert!(error.may_have_taken_effect(), "scan: {error}");
            lookups
                .iter()
                .for_each(|id| self.record.no_effect(*id, now));
            return;
        };
        let has_moved = self.table.moves().await != Ok(moves);
        let mut of_key = vec![None; keys as usize];
        for (key, value) in &met {
            let number = (0..keys).find(|number| self.slot.key(*number) == *key);
            let number = number.expect("a scan meets keys that were put");
            let value = self.slot.number(value);
            if let Some(before) = of_key[number as usize].replace(value) {
                // It was removed and put into another slot between two pieces, with another value;
                // or its record has moved, or stands twice while it moves.
                let name = self.slot.name;
                let moves = before != value || has_moved || self.moves_records().await;
                assert!(moves, "{name}: a scan met key {number} twice");
                let lookup = lookup(number);
                self.record
                    .complete(lookup, TableRet::Got(Some(before)), now);
            }
        }
        for (id, value) in lookups.into_iter().zip(of_key) {
            match value {
                None if has_moved => self.record.no_effect(id, now),
                value => self.record.complete(id, TableRet::Got(value), now),
            }
        }
    }

    /// Whether the table is of a scheme whose writer moves records.
    async fn moves_records(&self) -> bool {
        let survey = self.table.survey().await;
        !matches!(survey, Ok(Survey::Linear(_) | Survey::Race(_)))
    }
}

/// A world with an empty table.
pub fn world(seed: u64, layout: &LinearLayout) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    world.add_node(&[(region_bytes(layout), Rights::ALL)]);
    world
}

/// What an endpoint of a run may hold.
pub fn limits() -> Limits {
    Limits {
        send_queue_depth: 16,
        verb_timeout: VERB_TIMEOUT,
        ..Limits::default()
    }
}

/// Opens the table, however often that takes.
pub async fn open<E: Endpoint>(
    endpoint: Rc<E>,
    layout: &LinearLayout,
    reads: Reads,
) -> LinearTable<E> {
    loop {
        let sizes = reads.sizes(layout);
        match LinearTable::open(Rc::clone(&endpoint), TABLE, layout.clone(), sizes).await {
            Ok(table) => return table,
            Err(error) => assert!(error.may_have_taken_effect(), "open: {error}"),
        }
    }
}

/// What each client of a run remembers, and how much it can have under way.
#[derive(Clone, Copy, Debug)]
pub struct ClientKind {
    /// Clusters that it remembers.
    pub clusters: usize,
    /// Places of records out of band that it remembers.
    pub records: usize,
    /// Verbs in its send queue.
    pub send_queue_depth: usize,
}

impl Default for ClientKind {
    /// One that remembers nothing.
    fn default() -> Self {
        Self {
            clusters: 0,
            records: 0,
            send_queue_depth: limits().send_queue_depth,
        }
    }
}

/// The dimensions of a run.
#[derive(Clone, Debug)]
struct Shape {
    keys: u64,
    clients: u32,
    coroutines: u32,
    operations: u32,
    layout: LinearLayout,
    reads: Reads,
    kind: ClientKind,
    /// The longest pause of a coroutine between two operations.
    pause: Nanos,
    faults: FaultPlan,
}

impl Shape {
    fn of(slot: Slot, seed: u64, kind: ClientKind, rng: &mut ChaCha8Rng) -> Self {
        let keys = rng.random_range(2..=6);
        let slots = [2, 3, 4, 8, 16][rng.random_range(0..5)];
        let mut options = slot.options(slots, rng.random());
        if slot.has_heap() {
            let tight = [None, Some(1 << 9), Some(1 << 12), Some(1 << 14)];
            options.sizing.heap_bytes = tight[rng.random_range(0..4)];
        }
        let clients = rng.random_range(3..=5);
        let fixed = [None, Some(1), Some(3), Some(64)][rng.random_range(0..4)];
        Self {
            keys,
            clients,
            coroutines: rng.random_range(1..=3),
            operations: rng.random_range(3..=8),
            layout: options.layout().unwrap(),
            reads: Reads {
                fixed,
                look_ahead: rng.random_bool(0.3),
            },
            kind,
            pause: [0, 2_000, 20_000][rng.random_range(0..3)],
            faults: faults::of_writers(seed, clients, rng),
        }
    }
}

/// A run that no order of its operations explains.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub slot: &'static str,
    pub error: CheckError,
}

/// What decides a run.
pub fn rng_of(slot: Slot, seed: u64) -> ChaCha8Rng {
    let salt = slot.name.bytes();
    let salt = salt.fold(0u64, |salt, byte| salt * 31 + u64::from(byte));
    ChaCha8Rng::seed_from_u64(seed ^ salt << 32)
}

/// Runs a seed and judges it.
pub fn run(slot: Slot, seed: u64) -> Result<(Tally, Summary), Box<Failure>> {
    run_as(slot, seed, ClientKind::default())
}

/// Runs a seed with clients of this kind, and judges it.
pub fn run_as(slot: Slot, seed: u64, kind: ClientKind) -> Result<(Tally, Summary), Box<Failure>> {
    run_over(slot, seed, kind, |endpoint, _| from_sim(endpoint))
}

/// Runs a seed with clients of this kind, whose endpoints to a table of that layout `wrap` gives,
/// and judges it.
pub fn run_over<E: Endpoint>(
    slot: Slot,
    seed: u64,
    kind: ClientKind,
    wrap: fn(Rc<SimEndpoint>, &LinearLayout) -> Rc<E>,
) -> Result<(Tally, Summary), Box<Failure>> {
    let mut rng = rng_of(slot, seed);
    let shape = Shape::of(slot, seed, kind, &mut rng);
    let world = world(rng.random(), &shape.layout);
    world.set_faults(shape.faults.clone());
    let run = Run::new(slot, seed);
    let mut simulation = Simulation::new(world.clone());
    let clients: Vec<_> = (0..shape.clients)
        .map(|number| {
            let client = simulation.add_client(
                HostId(0),
                Limits {
                    send_queue_depth: kind.send_queue_depth,
                    ..limits()
                },
            );
            let (shape, run) = (shape.clone(), run.clone());
            let seeds: Vec<u64> = (0..shape.coroutines).map(|_| rng.random()).collect();
            simulation.spawn(client, async move |endpoint| {
                let endpoint = wrap(endpoint, &shape.layout);
                let table = open(endpoint, &shape.layout, shape.reads).await;
                let table = table
                    .with_cluster_hints(shape.kind.clusters)
                    .with_record_locations(shape.kind.records);
                let coroutines = (0..).zip(seeds).map(|(coroutine, seed)| {
                    let caller = run.caller(&table, number * 10 + coroutine);
                    work(caller, &shape, ChaCha8Rng::seed_from_u64(seed))
                });
                window(3, coroutines, |_, ()| {}).await;
            });
            client
        })
        .collect();
    run.finish(&mut simulation, &clients);
    look_around(&world, async |endpoint| {
        let table = open(endpoint, &shape.layout, shape.reads).await;
        run.caller(&table, 1_000).look_around(shape.keys).await;
    });
    run.judge(&world)
}

/// What a coroutine does: a random operation after the other, on random keys.
async fn work<E: Endpoint>(caller: Caller<'_, LinearTable<E>>, shape: &Shape, mut rng: ChaCha8Rng) {
    for turn in 0..shape.operations {
        if shape.pause > 0 {
            let pause = rng.random_range(0..=shape.pause);
            caller.table.endpoint().sleep(pause).await;
        }
        let weights = [7, 4, 3, 2, 2, 1, 2, 1];
        caller.run_any(shape.keys, turn, weights, &mut rng).await;
    }
}

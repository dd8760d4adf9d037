//! Tables over several nodes while nodes and clients stop, in the simulator: many clients, many
//! seeds.

use super::{LocatedTable, NewTable, ShardedTable, find};
use crate::calls::owner::registry::serve_simulated;
use crate::catalog::record::Scheme;
use crate::clients::{ClientFactory, KnownSizes};
use crate::lease::Leased;
use crate::nodes::StoreNodes;
use crate::shapes::{CuckooShape, DuoShape, RaceShape};
use crate::slot_map::SlotMap;
use crate::{
    Access, FieldSize, LookupOrder, OnRestart, Operation, ReadPolicy, Result, SlotKind, StoreError,
    TableOptions, TableRecord,
};
use farslot_check::{Recorder, RegisterMap, SequentialModel, TableOp, TableRet, check};
use farslot_fabric::sim::{
    ClientStop, FaultPlan, FaultTime, HostId, NicProfile, NodeStop, RunEnd, SimEndpoint,
    Simulation, World,
};
use farslot_fabric::{AnyEndpoint, Endpoint, EndpointExt, Limits, Nanos, NodeId, Rights};
use farslot_index::{Admin, IndexError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;
use std::sync::Arc;

mod caches;
mod calls;
mod clearing;
mod dropping;
mod pooling;
mod slow_links;

const NODES: u16 = 3;
const LONGEST_RUN: Nanos = 3_600_000_000_000;
const KEYS: u64 = 6;
/// Room for one table on each node, and for several.
const TIGHT: u64 = 2 << 20;
const AMPLE: u64 = 8 << 20;

fn world(seed: u64, bytes: u64) -> World {
    let world = World::new(seed, NicProfile::connectx5_edr());
    for _ in 0..NODES {
        world.add_node(&[(bytes, Rights::ALL)]);
    }
    world
}

fn limits() -> Limits {
    Limits {
        verb_timeout: 100_000,
        ..Limits::default()
    }
}

fn nodes() -> Arc<StoreNodes> {
    let addresses = (0..NODES).map(|node| format!("node-{node}")).collect();
    Arc::new(StoreNodes::new(addresses))
}

/// What a seed decides: the table, and what is drawn when it is made.
fn new_table(scheme: &Scheme, seed: u64) -> NewTable<'static> {
    NewTable {
        name: "t",
        creation: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63,
        schemes: vec![scheme.clone(); usize::from(NODES)],
        prebuilt: false,
        slots: SlotMap::even(NODES, seed),
        // Nodes come back empty here, and the histories go on.
        on_restart: OnRestart::Recreate,
        without: &[],
    }
}

fn options() -> TableOptions {
    TableOptions::new(64)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(16))
}

/// Clients as a store opens them, without a cache, and without calls.
fn plain() -> ClientFactory {
    ClientFactory {
        sizes: Arc::new(KnownSizes::new(ReadPolicy::Fixed(4), false)),
        cluster_hints: 0,
        record_locations: 8,
        lookup_order: LookupOrder::default(),
        predetermines: false,
        duo_owners: Arc::default(),
        access: Access::Reads,
        calls: None,
        cache: None,
        client_memory: None,
        clock: crate::expiry::ExpiryClock::Virtual,
    }
}

fn leased(endpoint: Rc<SimEndpoint>) -> Rc<Leased> {
    Leased::new(AnyEndpoint::Sim(endpoint))
}

/// With a writer that keeps the cuckoo graph.
fn predetermining() -> ClientFactory {
    ClientFactory {
        predetermines: true,
        ..plain()
    }
}

fn linear() -> Scheme {
    options().scheme().unwrap()
}

fn cuckoo() -> Scheme {
    let options = options()
        .slots(SlotKind::Heap)
        .cuckoo(CuckooShape::default());
    options.scheme().unwrap()
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// A value that cannot be taken for another if it is torn.
fn value(number: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value[8..].copy_from_slice(&(!number).to_le_bytes());
    value
}

fn number(value: &[u8]) -> u64 {
    let word = u64::from_le_bytes(*value.first_chunk().unwrap());
    assert_eq!(value, self::value(word), "a torn value");
    word
}

async fn open(
    endpoint: &Rc<SimEndpoint>,
    nodes: &Arc<StoreNodes>,
    clients: ClientFactory,
) -> Result<ShardedTable> {
    match find(&**endpoint, nodes, "t").await? {
        LocatedTable::Sharded(table) => {
            let endpoint = leased(Rc::clone(endpoint));
            ShardedTable::open(endpoint, Arc::clone(nodes), clients, table).await
        }
        LocatedTable::Whole(..) => panic!("it is on one node"),
    }
}

/// Opens the table, however often that takes.
async fn open_surely(
    endpoint: &Rc<SimEndpoint>,
    nodes: &Arc<StoreNodes>,
    clients: &ClientFactory,
) -> ShardedTable {
    loop {
        match open(endpoint, nodes, clients.clone()).await {
            Ok(table) => return table,
            Err(error) => assert!(error.may_have_taken_effect(), "{error}"),
        }
        endpoint.sleep(10_000).await;
    }
}

fn run(simulation: &mut Simulation, seed: u64) {
    let end = simulation.run_until(LONGEST_RUN);
    assert_eq!(end, RunEnd::Done, "seed {seed}: a client waits");
}

async fn create<E: Endpoint>(endpoint: &E, new: NewTable<'_>) -> Result<TableRecord> {
    super::create(endpoint, &nodes(), new, async |_| false).await
}

/// A new table is made by a client to which nothing happens.
fn make(world: &World, scheme: &Scheme, seed: u64) {
    let mut simulation = Simulation::new(world.clone());
    let new = new_table(scheme, seed);
    let made = simulation.spawn_client(async move |endpoint| create(&*endpoint, new).await);
    run(&mut simulation, seed);
    made.try_take().unwrap().unwrap();
}

/// Puts a record with each key and reads it back, as a client that has just come.
async fn check_usable(endpoint: Rc<SimEndpoint>) {
    let table = open(&endpoint, &nodes(), plain()).await.unwrap();
    for number in 0..24 {
        let put = Operation::Put(&key(number), &value(number));
        table.run(put).await.unwrap();
        let found = table.get(&key(number)).await.unwrap();
        assert_eq!(found.as_deref(), Some(&value(number)[..]));
    }
    assert_eq!(
        table
            .parts
            .iter()
            .filter(|part| part.hold().is_some())
            .count(),
        3
    );
}

#[test]
fn of_creators_that_race_one_wins_and_its_table_is_whole() {
    for seed in 0..150 {
        let world = world(seed, if seed % 2 == 0 { TIGHT } else { AMPLE });
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        world.set_faults(FaultPlan::chaos(seed, rng.random_range(0.0..=1.0)));
        let mut simulation = Simulation::new(world.clone());
        let creators: Vec<_> = (0..3)
            .map(|creator| {
                let client = simulation.add_client(HostId(0), Limits::default());
                let delay = rng.random_range(0..20_000);
                let new = new_table(&linear(), seed * 8 + creator);
                simulation.spawn(client, async move |endpoint| {
                    endpoint.sleep(delay).await;
                    create(&*endpoint, new).await
                })
            })
            .collect();
        // One that opens it while it is made completes it, or does not find it.
        let opener = simulation.spawn_client(async move |endpoint| {
            endpoint.sleep(25_000).await;
            open(&endpoint, &nodes(), plain()).await.map(drop)
        });
        run(&mut simulation, seed);
        let made: Vec<_> = creators
            .iter()
            .map(|made| made.try_take().unwrap())
            .collect();
        let winners = made.iter().filter(|made| made.is_ok()).count();
        assert_eq!(winners, 1, "seed {seed}: {made:?}");
        for lost in made.iter().filter_map(|made| made.as_ref().err()) {
            // The room may be taken before the name is seen to be.
            let is_room = matches!(lost, StoreError::OutOfMemory { .. }) && seed % 2 == 0;
            let is_name = matches!(lost, StoreError::TableExists { .. });
            assert!(is_room || is_name, "seed {seed}: {lost}");
        }
        let opened = opener.try_take().unwrap();
        assert!(
            matches!(opened, Ok(()) | Err(StoreError::NoSuchTable { .. })),
            "{opened:?}"
        );
        simulation.spawn_client(check_usable);
        run(&mut simulation, seed);
    }
}

#[test]
fn what_a_dead_creator_has_begun_is_completed_by_who_opens_it() {
    let (mut completed, mut begun_anew) = (0, 0);
    for verbs in 1..140 {
        let world = world(verbs, AMPLE);
        let mut simulation = Simulation::new(world.clone());
        let creator = simulation.add_client(HostId(0), Limits::default());
        world.set_faults(FaultPlan {
            client_stops: vec![ClientStop {
                client: creator,
                when: FaultTime::AfterVerbs(verbs),
            }],
            ..FaultPlan::default()
        });
        let new = new_table(&linear(), verbs);
        simulation.spawn(creator, async move |endpoint| {
            let _ = create(&*endpoint, new).await;
        });
        let _ = simulation.run_until(LONGEST_RUN);
        // Two openers race for what is missing.
        let openers: Vec<_> = (0..2)
            .map(|_| {
                simulation.spawn_client(async move |endpoint| {
                    open(&endpoint, &nodes(), plain()).await.map(drop)
                })
            })
            .collect();
        run(&mut simulation, verbs);
        for opened in openers {
            match opened.try_take().unwrap() {
                Ok(()) => completed += 1,
                Err(StoreError::NoSuchTable { .. }) => {
                    begun_anew += 1;
                    let again = new_table(&linear(), verbs + 1_000);
                    let made = simulation
                        .spawn_client(async move |endpoint| create(&*endpoint, again).await);
                    run(&mut simulation, verbs);
                    let made = made.try_take().unwrap();
                    assert!(matches!(made, Ok(_) | Err(StoreError::TableExists { .. })));
                }
                Err(error) => panic!("after {verbs} verbs: {error}"),
            }
        }
        simulation.spawn_client(check_usable);
        run(&mut simulation, verbs);
    }
    assert!(
        completed > 10 && begun_anew > 10,
        "{completed}, {begun_anew}"
    );
}

/// A table whose keys can be lost with their node.
struct LosingMap(RegisterMap<u64, u64>);

#[derive(Clone, PartialEq, Debug)]
enum Op {
    Table(TableOp<u64>),
    /// The key's node came back empty.
    Lose,
}

impl SequentialModel for LosingMap {
    type Key = u64;
    type State = Option<u64>;
    type Op = Op;
    type Ret = Option<TableRet<u64>>;

    fn init(&self, key: &u64) -> Option<u64> {
        self.0.init(key)
    }

    fn step(
        &self,
        state: &Option<u64>,
        op: &Op,
        ret: Option<&Option<TableRet<u64>>>,
    ) -> Option<Option<u64>> {
        match op {
            Op::Lose => Some(None),
            Op::Table(op) => self.0.step(state, op, ret.and_then(Option::as_ref)),
        }
    }

    fn only_reads(&self, op: &Op, ret: &Option<TableRet<u64>>) -> bool {
        match (op, ret) {
            (Op::Table(op), Some(ret)) => self.0.only_reads(op, ret),
            _ => false,
        }
    }
}

type Record = Recorder<u64, Op, Option<TableRet<u64>>>;

/// What a client does.
#[derive(Clone, Copy)]
struct Work {
    client: u32,
    writes: bool,
    /// Whether nothing is replaced or removed.
    only_grows: bool,
    /// How old what its lookups say may be.
    bound: Nanos,
    loss: Loss,
}

/// A node that comes back empty.
#[derive(Clone, Copy)]
struct Loss {
    node: NodeId,
    back: Nanos,
}

/// Since when what a lookup says that begins now may have been so. Nothing of before the loss, once
/// the client knows.
fn since(table: &ShardedTable, Work { bound, loss, .. }: Work, key: &[u8]) -> Nanos {
    let oldest = table.endpoint.now().saturating_sub(bound);
    let knows = table.nodes.times_adopted(loss.node) > 0;
    match knows && table.partition_of(key) == loss.node.0 {
        true => oldest.max(loss.back),
        false => oldest,
    }
}

/// Runs random operations of one client and records what became of them; returns how many failed.
async fn work(table: &ShardedTable, work: Work, record: &Record, mut rng: ChaCha8Rng) -> u64 {
    let Work { client, writes, .. } = work;
    let mut failed = 0;
    // By key, when the last write of it ended.
    let mut written = [0; KEYS as usize];
    for round in 0..40_u64 {
        let pause = rng.random_range(0..=20_000);
        table.endpoint.sleep(pause).await;
        let number_of_key = rng.random_range(0..KEYS);
        let new = (u64::from(client) << 32) | (round + 1);
        let op = match rng.random_range(0..if writes { 10 } else { 4 }) {
            0..4 => TableOp::Get,
            _ if work.only_grows => TableOp::FindOrPut(new),
            4..7 => TableOp::Put(new),
            7 => TableOp::FindOrPut(new),
            8 => TableOp::Update(new),
            _ => TableOp::Remove,
        };
        let now = || table.endpoint.now();
        let key = key(number_of_key);
        let is_write = op != TableOp::Get;
        let written_at = &mut written[number_of_key as usize];
        let start = match is_write {
            true => now(),
            false => since(table, work, &key).max(*written_at),
        };
        let id = record.invoke(client, number_of_key, Op::Table(op.clone()), start);
        let outcome = async {
            Ok(match op {
                TableOp::Get => TableRet::Got(table.get(&key).await?.map(|found| number(&found))),
                TableOp::Put(new) => {
                    let put = table.run(Operation::Put(&key, &value(new))).await?;
                    TableRet::Put {
                        inserted: Some(put.is_changed()),
                    }
                }
                TableOp::FindOrPut(new) => {
                    let found = table.run(Operation::FindOrPut(&key, &value(new))).await?;
                    match found.into_value() {
                        Some(found) => TableRet::Found(number(&found)),
                        None => TableRet::Inserted,
                    }
                }
                TableOp::Update(new) => {
                    let updated = table.run(Operation::Update(&key, &value(new))).await?;
                    TableRet::Updated(updated.is_changed())
                }
                TableOp::Remove => {
                    TableRet::Removed(table.run(Operation::Remove(&key)).await?.is_changed())
                }
                TableOp::Replace(..) | TableOp::RemoveIf(_) => unreachable!("none is drawn"),
            })
        };
        let outcome = outcome.await;
        if is_write {
            *written_at = now();
        }
        match outcome {
            Ok(ret) => record.complete(id, Some(ret), now()),
            Err(error) => {
                failed += 1;
                let named = matches!(error, StoreError::Node { .. });
                let busy = matches!(error, StoreError::Index(IndexError::WriterBusy { .. }));
                assert!(named || busy, "{error}");
                if error.may_have_taken_effect() {
                    record.in_doubt(id, now());
                } else {
                    record.no_effect(id, now());
                }
            }
        }
    }
    failed
}

/// What has come of a loss.
#[derive(Default, Debug)]
struct Losses {
    /// Operations that failed.
    failed: u64,
    /// Clients that have met the node as it came back.
    adopted: u64,
    /// Lookups that were answered from caches.
    hits: u64,
}

impl std::ops::AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        self.failed += other.failed;
        self.adopted += other.adopted;
        self.hits += other.hits;
    }
}

/// One node stops and comes back empty under three clients, whose lookups may say what was so
/// `bound` ago.
fn lose_a_node(
    seed: u64,
    scheme: &Scheme,
    clients_of: fn(u32) -> ClientFactory,
    writers: u32,
    bound: Nanos,
) -> Losses {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let world = world(seed, AMPLE);
    serve_simulated(&world, NODES);
    make(&world, scheme, seed);
    let slots = new_table(scheme, seed).slots;
    let only_grows = scheme.kind().only_grows();
    let lost = NodeId(rng.random_range(0..NODES));
    let stop = world.now() + rng.random_range(50_000..400_000);
    let back_after = rng.random_range(1_000..300_000);
    world.set_faults(FaultPlan {
        node_stops: vec![NodeStop {
            node: lost,
            when: FaultTime::At(stop),
            back_after: Some(back_after),
        }],
        refuse_at_once: rng.random_bool(0.5),
        ..FaultPlan::chaos(seed, rng.random_range(0.0..=0.5))
    });
    let record = Record::new();
    let mut simulation = Simulation::new(world.clone());
    let loss = Loss {
        node: lost,
        back: stop + back_after,
    };
    let clients: Vec<_> = (0..3)
        .map(|number| {
            let client = simulation.add_client(HostId(0), limits());
            let record = record.clone();
            let rng = ChaCha8Rng::seed_from_u64(rng.random());
            simulation.spawn(client, async move |endpoint| {
                let table = open_surely(&endpoint, &nodes(), &clients_of(number)).await;
                let does = Work {
                    client: number,
                    writes: number < writers,
                    only_grows,
                    bound,
                    loss,
                };
                let incarnation = || table.part(lost.0).incarnation.get();
                let before = incarnation();
                let failed = work(&table, does, &record, rng).await;
                let _ = table.admin(Admin::Flush).await;
                Losses {
                    failed,
                    // Whether it has made the partition anew, or found that another had.
                    adopted: u64::from(incarnation() != before),
                    hits: table.state().cache.hits,
                }
            })
        })
        .collect();
    run(&mut simulation, seed);
    let mut losses = Losses::default();
    for client in clients {
        losses += client.try_take().unwrap();
    }
    world.advance_to(loss.back + 1);
    // In the end, all can be read, and what cannot be there any more is not.
    let last = record.clone();
    simulation.spawn_client(async move |endpoint| {
        let table = open(&endpoint, &nodes(), clients_of(9)).await.unwrap();
        for number_of_key in 0..KEYS {
            let get = Op::Table(TableOp::Get);
            let id = last.invoke(9, number_of_key, get, endpoint.now());
            let found = table.get(&key(number_of_key)).await.unwrap();
            let found = found.map(|found| number(&found));
            last.complete(id, Some(TableRet::Got(found)), endpoint.now());
        }
    });
    run(&mut simulation, seed);
    for number_of_key in 0..KEYS {
        if slots.partition_of(&key(number_of_key)) == lost.0 {
            let id = record.invoke(10, number_of_key, Op::Lose, stop);
            record.complete(id, None, stop + back_after);
        }
    }
    if let Err(error) = check(&record.take(), &LosingMap(RegisterMap::new())) {
        panic!("seed {seed}, {} lost: {error}", lost.0);
    }
    losses
}

fn all(runs: impl Iterator<Item = Losses>) -> Losses {
    runs.fold(Losses::default(), |mut sum, losses| {
        sum += losses;
        sum
    })
}

#[test]
fn a_node_that_comes_back_empty_never_answers_with_what_it_had() {
    let scheme = linear();
    let runs = (0..120).map(|seed| lose_a_node(seed, &scheme, |_| plain(), 3, 0));
    let losses = all(runs);
    assert!(losses.failed > 100 && losses.adopted > 200, "{losses:?}");
    let scheme = cuckoo();
    let runs = (0..60).map(|seed| {
        let clients: fn(u32) -> ClientFactory = match seed % 2 {
            0 => |_| plain(),
            _ => |_| predetermining(),
        };
        lose_a_node(seed, &scheme, clients, 1, 0)
    });
    let losses = all(runs);
    assert!(losses.failed > 50 && losses.adopted > 100, "{losses:?}");
    let scheme = options().race(RaceShape::default()).scheme().unwrap();
    let losses = all((0..60).map(|seed| lose_a_node(seed, &scheme, |_| plain(), 3, 0)));
    assert!(losses.failed > 50 && losses.adopted > 100, "{losses:?}");
    for options in [
        options().set(),
        options().chained(),
        options().capacity(2).chained().grow_to(64),
        options().ordered(),
    ] {
        let scheme = options.scheme().unwrap();
        let losses = all((0..60).map(|seed| lose_a_node(seed, &scheme, |_| plain(), 3, 0)));
        assert!(losses.failed > 50 && losses.adopted > 100, "{losses:?}");
    }
    let scheme = options().duo(DuoShape::default()).scheme().unwrap();
    let losses = all((0..60).map(|seed| lose_a_node(seed, &scheme, |_| plain(), 1, 0)));
    assert!(losses.failed > 50 && losses.adopted > 100, "{losses:?}");
}

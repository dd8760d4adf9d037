//! Tables that are dropped, renamed, cleared and made anew at the same place, while others use them
//! and clients die.

use super::super::{clear, drop_table, rename};
use super::slow_links::{over_links_of, patient};
use super::*;
use crate::calls::owner::registry::serve_simulated;
use crate::catalog::{Catalog, LEASE, table_at};
use crate::{ErrorKind, SchemeKind, TableRecord};
use farslot_index::{Admin, AdminOutcome, AnyIndex, IndexExt, QueueRequest, WriterChange};
use xxhash_rust::xxh3::xxh3_64;

/// Room for two tables and a half: another is where one has been.
const ROOM: u64 = 2_600_000;
const NAMES: [&str; 2] = ["one", "two"];

fn one_node() -> Arc<StoreNodes> {
    Arc::new(StoreNodes::new(vec!["node".into()]))
}

/// A value that says which table it was put into, under which key. A table that was renamed is the
/// same.
fn mark(record: &TableRecord, key: u64) -> [u8; 16] {
    let scheme = serde_json::to_vec(&record.scheme).unwrap();
    let table = xxh3_64(&scheme) ^ record.offset;
    let mut value = [0; 16];
    value[..8].copy_from_slice(&table.to_le_bytes());
    value[8..].copy_from_slice(&(table ^ key).to_le_bytes());
    value
}

/// What a client may meet whose table is another's to change.
fn may_be(error: &StoreError) -> bool {
    let kinds = [
        ErrorKind::TableGone,
        ErrorKind::NoSuchTable,
        ErrorKind::TableExists,
        ErrorKind::OutOfMemory,
        ErrorKind::Contended,
        ErrorKind::Full,
    ];
    kinds.contains(&error.kind())
}

/// Uses a table until it is gone: whatever it finds there was put into this very table.
async fn use_table(
    endpoint: &Rc<Leased>,
    record: &TableRecord,
    rng: &mut ChaCha8Rng,
    met: &mut Encounters,
) -> Result<()> {
    let at = table_at(NodeId(0), record);
    let table = plain().open(endpoint, at, record).await?;
    let is_sealed = matches!(record.scheme, Scheme::Sealed(_));
    if is_sealed && rng.random_bool(0.7) {
        let records: Vec<_> = (0..12)
            .map(|number| (key(number), mark(record, number)))
            .collect();
        let borrowed = records.iter().map(|(key, value)| (&key[..], &value[..]));
        refused_or(met, table.build(&borrowed.collect::<Vec<_>>()).await)?;
    }
    for _ in 0..40 {
        // Now and then longer than a lease, so that it looks first.
        let span = match rng.random_range(0..8) {
            0 => LEASE * 3 / 2,
            _ => rng.random_range(0..LEASE / 4),
        };
        endpoint.sleep(span).await;
        let number = rng.random_range(0..12);
        let mine = mark(record, number);
        if matches!(record.scheme, Scheme::Queue(_)) {
            use_queue(&table, &mine, (rng, record), met).await?;
            continue;
        }
        match rng.random_range(0..4) {
            0 | 1 => {
                let found = refused_or(met, table.get(&key(number)).await)?;
                if let Some(found) = found.flatten() {
                    assert_eq!(&*found, &mine[..], "bytes of another table");
                    met.found += 1;
                    met.found_in[record.scheme.kind() as usize] += 1;
                }
            }
            2 => {
                let put = table.run(Operation::Put(&key(number), &mine)).await;
                refused_or(met, put)?;
            }
            _ => {
                let removed = table.run(Operation::Remove(&key(number))).await;
                refused_or(met, removed)?;
            }
        }
        met.operations += 1;
    }
    // Mostly another may write it then.
    if rng.random_bool(0.8) {
        refused_or(met, table.change_writer(WriterChange::Resign).await)?;
    }
    Ok(())
}

/// Pushes an item, or looks at those that there are.
async fn use_queue(
    queue: &AnyIndex,
    item: &[u8],
    (rng, record): (&mut ChaCha8Rng, &TableRecord),
    met: &mut Encounters,
) -> Result<()> {
    met.operations += 1;
    let items = [item];
    let request = match rng.random_range(0..4) {
        0 | 1 => QueueRequest::Push(&items),
        2 => QueueRequest::Pop(rng.random_range(1..4)),
        _ => QueueRequest::Front,
    };
    let outcome = queue.admin(Admin::Queue(request)).await?;
    if let AdminOutcome::Items(items) = outcome {
        for found in items {
            let is_of_it = (0..12).any(|number| found == mark(record, number));
            assert!(is_of_it, "bytes of another table");
            met.found += 1;
            met.found_in[record.scheme.kind() as usize] += 1;
        }
    }
    Ok(())
}

/// The answer, or nothing where the table is as it was: another is its writer, it is not built, or
/// was built or put and changes no more.
fn refused_or<T>(met: &mut Encounters, answer: farslot_index::Result<T>) -> Result<Option<T>> {
    let stays = [
        ErrorKind::WriterBusy,
        ErrorKind::NotBuilt,
        ErrorKind::Sealed,
        ErrorKind::Unsupported,
    ];
    match answer.map_err(StoreError::from) {
        Err(error) if stays.contains(&error.kind()) => {
            met.refused += 1;
            Ok(None)
        }
        other => other.map(Some),
    }
}

#[derive(Default, Debug)]
struct Encounters {
    operations: u64,
    found: u64,
    /// By scheme.
    found_in: [u64; SchemeKind::ALL.len()],
    refused: u64,
    gone: u64,
    changes: u64,
}

fn schemes() -> [Scheme; SchemeKind::ALL.len()] {
    let race = options().race(RaceShape::default()).grow_to(500);
    let duo = options().duo(DuoShape::default());
    let cuckoo = options().cuckoo(CuckooShape::default());
    let (chained, ordered) = (options().chained().grow_to(500), options().ordered());
    let sealed = options().sealed();
    let queue = options().queue();
    let set = options().set();
    let all = [
        options(),
        race,
        duo,
        cuckoo,
        sealed,
        chained,
        ordered,
        queue,
        set,
    ];
    all.map(|options| options.scheme().unwrap())
}

async fn user(endpoint: Rc<Leased>, seed: u64, rounds: u32) -> Encounters {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut met = Encounters::default();
    for _ in 0..rounds {
        let name = NAMES[rng.random_range(0..2)];
        let since = endpoint.now();
        let record = match find(&*endpoint, &one_node(), name).await {
            Ok(LocatedTable::Whole(_, record)) => record,
            Ok(LocatedTable::Sharded(_)) => panic!("it is on one node"),
            Err(error) => {
                assert!(may_be(&error), "seed {seed}: {error}");
                endpoint.sleep(rng.random_range(0..LEASE)).await;
                continue;
            }
        };
        endpoint.lease(NodeId(0), &record, since);
        let rng = &mut rng;
        // Of a table that another may be the writer of: a reader, then.
        let used = use_table(&endpoint, &record, rng, &mut met).await;
        if let Err(error) = used {
            assert!(may_be(&error), "seed {seed}: {error}");
            met.gone += u64::from(error.kind() == ErrorKind::TableGone);
        }
    }
    met
}

async fn changer(endpoint: Rc<Leased>, seed: u64) -> Encounters {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut met = Encounters::default();
    let nodes = one_node();
    for _ in 0..8 {
        endpoint.sleep(rng.random_range(0..LEASE)).await;
        let name = NAMES[rng.random_range(0..2)];
        let other = NAMES[rng.random_range(0..2)];
        let changed = match rng.random_range(0..6) {
            0 | 1 => drop_table(&*endpoint, &nodes, name).await,
            2 => clear(&*endpoint, &nodes, name).await,
            3 => rename(&*endpoint, &nodes, name, other).await,
            _ => {
                let scheme = schemes()[rng.random_range(0..SchemeKind::ALL.len())].clone();
                let catalog = Catalog::new(&*endpoint, NodeId(0)).unwrap();
                catalog.create(name, scheme, None).await.map(drop)
            }
        };
        match changed {
            Ok(()) => met.changes += 1,
            Err(error) => assert!(may_be(&error), "seed {seed}: {error}"),
        }
    }
    met
}

/// Over links with that round trip.
fn run_seeds(seeds: std::ops::Range<u64>, round_trip: Nanos, limits: fn() -> Limits) -> Encounters {
    let mut all = Encounters::default();
    // Over slow links tables are there for less of the time.
    let rounds = if round_trip > 0 { 16 } else { 6 };
    for seed in seeds {
        let world = World::new(seed, over_links_of(round_trip));
        world.add_node(&[(ROOM, Rights::ALL)]);
        serve_simulated(&world, 1);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut simulation = Simulation::new(world.clone());
        let changers = [(); 2].map(|()| simulation.add_client(HostId(0), limits()));
        let mut faults = FaultPlan::chaos(seed, rng.random_range(0.0..=1.0));
        if seed % 2 == 0 {
            // One of them dies, between any two verbs.
            faults.client_stops.push(ClientStop {
                client: changers[0],
                when: FaultTime::AfterVerbs(rng.random_range(1..600)),
            });
        }
        world.set_faults(faults);
        let changes: Vec<_> = changers
            .iter()
            .enumerate()
            .map(|(number, client)| {
                let seed = seed * 8 + number as u64;
                simulation.spawn(*client, async move |endpoint| {
                    changer(leased(endpoint), seed).await
                })
            })
            .collect();
        let users: Vec<_> = (2..5)
            .map(|number| {
                let seed = seed * 8 + number;
                let client = simulation.add_client(HostId(0), limits());
                simulation.spawn(client, async move |endpoint| {
                    user(leased(endpoint), seed, rounds).await
                })
            })
            .collect();
        run(&mut simulation, seed);
        for met in changes
            .iter()
            .chain(&users)
            .filter_map(|met| met.try_take())
        {
            all.operations += met.operations;
            all.found += met.found;
            all.refused += met.refused;
            for (all, met) in all.found_in.iter_mut().zip(met.found_in) {
                *all += met;
            }
            all.gone += met.gone;
            all.changes += met.changes;
        }
        // Whatever has happened: all can be dropped, and then all memory is free and zeros.
        let client = simulation.add_client(HostId(0), limits());
        let last = simulation.spawn(client, async move |endpoint| {
            let endpoint = leased(endpoint);
            for name in NAMES {
                match drop_table(&*endpoint, &one_node(), name).await {
                    Ok(()) | Err(StoreError::NoSuchTable { .. }) => {}
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
            let catalog = Catalog::new(&*endpoint, NodeId(0)).unwrap();
            let large = options().heap_bytes(ROOM - 400_000).slots(SlotKind::Heap);
            let made = catalog.create("large", large.scheme().unwrap(), None).await;
            let made = made.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            made.extent()
        });
        run(&mut simulation, seed);
        let node = world.node_handle(NodeId(0));
        for offset in last.try_take().unwrap().step_by(24) {
            let word = node.peek(farslot_fabric::RegionId(0), offset);
            assert_eq!(word, 0, "seed {seed}: at {offset}");
        }
    }
    all
}

#[test]
fn no_client_meets_the_bytes_of_another_table() {
    let met = run_seeds(0..60, 0, limits);
    println!("{met:?}");
    // Half of what such runs have, for the tables' own seeds are others each time.
    assert!(met.found > 350 && met.operations > 2_000, "{met:?}");
    assert!(met.gone > 60 && met.changes > 150, "{met:?}");
}

#[test]
fn no_client_meets_the_bytes_of_another_table_over_slow_links() {
    let met = run_seeds(0..60, 900_000_000, patient);
    println!("{met:?}");
    assert!(met.found >= 5 && met.operations > 50, "{met:?}");
    assert!(met.gone >= 2 && met.changes > 100, "{met:?}");
}

#[test]
#[ignore = "takes a minute: scripts/test --all"]
fn no_client_meets_the_bytes_of_another_table_from_1000_seeds() {
    let met = run_seeds(0..1_000, 0, limits);
    println!("{met:?}");
    assert!(met.found > 6_000 && met.gone > 1_000, "{met:?}");
    assert!(met.found_in.iter().all(|found| *found > 300), "{met:?}");
}

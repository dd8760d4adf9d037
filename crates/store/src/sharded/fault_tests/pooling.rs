//! Tables that share the memory of their node, under faults: clients that fill one table and then
//! another, so that segments go from table to table, and die on the way.

use super::super::drop_table;
use super::*;
use crate::calls::owner::registry::serve_simulated;
use crate::catalog::pool::{segments_of, segments_of_table};
use crate::catalog::{Catalog, ReclaimScope, table_at};
use crate::{ErrorKind, TableRecord};
use farslot_index::race::SMALLEST_SEGMENT;
use farslot_index::{AnyIndex, IndexExt};
use std::collections::BTreeMap;

/// The catalog, and some forty segments.
const ROOM: u64 = 3 << 20;
const NAMES: [&str; 2] = ["one", "two"];
const USERS: u64 = 3;
/// Keys of a user in a table.
const OWN_KEYS: u64 = 40;

/// Segments that no other takes, of the second table.
const RESERVE: u64 = 8;

/// With few addresses where the heap is limited, so that these are used again.
fn shared(is_limited: bool, reserve: u64) -> Scheme {
    let options = TableOptions::default().expiring(false);
    let options = options.reserve_bytes(reserve * SMALLEST_SEGMENT);
    let options = if is_limited {
        options.heap_bytes(1 << 20)
    } else {
        options
    };
    let options = options
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(1 << 16));
    options.scheme().unwrap()
}

fn one_node() -> Arc<StoreNodes> {
    Arc::new(StoreNodes::new(vec!["node".into()]))
}

/// A value that says whose it is, all along.
fn marked(table: usize, key: u64, version: u64, len: usize) -> Vec<u8> {
    let mark = (table as u64) << 60 | key << 32 | version;
    let mut value = mark.to_le_bytes().repeat(len.div_ceil(8));
    value.truncate(len);
    value
}

/// What a key may have: each of these, after an operation that is in doubt.
type Possible = Vec<Option<Vec<u8>>>;

#[derive(Default, Debug)]
struct Seen {
    put: u64,
    refused: u64,
    removed: u64,
    doubtful: u64,
}

struct User {
    number: u64,
    rng: ChaCha8Rng,
    known: [BTreeMap<u64, Possible>; 2],
    seen: Seen,
}

impl User {
    /// Notes what an operation on a key leaves that would make it `then`.
    fn note<T>(
        &mut self,
        (table, key): (usize, u64),
        then: Option<Vec<u8>>,
        was: &farslot_index::Result<T>,
    ) {
        let possible = self.known[table].entry(key).or_insert_with(|| vec![None]);
        match was {
            Ok(_) => *possible = vec![then],
            Err(error) => {
                let error = StoreError::from(error.clone());
                let kinds = [ErrorKind::OutOfMemory, ErrorKind::Full];
                if error.may_have_taken_effect() {
                    possible.push(then);
                    self.seen.doubtful += 1;
                } else if kinds.contains(&error.kind()) {
                    self.seen.refused += 1;
                }
            }
        }
    }

    /// Fills a table, looks at what is there, and removes it again, but for some.
    async fn use_table(&mut self, number: usize, table: &AnyIndex, endpoint: &Leased) {
        for index in 0..OWN_KEYS {
            let key = self.number * 1_000 + index;
            let len = self.rng.random_range(500..40_000);
            let value = marked(number, key, self.rng.random_range(0..1 << 32), len);
            let put = table.run(Operation::Put(&super::key(key), &value)).await;
            self.seen.put += u64::from(put.is_ok());
            self.note((number, key), Some(value), &put);
            if index % 8 == 0 {
                endpoint.sleep(self.rng.random_range(0..300_000_000)).await;
            }
            let looked = self.number * 1_000 + self.rng.random_range(0..=index);
            self.check(number, looked, table).await;
        }
        for index in 0..OWN_KEYS {
            if self.rng.random_bool(0.9) {
                let key = self.number * 1_000 + index;
                let removed = table.run(Operation::Remove(&super::key(key))).await;
                self.seen.removed += u64::from(removed.is_ok());
                self.note((number, key), None, &removed);
            }
        }
        let _ = table.flush().await;
    }

    async fn check(&self, number: usize, key: u64, table: &AnyIndex) {
        let Ok(found) = table.get(&super::key(key)).await else {
            return;
        };
        let found = found.map(|value| value.to_vec());
        let possible = self.known[number].get(&key);
        let is_known = possible.map_or(found.is_none(), |possible| possible.contains(&found));
        let found = found.map(|value| (value.len(), value.first_chunk::<8>().copied()));
        assert!(
            is_known,
            "user {}: key {key} of table {number} has {found:?}",
            self.number
        );
    }
}

async fn opened(endpoint: &Rc<Leased>, name: &str) -> Result<(TableRecord, AnyIndex)> {
    let since = endpoint.now();
    let LocatedTable::Whole(_, record) = find(&**endpoint, &one_node(), name).await? else {
        panic!("it is on one node")
    };
    endpoint.reach(NodeId(0), &record, Some(since));
    let at = table_at(NodeId(0), &record);
    let table = plain().open(endpoint, at, &record).await?;
    Ok((record, table))
}

async fn user(endpoint: Rc<Leased>, number: u64, seed: u64) -> User {
    let mut user = User {
        number,
        rng: ChaCha8Rng::seed_from_u64(seed),
        known: Default::default(),
        seen: Seen::default(),
    };
    // They stay open: what this client knows of where they lie goes out of date.
    let mut tables = Vec::new();
    for name in NAMES {
        match opened(&endpoint, name).await {
            Ok((_, table)) => tables.push(table),
            Err(error) => {
                assert!(error.kind() == ErrorKind::TimedOut, "seed {seed}: {error}");
                return user;
            }
        }
    }
    for round in 0..6 {
        let number = (round + seed as usize) % 2;
        user.use_table(number, &tables[number], &endpoint).await;
    }
    user
}

/// No other table has taken what is the second one's, and nothing of that is lost, whoever died:
/// when all is taken back that tables do not need, its list names the rest.
async fn has_its_reserve(endpoint: &Rc<Leased>, seed: u64) {
    let catalog = Catalog::new(&**endpoint, NodeId(0)).unwrap();
    let (record, _) = opened(endpoint, NAMES[1]).await.unwrap();
    let segments = segments_of(NodeId(0), &record).unwrap();
    let before = segments_of_table(&catalog.pool().words().await.unwrap(), &record);
    assert!(before.0 + before.1 >= RESERVE, "seed {seed}: {before:?}");
    endpoint.reclaim(NodeId(0), ReclaimScope::All).await;
    let (kept, claimed) = segments_of_table(&catalog.pool().words().await.unwrap(), &record);
    let list = endpoint.read(segments.list, segments.count() as usize * 8);
    let list = list.await.unwrap();
    let listed = list.words().iter().filter(|word| **word != 0).count() as u64;
    assert_eq!(claimed, listed, "seed {seed}");
    assert_eq!(kept, RESERVE.saturating_sub(claimed), "seed {seed}");
}

fn run_seeds(seeds: std::ops::Range<u64>) -> Seen {
    let mut all = Seen::default();
    for seed in seeds {
        let world = World::new(seed, NicProfile::connectx5_edr());
        world.add_node(&[(ROOM, Rights::ALL)]);
        serve_simulated(&world, 1);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut simulation = Simulation::new(world.clone());
        simulation.spawn_client(async move |endpoint| {
            let catalog = Catalog::new(&*endpoint, NodeId(0)).unwrap();
            for (name, reserve) in NAMES.into_iter().zip([0, RESERVE]) {
                let scheme = shared(seed % 2 == 0, reserve);
                catalog.create(name, scheme, None).await.unwrap();
            }
        });
        run(&mut simulation, seed);
        let clients = [(); USERS as usize].map(|()| simulation.add_client(HostId(0), limits()));
        let mut faults = FaultPlan::chaos(seed, rng.random_range(0.0..=1.0));
        if seed % 4 > 0 {
            // One of them dies, between any two verbs.
            faults.client_stops.push(ClientStop {
                client: clients[0],
                when: FaultTime::AfterVerbs(rng.random_range(1..3_000)),
            });
        }
        world.set_faults(faults);
        let users: Vec<_> = (0..)
            .zip(clients)
            .map(|(number, client)| {
                let seed = seed * 8 + number;
                simulation.spawn(client, async move |endpoint| {
                    user(leased(endpoint), number, seed).await
                })
            })
            .collect();
        run(&mut simulation, seed);
        world.set_faults(FaultPlan::default());
        let known: Vec<_> = users.iter().filter_map(|user| user.try_take()).collect();
        for user in &known {
            all.put += user.seen.put;
            all.refused += user.seen.refused;
            all.removed += user.seen.removed;
            all.doubtful += user.seen.doubtful;
        }
        // What was acknowledged is there; and when all is dropped, all memory is free.
        let last = simulation.spawn_client(async move |endpoint| {
            let endpoint = leased(endpoint);
            for (number, name) in NAMES.iter().enumerate() {
                let (_, table) = opened(&endpoint, name).await.unwrap();
                for user in &known {
                    for key in user.known[number].keys() {
                        user.check(number, *key, &table).await;
                    }
                }
            }
            has_its_reserve(&endpoint, seed).await;
            for name in NAMES {
                drop_table(&*endpoint, &one_node(), name).await.unwrap();
            }
            let catalog = Catalog::new(&*endpoint, NodeId(0)).unwrap();
            let (_, memory) = catalog.listing_and_memory().await.unwrap();
            (memory.taken, memory.total)
        });
        run(&mut simulation, seed);
        let (taken, total) = last.try_take().unwrap();
        assert_eq!(taken, 0, "seed {seed}");
        let node = world.node_handle(NodeId(0));
        for offset in (ROOM - total..ROOM).step_by(24) {
            let word = node.peek(farslot_fabric::RegionId(0), offset);
            assert_eq!(word, 0, "seed {seed}: at {offset}");
        }
    }
    all
}

#[test]
fn tables_that_share_memory_lose_nothing() {
    let seen = run_seeds(0..24);
    println!("{seen:?}");
    assert!(seen.put > 2_000 && seen.removed > 1_000, "{seen:?}");
    assert!(seen.refused > 20, "{seen:?}");
}

#[test]
#[ignore = "takes minutes: scripts/test --all"]
fn tables_that_share_memory_lose_nothing_from_1000_seeds() {
    println!("{:?}", run_seeds(0..1_000));
}

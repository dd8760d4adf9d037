//! Ranks that insert overlapping sets in the simulator, under faults from many seeds: each element
//! is inserted exactly once.

use farslot_fabric::sim::{
    ClientStop, FaultPlan, FaultTime, NicProfile, NodeConfig, RunEnd, SimEndpoint, Simulation,
    World,
};
use farslot_fabric::{Limits, NodeId, RegionId, Rights};
use farslot_set::shared::{ChunkSizes, Part, Reach, SharedDataSet, SharedTreeSet, SharedWordSet};
use farslot_set::{DataShape, Layout, MAX_WORD, Outcome, SetError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

const RANKS: u64 = 3;
const ELEMENTS: u64 = 150;
const WIDTH: usize = 16;

/// A simulated job of [`RANKS`] ranks, each with a machine, a region and one thread.
struct Bed {
    world: World,
    simulation: Simulation,
    clients: Vec<farslot_fabric::sim::ClientId>,
    nodes: Vec<NodeId>,
    layouts: Vec<Layout>,
    direct: bool,
}

impl Bed {
    /// A bed with a region for each of the tables. Every second seed's ranks reach their own part
    /// without verbs.
    fn new(seed: u64, layouts: &[Layout]) -> Self {
        let world = World::new(seed, NicProfile::connectx5_edr());
        let regions: Vec<_> = layouts
            .iter()
            .map(|layout| (layout.region_bytes(), Rights::ALL))
            .collect();
        let mut nodes = Vec::new();
        for _ in 0..RANKS {
            let host = Some(world.add_host());
            nodes.push(world.add_node_with(&NodeConfig {
                host,
                ..NodeConfig::new(&regions)
            }));
        }
        let mut simulation = Simulation::new(world.clone());
        let hosts = nodes.iter().map(|node| world.host_of(*node));
        let clients = hosts
            .map(|host| simulation.add_client(host, Limits::default()))
            .collect();
        world.set_faults(FaultPlan::chaos(seed, 0.6));
        Self {
            world,
            simulation,
            clients,
            nodes,
            layouts: layouts.to_vec(),
            direct: seed.is_multiple_of(2),
        }
    }

    fn reach(&self, rank: usize, table: usize) -> Reach<SimEndpoint> {
        let region = RegionId(table as u16);
        let parts = self.nodes.iter().enumerate().map(|(owner, node)| {
            if self.direct && owner == rank {
                return Part::Simulated(self.world.node_handle(*node), region);
            }
            match Part::of_node(*node) {
                Part::Remote(at) => Part::Remote(farslot_fabric::RemoteAddr { region, ..at }),
                part => part,
            }
        });
        let endpoint = Rc::clone(self.simulation.endpoint(self.clients[rank]));
        Reach::new(endpoint, self.layouts[table], rank, parts.collect()).unwrap()
    }

    /// Has a client stop for good, beside all other faults.
    fn stop(&self, seed: u64, client: usize, when: FaultTime) {
        let client_stops = vec![ClientStop {
            client: self.clients[client],
            when,
        }];
        self.world.set_faults(FaultPlan {
            client_stops,
            ..FaultPlan::chaos(seed, 0.6)
        });
    }

    fn run(&mut self) {
        assert_eq!(self.simulation.run(), RunEnd::Done);
    }
}

fn chunks(seed: u64) -> ChunkSizes {
    match seed % 3 {
        0 => ChunkSizes::fixed(8, 64).unwrap(),
        1 => ChunkSizes::fixed(32, 16).unwrap(),
        _ => {
            let nic = farslot_model::NicModel::connectx5_edr();
            ChunkSizes::chosen(nic, farslot_model::Objective::Latency, 0.5).unwrap()
        }
    }
}

/// What each rank asks for: most elements are several ranks', and some are asked for again.
fn wanted(seed: u64, rank: u64) -> Vec<u64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed << 8 | rank);
    (0..ELEMENTS)
        .map(|_| rng.random_range(0..ELEMENTS) * 0x1_0001)
        .collect()
}

/// Outcomes by element, of all ranks.
#[derive(Default)]
struct Seen {
    inserted: HashMap<u64, u32>,
    found: HashSet<u64>,
    places: HashMap<u64, u64>,
    failed: u32,
}

impl Seen {
    fn note(&mut self, element: u64, put: Result<Outcome, SetError>) {
        let place = match put {
            Ok(Outcome::Inserted(place)) => {
                *self.inserted.entry(element).or_default() += 1;
                place
            }
            Ok(Outcome::Found(place)) => {
                self.found.insert(element);
                place
            }
            Ok(Outcome::Full) => panic!("the table has room"),
            Err(_) => {
                self.failed += 1;
                return;
            }
        };
        assert_eq!(
            *self.places.entry(element).or_insert(place),
            place,
            "element {element}"
        );
    }
}

fn words_once(seed: u64, stop: Option<(usize, FaultTime)>) {
    // Full enough for walks that wrap round, and go from rank to rank.
    let layout = Layout::new(RANKS, 64, 0).unwrap();
    let mut bed = Bed::new(seed, &[layout]);
    if let Some((rank, when)) = stop {
        bed.stop(seed, rank, when);
    }
    let seen = Rc::new(RefCell::new(Seen::default()));
    for rank in 0..RANKS as usize {
        let set = SharedWordSet::new(bed.reach(rank, 0), chunks(seed));
        let (all, seen) = (wanted(seed, rank as u64), Rc::clone(&seen));
        let client = bed.clients[rank];
        bed.simulation.spawn(client, async move |_| {
            for batch in all.chunks(50) {
                set.find_or_put_all(batch, WIDTH, |at, put| {
                    seen.borrow_mut().note(batch[at], put)
                })
                .await;
            }
        });
    }
    bed.run();
    let seen = seen.borrow();
    let mut stored = Vec::new();
    for node in &bed.nodes {
        let words = bed
            .world
            .node_handle(*node)
            .with_region(RegionId(0), <[u64]>::to_vec);
        stored.extend(
            words[8..]
                .iter()
                .filter(|word| **word != 0)
                .map(|word| word & MAX_WORD),
        );
    }
    let distinct: HashSet<u64> = stored.iter().copied().collect();
    assert_eq!(
        distinct.len(),
        stored.len(),
        "an element is in the table twice"
    );
    assert!(seen.inserted.values().all(|times| *times == 1));
    let unclaimed = stored
        .iter()
        .filter(|element| !seen.inserted.contains_key(element))
        .count();
    assert!(
        seen.inserted
            .keys()
            .all(|element| distinct.contains(element))
    );
    assert!(seen.found.is_subset(&distinct));
    match stop {
        None => {
            assert_eq!((unclaimed, seen.failed), (0, 0));
            let wanted = (0..RANKS).flat_map(|rank| wanted(seed, rank));
            assert_eq!(distinct, wanted.collect());
        }
        // Of a killed inserter, only what it had under way may be there without its having been
        // told.
        Some((rank, _)) => {
            assert!(
                unclaimed <= WIDTH,
                "{unclaimed} elements that nobody has inserted"
            );
            let others = (0..RANKS).filter(|other| *other != rank as u64);
            let wanted: HashSet<u64> = others.flat_map(|rank| wanted(seed, rank)).collect();
            assert!(wanted.is_subset(&distinct));
            assert_eq!(seen.failed, 0);
        }
    }
}

#[test]
fn words_are_inserted_exactly_once() {
    for seed in 0..60 {
        println!("seed {seed}");
        words_once(seed, None);
    }
}

#[test]
fn a_killed_inserter_hurts_no_other() {
    for seed in 0..100 {
        println!("seed {seed}");
        let when = FaultTime::AfterVerbs(seed * 7 % 400);
        words_once(seed, Some(((seed % RANKS) as usize, when)));
    }
}

/// Elements of different lengths with values: found only with all of their bytes.
fn data_once(seed: u64, killed: bool) {
    let layout = Layout::new(RANKS, 128, 4096).unwrap();
    let shape = DataShape::varying(1024).with_values(1);
    let mut bed = Bed::new(seed, &[layout]);
    if killed {
        bed.stop(seed, 0, FaultTime::AfterVerbs(seed * 13 % 600));
    }
    let element = |number: u64| {
        let len = 8 + (number * 37 % 200) as usize;
        let bytes = number.to_le_bytes().repeat(len.div_ceil(8));
        bytes[..len].to_vec()
    };
    let seen = Rc::new(RefCell::new(Seen::default()));
    for rank in 0..RANKS as usize {
        let set = SharedDataSet::new(shape, bed.reach(rank, 0), chunks(seed)).unwrap();
        let (numbers, seen) = (wanted(seed, rank as u64), Rc::clone(&seen));
        let client = bed.clients[rank];
        bed.simulation.spawn(client, async move |_| {
            let elements: Vec<_> = numbers.iter().map(|number| element(*number)).collect();
            for (numbers, elements) in numbers.chunks(40).zip(elements.chunks(40)) {
                set.find_or_put_all(elements, WIDTH, |at, put| {
                    seen.borrow_mut().note(numbers[at], put)
                })
                .await;
                // Whoever has an index reads the whole element, whoever wrote it.
                let place = seen.borrow().places[&numbers[0]];
                assert_eq!(set.get(place).await.unwrap(), elements[0]);
                assert_eq!(set.find(&elements[0]).await.unwrap(), Some(place));
                // One of all who set a flag sees it unset.
                let before = set.set_flags(place, 0, 1).await.unwrap();
                if before & 1 == 0 {
                    let first = set.compare_swap_value(place, 0, 1, 3).await.unwrap();
                    assert_eq!(first, 1, "the flag was set by another first");
                }
            }
            let found = set
                .find_or_put_with(&element(7 << 40 | rank as u64), |value| value[0] = 9)
                .await;
            let place = found.unwrap().place().unwrap();
            assert_eq!(set.value(place, 0).await.unwrap(), 9);
        });
    }
    bed.run();
    let seen = seen.borrow();
    assert!(seen.inserted.values().all(|times| *times == 1));
    assert_eq!(seen.failed, 0);
    if !killed {
        let wanted: HashSet<u64> = (0..RANKS).flat_map(|rank| wanted(seed, rank)).collect();
        assert_eq!(
            seen.inserted.keys().copied().collect::<HashSet<_>>(),
            wanted
        );
    }
}

#[test]
fn long_elements_are_inserted_exactly_once_and_whole() {
    for seed in 0..20 {
        println!("seed {seed}");
        data_once(seed, false);
    }
}

#[test]
fn a_killed_inserter_leaves_no_element_in_part() {
    for seed in 0..25 {
        println!("seed {seed}");
        data_once(seed, true);
    }
}

/// Clients of one part, as those of a table of a store are: an element and its value are seen whole
/// behind the swap alone.
#[test]
fn clients_of_one_part_insert_each_element_once_and_whole() {
    const CLIENTS: u64 = 3;
    let layout = Layout::new(1, 512, 1 << 13).unwrap();
    let shape = DataShape::varying(400).with_values(2);
    let element = |number: u64| number.to_le_bytes().repeat(1 + number as usize % 50);
    for seed in 0..60 {
        println!("seed {seed}");
        let mut bed = Bed::new(seed, &[layout]);
        if seed % 3 == 0 {
            bed.stop(seed, 0, FaultTime::AfterVerbs(seed * 13 % 600));
        }
        let seen = Rc::new(RefCell::new(Seen::default()));
        for client in 0..CLIENTS {
            let id = bed.clients[client as usize];
            let endpoint = Rc::clone(bed.simulation.endpoint(id));
            let parts = vec![Part::of_node(bed.nodes[0])];
            let reach = Reach::new(endpoint, layout, 0, parts).unwrap();
            let set = SharedDataSet::new(shape, reach, chunks(seed))
                .unwrap()
                .seeded(seed);
            let (numbers, seen) = (wanted(seed, client), Rc::clone(&seen));
            bed.simulation.spawn(id, async move |_| {
                for number in numbers {
                    let value = |words: &mut [u64]| words.copy_from_slice(&[number, !number]);
                    let (key, mut found) = (element(number), Vec::new());
                    let put = set.find_or_put_value(&key, value, &mut found).await;
                    if let Ok(Outcome::Found(_)) = put {
                        assert_eq!(found, [number, !number], "a value in part");
                    }
                    seen.borrow_mut().note(number, put);
                    let at = set.find_value(&key, &mut found).await.unwrap();
                    assert_eq!((at.is_some(), &*found), (true, &[number, !number][..]));
                }
                let mut visited = HashSet::new();
                let mut next = Some(0);
                while let Some(first) = next {
                    let visit = |key: &[u8], value: &[u64]| {
                        assert_eq!((key, value[1]), (&*element(value[0]), !value[0]));
                        assert!(visited.insert(value[0]), "visited twice");
                    };
                    next = set.visit(first, 100, 8, visit).await.unwrap();
                }
                let mine: HashSet<u64> = wanted(seed, client).into_iter().collect();
                assert!(mine.is_subset(&visited));
                set.give_back().await.unwrap();
            });
        }
        bed.run();
        let seen = seen.borrow();
        assert!(seen.inserted.values().all(|times| *times == 1));
        assert_eq!(seen.failed, 0);
        if seed % 3 != 0 {
            let wanted = (0..CLIENTS).flat_map(|client| wanted(seed, client));
            let inserted: HashSet<u64> = seen.inserted.keys().copied().collect();
            assert_eq!(inserted, wanted.collect());
        }
    }
}

/// Handles that insert one element each take the space of as many.
#[test]
fn space_that_was_not_used_is_given_back() {
    let layout = Layout::new(1, 64, 1 << 12).unwrap();
    let mut bed = Bed::new(3, &[layout]);
    let endpoint = Rc::clone(bed.simulation.endpoint(bed.clients[0]));
    let node = bed.nodes[0];
    let taken = bed.simulation.spawn(bed.clients[0], async move |_| {
        let open = || {
            let parts = vec![Part::of_node(node)];
            let reach = Reach::new(Rc::clone(&endpoint), layout, 0, parts).unwrap();
            SharedDataSet::new(DataShape::fixed(32), reach, chunks(0)).unwrap()
        };
        for number in 0..10_u8 {
            let set = open();
            for element in [[number; 32], [100 + number; 32], [200 + number; 32]] {
                assert!(set.find_or_put(&element).await.unwrap().is_inserted());
            }
            set.give_back().await.unwrap();
        }
        open().reach().taken_and_count().await.unwrap()[0]
    });
    bed.run();
    assert_eq!(taken.try_take(), Some(30));
}

#[test]
fn compressed_states_are_inserted_exactly_once_and_come_back() {
    const BYTES: usize = 90;
    let state = |number: u64| -> Vec<u8> {
        (0..BYTES as u64)
            .map(|at| (number >> (at % 5)) as u8 & 7)
            .collect()
    };
    for seed in 0..10 {
        println!("seed {seed}");
        let nodes = Layout::new(RANKS, 1 << 10, 1 << 10).unwrap();
        let roots = Layout::new(RANKS, 128, 0).unwrap();
        let mut bed = Bed::new(seed, &[nodes, roots]);
        let inserted = Rc::new(RefCell::new(HashMap::<Vec<u8>, u32>::new()));
        for rank in 0..RANKS as usize {
            let nodes =
                SharedDataSet::new(DataShape::fixed(8), bed.reach(rank, 0), chunks(seed)).unwrap();
            let roots = SharedWordSet::new(bed.reach(rank, 1), chunks(seed));
            let set = SharedTreeSet::new(BYTES, nodes, roots).unwrap();
            let (numbers, inserted) = (wanted(seed, rank as u64), Rc::clone(&inserted));
            let client = bed.clients[rank];
            bed.simulation.spawn(client, async move |_| {
                let states: Vec<_> = numbers.iter().map(|number| state(number % 999)).collect();
                let mut ids = Vec::new();
                set.find_or_put_all(&states, WIDTH, |at, put| {
                    let put = put.unwrap();
                    if put.is_inserted() {
                        *inserted.borrow_mut().entry(states[at].clone()).or_default() += 1;
                    }
                    ids.push((at, put.place().unwrap()));
                })
                .await;
                let mut tree = set.tree();
                for (at, id) in ids {
                    set.load(id, &mut tree).await.unwrap();
                    assert_eq!(tree.bytes(), states[at]);
                }
            });
        }
        bed.run();
        let inserted = inserted.borrow();
        let wanted: HashSet<Vec<u8>> = (0..RANKS)
            .flat_map(|rank| wanted(seed, rank))
            .map(|number| state(number % 999))
            .collect();
        assert!(inserted.values().all(|times| *times == 1));
        assert_eq!(inserted.len(), wanted.len());
    }
}

/// Growth and garbage collection: every rank moves its own part.
#[test]
fn a_set_moves_into_a_larger_one() {
    for seed in 0..10 {
        println!("seed {seed}");
        let small = Layout::new(RANKS, 64, 1024).unwrap();
        let large = Layout::new(RANKS, 100, 2048).unwrap();
        let mut bed = Bed::new(seed, &[small, large]);
        let shape = DataShape::fixed(16).with_values(1);
        let sets = |bed: &Bed, rank, table| {
            SharedDataSet::new(shape, bed.reach(rank, table), chunks(seed)).unwrap()
        };
        let element = |number: u64| {
            [number, !number]
                .map(u64::to_le_bytes)
                .as_flattened()
                .to_vec()
        };
        for rank in 0..RANKS as usize {
            let (old, numbers) = (sets(&bed, rank, 0), wanted(seed, rank as u64));
            let client = bed.clients[rank];
            bed.simulation.spawn(client, async move |_| {
                for number in numbers {
                    let put = old
                        .find_or_put_with(&element(number), |value| value[0] = number)
                        .await;
                    put.unwrap().place().unwrap();
                }
            });
        }
        bed.run();
        let moved = Rc::new(RefCell::new(0));
        for rank in 0..RANKS as usize {
            let (old, new, moved) = (sets(&bed, rank, 0), sets(&bed, rank, 1), Rc::clone(&moved));
            let client = bed.clients[rank];
            bed.simulation.spawn(client, async move |_| {
                old.move_own_to(
                    &new,
                    WIDTH,
                    |index| !index.is_multiple_of(3),
                    |_, _| *moved.borrow_mut() += 1,
                )
                .await
                .unwrap();
            });
        }
        bed.run();
        let (old, new) = (sets(&bed, 0, 0), sets(&bed, 0, 1));
        let wanted: HashSet<u64> = (0..RANKS).flat_map(|rank| wanted(seed, rank)).collect();
        let client = bed.clients[0];
        let checked = bed.simulation.spawn(client, async move |_| {
            let mut kept = 0;
            for number in wanted {
                let index = old.find(&element(number)).await.unwrap().unwrap();
                let found = new.find(&element(number)).await.unwrap();
                assert_eq!(found.is_some(), !index.is_multiple_of(3));
                if let Some(index) = found {
                    assert_eq!(new.value(index, 0).await.unwrap(), number);
                    kept += 1;
                }
            }
            kept
        });
        bed.run();
        assert_eq!(checked.try_take().unwrap(), *moved.borrow());
    }
}

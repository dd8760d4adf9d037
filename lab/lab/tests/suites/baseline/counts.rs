//! What operations on the tables for comparison cost, as the endpoint counts it, and when the first
//! insertion fails (paper 001, Table I and figure 9).
//!
//! `FARSLOT_SLOTS=3000000` counts in tables of the size of the published counts.

use crate::common::TABLE;
use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::{Endpoint, Executor, Limits, OperationClass, OperationCounters, Rights};
use farslot_index::{FieldSize, GET, Index, IndexError, IndexExt, PUT, REMOVE, UPDATE};
use farslot_lab::baseline::map_embed::MapEmbedTable;
use farslot_lab::baseline::tea::{TEA_STASH, TeaTable};
use farslot_lab::baseline::{BaselineOptions, BaselineTable, RoomPlanner};
use std::rc::Rc;

fn slots() -> u64 {
    let asked = std::env::var("FARSLOT_SLOTS").ok();
    asked.map_or(1 << 16, |slots| slots.parse().expect("a number of slots"))
}

fn options(bucket_slots: u32, stash: u32) -> BaselineOptions {
    BaselineOptions {
        bucket_slots,
        stash,
        ..BaselineOptions::new(slots(), FieldSize::Fixed(8), FieldSize::Fixed(8), 11)
    }
}

/// As large a part of the table as in the published counts.
fn tea_stash() -> u32 {
    (u64::from(TEA_STASH) * slots() / 3_000_000) as u32
}

fn endpoint() -> Rc<ShmEndpoint> {
    let region = RegionSpec {
        len: TABLE.offset + slots() * 24 + (1 << 20),
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    Rc::new(ShmEndpoint::new(vec![node], Limits::default()))
}

fn map_embed(options: &BaselineOptions) -> Filling<farslot_lab::baseline::map_embed::MapEmbed> {
    let endpoint = endpoint();
    Filling::of(MapEmbedTable::create(endpoint, TABLE, options).unwrap())
}

fn tea(options: &BaselineOptions) -> Filling<farslot_lab::baseline::tea::Tea> {
    let endpoint = endpoint();
    Filling::of(TeaTable::create(endpoint, TABLE, options).unwrap())
}

/// A table that is being filled.
struct Filling<P: RoomPlanner> {
    executor: Executor<ShmEndpoint>,
    table: BaselineTable<ShmEndpoint, P>,
    keys: u64,
}

/// The mean cost of an operation.
#[derive(Debug)]
struct Cost {
    round_trips: f64,
    accesses: f64,
    items: f64,
}

impl<P: RoomPlanner> Filling<P> {
    fn of(table: BaselineTable<ShmEndpoint, P>) -> Self {
        Self {
            executor: Executor::new(Rc::clone(table.endpoint())),
            table,
            keys: 0,
        }
    }

    fn load(&self) -> f64 {
        self.keys as f64 / self.table.layout().slots() as f64
    }

    /// Inserts keys up to a load factor, or until one is refused; whether none was.
    fn fill(&mut self, until: f64) -> bool {
        while self.load() < until {
            let key = self.keys.to_le_bytes();
            match self.executor.block_on(self.table.put(&key, &key)) {
                Ok(new) => assert!(new),
                Err(IndexError::Full { .. }) => return false,
                Err(error) => panic!("{error}"),
            }
            self.keys += 1;
        }
        true
    }

    fn cost<R>(&mut self, class: OperationClass, run: impl FnOnce(&mut Self) -> R) -> (Cost, R) {
        let endpoint = Rc::clone(self.executor.endpoint());
        let counters = || endpoint.core().counters.snapshot();
        let before = counters();
        let result = run(self);
        let spent: OperationCounters = counters().since(&before).operation(class);
        let mean = |sum: u64| sum as f64 / spent.count as f64;
        let slot = self.table.layout().slot_bytes() as f64;
        let cost = Cost {
            round_trips: mean(spent.round_trips),
            accesses: mean(spent.verbs),
            items: mean(spent.bytes) / slot,
        };
        (cost, result)
    }

    /// Every key that was put is there, and no other.
    fn check(&self) {
        self.executor.block_on(async {
            for number in 0..self.keys {
                let key = number.to_le_bytes();
                let found = self.table.get(&key).await.unwrap();
                assert_eq!(found.as_deref(), Some(&key[..]), "{number}");
            }
            let absent = self.table.get(&u64::MAX.to_le_bytes()).await.unwrap();
            assert!(absent.is_none());
        });
    }
}

/// Published counts at 3 million slots.
#[test]
#[ignore = "long: scripts/test --all"]
fn map_embed_fills_up_as_published() {
    for (d, published) in [(4, 0.894), (8, 0.916), (12, 0.921), (16, 0.932)] {
        let mut filling = map_embed(&options(d, 8));
        while filling.fill(2.0) {}
        let load = filling.load();
        println!("d = {d}: full at {load:.4}, published {published}");
        assert!((load / published - 1.0).abs() < 0.05, "d = {d}: {load}");
        if d == 8 {
            filling.check();
        }
    }
}

/// Published counts at 3 million slots.
#[test]
#[ignore = "long: scripts/test --all"]
fn tea_fills_up_as_published() {
    for (d, published) in [(4, 0.625), (8, 0.788), (12, 0.852), (16, 0.888)] {
        let mut filling = tea(&options(d, tea_stash()));
        while filling.fill(2.0) {}
        let load = filling.load();
        println!("d = {d}: full at {load:.4}, published {published}");
        assert!((load / published - 1.0).abs() < 0.05, "d = {d}: {load}");
        if d == 8 {
            filling.check();
        }
    }
}

/// The published code counts sixteen bucket READs and sixteen WRITEs for each number that a cell
/// gets: moved 13.0, accesses 26.9, items 124 an insertion at a load of 0.9. Here only what has to
/// be moved is written.
#[test]
#[ignore = "long: scripts/test --all"]
fn map_embeds_cells_change_as_often_as_published() {
    let mut filling = map_embed(&options(8, 32));
    assert!(filling.fill(0.5));
    let (low, _) = filling.cost(PUT, |filling| filling.fill(0.51));
    assert!(low.round_trips < 2.1, "{low:?}");
    assert!(filling.fill(0.89));
    let (keys, adjusted) = (filling.keys, filling.table.design().adjusted());
    let before = filling.table.work();
    let (cost, _) = filling.cost(PUT, |filling| filling.fill(0.90));
    let insertions = (filling.keys - keys) as f64;
    let rate = (filling.table.design().adjusted() - adjusted) as f64 / insertions;
    let moved = (filling.table.work().moved - before.moved) as f64 / insertions;
    // One WRITE of the newcomer where no cell changes, sixteen for each that does.
    let published = (1.0 - rate).max(0.0) + 16.0 * rate;
    println!(
        "at 0.9: {cost:?}, {rate:.3} cells changed, {moved:.2} moved; counted as published {published:.1}"
    );
    assert!((published / 13.0 - 1.0).abs() < 0.15, "{published}");
}

/// The published code, at a load of 0.68: 4.4 READs of both buckets an insertion, and as many
/// WRITEs, for it writes walks that it gives up too. Most of the READs are those of such walks, of
/// which a small table has none or a few.
#[test]
fn teas_walks_are_as_long_as_published() {
    let mut filling = tea(&options(8, tea_stash()));
    assert!(filling.fill(0.67));
    let (keys, before) = (filling.keys, filling.table.work());
    let (cost, _) = filling.cost(PUT, |filling| filling.fill(0.68));
    let (insertions, work) = ((filling.keys - keys) as f64, filling.table.work());
    let moved = (work.moved - before.moved) as f64 / insertions;
    let stashed = (work.stashed - before.stashed) as f64 / insertions;
    let reads = cost.accesses - (1.0 + moved - stashed);
    println!("at 0.68: {cost:?}, {reads:.2} READs, {moved:.2} moved, {stashed:.5} stashed");
    // The newcomer's buckets, those of each record that was moved (once or more often), and of a
    // thousand where a walk is given up.
    assert!(
        moved > 0.0 && reads >= 1.0 + moved + 1000.0 * stashed,
        "{reads}"
    );
    let written = cost.accesses - reads;
    assert!(
        (cost.items - 16.0 * reads - written).abs() < 1e-6,
        "{cost:?}"
    );
    if slots() >= 3_000_000 {
        assert!((reads / 4.35 - 1.0).abs() < 0.2, "{reads}");
    }
}

#[test]
fn lookups_take_one_round_trip_and_changes_two() {
    fn check<P: RoomPlanner>(mut filling: Filling<P>, window: f64) {
        assert!(filling.fill(0.5));
        let keys = filling.keys;
        let table = |filling: &Filling<P>, class: OperationClass| {
            filling.executor.block_on(async {
                for number in 0..keys / 4 {
                    let (key, other) = (number.to_le_bytes(), (keys - number).to_le_bytes());
                    match class {
                        GET => assert!(filling.table.get(&key).await.unwrap().is_some()),
                        UPDATE => assert!(filling.table.update(&key, &other).await.unwrap()),
                        _ => assert!(filling.table.remove(&key).await.unwrap()),
                    }
                }
            });
        };
        let header = 8.0 / filling.table.layout().slot_bytes() as f64;
        let expected = [
            (GET, 1.0, window),
            (UPDATE, 2.0, window + 1.0),
            (REMOVE, 2.0, window + header),
        ];
        for (class, round_trips, items) in expected {
            let (cost, ()) = filling.cost(class, |filling| table(filling, class));
            assert!((cost.round_trips - round_trips).abs() < 1e-9, "{cost:?}");
            assert!((cost.items - items).abs() < 1e-9, "{cost:?}");
        }
    }
    check(map_embed(&options(8, 32)), 8.0);
    check(tea(&options(8, tea_stash())), 16.0);
}

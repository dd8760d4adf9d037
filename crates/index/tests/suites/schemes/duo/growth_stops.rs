//! An owner of a growing CuckooDuo table may stop after any verb: the next one has what was
//! acknowledged, and what was removed stays so, although its bytes may be copied with the buckets
//! that they are in. Readers see the same, those too that knew the table before it grew.

use crate::common::duo::{Dimensions, SimTable, growing_world, memory_behind, open};
use crate::common::from_sim;
use crate::common::{INLINE, Slot, TABLE, scan_all};
use farslot_fabric::sim::{
    ClientId, ClientStop, FaultPlan, FaultTime, HostId, RunEnd, SimEndpoint, Simulation, World,
};
use farslot_fabric::{Executor, Limits, RegionId};
use farslot_index::duo::{DuoLayout, DuoReader, GrowthMemory, ReaderPromise};
use farslot_index::{FieldSize, Index, IndexExt, Result};
use farslot_testbed::AnyEndpoint;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

const RECORD: Slot = Slot {
    name: "short",
    key: FieldSize::Fixed(8),
    value: FieldSize::Fixed(8),
    ..INLINE
};
const KEYS: u64 = 14;
/// Slots that the table has at first.
const SLOTS: u64 = 16;
/// Keys that are removed before the table grows.
const REMOVED: std::ops::Range<u64> = 0..3;

/// What a value is.
fn value(number: u64) -> u64 {
    0xfeed_0000_0000_0000 | number
}

/// What the owner was told, and the key of the operation that it was not told of, with what may be
/// its value.
#[derive(Default)]
struct Observations {
    there: RefCell<BTreeMap<u64, u64>>,
    under_way: Cell<Option<(u64, Option<u64>)>>,
}

impl Observations {
    async fn put(&self, table: &SimTable, key: u64, value: u64) -> Result<()> {
        self.under_way.set(Some((key, Some(value))));
        table.put(&key.to_le_bytes(), &value.to_le_bytes()).await?;
        self.there.borrow_mut().insert(key, value);
        self.under_way.set(None);
        Ok(())
    }

    async fn remove(&self, table: &SimTable, key: u64) -> Result<()> {
        self.under_way.set(Some((key, None)));
        assert!(table.remove(&key.to_le_bytes()).await?);
        self.there.borrow_mut().remove(&key);
        self.under_way.set(None);
        Ok(())
    }

    /// The table has what it should have, each key once.
    async fn judge(&self, table: &SimTable) -> Result<()> {
        let met = scan_all(table).await?;
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let all: BTreeMap<u64, u64> = met.iter().map(|(k, v)| (number(k), number(v))).collect();
        assert_eq!(all.len(), met.len(), "each key once");
        if let Some((key, value)) = self.under_way.take() {
            // It has taken effect, or has not.
            let before = self.there.borrow().get(&key).copied();
            let now = all.get(&key).copied();
            assert!(now == value || now == before, "key {key}");
            match now {
                Some(value) => self.there.borrow_mut().insert(key, value),
                None => self.there.borrow_mut().remove(&key),
            };
        }
        assert_eq!(all, *self.there.borrow());
        for key in 0..2 * KEYS {
            let found = table.get(&key.to_le_bytes()).await?;
            let there = self.there.borrow().get(&key).copied();
            assert_eq!(found.as_deref().map(number), there, "key {key}");
        }
        Ok(())
    }

    /// A reader sees what the table should have. Nobody writes meanwhile.
    async fn judge_reader(&self, reader: &DuoReader<AnyEndpoint>) -> Result<()> {
        for key in 0..2 * KEYS {
            let found = reader.get(&key.to_le_bytes()).await?;
            let found = found.map(|value| u64::from_le_bytes((*value).try_into().unwrap()));
            let there = self.there.borrow().get(&key).copied();
            match self.under_way.get() {
                Some((of, now)) if of == key => {
                    assert!(found == now || found == there, "key {key}: {found:?}");
                }
                _ => assert_eq!(found, there, "key {key}"),
            }
        }
        Ok(())
    }
}

/// Readers on another machine.
struct Readers {
    executor: Executor<SimEndpoint>,
    /// Looks at nothing but what it is asked for.
    linearizable: DuoReader<AnyEndpoint>,
    /// Answers for absent keys by its copy of the index alone.
    refreshed: DuoReader<AnyEndpoint>,
}

impl Readers {
    /// They know the table as it is now.
    fn new(world: &World, layout: &DuoLayout) -> Self {
        let endpoint = world.endpoint(Limits::default());
        let executor = Executor::new(Rc::clone(&endpoint));
        let reader =
            || DuoReader::open(from_sim(Rc::clone(&endpoint)), TABLE, layout.clone()).unwrap();
        let most = u64::MAX;
        let readers = Self {
            linearizable: reader(),
            refreshed: reader().promising(ReaderPromise::BoundedStaleness { most }),
            executor,
        };
        readers.executor.block_on(async {
            readers.linearizable.refresh().await.unwrap();
            readers.refreshed.refresh().await.unwrap();
        });
        readers
    }

    fn judge(&self, told: &Observations) {
        self.executor.block_on(async {
            told.judge_reader(&self.linearizable).await.unwrap();
            self.refreshed.refresh().await.unwrap();
            told.judge_reader(&self.refreshed).await.unwrap();
        });
    }
}

/// Fills a table, removes some keys, grows, sweeps, and goes on.
async fn own_first(table: &SimTable, memory: &GrowthMemory, told: &Observations) -> Result<()> {
    table.start().await?;
    for key in 0..KEYS {
        told.put(table, key, value(key)).await?;
    }
    for key in REMOVED {
        told.remove(table, key).await?;
    }
    table.grow(memory, 2).await?;
    told.put(table, KEYS, value(KEYS)).await?;
    told.put(table, 5, value(105)).await?;
    told.remove(table, 6).await?;
    table.sweep().await?;
    told.put(table, KEYS + 1, value(KEYS + 1)).await?;
    told.remove(table, 7).await
}

/// Changes what is there, and grows again, to three times the size.
async fn own_next(table: &SimTable, memory: &GrowthMemory, told: &Observations) -> Result<()> {
    let keys: Vec<u64> = told.there.borrow().keys().copied().collect();
    for (at, key) in keys.into_iter().enumerate() {
        match at % 3 {
            0 => told.remove(table, key).await?,
            1 => told.put(table, key, value(200 + key)).await?,
            _ => {}
        }
    }
    table.grow(memory, 3).await?;
    told.put(table, KEYS + 2, value(KEYS + 2)).await
}

fn table_of(world: &World, layout: &DuoLayout) -> (Executor<SimEndpoint>, SimTable) {
    let limits = Limits {
        verb_timeout: 100_000,
        ..Limits::default()
    };
    let endpoint = world.endpoint(limits);
    (Executor::new(Rc::clone(&endpoint)), open(endpoint, layout))
}

/// What one run has come to.
struct Outcome {
    /// Whether the first owner stopped before it was done.
    stopped: bool,
    /// What later owners found left behind.
    left_behind: u64,
}

/// The dimensions of the table that is filled.
const TINY: Dimensions = Dimensions {
    slots: SLOTS,
    bucket_slots: 4,
    fingerprint_bits: 8,
    longest_path: 2,
    stash: 2,
    readers: false,
};

/// Stops the first owner after so many verbs.
fn run(dimensions: Dimensions, verbs: u64, seed: u64) -> Outcome {
    let with_readers = dimensions.readers;
    let layout = dimensions.layout(RECORD, 9);
    let memory = memory_behind(&layout, 1 << 20);
    let world = growing_world(seed, &memory);
    world.set_faults(FaultPlan {
        client_stops: vec![ClientStop {
            client: ClientId(0),
            when: FaultTime::AfterVerbs(verbs),
        }],
        ..FaultPlan::chaos(seed, 0.3)
    });
    let told = Rc::new(Observations::default());
    let mut simulation = Simulation::new(world.clone());
    let client = simulation.add_client(HostId(0), Limits::default());
    let readers = with_readers.then(|| Readers::new(&world, &layout));
    let judge_readers = |told: &Observations| {
        if let Some(readers) = &readers {
            readers.judge(told);
            Readers::new(&world, &layout).judge(told);
        }
    };
    let (its, of_layout) = (Rc::clone(&told), layout.clone());
    simulation.spawn(client, async move |endpoint| {
        let table = open(endpoint, &of_layout);
        own_first(&table, &memory, &its).await.unwrap();
    });
    assert_eq!(simulation.run(), RunEnd::Done);
    let stopped = simulation.endpoint(client).is_stopped();
    judge_readers(&told);
    let mut left_behind = 0;
    for owner in 0..3 {
        let (executor, table) = table_of(&world, &layout);
        executor.block_on(async {
            table.take_over().await.unwrap();
            told.judge(&table).await.unwrap();
        });
        judge_readers(&told);
        executor.block_on(async {
            // Into buckets that the owner before may have split, and told nobody of; at first it
            // has no room for them.
            if table.slots() > SLOTS {
                for key in KEYS + 3..2 * KEYS - 4 {
                    told.put(&table, key, value(key)).await.unwrap();
                }
            }
        });
        judge_readers(&told);
        executor.block_on(async {
            // It stops without resigning; the last one only looks.
            if owner < 2 {
                own_next(&table, &memory, &told).await.unwrap();
                told.judge(&table).await.unwrap();
            }
        });
        judge_readers(&told);
        left_behind += table.work().copies_removed;
    }
    Outcome {
        stopped,
        left_behind,
    }
}

fn stop_everywhere(dimensions: Dimensions) {
    let (mut verbs, mut left_behind) = (0, 0);
    for seed in 0..4 {
        verbs = 1;
        loop {
            let outcome = run(dimensions, verbs, seed << 32 | verbs);
            left_behind += outcome.left_behind;
            if !outcome.stopped {
                break;
            }
            verbs += 1;
        }
    }
    println!("{verbs} verbs a run; {left_behind} records left behind");
    assert!(verbs > 80);
    assert!(left_behind > 2);
}

#[test]
fn what_was_removed_stays_so_wherever_an_owner_stops() {
    stop_everywhere(TINY);
}

#[test]
fn readers_see_what_was_acknowledged_wherever_an_owner_stops() {
    stop_everywhere(TINY.with_readers());
}

#[test]
fn readers_learn_from_the_next_owner_of_splits_that_nobody_has_counted() {
    // An owner dies when it has split buckets, and before it has counted that as a change of the
    // published index.
    let layout = Dimensions::of_paper(256).with_readers().layout(RECORD, 4);
    let memory = memory_behind(&layout, 1 << 20);
    for number in 0..8 {
        let world = growing_world(number, &memory);
        let (executor, first) = table_of(&world, &layout);
        executor.block_on(first.grow(&memory, 2)).unwrap();
        let readers = Readers::new(&world, &layout);
        // The bits that say which of its buckets, which are empty, are split: of 32.
        let node = world.node_handle(memory.mark.node);
        assert_eq!(first.unsplit(), 32);
        node.poke(RegionId(0), memory.start.offset, u64::from(u32::MAX));
        let told = Observations::default();
        let (executor, next) = table_of(&world, &layout);
        executor.block_on(async {
            next.take_over().await.unwrap();
            assert_eq!(next.unsplit(), 0);
            told.put(&next, number, value(number)).await.unwrap();
        });
        readers.judge(&told);
    }
}

/// The header of a table may be of another version, or damaged: what it says is checked before it
/// is believed.
#[test]
fn a_header_that_no_growth_has_written_is_refused() {
    // The count of extents; the first one's ratio and region.
    let bad = [
        (3200, 35),
        (3200, u64::MAX),
        (3264, 1),
        (3264, u64::MAX),
        (3272, 1 << 16),
    ];
    refuses_headers(Dimensions::of_paper(256), &bad);
}

/// A table that has grown once refuses what is not right at some places, from its start on; to its
/// readers, too.
fn refuses_headers(dimensions: Dimensions, places: &[(u64, u64)]) {
    let layout = dimensions.layout(RECORD, 3);
    let memory = memory_behind(&layout, 1 << 20);
    let world = growing_world(1, &memory);
    let (executor, table) = table_of(&world, &layout);
    executor.block_on(async {
        table.put(&[1; 8], &[1; 8]).await.unwrap();
        table.grow(&memory, 2).await.unwrap();
        table.resign().await.unwrap();
    });
    let node = world.node_handle(memory.mark.node);
    let at = |offset| TABLE.offset + offset;
    for &(offset, bad) in places {
        let good = node.peek(RegionId(0), at(offset));
        node.poke(RegionId(0), at(offset), bad);
        let refused = executor.block_on(table.get(&[1; 8])).map(drop);
        let refused = refused.unwrap_err();
        let is_right = |refused| matches!(refused, farslot_index::IndexError::BadOption { .. });
        assert!(is_right(refused), "{offset} = {bad}");
        if dimensions.readers {
            let endpoint = world.endpoint(Limits::default());
            let executor = Executor::new(Rc::clone(&endpoint));
            let reader = DuoReader::open(from_sim(endpoint), TABLE, layout.clone()).unwrap();
            let refused = executor.block_on(reader.get(&[1; 8])).map(drop);
            assert!(refused.is_err_and(is_right), "{offset} = {bad}");
        }
        node.poke(RegionId(0), at(offset), good);
    }
    let found = executor.block_on(table.get(&[1; 8])).unwrap();
    assert_eq!(found.as_deref(), Some(&[1; 8][..]));
}

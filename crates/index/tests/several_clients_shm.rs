//! Linearizability of several threads over one shared-memory node: the CPU's own races.

#![cfg(not(feature = "broken-insert"))]

mod common;

use common::{Reads, SLOTS, Slot, scan_all, shm_client, shm_node};
use farslot_check::{History, Recorder, RegisterMap, TableOp, TableRet, check};
use farslot_fabric::shm::{Node, ShmEndpoint};
use farslot_fabric::window;
use farslot_index::linear::{LinearLayout, LinearTable};
use farslot_index::{FindOrPut, Index, IndexError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const THREADS: u32 = 3;
const COROUTINES: u32 = 2;
const OPERATIONS: u64 = 60;
const KEYS: u64 = 3;
/// Tables of each slot kind.
const ROUNDS: u64 = 60;

type Record = Recorder<u64, TableOp<u64>, TableRet<u64>>;

/// What all threads of a round share.
struct Round {
    slot: Slot,
    node: Node,
    layout: LinearLayout,
    reads: Reads,
    /// The clock of all histories.
    began: Instant,
    /// Threads that are ready to start.
    ready: AtomicU32,
}

impl Round {
    fn new(slot: Slot, seed: u64) -> Self {
        // Every third table is full with all but one of the keys.
        let slots = if seed.is_multiple_of(3) { KEYS - 1 } else { 8 };
        let layout = slot.options(slots, seed).layout().unwrap();
        Self {
            slot,
            node: shm_node(&layout),
            layout,
            reads: Reads {
                fixed: [Some(1), Some(3), None][seed as usize % 3],
                look_ahead: seed.is_multiple_of(5),
            },
            began: Instant::now(),
            ready: AtomicU32::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap()
    }

    /// One thread's life: an endpoint, an executor and a table of its own.
    fn thread(&self, number: u32, seed: u64) -> History<u64, TableOp<u64>, TableRet<u64>> {
        let (executor, table) = shm_client(&self.node, &self.layout, self.reads);
        let record = Record::new();
        let coroutines = (0..COROUTINES).map(|coroutine| {
            let client = number * COROUTINES + coroutine;
            let rng = ChaCha8Rng::seed_from_u64(seed * 1_000 + u64::from(client));
            self.work(&table, &record, client, rng)
        });
        // A barrier that sleeps would wake one thread after the other has ended.
        self.ready.fetch_add(1, Ordering::AcqRel);
        while self.ready.load(Ordering::Acquire) < THREADS {
            std::thread::yield_now();
        }
        executor.block_on(window(COROUTINES as usize, coroutines, |_, ()| {}));
        record.take()
    }

    async fn work(
        &self,
        table: &LinearTable<ShmEndpoint>,
        record: &Record,
        client: u32,
        mut rng: ChaCha8Rng,
    ) {
        for turn in 0..OPERATIONS {
            let key = rng.random_range(0..KEYS);
            let value = self.slot.fitted(u64::from(client) * OPERATIONS + turn + 1);
            let op = match rng.random_range(0..10) {
                0..3 => TableOp::Get,
                3..5 => TableOp::Put(value),
                5..7 => TableOp::FindOrPut(value),
                7 => TableOp::Update(value),
                _ => TableOp::Remove,
            };
            let id = record.invoke(client, key, op.clone(), self.now());
            let outcome = self.perform(table, key, op).await;
            match outcome {
                Ok(ret) => record.complete(id, ret, self.now()),
                Err(IndexError::Full { .. }) => record.no_effect(id, self.now()),
                Err(error) => panic!("{}: {error}", self.slot.name),
            }
        }
    }

    async fn perform(
        &self,
        table: &LinearTable<ShmEndpoint>,
        key: u64,
        op: TableOp<u64>,
    ) -> Result<TableRet<u64>, IndexError> {
        let key = self.slot.key(key);
        let (slot, value) = (self.slot, |number| self.slot.value(number));
        Ok(match op {
            TableOp::Get => {
                let got = table.get(&key).await?;
                TableRet::Got(got.map(|value| slot.number(&value)))
            }
            TableOp::Put(number) => TableRet::Put {
                inserted: Some(table.put(&key, &value(number)).await?),
            },
            TableOp::FindOrPut(number) => match table.find_or_put(&key, &value(number)).await? {
                FindOrPut::Found(value) => TableRet::Found(slot.number(&value)),
                FindOrPut::Inserted => TableRet::Inserted,
            },
            TableOp::Update(number) => TableRet::Updated(table.update(&key, &value(number)).await?),
            TableOp::Remove => TableRet::Removed(table.remove(&key).await?),
        })
    }

    /// What is there in the end, as lookups of a client more.
    fn look_around(&self) -> History<u64, TableOp<u64>, TableRet<u64>> {
        let (executor, table) = shm_client(&self.node, &self.layout, self.reads);
        let record = Record::new();
        let met = executor.block_on(scan_all(&table)).unwrap();
        for key in 0..KEYS {
            let id = record.invoke(99, key, TableOp::Get, self.now());
            let got = executor.block_on(table.get(&self.slot.key(key))).unwrap();
            let got = got.map(|value| self.slot.number(&value));
            record.complete(id, TableRet::Got(got), self.now());
            let mut of_key = met.iter().filter(|(met, _)| *met == self.slot.key(key));
            let scanned = of_key.next().map(|(_, value)| self.slot.number(value));
            assert_eq!((scanned, of_key.next()), (got, None), "{}", self.slot.name);
        }
        record.take()
    }
}

#[test]
fn threads_over_one_node_are_linearizable() {
    let (mut overlapping, mut refused) = (0, 0);
    for slot in SLOTS {
        for seed in 0..ROUNDS {
            let round = Round::new(slot, seed);
            let histories = std::thread::scope(|scope| {
                let thread = |number| {
                    let round = &round;
                    scope.spawn(move || round.thread(number, seed))
                };
                let threads: Vec<_> = (0..THREADS).map(thread).collect();
                let joined = threads.into_iter().map(|thread| thread.join().unwrap());
                joined.collect::<Vec<_>>()
            });
            overlapping += u64::from(overlap(&histories));
            let history = History::merge(histories.into_iter().chain([round.look_around()]));
            match check(&history, &RegisterMap::new()) {
                Ok(summary) => refused += summary.ignored,
                Err(error) => panic!("{}, table {seed}: {error}", slot.name),
            }
        }
    }
    println!("{overlapping} tables on which threads ran side by side, {refused} puts refused");
    assert!(overlapping > 0 && refused > 0);
}

/// Whether some threads were at work at the same time.
fn overlap(histories: &[History<u64, TableOp<u64>, TableRet<u64>>]) -> bool {
    let starts = histories.iter().map(|history| {
        let starts = history.entries().iter().map(|entry| entry.start);
        (starts.clone().min().unwrap(), starts.max().unwrap())
    });
    let spans: Vec<(u64, u64)> = starts.collect();
    (1..spans.len()).any(|at| spans[at - 1].0 < spans[at].1 && spans[at].0 < spans[at - 1].1)
}

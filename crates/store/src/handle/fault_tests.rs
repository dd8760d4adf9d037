//! Futures that are dropped, cancelled in the queue or left to end, while verbs are late, torn and
//! lost in a simulated network: what was answered has happened, once, and everything else once at
//! the most. Threads take turns as the system has it, so that a seed fixes the faults and the
//! operations, not their order.

use super::tests::poll;
use super::{Handle, HandleOptions};
use crate::{
    ErrorKind, FieldSize, KeyRange, Operation, Result, SlotKind, Store, StoreError, TableOptions,
};
use farslot_check::{History, OpId, RegisterMap, TableOp, TableRet, check};
use farslot_fabric::NodeId;
use farslot_fabric::sim::{FaultPlan, HostId, Partition, Side};
use farslot_testbed::block_on;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

const CLIENTS: u32 = 3;
/// What an operation may fail with that has done nothing.
const DOWN: [ErrorKind; 1] = [ErrorKind::NodeDown];

/// `FARSLOT_SEED` for one, `FARSLOT_SEEDS` for so many, or as many as take a moment.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().expect("a number"))
    };
    match number("FARSLOT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FARSLOT_SEEDS").unwrap_or(25),
    }
}

/// A store of a seed with a table, and a handle to it. When it is open, verbs begin to fail.
fn handle(seed: u64, table: TableOptions) -> (Store, Handle) {
    handle_beside(seed, table, |_| ())
}

/// The same, with what else is made before.
fn handle_beside(seed: u64, table: TableOptions, make: impl FnOnce(&Store)) -> (Store, Handle) {
    let store = Store::open(&format!("sim://cx5-edr?seed={seed}&memory=4MiB")).unwrap();
    store.create("t", &table.capacity(2_000)).unwrap();
    make(&store);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let options = HandleOptions {
        workers: random.random_range(1..=2),
        queue: random.random_range(1..=16),
    };
    let handle = Handle::open(&store, "t", options).unwrap();
    let world = store.sim_world().unwrap();
    let mut faults = FaultPlan::chaos(seed, random.random_range(0.0..=1.0));
    // A verb that is lost is given up after a second; half of them have taken effect.
    let mut from = world.now();
    for _ in 0..random.random_range(0..=4) {
        from += random.random_range(0..300_000);
        let until = from + random.random_range(0..50_000);
        faults.partitions.push(Partition {
            side: Side::Host(HostId(0)),
            node: NodeId(0),
            from,
            until,
        });
        from = until + 1_000_000_000;
    }
    world.set_faults(faults);
    (store, handle)
}

/// What became of an operation.
enum End<T> {
    Answered(T),
    /// It is done once, or never.
    Unknown,
    /// It never happens.
    Never,
}

/// What a client does with a future: has it end, or polls it some times and drops it.
fn end_of<T>(
    mut running: impl Future<Output = Result<T>> + Unpin,
    random: &mut ChaCha8Rng,
    may_fail_with: &[ErrorKind],
) -> End<T> {
    let answer = if random.random_bool(0.3) {
        let polls = random.random_range(0..12);
        let mut answer = None;
        for _ in 0..polls {
            if let Poll::Ready(ready) = poll(&mut running) {
                answer = Some(ready);
                break;
            }
            std::thread::yield_now();
        }
        match answer {
            Some(answer) => answer,
            None if polls == 0 => return End::Never,
            None => return End::Unknown,
        }
    } else {
        block_on(running)
    };
    match answer {
        Ok(outcome) => End::Answered(outcome),
        Err(error) if error.may_have_taken_effect() => End::Unknown,
        Err(StoreError::QueueFull) => End::Never,
        Err(error) => {
            assert!(may_fail_with.contains(&error.kind()), "{error}");
            End::Never
        }
    }
}

/// Every put of a multi-key table adds a record: one that was repeated would be there twice.
#[test]
fn what_is_put_is_there_once() {
    let (mut answered, mut unknown, mut never) = (0, 0, 0);
    for seed in seeds() {
        let table = TableOptions::new(1_000)
            .keys(FieldSize::Fixed(8))
            .values(FieldSize::Fixed(8));
        let (store, handle) = handle(seed, table.multi_key());
        let puts: Vec<(u64, End<_>)> = std::thread::scope(|scope| {
            let clients = (0..CLIENTS).map(|client| {
                let handle = handle.clone();
                scope.spawn(move || {
                    let mut random = ChaCha8Rng::seed_from_u64(seed << 8 | u64::from(client));
                    let put = |number: u64| {
                        let value = u64::from(client) << 32 | number;
                        let key = random.random_range(0..4_u64).to_le_bytes();
                        let put = handle.run(Operation::Put(&key, &value.to_le_bytes()));
                        (value, end_of(put, &mut random, &DOWN))
                    };
                    (0..20).map(put).collect::<Vec<_>>()
                })
            });
            let clients: Vec<_> = clients.collect();
            let ends = clients.into_iter().map(|client| client.join().unwrap());
            ends.flatten().collect()
        });
        // What workers have taken is done when they have ended.
        block_on(handle.close());
        store.sim_world().unwrap().set_faults(FaultPlan::default());
        let mut queued: HashMap<u64, u32> = HashMap::new();
        for entry in &store.table("t").unwrap() {
            let (_, value) = entry.unwrap();
            let value = u64::from_le_bytes(value.try_into().unwrap());
            *queued.entry(value).or_default() += 1;
        }
        for (value, end) in puts {
            let times = queued.remove(&value).unwrap_or_default();
            let fits = match end {
                End::Answered(_) => {
                    answered += 1;
                    times == 1
                }
                End::Unknown => {
                    unknown += 1;
                    times <= 1
                }
                End::Never => {
                    never += 1;
                    times == 0
                }
            };
            assert!(fits, "seed {seed}: {value:#x} is there {times} times");
        }
        assert!(queued.is_empty(), "seed {seed}: nobody has put {queued:?}");
    }
    assert!(answered > 0 && unknown > 0 && never > 0);
}

/// Operations of all kinds, on few keys: some order of them explains every answer.
#[test]
fn operations_are_linearizable() {
    for seed in seeds() {
        let (kind, value) = match seed % 3 {
            0 => (SlotKind::Inline, FieldSize::Fixed(16)),
            1 => (SlotKind::Heap, FieldSize::UpTo(16)),
            _ => (SlotKind::Hybrid, FieldSize::UpTo(16)),
        };
        let table = TableOptions::new(1_000)
            .keys(FieldSize::Fixed(8))
            .values(value);
        let owned = match seed % 2 {
            0 => table.clone().chained(),
            _ => table.clone().ordered(),
        };
        check_operations(seed, table.slots(kind));
        check_operations(seed, owned);
    }
}

/// Some order of operations on a table explains every answer.
fn check_operations(seed: u64, table: TableOptions) {
    let (store, handle) = handle(seed, table);
    let clock = AtomicU64::new(0);
    let now = || clock.fetch_add(1, Ordering::SeqCst);
    let histories: Vec<_> = std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|client| {
            let handle = handle.clone();
            scope.spawn(move || {
                let mut random = ChaCha8Rng::seed_from_u64(seed << 8 | u64::from(client));
                let mut history = History::new();
                for round in 0..16 {
                    let value = u64::from(client) * 100 + round;
                    work(&handle, &mut history, client, value, &mut random, &now);
                }
                history
            })
        });
        let clients: Vec<_> = clients.collect();
        let ended = clients.into_iter().map(|client| client.join().unwrap());
        ended.collect()
    });
    block_on(handle.close());
    store.sim_world().unwrap().set_faults(FaultPlan::default());
    let table = store.table("t").unwrap();
    let mut last = History::new();
    for key in 0..KEYS {
        let id = last.invoke(CLIENTS, key, TableOp::Get, now());
        let found = table.get(&key.to_le_bytes()).unwrap();
        last.complete(id, TableRet::Got(found.as_deref().map(number)), now());
    }
    let all = History::merge(histories.into_iter().chain([last]));
    if let Err(error) = check(&all, &RegisterMap::new()) {
        panic!("seed {seed}: {error}");
    }
}

const KEYS: u64 = 3;

fn number(value: &[u8]) -> u64 {
    let word = u64::from_le_bytes(*value.first_chunk().unwrap());
    assert_eq!(value, bytes(word), "a torn value");
    word
}

/// A value that cannot be taken for another if it is torn.
fn bytes(number: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value[8..].copy_from_slice(&(!number).to_le_bytes());
    value
}

/// One operation of a client, recorded.
fn work(
    handle: &Handle,
    history: &mut History<u64, TableOp<u64>, TableRet<u64>>,
    client: u32,
    value: u64,
    random: &mut ChaCha8Rng,
    now: &impl Fn() -> u64,
) {
    let key = random.random_range(0..KEYS);
    // What another client may have written just now.
    let other = u64::from(random.random_range(0..CLIENTS)) * 100 + value % 100;
    let other = other.saturating_sub(random.random_range(0..2));
    let op = match random.random_range(0..10) {
        0..2 => TableOp::Get,
        2..4 => TableOp::Put(value),
        4..6 => TableOp::FindOrPut(value),
        6 => TableOp::Replace(other, value),
        7 => TableOp::Remove,
        8 => TableOp::RemoveIf(other),
        _ => TableOp::Update(value),
    };
    let id: OpId = history.invoke(client, key, op.clone(), now());
    let (key, value, other) = (key.to_le_bytes(), bytes(value), bytes(other));
    let running = handle.run(match &op {
        TableOp::Get => Operation::Get(&key),
        TableOp::Put(_) => Operation::Put(&key, &value),
        TableOp::FindOrPut(_) => Operation::FindOrPut(&key, &value),
        TableOp::Update(_) => Operation::Update(&key, &value),
        TableOp::Replace(..) => Operation::Replace(&key, &other, &value),
        TableOp::Remove => Operation::Remove(&key),
        TableOp::RemoveIf(_) => Operation::RemoveIf(&key, &other),
    });
    let outcome = match end_of(running, random, &DOWN) {
        End::Answered(outcome) => outcome,
        End::Unknown => return history.in_doubt(id, now()),
        End::Never => return history.no_effect(id, now()),
    };
    let changed = outcome.is_changed();
    let ret = match op {
        TableOp::Get => TableRet::Got(outcome.into_value().as_deref().map(number)),
        TableOp::Put(_) => TableRet::Put {
            inserted: Some(changed),
        },
        TableOp::FindOrPut(_) => match outcome.into_value() {
            Some(value) => TableRet::Found(number(&value)),
            None => TableRet::Inserted,
        },
        TableOp::Update(_) | TableOp::Replace(..) => TableRet::Updated(changed),
        TableOp::Remove | TableOp::RemoveIf(_) => TableRet::Removed(changed),
    };
    history.complete(id, ret, now());
}

const ACCOUNTS: u8 = 5;
const CENTS: i64 = 100;

fn cents(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().expect("8 bytes"))
}

/// Moves some cents between accounts of a chained table, and writes that down in an ordered one.
fn transfer(
    handle: &Handle,
    [from, to]: [u8; 2],
    entry: [u8; 4],
) -> impl Future<Output = Result<()>> {
    let (some, handle) = (i64::from(entry[3] % 7), handle.clone());
    let body = move |t: &mut crate::Transaction| {
        for (account, more) in [(from, -some), (to, some)] {
            let has = t.get("t", &[account])?.expect("it is there");
            let has = cents(&has) + more;
            t.put("t", &[account], &has.to_le_bytes())?;
        }
        assert!(t.insert("ledger", &entry, &[from, to, some as u8])?);
        Ok(())
    };
    async move { handle.transaction(body).await }
}

/// Transfers that end, that are dropped in the queue or half way, and that fail: each is done as a
/// whole or not at all, once if it was answered, and never if it cannot be.
#[test]
fn transactions_are_all_or_nothing() {
    let (mut answered, mut unknown, mut never) = (0, 0, 0);
    for seed in seeds() {
        let small = TableOptions::new(1_000).keys(FieldSize::UpTo(4));
        let accounts = small.clone().values(FieldSize::Fixed(8)).chained();
        let ledger = small.values(FieldSize::Fixed(3)).ordered();
        let (store, handle) = handle_beside(seed, accounts, |store| {
            store.create("ledger", &ledger).unwrap();
            let table = store.table("t").unwrap();
            for account in 0..ACCOUNTS {
                table.put(&[account], &CENTS.to_le_bytes()).unwrap();
            }
        });
        let transfers: Vec<([u8; 4], End<()>)> = std::thread::scope(|scope| {
            let clients = (0..CLIENTS as u8).map(|client| {
                let handle = handle.clone();
                scope.spawn(move || {
                    let mut random = ChaCha8Rng::seed_from_u64(seed << 8 | u64::from(client));
                    let one = |number: u8| {
                        let from = random.random_range(0..ACCOUNTS);
                        let to = (from + random.random_range(1..ACCOUNTS)) % ACCOUNTS;
                        let entry = [client, number, from, random.random()];
                        let transfer = Box::pin(transfer(&handle, [from, to], entry));
                        let may = [ErrorKind::NodeDown, ErrorKind::Contended];
                        (entry, end_of(transfer, &mut random, &may))
                    };
                    (0..12).map(one).collect::<Vec<_>>()
                })
            });
            let clients: Vec<_> = clients.collect();
            let ends = clients.into_iter().map(|client| client.join().unwrap());
            ends.flatten().collect()
        });
        block_on(handle.close());
        store.sim_world().unwrap().set_faults(FaultPlan::default());
        let (accounts, entries) = everything(&store, seed);
        let mut expected = [CENTS; ACCOUNTS as usize];
        let mut written = HashSet::new();
        for (entry, moved) in entries {
            let [from, to, some] = moved[..] else {
                panic!("seed {seed}: an entry of {} bytes", moved.len());
            };
            expected[usize::from(from)] -= i64::from(some);
            expected[usize::from(to)] += i64::from(some);
            written.insert(entry);
        }
        assert_eq!(accounts, expected, "seed {seed}");
        for (entry, end) in transfers {
            let is_there = written.remove(&entry[..]);
            let fits = match end {
                End::Answered(()) => {
                    answered += 1;
                    is_there
                }
                End::Unknown => {
                    unknown += 1;
                    true
                }
                End::Never => {
                    never += 1;
                    !is_there
                }
            };
            assert!(fits, "seed {seed}: {entry:?} is there: {is_there}");
        }
        assert!(written.is_empty(), "seed {seed}: {written:?}");
    }
    assert!(answered > 0 && unknown > 0 && never > 0);
}

/// What all accounts have, and the ledger, at one moment and scanned downward.
fn everything(store: &Store, seed: u64) -> (Vec<i64>, Vec<crate::Pair>) {
    let all = store.transaction(|t| {
        let accounts = (0..ACCOUNTS).map(|account| t.get("t", &[account]));
        let accounts = accounts.map(|has| Ok(cents(&has?.expect("it is there"))));
        let accounts = accounts.collect::<Result<Vec<_>>>()?;
        Ok((
            accounts,
            t.scan("ledger", KeyRange::default().reversed(), usize::MAX)?,
        ))
    });
    all.unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

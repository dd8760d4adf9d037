//! Histories under faults, judged by the checker: of the protocol, and of broken ones.

mod clients;
mod lists;
mod procedures;
mod world;

use crate::broken::ProtocolBreach;
use crate::database::Locked;
use crate::wire::{LockHolder, OwnerStatus, Part, TransactionHome, Write, put_write};
use crate::{Database, Locking, TableId, Transaction, TxnError};
use clients::{HistoryTally, Record, list, run_one};
use farslot_check::serial::{Anomaly, Commit, CycleKind, ListOp, check_serial};
use farslot_fabric::sim::{
    FaultPlan, HostId, Partition, RunEnd, Side, SimEndpoint, Simulation, World,
};
use farslot_fabric::{Endpoint, EndpointExt, Executor, NodeId, RegionId, VerbKind, window};
use farslot_remote::chained::{Chained, Table};
use farslot_remote::{Lock, PolicyOptions};
use farslot_rpc::{Client, ClientOptions};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use world::{
    KEYS, Key, LEASE, MAP_KEYS, NODES, OBJECT, QUIET, SHAPE, Wrong, database, faults, limits, world,
};

/// Runs transactions under faults; returns how the checker judges them, and the world's digest.
fn run(
    seed: u64,
    wrong: Wrong,
    tally: &Rc<RefCell<HistoryTally>>,
) -> (Result<(), Anomaly<Key>>, u64) {
    let world = world(seed, wrong);
    let plan = faults(seed, wrong);
    let stopped = plan.node_stops.first().map(|stop| stop.node);
    world.set_faults(plan);
    let record = Record::default();
    let mut sim = Simulation::new(world.clone());
    for client in 0..4u64 {
        let id = sim.add_client(HostId(0), limits(seed, wrong));
        let (record, tally) = (record.clone(), Rc::clone(tally));
        sim.spawn(id, async move |endpoint| {
            let locking = match (seed + client) % 2 {
                0 => Locking::Execution,
                _ => Locking::Commit,
            };
            let database = database(&endpoint, seed ^ client, locking, wrong);
            let coroutines = (0..2u64).map(|coroutine| {
                let mut rng = ChaCha8Rng::seed_from_u64(seed << 8 | client << 4 | coroutine);
                let key = wrong.own_keys.then_some((client * 2 + coroutine) as u8);
                let (database, record, endpoint, tally) = (&database, &record, &endpoint, &tally);
                async move {
                    for _ in 0..10 {
                        run_one(database, endpoint, &mut rng, record, tally, (key, wrong)).await;
                        endpoint.sleep(rng.random_range(0..20_000)).await;
                    }
                }
            });
            window(2, coroutines, |_, ()| ()).await;
        });
    }
    assert_eq!(sim.run_until(1_000_000_000), RunEnd::Done, "seed {seed}");
    let node_stops = FaultPlan {
        refuse_at_once: true,
        ..FaultPlan::default()
    };
    world.set_faults(node_stops);
    world.advance_to(world.now() + QUIET);
    read_all(&world, seed, wrong, &record, stopped);
    let history = record.history.take();
    let judged = check_serial(&history).map(drop).map_err(|anomaly| *anomaly);
    (judged, world.digest())
}

/// Reads every key once more. Where every node lives no lock is left by now that lasts.
fn read_all(world: &World, seed: u64, wrong: Wrong, record: &Record, stopped: Option<NodeId>) {
    let endpoint = world.endpoint(limits(seed, wrong));
    let database = database(&endpoint, seed, Locking::Execution, Wrong::NONE);
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        let tables = if wrong.scans { 2 * NODES } else { NODES };
        for table in (0..tables).filter(|table| stopped != Some(NodeId(*table % NODES))) {
            for key in 0..if table < NODES { KEYS } else { MAP_KEYS } {
                let mut attempts = 0;
                let (start, value) = loop {
                    attempts += 1;
                    let start = endpoint.now();
                    let mut transaction = database.begin();
                    let end = transaction.read(TableId(table.into()), &[key; 3]).await;
                    match end {
                        Ok(value) => break (start, Some(value)),
                        Err(_) if stopped.is_some() && attempts > 3 => break (start, None),
                        Err(_) if stopped.is_some() => {}
                        Err(TxnError::Conflict { .. }) if attempts <= 3 => {}
                        Err(error) => {
                            assert!(wrong.breach.is_some(), "seed {seed}: {error}");
                            break (start, None);
                        }
                    }
                };
                if let Some(value) = value {
                    let at = record.begin(start);
                    record.note(at, ListOp::Read((table, key), list(value)));
                    record.end(
                        at,
                        Commit::Committed {
                            end: endpoint.now(),
                        },
                    );
                }
            }
        }
    });
}

/// Runs seeds, none of which may show an anomaly; returns what happened.
fn judge(seeds: std::ops::Range<u64>, wrong: Wrong) -> HistoryTally {
    let tally = Rc::default();
    let mut digests = Vec::new();
    for seed in seeds.clone() {
        let (judged, digest) = run(seed, wrong, &tally);
        if let Err(anomaly) = judged {
            panic!("seed {seed}: {anomaly}");
        }
        digests.push(digest);
    }
    let again = seeds
        .clone()
        .take(3)
        .map(|seed| run(seed, wrong, &Rc::default()).1);
    assert!(
        again.eq(digests.into_iter().take(3)),
        "the same seed is the same run"
    );
    println!("seeds {seeds:?}: {tally:?}");
    tally.take()
}

/// Enough has happened that it means something.
fn check_tally(tally: &HistoryTally) {
    for (label, count, least) in [
        ("committed", tally.committed, 20_000),
        ("conflicts", tally.conflicts, 5_000),
        ("in doubt", tally.unknown, 5),
        ("leases over", tally.leases_over, 20),
        ("procedures", tally.procedures, 3_000),
    ] {
        assert!(count > least, "{label}: {count}");
    }
}

const SCANS: Wrong = Wrong {
    scans: true,
    ..Wrong::NONE
};
const LATE: Wrong = Wrong {
    late: true,
    ..Wrong::NONE
};

#[test]
fn histories_under_faults_are_strictly_serializable() {
    check_tally(&judge(0..1000, Wrong::NONE));
}

#[test]
fn histories_with_scans_under_faults_are_strictly_serializable() {
    check_tally(&judge(0..1000, SCANS));
}

#[test]
fn histories_with_calls_later_than_leases_are_strictly_serializable() {
    check_tally(&judge(0..1000, LATE));
}

/// As many as `FARSLOT_SEEDS` says, 100,000 by default, half of them with scans; and half as many
/// with calls that come late.
#[test]
#[ignore = "takes minutes"]
fn many_histories_under_faults_are_strictly_serializable() {
    let seeds = std::env::var("FARSLOT_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    let half = seeds.unwrap_or(100_000_u64).div_ceil(2);
    check_tally(&judge(1000..1000 + half, Wrong::NONE));
    check_tally(&judge(1000..1000 + half, SCANS));
    check_tally(&judge(1000..1000 + half, LATE));
}

/// What the checker says of seeds from 0 on, until it has said all of `expected`.
fn find(wrong: Wrong, expected: &[&'static str]) {
    let mut found = BTreeSet::new();
    let tally = Rc::default();
    for seed in 0..300 {
        if let (Err(anomaly), _) = run(seed, wrong, &tally) {
            let name = match &anomaly {
                Anomaly::AbortedRead { .. } => "G1a",
                Anomaly::IntermediateRead { .. } => "G1b",
                Anomaly::InternalRead { .. } => "internal read",
                Anomaly::IncompatibleOrder { .. } => "incompatible order",
                Anomaly::Cycle { kind, .. } => match kind {
                    CycleKind::DirtyWrite => "G0",
                    CycleKind::CircularInformation => "G1c",
                    CycleKind::LostUpdate => "lost update",
                    CycleKind::WriteSkew => "write skew",
                    CycleKind::ReadSkew => "read skew",
                    CycleKind::Phantom => "phantom",
                    CycleKind::RealTime => "real time",
                },
                _ => "another",
            };
            if found.insert(name) {
                println!("{:?}: {name} by seed {seed}", wrong.breach);
            }
        }
        if expected.iter().all(|name| found.contains(name)) {
            return;
        }
    }
    panic!("{:?}: only {found:?} of {expected:?}", wrong.breach);
}

fn breach(breach: ProtocolBreach) -> Wrong {
    Wrong {
        breach: Some(breach),
        ..Wrong::NONE
    }
}

#[test]
fn reads_that_are_not_validated_are_noticed() {
    find(
        breach(ProtocolBreach::NoValidation),
        &["read skew", "write skew"],
    );
}

#[test]
fn absent_keys_that_are_not_validated_are_noticed() {
    find(breach(ProtocolBreach::NoAbsence), &["write skew"]);
}

#[test]
fn ranges_that_are_not_validated_are_noticed() {
    let wrong = Wrong {
        breach: Some(ProtocolBreach::NoRange),
        ..SCANS
    };
    find(wrong, &["phantom"]);
}

#[test]
fn changes_without_locks_are_noticed() {
    find(
        breach(ProtocolBreach::NoLock),
        &["lost update", "G0", "G1c"],
    );
}

#[test]
fn changes_before_the_commit_are_noticed() {
    find(
        breach(ProtocolBreach::WriteThrough),
        &["G1a", "G1b", "read skew"],
    );
    let wrong = Wrong {
        own_keys: true,
        ..breach(ProtocolBreach::WriteThrough)
    };
    find(wrong, &["G1b", "G1c"]);
}

#[test]
fn locks_that_are_released_before_the_changes_are_noticed() {
    find(
        breach(ProtocolBreach::UnlockFirst),
        &["lost update", "G0", "G1c"],
    );
}

#[test]
fn versions_that_are_read_after_the_values_are_noticed() {
    find(breach(ProtocolBreach::LateVersion), &["read skew"]);
}

#[test]
fn a_home_that_forgets_what_it_gave_up_is_noticed() {
    let wrong = Wrong {
        breach: Some(ProtocolBreach::NoNote),
        ..LATE
    };
    find(wrong, &["lost update"]);
}

#[test]
fn a_blind_release_is_noticed() {
    find(breach(ProtocolBreach::BlindRelease), &["lost update"]);
}

/// A world without faults, and two clients of its database in one thread.
fn two_clients(test: impl AsyncFnOnce(&World, &Rc<SimEndpoint>, [Database<SimEndpoint>; 2])) {
    let world = world(1, Wrong::NONE);
    let endpoint = world.endpoint(limits(1, Wrong::NONE));
    let clients = [1, 2].map(|seed| database(&endpoint, seed, Locking::Execution, Wrong::NONE));
    Executor::new(Rc::clone(&endpoint)).block_on(test(&world, &endpoint, clients));
}

/// Calls of a transaction that writes a key of each of these nodes, once its client has a name
/// there.
fn calls_of(locking: Locking, nodes: &[u16]) -> u64 {
    let world = world(1, Wrong::NONE);
    let endpoint = world.endpoint(limits(1, Wrong::NONE));
    let database = database(&endpoint, 1, locking, Wrong::NONE);
    let calls = || endpoint.core().counters.snapshot().verbs_of(VerbKind::Call);
    let write = async || {
        let mut open = database.begin();
        for node in nodes {
            open.write(TableId((*node).into()), b"key", b"value")
                .await
                .unwrap();
        }
        open.commit().await.unwrap();
    };
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        write().await;
        let before = calls();
        for _ in 0..10 {
            write().await;
        }
        let made = calls() - before;
        assert!(made.is_multiple_of(10), "{made}");
        made / 10
    })
}

#[test]
fn transactions_make_the_calls_that_they_need_and_no_more() {
    assert_eq!(calls_of(Locking::Commit, &[1]), 1);
    assert_eq!(calls_of(Locking::Execution, &[1]), 2);
    for locking in [Locking::Commit, Locking::Execution] {
        // Locks, the decision, and the parts that are not the home's.
        assert_eq!(calls_of(locking, &[0, 1]), 2 + 1 + 1);
        assert_eq!(calls_of(locking, &[0, 1, 2]), 3 + 1 + 2);
    }
}

#[test]
fn a_client_that_comes_late_neither_commits_nor_frees_the_lock_of_another() {
    two_clients(async |_, endpoint, [slow, other]| {
        let mut late = slow.begin();
        for table in [0, 1] {
            late.write(TableId(table), b"key", b"late").await.unwrap();
        }
        let mut early = other.begin();
        let conflict = early.write(TableId(1), b"key", b"early").await.unwrap_err();
        assert!(conflict.is_retryable(), "{conflict}");
        assert_eq!(early.commit().await, Err(TxnError::Failed));
        endpoint.sleep(2 * LEASE).await;
        // The first attempt meets the lock and has it broken, by way of its home.
        assert!(other.begin().write(TableId(1), b"key", b"x").await.is_err());
        let mut next = other.begin();
        next.write(TableId(1), b"key", b"next").await.unwrap();
        let end = late.commit().await;
        assert!(matches!(end, Err(TxnError::LeaseOver { .. })), "{end:?}");
        next.commit().await.unwrap();
        let read = other.begin().read(TableId(1), b"key").await;
        assert_eq!(read, Ok(Some(b"next".to_vec())));
        assert_eq!(slow.begin().read(TableId(0), b"key").await, Ok(None));
    });
}

#[test]
fn a_transaction_that_was_said_to_be_aborted_begins_no_more_at_its_home() {
    two_clients(async |_, endpoint, [slow, other]| {
        let (home, key) = (TableId(0), b"key");
        let late = slow.name(0).await.unwrap();
        let end = slow.lock(TableId(1), key, late, true).await.unwrap();
        assert!(matches!(end, Locked::Held { .. }));
        endpoint.sleep(2 * LEASE).await;
        // Who meets the lock asks the home, to which the transaction's first lock is still on its
        // way.
        assert!(other.begin().write(TableId(1), key, b"x").await.is_err());
        let end = slow.lock(home, key, late, true).await.unwrap();
        assert!(matches!(end, Locked::LeaseOver));
        // Others of the same client go on.
        let mut next = slow.begin();
        for table in [home, TableId(1)] {
            next.write(table, key, b"next").await.unwrap();
        }
        next.commit().await.unwrap();
        let read = other.begin().read(TableId(1), key).await;
        assert_eq!(read, Ok(Some(b"next".to_vec())));
    });
}

#[test]
fn a_client_whose_names_its_home_does_not_know_asks_for_new_ones() {
    two_clients(async |world, endpoint, [one, other]| {
        let write = async |client: &Database<_>, value: &[u8]| {
            let mut open = client.begin();
            open.write(TableId(0), b"key", value).await?;
            open.commit().await
        };
        write(&one, b"1").await.unwrap();
        // Its home comes back empty, and does not know the names that it has given.
        world.stop_node(NodeId(0));
        world.return_node(NodeId(0));
        assert!(write(&one, b"2").await.is_err());
        endpoint.adopt(NodeId(0)).unwrap();
        let end = write(&one, b"2").await;
        assert!(matches!(end, Err(TxnError::LeaseOver { .. })), "{end:?}");
        write(&one, b"2").await.unwrap();
        let read = other.begin().read(TableId(0), b"key").await;
        assert_eq!(read, Ok(Some(b"2".to_vec())));
    });
}

/// One writes at all nodes, has it decided, and stops.
async fn decide_and_stop(one: &Database<SimEndpoint>) -> Lock {
    let mut open = one.begin();
    for table in [0, 1, 2] {
        open.write(TableId(table), b"key", b"1").await.unwrap();
    }
    let mut part = Part::new();
    let write = Write {
        object: OBJECT.0,
        key: b"key",
        value: Some(b"1"),
    };
    put_write(&mut part, write);
    let other_parts = [1, 2].map(|node| (node, part.clone()));
    let lock = open.lock.unwrap();
    let end = one.decide(lock, &part, &other_parts).await;
    assert_eq!(end, Ok(OwnerStatus::Done));
    lock
}

/// As of a lock that its node could not take off memory that was damaged, and has no note of.
#[test]
fn who_is_not_told_of_a_home_leaves_what_it_has_decided() {
    two_clients(async |_, endpoint, [one, other]| {
        let lock = decide_and_stop(&one).await;
        endpoint.sleep(2 * LEASE).await;
        let met = LockHolder {
            lock,
            is_over: true,
            home: TransactionHome::default(),
        };
        for node in [1, 2] {
            assert_eq!(other.resolve(met, node).await, Ok(()));
        }
        assert_eq!(other.recover(0).await, Ok(2));
        for table in [0, 1, 2] {
            let value = other.get(TableId(table), b"key").await;
            assert_eq!(value, Ok(Some(b"1".to_vec())), "{table}");
        }
    });
}

#[test]
fn a_node_that_cannot_be_reached_keeps_no_other_from_finishing() {
    two_clients(async |world, endpoint, [one, other]| {
        decide_and_stop(&one).await;
        world.stop_node(NodeId(1));
        endpoint.sleep(2 * LEASE).await;
        assert!(other.recover(0).await.is_err());
        let read = other.begin().read(TableId(2), b"key").await;
        assert_eq!(read, Ok(Some(b"1".to_vec())));
    });
}

#[test]
fn locks_that_no_transaction_took_last_for_a_lease() {
    two_clients(async |_, endpoint, [one, _]| {
        let to = (NodeId(1), RegionId(0));
        let client = Client::new(Rc::clone(endpoint), to, ClientOptions::default());
        let table = Table::new(SHAPE).unwrap();
        let plain = Chained::new(table, OBJECT, Rc::new(client), 4, PolicyOptions::default());
        // Without a home, with one that never gave this name out, and with a node that this client
        // does not list: only that one knows what became of it.
        for owner in [5, (1 << 24) | 5, (200 << 24) | 5] {
            plain.lock(b"key", Lock { owner, epoch: 1 }).await.unwrap();
            // Its lease runs from when it is first met.
            let mut open = one.begin();
            let end = open.write(TableId(1), b"key", b"1").await;
            assert!(matches!(end, Err(TxnError::Conflict { .. })), "{end:?}");
            endpoint.sleep(2 * LEASE).await;
            let write =
                async |open: &mut Transaction<'_, _>| open.write(TableId(1), b"key", b"1").await;
            let end = one.run(write).await;
            let is_elsewhere = owner >> 24 == 200;
            assert_eq!(end.is_err(), is_elsewhere, "{end:?}");
        }
    });
}

/// An operation is dropped while the call that locks its key is under way.
#[test]
fn a_transaction_with_an_operation_that_was_dropped_half_way_does_not_commit() {
    two_clients(async |_, endpoint, [one, other]| {
        let mut open = one.begin();
        open.write(TableId(0), b"a", b"1").await.unwrap();
        {
            let mut write = pin!(open.write(TableId(1), b"b", b"0"));
            let polled = poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx).is_pending())).await;
            assert!(polled);
        }
        endpoint.sleep(2 * LEASE).await;
        let _ = other.begin().write(TableId(1), b"b", b"2").await;
        let end = open.write(TableId(1), b"b", b"1").await;
        assert_eq!(end, Err(TxnError::Failed));
        assert_eq!(open.commit().await, Err(TxnError::Failed));
        let mut check = other.begin();
        assert_eq!(check.read(TableId(0), b"a").await, Ok(None));
    });
}

#[test]
fn what_was_decided_is_finished_by_others() {
    two_clients(async |world, endpoint, [one, other]| {
        let mut transaction = one.begin();
        assert!(transaction.insert(TableId(0), b"a", b"1").await.unwrap());
        assert!(transaction.insert(TableId(1), b"b", b"2").await.unwrap());
        let apart = Partition {
            side: Side::Client(endpoint.client()),
            node: NodeId(1),
            from: 0,
            until: u64::MAX / 2000,
        };
        world.set_faults(FaultPlan {
            partitions: vec![apart],
            ..FaultPlan::default()
        });
        transaction.commit().await.unwrap();
        world.set_faults(FaultPlan::default());
        endpoint.sleep(2 * LEASE).await;
        assert_eq!(other.recover(0).await, Ok(1));
        assert_eq!(other.recover(0).await, Ok(0));
        let mut check = other.begin();
        assert_eq!(check.read(TableId(1), b"b").await, Ok(Some(b"2".to_vec())));
        assert!(!check.insert(TableId(0), b"a", b"3").await.unwrap());
        assert!(check.remove(TableId(0), b"a").await.unwrap());
        assert!(check.insert(TableId(0), b"a", b"4").await.unwrap());
        check.commit().await.unwrap();
        let read = one.run(async |t: &mut Transaction<'_, _>| t.read(TableId(0), b"a").await);
        assert_eq!(read.await, Ok(Some(b"4".to_vec())));
    });
}

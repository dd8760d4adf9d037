//! Transaction histories whose verdict is known, and those of a small database that can be broken.

use farslot_check::serial::{Anomaly, Commit, CycleKind, ListOp, Transaction, check_serial};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Txn = Transaction<char>;

fn append(key: char, value: u64) -> ListOp<char> {
    ListOp::Append(key, value)
}

fn read(key: char, list: &[u64]) -> ListOp<char> {
    ListOp::Read(key, list.to_vec())
}

fn scanned(key: char, list: &[u64]) -> ListOp<char> {
    ListOp::Scanned(key, list.to_vec())
}

/// A committed transaction from 0 to 100: beside all others.
fn beside(ops: &[ListOp<char>]) -> Txn {
    within(0, 100, ops)
}

fn within(start: u64, end: u64, ops: &[ListOp<char>]) -> Txn {
    Txn {
        start,
        ops: ops.to_vec(),
        commit: Commit::Committed { end },
    }
}

fn aborted(ops: &[ListOp<char>]) -> Txn {
    Txn {
        commit: Commit::Aborted,
        ..beside(ops)
    }
}

fn unknown(ops: &[ListOp<char>]) -> Txn {
    Txn {
        commit: Commit::Unknown,
        ..beside(ops)
    }
}

fn anomaly(history: &[Txn]) -> Anomaly<char> {
    let found = check_serial(history).unwrap_err();
    assert!(!found.to_string().is_empty());
    *found
}

fn kind(history: &[Txn]) -> CycleKind {
    match anomaly(history) {
        Anomaly::Cycle { kind, .. } => kind,
        other => panic!("no cycle: {other}"),
    }
}

#[test]
fn serial_histories_are_accepted() {
    let history = [
        within(0, 1, &[append('x', 1), append('y', 2)]),
        within(2, 3, &[read('x', &[1]), append('x', 3), read('x', &[1, 3])]),
        within(2, 5, &[read('y', &[2]), read('x', &[1, 3])]),
        unknown(&[append('x', 4)]),
        aborted(&[append('y', 5), read('x', &[9])]),
        within(7, 8, &[read('x', &[1, 3, 4])]),
    ];
    let summary = check_serial(&history).unwrap();
    assert_eq!((summary.committed, summary.ignored), (5, 1));
    assert_eq!(check_serial::<char>(&[]).unwrap().committed, 0);
}

#[test]
fn g0_interleaved_appends() {
    let history = [
        beside(&[append('x', 1), append('y', 2)]),
        beside(&[append('x', 3), append('y', 4)]),
        beside(&[read('x', &[1, 3]), read('y', &[4, 2])]),
    ];
    assert_eq!(kind(&history), CycleKind::DirtyWrite);
}

#[test]
fn g1a_aborted_read() {
    let history = [aborted(&[append('x', 1)]), beside(&[read('x', &[1])])];
    assert!(matches!(
        anomaly(&history),
        Anomaly::AbortedRead {
            key: 'x',
            value: 1,
            reader: 1,
            writer: 0
        }
    ));
}

#[test]
fn g1b_intermediate_read() {
    let history = [
        beside(&[append('x', 1), append('x', 2)]),
        beside(&[read('x', &[1])]),
        beside(&[read('x', &[1, 2])]),
    ];
    assert!(matches!(
        anomaly(&history),
        Anomaly::IntermediateRead {
            value: 1,
            reader: 1,
            writer: 0,
            ..
        }
    ));
}

#[test]
fn g1c_circular_information() {
    let history = [
        beside(&[append('x', 1), read('y', &[2])]),
        beside(&[append('y', 2), read('x', &[1])]),
    ];
    assert_eq!(kind(&history), CycleKind::CircularInformation);
}

#[test]
fn lost_update() {
    let history = [
        beside(&[read('x', &[]), append('x', 1)]),
        beside(&[read('x', &[]), append('x', 2)]),
        beside(&[read('x', &[1, 2])]),
    ];
    assert_eq!(kind(&history), CycleKind::LostUpdate);
    // Also if nobody reads the list afterwards.
    assert_eq!(kind(&history[..2]), CycleKind::LostUpdate);
}

#[test]
fn read_skew() {
    let history = [
        beside(&[append('x', 1), append('y', 2)]),
        beside(&[read('x', &[]), read('y', &[2])]),
        beside(&[read('x', &[1])]),
    ];
    assert_eq!(kind(&history), CycleKind::ReadSkew);
}

#[test]
fn write_skew() {
    let history = [
        beside(&[read('x', &[]), read('y', &[]), append('x', 1)]),
        beside(&[read('x', &[]), read('y', &[]), append('y', 2)]),
    ];
    assert_eq!(kind(&history), CycleKind::WriteSkew);
}

#[test]
fn phantom() {
    // Each scans the range and creates a key that the other's scan did not show.
    let history = [
        beside(&[scanned('x', &[]), scanned('y', &[]), append('x', 1)]),
        beside(&[scanned('x', &[]), scanned('y', &[]), append('y', 2)]),
    ];
    assert_eq!(kind(&history), CycleKind::Phantom);
}

#[test]
fn stale_reads_are_seen_by_the_clock_alone() {
    let history = [
        within(0, 10, &[append('x', 1)]),
        within(11, 20, &[read('x', &[])]),
        within(0, 30, &[read('x', &[1])]),
    ];
    assert_eq!(kind(&history), CycleKind::RealTime);
    let overlapping = [history[0].clone(), within(10, 20, &[read('x', &[])])];
    assert!(check_serial(&overlapping).is_ok());
    // An append that was acknowledged, and that a later read does not show, is lost.
    assert_eq!(kind(&history[..2]), CycleKind::RealTime);
}

#[test]
fn reads_that_contradict_one_another() {
    let order = [
        beside(&[append('x', 1)]),
        beside(&[append('x', 2)]),
        beside(&[read('x', &[1, 2])]),
        beside(&[read('x', &[2])]),
    ];
    assert!(matches!(
        anomaly(&order),
        Anomaly::IncompatibleOrder { key: 'x', .. }
    ));
    let own = [beside(&[append('x', 1), read('x', &[])])];
    assert!(matches!(
        anomaly(&own),
        Anomaly::InternalRead { reader: 0, .. }
    ));
    let changed = [
        beside(&[append('x', 1)]),
        beside(&[read('x', &[]), read('x', &[1])]),
    ];
    assert!(matches!(
        anomaly(&changed),
        Anomaly::InternalRead { reader: 1, .. }
    ));
    let unknown = [beside(&[read('x', &[7])])];
    assert!(matches!(
        anomaly(&unknown),
        Anomaly::UnknownValue { value: 7, .. }
    ));
    let twice = [beside(&[append('x', 1)]), beside(&[append('x', 1)])];
    assert!(matches!(
        anomaly(&twice),
        Anomaly::DuplicateAppend { value: 1, .. }
    ));
}

#[test]
fn an_unknown_commit_counts_once_somebody_read_it() {
    // Its append to y was read, so that its append to x is there as well, and later reads must show
    // it.
    let history = [
        unknown(&[append('x', 1), append('y', 2)]),
        within(0, 10, &[read('y', &[2])]),
        within(11, 20, &[read('x', &[])]),
    ];
    assert!(check_serial(&history[..2]).is_ok());
    assert_eq!(kind(&history), CycleKind::RealTime);
}

/// How the small database runs its transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manners {
    /// Each takes effect at one moment between its start and its end.
    Serializable,
    /// Each reads at its start and appends at its end, to what is there then.
    Snapshot,
}

/// Runs transactions of given starts and lengths; each reads two keys and appends to one.
fn run(manners: Manners, plans: &[(u64, u64, [usize; 2], bool)]) -> Vec<Txn> {
    const KEYS: [char; 3] = ['a', 'b', 'c'];
    let mut events: Vec<(u64, usize, bool)> = Vec::new();
    for (at, (start, length, ..)) in plans.iter().enumerate() {
        let middle = 2 * start + length;
        let reads = match manners {
            Manners::Serializable => middle,
            Manners::Snapshot => 2 * start,
        };
        let appends = match manners {
            Manners::Serializable => middle,
            Manners::Snapshot => 2 * (start + length),
        };
        events.push((reads, at, false));
        events.push((appends, at, true));
    }
    // Stable: of one transaction, the reads come before the append.
    events.sort_by_key(|(time, at, _)| (*time, *at));
    let mut lists: BTreeMap<char, Vec<u64>> = BTreeMap::new();
    let mut ops: Vec<Vec<ListOp<char>>> = vec![Vec::new(); plans.len()];
    for (_, at, appends) in events {
        let (_, _, keys, writes) = plans[at];
        if !appends {
            for key in keys {
                let list = lists.get(&KEYS[key]).cloned().unwrap_or_default();
                ops[at].push(ListOp::Read(KEYS[key], list));
            }
        } else if writes {
            lists.entry(KEYS[keys[0]]).or_default().push(at as u64);
            ops[at].push(append(KEYS[keys[0]], at as u64));
        }
    }
    plans
        .iter()
        .zip(ops)
        .map(|((start, length, ..), ops)| within(2 * start, 2 * (start + length), &ops))
        .collect()
}

proptest! {
    #[test]
    fn accepts_all_that_a_serializable_database_does(
        plans in proptest::collection::vec((0_u64..40, 0_u64..9, [0_usize..3, 0_usize..3], any::<bool>()), 0..40),
    ) {
        let history = run(Manners::Serializable, &plans);
        prop_assert!(check_serial(&history).is_ok(), "{:?}", check_serial(&history));
    }

    /// Two transactions beside each other that read the same key and append to it are always
    /// caught.
    #[test]
    fn catches_lost_updates_of_snapshots(
        plans in proptest::collection::vec((0_u64..40, 0_u64..9, [0_usize..3, 0_usize..3], any::<bool>()), 0..20),
        start in 0_u64..40,
    ) {
        let mut plans = plans;
        plans.push((start, 4, [0, 1], true));
        plans.push((start + 1, 4, [0, 2], true));
        let history = run(Manners::Snapshot, &plans);
        prop_assert!(check_serial(&history).is_err());
    }
}

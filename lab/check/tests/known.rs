//! Histories whose verdict is known.

mod common;

use common::{INSERTED, Op, REPLACED, Ret, Table, accepted, rejected, run};
use farslot_check::{
    History, OperationFate, Recorder, RegisterMap, SequentialModel, Summary, TableOp, TableRet,
    check,
};

#[test]
fn nothing_at_all() {
    assert_eq!(accepted(&History::new()), Summary::default());
}

#[test]
fn one_client_in_order() {
    let mut history = History::new();
    let steps = [
        (TableOp::Get, TableRet::Got(None)),
        (TableOp::Update(1), TableRet::Updated(false)),
        (TableOp::Remove, TableRet::Removed(false)),
        (TableOp::FindOrPut(2), TableRet::Inserted),
        (TableOp::FindOrPut(3), TableRet::Found(2)),
        (TableOp::Put(4), REPLACED),
        (TableOp::Get, TableRet::Got(Some(4))),
        (TableOp::Update(5), TableRet::Updated(true)),
        (TableOp::Get, TableRet::Got(Some(5))),
        (TableOp::Remove, TableRet::Removed(true)),
        (TableOp::Put(6), TableRet::Put { inserted: None }),
        (TableOp::Get, TableRet::Got(Some(6))),
    ];
    // No virtual time passes: the order of recording is the client's.
    for (op, ret) in steps.clone() {
        run(&mut history, 0, op, ret, 5, 5);
    }
    let summary = accepted(&history);
    assert_eq!(
        (summary.keys, summary.returned, summary.unknown),
        (1, 12, 0)
    );
    // In any other place the last read is wrong.
    let mut history = History::new();
    run(&mut history, 0, TableOp::Get, TableRet::Got(Some(6)), 5, 5);
    for (op, ret) in steps {
        run(&mut history, 0, op, ret, 5, 5);
    }
    rejected(&history);
}

#[test]
fn equal_times_of_two_clients_overlap() {
    let mut history = History::new();
    run(&mut history, 0, TableOp::Put(1), INSERTED, 0, 5);
    run(&mut history, 1, TableOp::Get, TableRet::Got(None), 5, 9);
    accepted(&history);
}

#[test]
fn stale_read() {
    let mut history = History::new();
    run(&mut history, 0, TableOp::Put(1), INSERTED, 0, 5);
    run(&mut history, 0, TableOp::Put(2), REPLACED, 10, 20);
    run(
        &mut history,
        1,
        TableOp::Get,
        TableRet::Got(Some(1)),
        15,
        30,
    );
    accepted(&history);
    run(
        &mut history,
        1,
        TableOp::Get,
        TableRet::Got(Some(1)),
        40,
        50,
    );
    rejected(&history);
}

#[test]
fn lost_update() {
    let mut history = History::new();
    run(&mut history, 0, TableOp::Put(1), INSERTED, 0, 5);
    run(
        &mut history,
        0,
        TableOp::Update(2),
        TableRet::Updated(true),
        10,
        30,
    );
    run(
        &mut history,
        1,
        TableOp::Update(3),
        TableRet::Updated(true),
        10,
        30,
    );
    run(
        &mut history,
        2,
        TableOp::Get,
        TableRet::Got(Some(2)),
        40,
        50,
    );
    accepted(&history);
    // Now the first of the two is seen after the second.
    run(
        &mut history,
        2,
        TableOp::Get,
        TableRet::Got(Some(3)),
        60,
        70,
    );
    rejected(&history);
}

#[test]
fn two_inserts_of_one_key() {
    for op in [TableOp::FindOrPut(1), TableOp::Put(1)] {
        let ret = if op == TableOp::Put(1) {
            INSERTED
        } else {
            TableRet::Inserted
        };
        let mut history = History::new();
        run(&mut history, 0, op.clone(), ret.clone(), 0, 10);
        run(&mut history, 1, op, ret, 5, 15);
        let violation = rejected(&history);
        assert_eq!(violation.rows.len(), 2);
        assert!(violation.rows.iter().all(|row| row.essential));
        // A removal in between explains them, also one that never returned.
        history.invoke(2, 7, TableOp::Remove, 3);
        accepted(&history);
    }
}

#[test]
fn removed_value_is_seen() {
    let mut history = History::new();
    run(&mut history, 0, TableOp::Put(1), INSERTED, 0, 10);
    run(
        &mut history,
        1,
        TableOp::Remove,
        TableRet::Removed(true),
        20,
        30,
    );
    run(
        &mut history,
        2,
        TableOp::Get,
        TableRet::Got(Some(1)),
        35,
        45,
    );
    rejected(&history);
}

#[test]
fn pending_operation_explains_a_read() {
    let mut history = History::new();
    run(&mut history, 0, TableOp::Get, TableRet::Got(None), 0, 10);
    let put = history.invoke(1, 7, TableOp::Put(1), 5);
    run(&mut history, 0, TableOp::Get, TableRet::Got(None), 15, 20);
    run(
        &mut history,
        0,
        TableOp::Get,
        TableRet::Got(Some(1)),
        25,
        30,
    );
    assert_eq!(accepted(&history).unknown, 1);
    // It took effect before the clock got there.
    let mut completed = history.clone();
    completed.complete(put, INSERTED, 18);
    run(&mut completed, 2, TableOp::Get, TableRet::Got(None), 19, 22);
    rejected(&completed);
    // What was seen cannot be unseen.
    run(&mut history, 2, TableOp::Get, TableRet::Got(None), 35, 40);
    let violation = rejected(&history);
    assert!(
        violation
            .rows
            .iter()
            .any(|row| row.fate == OperationFate::Pending)
    );
    assert_eq!(violation.rows.iter().filter(|row| row.essential).count(), 2);
}

#[test]
fn pending_operation_has_no_effect_before_its_invocation() {
    let mut history = History::new();
    run(&mut history, 0, TableOp::Get, TableRet::Got(Some(1)), 0, 10);
    history.invoke(1, 7, TableOp::Put(1), 11);
    rejected(&history);
    history.invoke(2, 7, TableOp::Put(1), 10);
    accepted(&history);
}

#[test]
fn failed_operations() {
    let failed = |no_effect: bool, then: Option<u32>| {
        let mut history = History::new();
        let put = history.invoke(0, 7, TableOp::Put(1), 0);
        if no_effect {
            history.no_effect(put, 10)
        } else {
            history.in_doubt(put, 10)
        }
        run(&mut history, 0, TableOp::Get, TableRet::Got(None), 20, 30);
        run(&mut history, 0, TableOp::Get, TableRet::Got(then), 40, 50);
        history
    };
    assert_eq!(accepted(&failed(true, None)).ignored, 1);
    rejected(&failed(true, Some(1)));
    assert_eq!(accepted(&failed(false, None)).unknown, 1);
    accepted(&failed(false, Some(1)));
}

#[test]
fn keys_are_apart_and_may_have_values_at_first() {
    let table: RegisterMap<u64, u32> = [(1, 10), (2, 20)].into_iter().collect();
    let mut history = History::new();
    for (key, value) in [(1, Some(10)), (2, Some(20)), (3, None)] {
        let get = history.invoke(0, key, TableOp::Get, 0);
        history.complete(get, TableRet::Got(value), 10);
    }
    assert_eq!(check(&history, &table).unwrap().keys, 3);
    let get = history.invoke(0, 2, TableOp::Get, 20);
    history.complete(get, TableRet::Got(Some(10)), 30);
    let error = check(&history, &table).unwrap_err();
    assert_eq!(error.violation().unwrap().key, "2");
}

#[test]
fn pending_operations_build_on_each_other() {
    let mut history = History::new();
    for op in [
        TableOp::Put(0),
        TableOp::Remove,
        TableOp::Update(1),
        TableOp::Put(2),
    ] {
        history.invoke(0, 7, op, 0);
    }
    run(&mut history, 1, TableOp::Get, TableRet::Got(Some(1)), 0, 2);
    run(&mut history, 1, TableOp::Get, TableRet::Got(Some(2)), 3, 3);
    accepted(&history);
    run(&mut history, 1, TableOp::Get, TableRet::Got(None), 4, 4);
    accepted(&history);
    run(&mut history, 1, TableOp::Get, TableRet::Got(Some(2)), 5, 5);
    rejected(&history);
}

#[test]
fn equal_pending_operations_of_two_clients() {
    let mut history = History::new();
    run(&mut history, 0, TableOp::Put(9), REPLACED, 0, 5);
    // Follows the other operation of its client, though no time passed.
    history.invoke(0, 7, TableOp::Put(1), 5);
    rejected(&history);
    // That of another client may come before.
    history.invoke(1, 7, TableOp::Put(1), 5);
    accepted(&history);
}

#[test]
fn threads_record_apart() {
    let recorded = |client: u32, op: Op, ret: Ret, start: u64| {
        let mut history = History::new();
        run(&mut history, client, op, ret, start, start + 10);
        history
    };
    let put = std::thread::spawn(move || recorded(0, TableOp::Put(1), INSERTED, 0));
    let get = std::thread::spawn(move || recorded(1, TableOp::Get, TableRet::Got(Some(1)), 5));
    let mut history = History::merge([get.join().unwrap(), put.join().unwrap()]);
    assert_eq!(history.len(), 2);
    accepted(&history);
    run(&mut history, 0, TableOp::Get, TableRet::Got(None), 20, 30);
    rejected(&history);
}

#[test]
fn tasks_share_a_recorder() {
    let recorder = Recorder::new();
    let other = recorder.clone();
    let put = recorder.invoke(0, 7, TableOp::Put(1), 0);
    let get = other.invoke(1, 7, TableOp::Get, 1);
    other.complete(get, TableRet::Got(Some(1)), 2);
    assert_eq!(recorder.with(History::len), 2);
    recorder.in_doubt(put, 3);
    accepted(&other.take());
    assert!(recorder.take().is_empty());
}

#[test]
#[should_panic(expected = "has an outcome already")]
fn operations_end_once() {
    let mut history = Table::new();
    let id = run(&mut history, 0, TableOp::Get, TableRet::Got(None), 0, 1);
    history.complete(id, TableRet::Got(None), 2);
}

/// Transfers between accounts: a specification whose operations touch several keys.
struct Bank;

#[derive(Clone, PartialEq, Debug)]
enum BankOp {
    Transfer(usize, usize),
    Balances,
}

impl SequentialModel for Bank {
    type Key = ();
    type State = [u8; 2];
    type Op = BankOp;
    type Ret = [u8; 2];

    fn init(&self, (): &()) -> [u8; 2] {
        [1, 1]
    }

    fn step(&self, state: &[u8; 2], op: &BankOp, ret: Option<&[u8; 2]>) -> Option<[u8; 2]> {
        let mut after = *state;
        if let BankOp::Transfer(from, to) = *op {
            after[from] = after[from].checked_sub(1)?;
            after[to] += 1;
        }
        ret.is_none_or(|ret| *ret == after).then_some(after)
    }
}

#[test]
fn other_models() {
    let mut history = History::new();
    let transfer = history.invoke(0, (), BankOp::Transfer(0, 1), 0);
    history.complete(transfer, [0, 2], 20);
    let audit = history.invoke(1, (), BankOp::Balances, 5);
    history.complete(audit, [1, 1], 10);
    check(&history, &Bank).unwrap();
    let audit = history.invoke(1, (), BankOp::Balances, 12);
    history.complete(audit, [0, 1], 15);
    let error = check(&history, &Bank).unwrap_err();
    assert!(error.to_string().contains("Balances -> [0, 1]"), "{error}");
}

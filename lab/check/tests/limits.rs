//! What a counterexample looks like, and what the search costs.

mod common;

use common::{INSERTED, REPLACED, accepted, rejected, run};
use farslot_check::{CheckError, Checker, History, RegisterMap, TableOp, TableRet};

#[test]
fn violation_is_shrunk_and_printed() {
    let mut history = History::new();
    for turn in 0..10 {
        let ret = if turn == 0 { INSERTED } else { REPLACED };
        run(
            &mut history,
            0,
            TableOp::Put(turn),
            ret,
            u64::from(turn) * 10,
            u64::from(turn) * 10 + 4,
        );
    }
    let stale = run(
        &mut history,
        1,
        TableOp::Get,
        TableRet::Got(Some(3)),
        52,
        58,
    );
    history.invoke(2, 7, TableOp::Remove, 56);
    let violation = rejected(&history);
    // The puts from 60 on are not part of it; of the others, two cannot be told from the text.
    assert_eq!(violation.recorded, 12);
    assert_eq!(violation.rows.len(), 8);
    let essential: Vec<_> = violation.rows.iter().filter(|row| row.essential).collect();
    assert!(essential.len() <= 3 && essential.iter().any(|row| row.op == stale));
    let text = violation.to_string();
    println!("{text}");
    assert!(text.contains("key 7 is not linearizable"));
    assert!(text.contains("client 1") && text.contains("[52..58]") && text.contains("get -> 3"));
    assert!(text.contains("remove -> never returned"));
    assert!(text.is_ascii() && text.lines().all(|line| line.len() < 120));
}

#[test]
fn long_violations_show_what_matters() {
    let mut history = History::new();
    for turn in 0..200 {
        let ret = if turn == 0 { INSERTED } else { REPLACED };
        run(
            &mut history,
            0,
            TableOp::Put(turn),
            ret,
            u64::from(turn) * 10,
            u64::from(turn) * 10 + 4,
        );
    }
    run(
        &mut history,
        1,
        TableOp::Get,
        TableRet::Got(None),
        1990,
        2000,
    );
    let text = rejected(&history).to_string();
    assert!(text.lines().count() < 40, "{text}");
    assert!(text.contains("others left out"), "{text}");
}

#[test]
fn search_is_bounded() {
    // Every subset of the puts is another point of the search, and none explains the read.
    let mut history = History::new();
    for client in 0..20 {
        run(
            &mut history,
            client,
            TableOp::Put(client),
            TableRet::Put { inserted: None },
            0,
            10,
        );
    }
    run(&mut history, 0, TableOp::Get, TableRet::Got(None), 20, 30);
    let error = Checker::new()
        .step_limit(5_000)
        .check(&history, &RegisterMap::new())
        .unwrap_err();
    assert!(
        matches!(&error, CheckError::Undecided(limit) if limit.operations == 21),
        "{error}"
    );
    // A key that fails for certain goes before one that is undecided.
    let get = history.invoke(0, 8, TableOp::Get, 40);
    history.complete(get, TableRet::Got(Some(1)), 50);
    let error = Checker::new()
        .step_limit(5_000)
        .check(&history, &RegisterMap::new())
        .unwrap_err();
    assert_eq!(error.violation().expect("key 8 fails").key, "8");
}

#[test]
fn many_operations_in_doubt_are_cheap() {
    let mut history = History::new();
    for client in 0..40 {
        let put = history.invoke(client, 7, TableOp::Put(client), 0);
        history.in_doubt(put, 10);
    }
    for turn in 0..40 {
        let start = 20 + u64::from(turn) * 10;
        run(
            &mut history,
            50,
            TableOp::Get,
            TableRet::Got(Some(39 - turn)),
            start,
            start + 5,
        );
    }
    assert!(accepted(&history).steps < 2_000);
    run(
        &mut history,
        50,
        TableOp::Get,
        TableRet::Got(Some(99)),
        900,
        910,
    );
    rejected(&history);
}

#[test]
fn long_histories_are_cheap() {
    let mut history = History::new();
    for turn in 0..20_000_u32 {
        let now = u64::from(turn) * 10;
        run(
            &mut history,
            turn % 3,
            TableOp::Put(turn),
            TableRet::Put { inserted: None },
            now,
            now + 15,
        );
        run(
            &mut history,
            4,
            TableOp::Get,
            TableRet::Got(Some(turn)),
            now + 6,
            now + 9,
        );
    }
    let summary = accepted(&history);
    assert!(summary.steps < 100_000, "{summary:?}");
}

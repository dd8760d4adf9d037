//! Generated histories: those of a real execution pass, and all are judged as brute force does.

use farslot_check::{
    Checker, History, Outcome, RegisterMap, SequentialModel, TableOp, TableRet, check,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

type Op = TableOp<u8>;
type Ret = TableRet<u8>;
type Table = History<u8, Op, Ret>;

fn op() -> impl Strategy<Value = Op> {
    let value = 0..3_u8;
    prop_oneof![
        3 => Just(TableOp::Get),
        2 => value.clone().prop_map(TableOp::Put),
        1 => value.clone().prop_map(TableOp::FindOrPut),
        1 => value.clone().prop_map(TableOp::Update),
        1 => (value.clone(), value.clone()).prop_map(|(old, new)| TableOp::Replace(old, new)),
        1 => Just(TableOp::Remove),
        1 => value.prop_map(TableOp::RemoveIf),
    ]
}

/// What an operation does to the state, and its result: written apart from the crate's model.
fn execute(state: &mut Option<u8>, op: &Op) -> Ret {
    let before = *state;
    match *op {
        TableOp::Get => TableRet::Got(before),
        TableOp::Put(value) => {
            *state = Some(value);
            TableRet::Put {
                inserted: Some(before.is_none()),
            }
        }
        TableOp::FindOrPut(value) => match before {
            Some(found) => TableRet::Found(found),
            None => {
                *state = Some(value);
                TableRet::Inserted
            }
        },
        TableOp::Update(value) => {
            *state = before.and(Some(value));
            TableRet::Updated(before.is_some())
        }
        TableOp::Replace(expected, value) => {
            let fits = before == Some(expected);
            if fits {
                *state = Some(value);
            }
            TableRet::Updated(fits)
        }
        TableOp::Remove => {
            *state = None;
            TableRet::Removed(before.is_some())
        }
        TableOp::RemoveIf(expected) => {
            let fits = before == Some(expected);
            if fits {
                *state = None;
            }
            TableRet::Removed(fits)
        }
    }
}

/// How an operation of an execution is reported.
#[derive(Clone, Copy, Debug)]
enum Report {
    Returned,
    /// It took effect, and nobody was told.
    Done,
    DoneInDoubt,
    /// It was invoked and nothing happened.
    NotDone,
    NotDoneInDoubt,
    NoEffect,
}

fn report() -> impl Strategy<Value = Report> {
    prop_oneof![
        20 => Just(Report::Returned),
        1 => Just(Report::Done),
        1 => Just(Report::DoneInDoubt),
        1 => Just(Report::NotDone),
        1 => Just(Report::NotDoneInDoubt),
        1 => Just(Report::NoEffect),
    ]
}

/// An operation of an execution: key, what, how reported, time before and after its effect.
type Step = (u8, Op, Report, u64, u64);

fn steps(keys: u8, count: usize, slack: u64) -> impl Strategy<Value = Vec<Step>> {
    vec((0..keys, op(), report(), 0..=slack, 0..=slack), 1..=count)
}

/// Runs the operations one after the other, each taking effect at its place within its interval,
/// by clients that run one operation at a time and stop if they do not hear back.
fn record(steps: &[Step]) -> Table {
    let mut history = History::new();
    let mut states = [None; 8];
    let mut free: Vec<Option<u64>> = Vec::new();
    for (place, (key, op, report, before, after)) in steps.iter().enumerate() {
        let place = place as u64 + 100;
        let (start, end) = (place - before, place + after);
        // Also a client that ended its last operation just now.
        let idle = free
            .iter()
            .position(|free| free.is_some_and(|free| free <= start));
        let client = idle.unwrap_or_else(|| {
            free.push(None);
            free.len() - 1
        });
        let id = history.invoke(client as u32, *key, op.clone(), start);
        free[client] = Some(end);
        let mut run = || execute(&mut states[usize::from(*key)], op);
        match report {
            Report::Returned => history.complete(id, run(), end),
            Report::Done => {
                run();
                free[client] = None;
            }
            Report::DoneInDoubt => {
                run();
                // The failure may be noticed before the effect.
                history.in_doubt(id, start);
            }
            Report::NotDone => free[client] = None,
            Report::NotDoneInDoubt => history.in_doubt(id, end),
            Report::NoEffect => history.no_effect(id, end),
        }
    }
    history
}

/// The same history with one operation's result or time changed.
fn mutate(history: &Table, which: usize, ret: Ret, shift: (u64, u64)) -> Table {
    let mut mutated = History::new();
    for (place, entry) in history.entries().iter().enumerate() {
        let hit = place == which % history.len();
        let (early, late) = if hit { shift } else { (0, 0) };
        let id = mutated.invoke(
            entry.client,
            entry.key,
            entry.op.clone(),
            entry.start + early,
        );
        match entry.outcome.clone() {
            Outcome::Pending => {}
            Outcome::Returned { end, .. } if hit && early == 0 => {
                mutated.complete(id, ret.clone(), end + late);
            }
            Outcome::Returned { ret, end } => mutated.complete(id, ret, end + early + late),
            Outcome::InDoubt { end } => mutated.in_doubt(id, end + early),
            Outcome::NoEffect { end } => mutated.no_effect(id, end + early),
        }
    }
    mutated
}

/// Tries all orders of all operations with a result and any of the others.
fn brute_force(history: &Table, taken: &mut Vec<usize>, state: Option<u8>) -> bool {
    let entries = history.entries();
    let end_of = |place: usize| match &entries[place].outcome {
        Outcome::Returned { end, .. } => Some(*end),
        _ => None,
    };
    let left: Vec<usize> = (0..entries.len())
        .filter(|place| !taken.contains(place))
        .collect();
    if left.iter().all(|&place| end_of(place).is_none()) {
        return true;
    }
    left.iter().any(|&place| {
        let entry = &entries[place];
        // Operations were recorded whole, one after the other: so were each client's.
        let precedes = |other: &usize| {
            let same = entries[*other].client == entry.client && *other < place;
            end_of(*other).is_some_and(|end| end < entry.start || same && end == entry.start)
        };
        if left.iter().any(precedes) {
            return false;
        }
        let mut after = state;
        let result = execute(&mut after, &entry.op);
        let fits = match &entry.outcome {
            Outcome::Returned { ret, .. } => *ret == result,
            Outcome::NoEffect { .. } => false,
            _ => true,
        };
        if !fits {
            return false;
        }
        taken.push(place);
        let explained = brute_force(history, taken, after);
        taken.pop();
        explained
    })
}

fn ret() -> impl Strategy<Value = Ret> {
    let value = 0..3_u8;
    prop_oneof![
        4 => proptest::option::of(value.clone()).prop_map(TableRet::Got),
        2 => any::<bool>().prop_map(|new| TableRet::Put { inserted: Some(new) }),
        1 => value.prop_map(TableRet::Found),
        1 => Just(TableRet::Inserted),
        1 => any::<bool>().prop_map(TableRet::Updated),
        1 => any::<bool>().prop_map(TableRet::Removed),
    ]
}

/// Judges as `check` does, after making sure that a counterexample is one.
fn judge(history: &Table) -> bool {
    let model = RegisterMap::new();
    let error = match check(history, &model) {
        Ok(_) => return true,
        Err(error) => error,
    };
    let violation = error.violation().expect("small histories are decided");
    // The essential results alone contradict each other, and each is needed: any other known
    // result is forgotten.
    let mut core = History::new();
    for row in &violation.rows {
        let entry = &history.entries()[row.op.index()];
        let id = core.invoke(entry.client, entry.key, entry.op.clone(), entry.start);
        if let Outcome::Returned { ret, end } = &entry.outcome
            && row.essential
        {
            core.complete(id, ret.clone(), *end);
        }
    }
    assert!(
        !brute_force(&core, &mut Vec::new(), None),
        "not a counterexample:\n{violation}"
    );
    assert!(violation.to_string().is_ascii());
    false
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn executions_are_accepted(steps in steps(4, 120, 8)) {
        let summary = check(&record(&steps), &RegisterMap::new());
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }

    #[test]
    fn executions_of_one_hot_key_are_accepted(steps in steps(1, 60, 6)) {
        let summary = check(&record(&steps), &RegisterMap::new());
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}

proptest! {
    #![proptest_config(cases(8192))]

    #[test]
    fn mutants_are_judged_as_brute_force_does(
        steps in steps(1, 7, 4),
        which in any::<prop::sample::Index>(),
        ret in ret(),
        shift in (0..6_u64, 0..3_u64),
    ) {
        let history = record(&steps);
        let mutant = mutate(&history, which.index(history.len()), ret, shift);
        prop_assert_eq!(judge(&mutant), brute_force(&mutant, &mut Vec::new(), None));
    }

    #[test]
    fn any_history_is_judged_as_brute_force_does(
        operations in vec((op(), ret(), 0..3_u32, 0..8_u64, 0..6_u64, 0..3_u8), 0..=6),
    ) {
        let mut history = History::new();
        for (op, ret, client, start, length, fate) in operations {
            // Results of the operation's kind, most of the time.
            let ret = match (&op, ret) {
                (TableOp::Get, TableRet::Found(value)) => TableRet::Got(Some(value)),
                (TableOp::FindOrPut(_), TableRet::Got(Some(value))) => TableRet::Found(value),
                (TableOp::FindOrPut(_), TableRet::Put { .. }) => TableRet::Inserted,
                (op, ret) => {
                    let model = RegisterMap::<u8, u8>::new();
                    let fits = |state: &Option<u8>| model.step(state, op, Some(&ret)).is_some();
                    if fits(&None) || [0, 1, 2].iter().any(|value| fits(&Some(*value))) {
                        ret
                    } else {
                        execute(&mut Some(1), op)
                    }
                }
            };
            let id = history.invoke(client, 0, op, start);
            match fate {
                0 => {}
                _ => history.complete(id, ret, start + length),
            }
        }
        prop_assert_eq!(judge(&history), brute_force(&history, &mut Vec::new(), None));
    }
}

/// Both verdicts are common among the histories above, and checks stay cheap.
#[test]
fn mutants_of_realistic_histories_are_decided() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = (steps(2, 60, 8), any::<usize>(), ret(), (0..6_u64, 0..3_u64));
    let (mut accepted, mut rejected, mut most) = (0, 0, 0);
    for _ in 0..1000 {
        let (steps, which, ret, shift) = strategy.new_tree(&mut runner).unwrap().current();
        let mutant = mutate(&record(&steps), which, ret, shift);
        match Checker::new()
            .step_limit(50_000)
            .check(&mutant, &RegisterMap::new())
        {
            Ok(summary) => {
                accepted += 1;
                most = most.max(summary.steps);
            }
            Err(error) => {
                assert!(error.violation().is_some(), "{error}");
                rejected += 1;
            }
        }
    }
    println!("{accepted} accepted with at most {most} steps, {rejected} rejected");
    assert!(
        accepted > 50 && rejected > 50,
        "{accepted} accepted, {rejected} rejected"
    );
}

//! The models in Rust: known numbers of states, and broken variants that are found out.

use crate::oracle;
use farslot_explore::explicit::{Options, Progress};
use farslot_explore::models::{
    Algorithm, Filter, ModelNet, MutualExclusion, NameError, Named, NamedExplored, TwoPhase,
};
use farslot_explore::symbolic::{SymbolicOptions, explore_symbolically};

fn explored(name: &str, threads: usize) -> NamedExplored {
    let options = Options {
        threads: threads.try_into().unwrap(),
        check_invariant: true,
        ..Options::default()
    };
    let model: Named = name.parse().unwrap();
    model.explore(&options, None, &Progress::default()).unwrap()
}

#[test]
fn models_have_the_known_numbers_of_states() {
    for threads in [1, 2, 4] {
        for (name, states, depth) in [
            ("puzzle:3x3", 181_440, Some(31)),
            ("puzzle:2x2", 12, Some(6)),
            ("2pc:3", 288, None),
            ("2pc:5", 8832, None),
        ] {
            let NamedExplored { explored, trace } = explored(name, threads);
            assert_eq!((explored.states, trace), (states, None), "{name}");
            assert!(
                depth.is_none_or(|depth| explored.depth == depth),
                "{name}: {explored:?}"
            );
        }
    }
}

/// Symbolic exploration finds what explicit exploration finds, and paths of the same length.
#[test]
fn models_as_nets_have_the_same_numbers() {
    for name in [
        "puzzle:2x2",
        "puzzle:1x5",
        "puzzle:2x3",
        "puzzle:4x1",
        "peterson",
        "peterson-broken",
        "peterson:2",
        "peterson:3",
        "dekker",
        "dekker-broken",
        "philosophers:2",
        "philosophers:3",
        "philosophers:7",
        "2pc:1",
        "2pc:3",
        "2pc:5",
        "2pc-broken:1",
        "2pc-broken:3",
    ] {
        let NamedExplored { explored, trace } = explored(name, 1);
        let ModelNet { net, invariant } = name.parse::<Named>().unwrap().as_net(name);
        let (options, progress) = (SymbolicOptions::default(), Progress::default());
        let found = explore_symbolically(&net, invariant.as_ref(), &options, &progress).unwrap();
        let path = found.violation.map(|violation| violation.path.unwrap());
        assert_eq!(
            path.map(|path| path.len()),
            trace.map(|trace| trace.len()),
            "{name}"
        );
        assert_eq!(found.tokens.in_place, 1, "{name}");
        // Explicit exploration ends at a violation.
        let plain = oracle::explore(&net, usize::MAX).unwrap();
        if explored.violation.is_none() {
            assert_eq!(plain.states, explored.states, "{name}");
            assert_eq!(plain.transitions, explored.transitions, "{name}");
            assert_eq!(plain.deadlocks, explored.deadlocks, "{name}");
            assert_eq!(plain.depth, explored.depth, "{name}");
        }
        assert_eq!(found.states, plain.states.into(), "{name}");
        assert_eq!(found.transitions, plain.transitions.into(), "{name}");
        assert_eq!(found.deadlocks, plain.deadlocks.into(), "{name}");
        let ids = net.transitions().iter().map(|transition| &transition.id);
        let different: std::collections::HashSet<&String> = ids.collect();
        assert_eq!(different.len(), net.transitions().len(), "{name}");
    }
}

/// For two processes the algorithm for any number is the one for two.
#[test]
fn peterson_for_any_number_of_processes_keeps_them_apart() {
    let (two, any) = (explored("peterson", 1), explored("peterson:2", 1));
    let numbers = |found: &NamedExplored| (found.explored.states, found.explored.transitions);
    assert_eq!(numbers(&two), numbers(&any));
    for processes in [3, 4] {
        let found = explored(&format!("peterson:{processes}"), 2);
        assert_eq!((found.trace, found.explored.deadlocks), (None, 0));
        let model = Filter::new(processes).unwrap();
        assert_eq!(oracle::nearest_violation(&model), None);
    }
}

#[test]
fn philosophers_who_all_take_their_left_fork_first_have_one_deadlock() {
    for (name, states) in [("philosophers:4", 34), ("philosophers:12", 39_202)] {
        let found = explored(name, 2).explored;
        assert_eq!((found.states, found.deadlocks), (states, 1), "{name}");
    }
}

#[test]
fn broken_algorithms_are_found_out_by_a_shortest_trace() {
    let steps = |name: &str| explored(name, 2).trace.map(|trace| trace.len() as u64 - 1);
    let nearest = |algorithm| oracle::nearest_violation(&MutualExclusion::new(algorithm));
    for (name, expected) in [
        ("peterson", nearest(Algorithm::Peterson)),
        ("peterson-broken", nearest(Algorithm::PetersonTurnFirst)),
        ("dekker", nearest(Algorithm::Dekker)),
        ("dekker-broken", nearest(Algorithm::DekkerTestFirst)),
        (
            "2pc:4",
            oracle::nearest_violation(&TwoPhase::new(4, false).unwrap()),
        ),
        (
            "2pc-broken:4",
            oracle::nearest_violation(&TwoPhase::new(4, true).unwrap()),
        ),
    ] {
        assert_eq!(expected.is_some(), name.contains("broken"), "{name}");
        assert_eq!(steps(name), expected, "{name}");
    }
}

#[test]
fn names_that_are_no_models_are_refused() {
    for name in [
        "",
        "puzzle",
        "puzzle:3",
        "puzzle:3x",
        "2pc",
        "dekker:2",
        "peterson:two",
        "philosophers:-1",
    ] {
        assert!(
            matches!(name.parse::<Named>(), Err(NameError::Unknown(_))),
            "{name}"
        );
    }
    for name in [
        "puzzle:5x5",
        "puzzle:0x4",
        "puzzle:99999999999x99999999999",
        "2pc:0",
        "peterson:8",
        "philosophers:1",
    ] {
        assert!(
            matches!(name.parse::<Named>(), Err(NameError::Size(_))),
            "{name}"
        );
    }
}

//! Conditions of symbolic exploration: the same answers as those of explicit exploration, and paths
//! that can be gone.

use crate::agreement::{processes, small_net, symbolic_options};
use crate::nets::{from_lines, kanban, manufacturing, net, philosophers, stocks};
use crate::oracle;
use crate::ranks::in_jobs;
use farslot_explore::explicit::{Options, Progress, explore_net};
use farslot_explore::formula::Formula;
use farslot_explore::net::Net;
use farslot_explore::symbolic::{
    MarkingViolation, SymbolicallyExplored, explore_symbolically, explore_symbolically_together,
    share_memory,
};
use farslot_explore::{ExploreError, Terms};
use proptest::prelude::*;

fn checked(net: &Net, condition: &Formula, threads: usize, memory: u64) -> SymbolicallyExplored {
    let options = symbolic_options(threads, memory);
    explore_symbolically(net, Some(condition), &options, &Progress::default()).unwrap()
}

/// Steps of a shortest path to a marking that violates the condition, as explicit exploration finds
/// it.
fn nearest(net: &Net, condition: &Formula) -> Option<usize> {
    let options = Options {
        threads: 2.try_into().unwrap(),
        ..Options::default()
    };
    let found = explore_net(net, Some(condition), &options, None, &Progress::default());
    found.unwrap().0.violation.map(|steps| steps.len() - 1)
}

/// The steps of a violation's path, each of which the net can go, from the initial marking to the
/// first one that violates the condition.
fn steps(net: &Net, condition: &Formula, violation: &MarkingViolation) -> usize {
    let path = violation.path.as_ref().unwrap();
    let violates = |marking: &[u32]| !condition.holds(&|place| u64::from(marking[place]));
    assert_eq!(path[0].transition, None);
    assert_eq!(path[0].marking, net.initial());
    for pair in path.windows(2) {
        assert!(!violates(&pair[0].marking));
        let transition = &net.transitions()[pair[1].transition.unwrap()];
        let mut marking = pair[0].marking.clone();
        for arc in &transition.takes {
            marking[arc.place] = marking[arc.place].checked_sub(arc.weight).unwrap();
        }
        for arc in &transition.puts {
            marking[arc.place] += arc.weight;
        }
        assert_eq!(marking, pair[1].marking);
    }
    let last = path.last().unwrap();
    assert!(violates(&last.marking));
    assert_eq!(last.marking, violation.marking);
    path.len() - 1
}

fn agrees(net: &Net, text: &str, threads: usize) {
    let condition = Formula::parse(text, net).unwrap();
    let found = checked(net, &condition, threads, 1 << 30);
    let violation = found.violation.as_ref();
    let steps = violation.map(|violation| steps(net, &condition, violation));
    assert_eq!(steps, nearest(net, &condition), "{text}");
}

#[test]
fn conditions_are_answered_as_explicit_exploration_does() {
    let conditions = [
        (philosophers(5), "eat0 + eat1 <= 1"),
        (philosophers(5), "eat0 + eat2 < 2"),
        (philosophers(5), "think0 = 0"),
        (
            philosophers(5),
            "not (left0 = 1 and left1 = 1 and left2 = 1 and left3 = 1 and left4 = 1)",
        ),
        (
            philosophers(4),
            "fork0 + fork1 + fork2 + fork3 >= eat0 + eat1",
        ),
        (kanban(2), "o1 + o2 + o3 + o4 < 8"),
        (kanban(2), "b1 + m1 + o1 + p1 = 2 and b4 + m4 + o4 + p4 = 2"),
        (manufacturing(2), "P3s + P1s + P2s < 6"),
        (
            manufacturing(2),
            "not (P12s >= 1 and M3 = 3) or P2wP1 + 2*P1 != 4",
        ),
        (manufacturing(2), "P1 = P2 + 100 or P1 <= 2"),
        (manufacturing(2), "P1 < 2"),
        (stocks(2), "stock0 + 3 > 2147483648"),
        (
            stocks(2),
            "stock0 + left1 <= 2147483648 + given0 or stock1 + given1 = 2147483648",
        ),
    ];
    for (net, text) in conditions {
        for threads in [1, 3] {
            agrees(&net, text, threads);
        }
    }
}

#[test]
fn processes_of_a_job_answer_alike() {
    let net = manufacturing(2);
    let condition = Formula::parse("P3s + P1s + P2s < 6", &net).unwrap();
    let found = in_jobs(3, |mut job| {
        let terms = Terms::of_net(&net, Some("--invariant"));
        let memory = share_memory(&mut job, &symbolic_options(2, 1 << 28), terms).unwrap();
        let progress = Progress::default();
        let found = explore_symbolically_together(&net, Some(&condition), &memory, &progress);
        job.barrier().unwrap();
        found.unwrap()
    });
    let violation = found[0].as_ref().unwrap().violation.as_ref().unwrap();
    assert_eq!(
        Some(steps(&net, &condition, violation)),
        nearest(&net, &condition)
    );
}

/// 10^23 markings, none of which is visited but those on the path.
#[test]
fn a_marking_among_more_than_can_be_visited_is_reached_by_a_shortest_path() {
    let net = philosophers(50);
    let goal = Formula::parse("not (eat0 = 1 and eat20 = 1 and eat40 = 1)", &net).unwrap();
    let found = checked(&net, &goal, 1, 1 << 28);
    assert_eq!(found.states.to_string(), "717897987691852588770249");
    assert_eq!(steps(&net, &goal, &found.violation.unwrap()), 6);
    let holds = Formula::parse("eat0 + eat1 <= 1 and left7 + right7 + eat7 <= 1", &net).unwrap();
    assert_eq!(checked(&net, &holds, 1, 1 << 28).violation, None);
}

#[test]
fn a_marking_of_an_unbounded_net_is_found_all_the_same() {
    let spring = [("spring".to_owned(), vec![], vec!["pool".to_owned()])];
    let spring = net("spring", &[], &spring);
    let few = Formula::parse("pool < 7", &spring).unwrap();
    let found = checked(&spring, &few, 2, 1 << 28);
    assert_eq!(found.states, 8_u8.into());
    assert_eq!(steps(&spring, &few, &found.violation.unwrap()), 7);
    let any = Formula::parse("pool + 1 > pool", &spring).unwrap();
    let options = symbolic_options(1, 4 << 20);
    let end = explore_symbolically(&spring, Some(&any), &options, &Progress::default());
    assert!(matches!(end, Err(ExploreError::Unbounded { place }) if place == "pool"));
    // One that no walk sees to be so.
    let late = from_lines(
        "late",
        &[("p0", 1)],
        "a: p0 > p1 \n b: p1 > p0 \n c: p1 > p2 \n d: p2 > p0 \n e: p2 > p3 \n f: p3 > p4 \n \
         g: p3 > p0 \n h: p4 > p0 \n i: p4 > p5 pool \n j: p5 > p4",
    );
    let few = Formula::parse("pool <= 3", &late).unwrap();
    let found = checked(&late, &few, 1, 1 << 28);
    assert_eq!(steps(&late, &few, &found.violation.unwrap()), 11);
}

/// All markings take more nodes than there is memory for, but not those near the initial one.
#[test]
fn a_near_marking_is_found_where_all_of_them_are_too_many() {
    let net = manufacturing(50);
    let near = Formula::parse("P1wM1 + P3M2 + P2wM2 < 3", &net).unwrap();
    let found = checked(&net, &near, 1, 4 << 20);
    assert_eq!(steps(&net, &near, &found.violation.unwrap()), 3);
    let far = Formula::parse("P12s + P1s + P2s < 1000", &net).unwrap();
    let options = symbolic_options(1, 4 << 20);
    let end = explore_symbolically(&net, Some(&far), &options, &Progress::default());
    assert!(
        matches!(end, Err(ExploreError::OutOfMemory { .. })),
        "{end:?}"
    );
}

/// The markings of all layers take far more nodes than all markings at once.
#[test]
fn a_marking_without_a_path_within_the_memory_is_told_without_one() {
    let net = kanban(30);
    let condition = Formula::parse("o4 + o3 + o2 + o1 < 120", &net).unwrap();
    let found = checked(&net, &condition, 1, 8 << 20);
    let violation = found.violation.unwrap();
    assert_eq!(violation.path, None);
    let full = |place: usize| net.places()[place].id.starts_with('o');
    let expected = (0..net.places().len()).map(|place| if full(place) { 30 } else { 0 });
    assert!(violation.marking.into_iter().eq(expected));
}

/// A comparison of a sum of places, by their numbers, with another.
type RandomComparison = (Vec<(usize, u32)>, usize, u32, usize, bool);

fn parts() -> impl Strategy<Value = Vec<RandomComparison>> {
    let sum = prop::collection::vec((0..8_usize, 1..4_u32), 1..4);
    let part = (sum, 0..6_usize, 0..6_u32, 0..8_usize, any::<bool>());
    prop::collection::vec(part, 1..4)
}

/// The text of a condition over a net's places, which its initial marking meets.
fn text_of(net: &Net, parts: &[RandomComparison]) -> String {
    // Without those that nothing but the length of a marking needs.
    let places = net.places().iter().map(|place| &place.id);
    let places: Vec<&String> = places.filter(|id| id.starts_with('p')).collect();
    let place = |number: &usize| places[number % places.len()];
    let signs = ["<", "<=", "=", "!=", ">=", ">"];
    let mut text = String::from("0 = 1");
    for (number, (sum, sign, constant, right, is_other)) in parts.iter().enumerate() {
        let sum = sum
            .iter()
            .map(|(at, factor)| format!("{factor}*{}", place(at)));
        let sum = sum.collect::<Vec<_>>().join(" + ");
        let right = match number % 2 {
            0 => constant.to_string(),
            _ => format!("{constant} + {}", place(right)),
        };
        let join = if *is_other && number > 0 {
            "and not"
        } else {
            "or"
        };
        text = format!("({text}) {join} {sum} {} {right}", signs[*sign]);
    }
    let initial = net.initial();
    let formula = Formula::parse(&text, net).unwrap();
    match formula.holds(&|place| u64::from(initial[place])) {
        true => text,
        false => format!("not ({text})"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 768, ..ProptestConfig::default() })]

    #[test]
    fn random_conditions_of_random_nets_are_answered_alike(
        net in small_net(), parts in parts(), threads in 1..3_usize,
    ) {
        if oracle::explore(&net, 3000).is_some() {
            agrees(&net, &text_of(&net, &parts), threads);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_conditions_of_processes_are_answered_alike(
        net in processes(), parts in parts(),
    ) {
        if oracle::explore(&net, 1000).is_some() {
            agrees(&net, &text_of(&net, &parts), 1);
        }
    }
}

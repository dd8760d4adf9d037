//! Both ways to explore find what the plainest way finds, and what is known.

use crate::nets::{flags, from_lines, kanban, manufacturing, net, philosophers, stocks};
use crate::oracle::{self, Plain};
use farslot_explore::ExploreError;
use farslot_explore::explicit::{Explored, Options, Progress, explore, explore_net};
use farslot_explore::formula::Formula;
use farslot_explore::model::{Model, Successors};
use farslot_explore::net::Net;
use farslot_explore::packed::PackedNet;
use farslot_explore::symbolic::{SymbolicOptions, SymbolicallyExplored, explore_symbolically};
use proptest::prelude::*;

fn options(threads: usize) -> Options {
    Options {
        threads: threads.try_into().unwrap(),
        ..Options::default()
    }
}

fn explicitly(net: &Net, threads: usize) -> Explored {
    let explored = explore_net(net, None, &options(threads), None, &Progress::default());
    explored.unwrap().0
}

pub fn symbolic_options(threads: usize, memory: u64) -> SymbolicOptions {
    SymbolicOptions {
        threads: threads.try_into().unwrap(),
        memory,
    }
}

fn symbolically(net: &Net, threads: usize) -> SymbolicallyExplored {
    let options = symbolic_options(threads, 1 << 30);
    explore_symbolically(net, None, &options, &Progress::default()).unwrap()
}

fn numbers(explored: &Explored) -> Plain {
    Plain {
        states: explored.states,
        transitions: explored.transitions,
        deadlocks: explored.deadlocks,
        depth: explored.depth,
        tokens: explored.tokens.unwrap(),
    }
}

fn all_ways_agree(net: &Net, plain: &Plain) {
    for threads in [1, 3] {
        assert_eq!(
            numbers(&explicitly(net, threads)),
            *plain,
            "{threads} threads"
        );
    }
    for threads in [1, 3] {
        let symbolic = symbolically(net, threads);
        assert_eq!(symbolic.states, plain.states.into());
        assert_eq!(symbolic.transitions, plain.transitions.into());
        assert_eq!(symbolic.deadlocks, plain.deadlocks.into());
        assert_eq!(symbolic.tokens, plain.tokens);
    }
}

#[test]
fn known_nets_have_the_known_numbers_of_markings() {
    let nets = [
        (philosophers(2), 9),
        (philosophers(7), 2187),
        (kanban(1), 160),
        (kanban(2), 4600),
        (manufacturing(1), 120),
        (manufacturing(2), 3444),
        (flags(5), 0),
    ];
    for (net, known) in nets {
        let plain = oracle::explore(&net, usize::MAX).unwrap();
        assert!(
            known == 0 || plain.states == known,
            "{}: {plain:?}",
            net.name()
        );
        all_ways_agree(&net, &plain);
    }
}

/// Kanban with 10 cards has 1,005,927,208 markings (Ciardo, Luettgen and Siminiscu, TACAS 2001).
#[test]
fn numbers_beyond_what_can_be_visited_are_exact() {
    assert_eq!(
        symbolically(&kanban(10), 2).states,
        1_005_927_208_u64.into()
    );
    let hundred = symbolically(&philosophers(100), 1);
    assert_eq!(hundred.states, num_bigint::BigUint::from(3_u8).pow(100));
    assert_eq!(hundred.deadlocks, 2_u8.into());
}

#[test]
fn a_place_that_needs_more_bits_than_were_guessed_gets_them() {
    let net = kanban(2);
    let mut packed = PackedNet::with_widths(&net, None, vec![1; net.places().len()]);
    let mut widened = 0;
    let explored = loop {
        match explore(&packed, &options(2), None, &Progress::default()) {
            Ok(explored) => break explored,
            Err(ExploreError::NoRoom(no_room)) => packed = packed.widened(no_room).unwrap(),
            Err(error) => panic!("{error}"),
        }
        widened += 1;
    };
    assert!(
        widened >= 12,
        "each place but the first four begins with one bit"
    );
    assert_eq!(explored.states, 4600);
}

/// With 9 bits a place a marking takes three words, which are compressed; it fits into one
/// otherwise.
#[test]
fn markings_of_several_words_are_told_apart() {
    let net = kanban(2);
    let wide = PackedNet::with_widths(&net, None, vec![9; net.places().len()]);
    assert!(wide.bits() > 128);
    let plain = oracle::explore(&net, usize::MAX).unwrap();
    for threads in [1, 3] {
        let explored = explore(&wide, &options(threads), None, &Progress::default()).unwrap();
        assert_eq!(numbers(&explored), plain);
    }
}

/// How many are given away of a stock says how many there are.
#[test]
fn places_whose_tokens_follow_from_others_take_no_bits() {
    for count in [2, 4] {
        let net = stocks(count);
        let packed = PackedNet::sampled(&net, None);
        assert!(packed.bits() <= 63, "{}", packed.bits());
        let initial = packed.marking(&packed.initial()[0]);
        let expected = net.initial().into_iter().map(u64::from);
        assert!(initial.into_iter().eq(expected));
        let shown = packed.show(&packed.initial()[0]);
        assert!(shown.contains("stock1=2147483648"), "{shown}");
        let plain = oracle::explore(&net, usize::MAX).unwrap();
        for threads in [1, 3] {
            assert_eq!(numbers(&explicitly(&net, threads)), plain);
        }
    }
    let net = kanban(2);
    let packed = PackedNet::with_widths(&net, None, vec![5; net.places().len()]);
    assert_eq!(packed.bits(), 11 * 5);
    let explored = explore(&packed, &options(2), None, &Progress::default()).unwrap();
    assert_eq!(
        numbers(&explored),
        oracle::explore(&net, usize::MAX).unwrap()
    );
}

/// Such a place has no more room than any other.
#[test]
fn a_place_that_follows_from_others_and_gets_too_many_tokens_is_named() {
    let most = u32::MAX - 2;
    let net = from_lines(
        "full",
        &[("full", most), ("other", most), ("left", 5)],
        "add: left > full given \n move: other > other given \n back: given > left",
    );
    let end = explore_net(&net, None, &options(1), None, &Progress::default());
    assert!(
        matches!(&end, Err(ExploreError::AboveLimit { place, .. } | ExploreError::Unbounded { place }) if place == "full" || place == "given"),
        "{end:?}"
    );
}

#[test]
fn unbounded_nets_end_with_an_error() {
    let small = Options {
        memory: 1 << 20,
        ..options(2)
    };
    let progress = Progress::default();
    let pool = |end: Result<(), ExploreError>| {
        let Err(ExploreError::Unbounded { place }) = end else {
            panic!("{end:?}");
        };
        assert_eq!(place, "pool");
    };
    let spring = [("spring".to_owned(), vec![], vec!["pool".to_owned()])];
    let kept = (
        "kept".to_owned(),
        vec!["p".to_owned()],
        vec!["p".to_owned(), "pool".to_owned()],
    );
    for net in [
        net("spring", &[], &spring),
        net("kept", &[("p".to_owned(), 1)], &[kept]),
    ] {
        pool(explore_net(&net, None, &small, None, &progress).map(drop));
        pool(explore_symbolically(&net, None, &symbolic_options(2, 1 << 30), &progress).map(drop));
        // A marking that is looked for may be found all the same: so until memory is full.
        let goal = Formula::parse("pool <= 10000000", &net).unwrap();
        pool(explore_net(&net, Some(&goal), &small, None, &progress).map(drop));
        let goal = Formula::parse("pool < 7", &net).unwrap();
        let (found, _) = explore_net(&net, Some(&goal), &small, None, &progress).unwrap();
        assert_eq!(found.violation.unwrap().len(), 8);
    }
    let explored = explore_symbolically(
        &manufacturing(50),
        None,
        &symbolic_options(2, 4 << 20),
        &Progress::default(),
    );
    assert!(
        matches!(explored, Err(ExploreError::OutOfMemory { .. })),
        "{explored:?}"
    );
}

#[test]
fn a_net_without_places_has_one_marking() {
    let idle = [("idle".to_owned(), vec![], vec![])];
    for (transitions, deadlocks) in [(&idle[..0], 1), (&idle[..], 0)] {
        let net = net("nothing", &[], transitions);
        let plain = oracle::explore(&net, 10).unwrap();
        assert_eq!((plain.states, plain.deadlocks), (1, deadlocks));
        all_ways_agree(&net, &plain);
    }
}

#[test]
fn a_violation_is_reached_by_a_shortest_path() {
    let net = philosophers(4);
    let holds = Formula::parse("eat0 + eat1 <= 1 and not (eat0 = 1 and fork0 = 1)", &net).unwrap();
    let (explored, _) =
        explore_net(&net, Some(&holds), &options(2), None, &Progress::default()).unwrap();
    assert_eq!((explored.violation, explored.states), (None, 81));
    let violated = Formula::parse("eat0 + eat2 < 2", &net).unwrap();
    let (explored, packed) = explore_net(
        &net,
        Some(&violated),
        &options(2),
        None,
        &Progress::default(),
    )
    .unwrap();
    let steps = explored.violation.unwrap();
    assert_eq!(
        steps.len() as u64 - 1,
        oracle::nearest_violation(&packed).unwrap()
    );
    assert_eq!(steps[0].state, packed.initial()[0]);
    for pair in steps.windows(2) {
        let mut successors = Successors::new(pair[0].state.len());
        packed.successors(&pair[0].state, &mut successors).unwrap();
        let states = successors.states().chunks(pair[0].state.len());
        let mut reached = successors.actions().iter().zip(states);
        assert!(
            reached
                .any(|(action, state)| Some(*action) == pair[1].action && state == pair[1].state)
        );
    }
    assert!(!packed.invariant(&steps.last().unwrap().state));
}

/// Nets of a few places and transitions; arcs of weight 1 to 3.
pub fn small_net() -> impl Strategy<Value = Net> {
    let places = 1..6_usize;
    places.prop_flat_map(|places| {
        let place = (0..places).prop_map(|place| format!("p{place}"));
        let arcs = prop::collection::vec(place, 0..4);
        let transitions = prop::collection::vec((arcs.clone(), arcs), 0..7);
        let marking = prop::collection::vec(0..4_u32, places);
        (marking, transitions).prop_map(|(marking, transitions)| {
            let marking: Vec<_> = (0..)
                .zip(marking)
                .map(|(p, tokens)| (format!("p{p}"), tokens))
                .collect();
            let numbered = (0..).zip(transitions);
            let transitions: Vec<_> = numbered
                .map(|(t, (takes, puts)): (i32, _)| (format!("t{t}"), takes, puts))
                .collect();
            net("small", &marking, &transitions)
        })
    })
}

/// Processes with a few places each, of which transitions move some together and look at others,
/// and may lose or double a token. So many places that are never left come to them, and others that
/// are never reached, that a marking with a bit a place takes more than a word: it is one again if
/// the places of a process share a field, and the others are one process's.
pub fn processes() -> impl Strategy<Value = Net> {
    let process = prop::collection::vec(1..5_usize, 1..4);
    process.prop_flat_map(|sizes| {
        let place = {
            let sizes = sizes.clone();
            move |process: usize, at: usize| format!("p{process}_{}", at % sizes[process])
        };
        let step = (0..sizes.len(), 0..4_usize, 0..4_usize);
        let moves = prop::collection::vec((step, prop::bool::weighted(0.3)), 1..4);
        // Rarely a token too many or too few.
        let odd = prop::option::weighted(0.05, (0..sizes.len(), 0..4_usize, any::<bool>()));
        let transitions = prop::collection::vec((moves, odd), 0..9);
        (transitions, any::<bool>()).prop_map(move |(transitions, never_reached)| {
            let mut marking: Vec<_> = (0..sizes.len())
                .map(|process| (place(process, 0), 1))
                .collect();
            let mut all = Vec::new();
            for (number, (moves, odd)) in transitions.into_iter().enumerate() {
                let (mut takes, mut puts) = (Vec::new(), Vec::new());
                for ((process, from, to), is_look) in moves {
                    takes.push(place(process, from));
                    puts.push(place(process, if is_look { from } else { to }));
                }
                if let Some((process, at, is_taken)) = odd {
                    let odd = if is_taken { &mut takes } else { &mut puts };
                    odd.push(place(process, at));
                }
                all.push((format!("t{number}"), takes, puts));
            }
            marking.push(("stays0".into(), 1));
            for at in 0..64 {
                let (from, to) = (format!("stays{at}"), format!("stays{}", at + 1));
                all.push((format!("s{at}"), vec![from, "never".into()], vec![to]));
            }
            if never_reached {
                marking.extend((0..64).map(|at| (format!("empty{at}"), 0)));
            }
            net("processes", &marking, &all)
        })
    })
}

#[test]
fn places_of_which_one_has_a_token_share_a_field() {
    let net = philosophers(20);
    let packed = PackedNet::sampled(&net, None);
    assert_eq!(net.places().len(), 100);
    assert!(packed.bits() <= 63, "{}", packed.bits());
    assert!(packed.widths().contains(&0));
    let initial = packed.marking(&packed.initial()[0]);
    assert!(
        initial
            .into_iter()
            .eq(net.initial().into_iter().map(u64::from))
    );
    // All of it fits into a word as it is.
    let small = PackedNet::sampled(&philosophers(12), None)
        .widths()
        .to_vec();
    assert_eq!(small, [1; 60]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn processes_whose_places_share_fields_are_explored_as_they_are(net in processes()) {
        if let Some(plain) = oracle::explore(&net, 3000) {
            prop_assert_eq!(numbers(&explicitly(&net, 2)), plain);
            let packed = PackedNet::sampled(&net, None);
            prop_assert!(packed.widths().contains(&0));
        }
    }

    /// Nets with more markings than can be visited one by one are left out: many of these are
    /// unbounded.
    #[test]
    fn random_nets_are_explored_alike_all_ways(net in small_net()) {
        if let Some(plain) = oracle::explore(&net, 3000) {
            all_ways_agree(&net, &plain);
            // With so many bits that a place must follow from others, if one does.
            let places = net.places().len();
            let wide = PackedNet::with_widths(&net, None, vec![63 / places as u32 + 1; places]);
            let explored = explore(&wide, &options(1), None, &Progress::default()).unwrap();
            prop_assert_eq!(numbers(&explored), plain);
        }
    }
}

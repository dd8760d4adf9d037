//! Nets whose places get any number of tokens, and nets that only look like it: symbolic
//! explorations end, with a place and a limit or with the right numbers.

use crate::agreement::symbolic_options;
use crate::nets::from_lines;
use crate::oracle;
use farslot_explore::ExploreError;
use farslot_explore::explicit::Progress;
use farslot_explore::net::{Arc, Net, NetPlace, Transition};
use farslot_explore::symbolic::{SymbolicallyExplored, explore_symbolically};
use std::fmt::Write;

const MEMORY: u64 = 64 << 20;
/// Steps of one try, at most: in proportion to the memory.
const STEPS: u64 = MEMORY / 160;

fn explore(net: &Net, memory: u64) -> Result<SymbolicallyExplored, ExploreError> {
    explore_symbolically(
        net,
        None,
        &symbolic_options(1, memory),
        &Progress::default(),
    )
}

/// A process that comes from `s0` to the last of so many places, step by step.
fn road(length: usize, back: impl Fn(usize) -> Option<usize>) -> String {
    let mut lines = String::new();
    for at in 0..length {
        // Before the way on: a walk takes the first that it finds.
        if let Some(to) = back(at) {
            writeln!(lines, "back{at}: s{at} > s{to}").unwrap();
        }
        writeln!(lines, "go{at}: s{at} > s{}", at + 1).unwrap();
    }
    lines
}

/// Roads, their lengths, and which of the growths are tried at their ends.
fn roads() -> Vec<(&'static str, usize, String, &'static [usize])> {
    let to_and_fro = road(300, |at| at.checked_sub(1));
    // At each step it is as likely to begin anew: no walk comes to the end.
    let rare = road(40, |at| (at > 0).then_some(0));
    vec![
        ("no road", 0, String::new(), &[0, 1, 2, 3, 4, 5, 6, 7]),
        ("a long road", 900, road(900, |_| None), &[0, 2]),
        ("a long road to and fro", 300, to_and_fro, &[1]),
        ("a rare way", 40, rare, &[0, 1, 2, 3, 7]),
    ]
}

/// What happens where the road ends, `s`: by one transition or several, of one place or several.
const GROWTHS: [(&str, &str, &[&str]); 8] = [
    ("a source", "grow: s > s p", &["p"]),
    ("a round", "a: s > x\n b: x > s p", &["p"]),
    (
        "one for two",
        "start: s > p\n a: p > q\n b: q > p p",
        &["p", "q"],
    ),
    (
        "two places",
        "a: s > s p\n b: p > q\n c: q > r",
        &["p", "q", "r"],
    ),
    (
        "two places to and fro",
        "start: s > p q\n a: p q > p p\n b: p p > q q q\n c: p > q\n d: q q > p p p",
        &["p", "q"],
    ),
    (
        "a long round",
        "a: s > x0\n b: x0 > x1 k\n c: x1 k > x2 k k\n d: x2 > x3\n e: x3 k k > x4 k\n f: x4 > x0 p",
        &["p", "k"],
    ),
    (
        "two counters that only grow together",
        "a: s > x m\n b: x m > y n n\n c: y n > x m m\n d: y n n > y m\n e: x m m > x n",
        &["m", "n"],
    ),
    (
        "a counter that is used up",
        "a: s > s p\n b: p p p > q\n c: q > p",
        &["p", "q"],
    ),
];

#[test]
fn symbolic_explorations_of_unbounded_nets_end_with_a_place() {
    let (mut table, mut wrong) = (String::new(), 0);
    for (road, length, lines, growths) in roads() {
        for (growth, more, places) in growths.iter().map(|&at| GROWTHS[at]) {
            let end = format!("s{length}");
            let replaced = more.replace(" s ", &format!(" {end} "));
            let replaced = replaced.replace(" s\n", &format!(" {end}\n"));
            let net = from_lines("unbounded", &[("s0", 1)], &format!("{lines}{replaced}\n"));
            let found = explore(&net, MEMORY);
            let place = match &found {
                Err(
                    ExploreError::Unbounded { place }
                    | ExploreError::Grown { place, .. }
                    | ExploreError::AboveLimit { place, .. },
                ) => Some(place),
                Err(ExploreError::StillGrows { place, steps, .. }) if *steps <= STEPS => {
                    Some(place)
                }
                _ => None,
            };
            let is_right = place.is_some_and(|place| places.contains(&place.as_str()));
            wrong += usize::from(!is_right);
            let mark = if is_right { ' ' } else { '!' };
            let said = found.map(|found| found.states.to_string());
            let said = said.unwrap_or_else(|error| error.to_string());
            writeln!(table, "{mark} {road}, {growth}: {said}").unwrap();
        }
    }
    println!("{table}");
    assert_eq!(wrong, 0, "\n{table}");
}

/// Their structure alone does not bound them: a transition that never fires would let them grow.
#[test]
fn bounded_nets_that_could_grow_by_their_arcs_have_all_their_markings() {
    let nets = [
        from_lines(
            "used up",
            &[("a", 40)],
            "use: a > p p p\n never: z > z p\n move: p > q\n also: q z > q q p z",
        ),
        from_lines(
            "to and fro",
            &[("a", 12), ("b", 2)],
            "up: a b > a b c\n never: z > p\n go: a > d d\n come: d d d > a\n stop: b > e\n down: c c > e e",
        ),
    ];
    for (net, bounded) in nets.iter().zip([true, false]) {
        let found = explore(net, MEMORY);
        match (oracle::explore(net, 100_000), bounded) {
            (Some(plain), true) => {
                let found = found.unwrap();
                assert_eq!(found.states, plain.states.into(), "{}", net.name());
                assert_eq!(found.tokens, plain.tokens, "{}", net.name());
            }
            (None, false) => assert!(
                matches!(&found, Err(ExploreError::Unbounded { place }) if place == "c"),
                "{found:?}"
            ),
            (plain, _) => panic!("{}: {plain:?}", net.name()),
        }
    }
}

/// 2^256 markings, each with more than 2^39 tokens, and none more than 2^32 - 1 in a place.
#[test]
fn huge_numbers_of_tokens_are_not_called_unbounded() {
    const PAIRS: usize = 256;
    let places = (0..2 * PAIRS).map(|at| NetPlace {
        id: format!("p{at}"),
        initial: if at % 2 == 0 { u32::MAX } else { 0 },
    });
    let half = |place, weight| vec![Arc { place, weight }];
    let there = (0..PAIRS).map(|pair| Transition {
        id: format!("there{pair}"),
        takes: half(2 * pair, 1 << 31),
        puts: half(2 * pair + 1, 1 << 31),
    });
    // Where it could be taken from, there would be too many tokens; but it never can.
    let never = (0..PAIRS).map(|pair| Transition {
        id: format!("never{pair}"),
        takes: half(2 * pair + 1, u32::MAX),
        puts: half(2 * pair, u32::MAX),
    });
    let net = Net::new("huge", places.collect(), there.chain(never).collect()).unwrap();
    let found = explore(&net, MEMORY).unwrap();
    assert_eq!(found.states, num_bigint::BigUint::from(1_u8) << PAIRS);
    assert_eq!(found.tokens.in_place, u64::from(u32::MAX));
    assert_eq!(found.tokens.in_state, PAIRS as u64 * u64::from(u32::MAX));
}

//! The bodies of the fuzz targets (see `fuzz/`), over seeds that are mutated here, for those who
//! have no fuzzer: each input is a function of its number, and a failure names the one that replays
//! it.

use crate::fuzz;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::panic::{catch_unwind, resume_unwind};

const INPUTS: u64 = 60_000;

fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let parsed = value.parse().ok();
    Some(parsed.unwrap_or_else(|| panic!("{name}={value} is no number")))
}

/// Changes an input: bits, bytes, whole words, its length; or puts a part of another into it.
fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], random: &mut impl Rng) {
    for _ in 0..random.random_range(1..5) {
        if input.is_empty() {
            input.push(0);
        }
        let at = random.random_range(0..input.len());
        let word = at / 8 * 8..(at / 8 * 8 + 8).min(input.len());
        match random.random_range(0..8) {
            0 => input[at] ^= 1 << random.random_range(0..8),
            1 => input[at] = random.random(),
            2 => input[word].fill([0, 0xff, 0x7f, 0x80][random.random_range(0..4)]),
            3 => input.truncate(at),
            4 => {
                let word: [u8; 8] = random.random();
                drop(input.splice(at..at, word));
            }
            5 => {
                let other = &others[random.random_range(0..others.len())];
                let part = random.random_range(0..=other.len());
                drop(input.splice(at.., other[part..].iter().copied()));
            }
            6 => {
                let sum = i16::from(input[at]) + random.random_range(-16..16);
                input[at] = sum as u8;
            }
            _ => {
                let again = input[word].to_vec();
                drop(input.splice(at..at, again));
            }
        }
    }
}

fn run(target: &str, number: u64, body: fn(&[u8]), seeds: &[Vec<u8>]) {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let mut input = seeds[random.random_range(0..seeds.len())].clone();
    mutate(&mut input, seeds, &mut random);
    if let Err(panic) = catch_unwind(|| body(&input)) {
        eprintln!(
            "input {number} of {target} failed: {input:02x?}; this replays it:\n\
             FARSLOT_SEED={number} cargo test -p farslot-fabric --test suites tcp_fuzz::{target}"
        );
        resume_unwind(panic);
    }
}

fn run_all(target: &str, body: fn(&[u8]), seeds: &[Vec<u8>]) {
    seeds.iter().for_each(|seed| body(seed));
    if let Some(number) = from_environment("FARSLOT_SEED") {
        return run(target, number, body, seeds);
    }
    for number in 0..from_environment("FARSLOT_SEEDS").unwrap_or(INPUTS) {
        run(target, number, body, seeds);
    }
}

#[test]
fn frames() {
    run_all("frames", fuzz::frames, &fuzz::seeds()[0]);
}

#[test]
fn handshakes() {
    run_all("handshakes", fuzz::handshakes, &fuzz::seeds()[1]);
}

#[test]
fn connections() {
    run_all("connections", fuzz::connection, &fuzz::seeds()[2]);
}

/// Else the targets above would be as good without an agent.
#[test]
fn seeds_are_admitted_and_served() {
    use farslot_fabric::tcp::wire::{FrameKind, Header};
    let told = fuzz::answers_to(&fuzz::seeds()[2][0]);
    let header = Header::decode(told[0]).unwrap();
    assert_eq!((header.kind, header.count), (FrameKind::Completions, 1));
    assert_eq!(told.len(), 9);
}

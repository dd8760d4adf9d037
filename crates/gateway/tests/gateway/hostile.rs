//! Mutated frames, while others are served.

use crate::client::{Client, gateway, request};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How many frames are sent: `FARSLOT_SEEDS`, or as many as take a moment.
fn frames() -> u64 {
    let asked = std::env::var("FARSLOT_SEEDS");
    asked.map_or(4_000, |frames| {
        frames.parse().expect("FARSLOT_SEEDS: a number")
    })
}

/// A request that means something, of a few keys.
fn sensible(random: &mut ChaCha8Rng) -> Vec<u8> {
    let all: [&[&str]; 26] = [
        &["SET", "k1", "value", "EX", "100", "NX"],
        &["GET", "k1"],
        &["MGET", "k1", "k2", "k3"],
        &["MSET", "k1", "1", "k2", "2"],
        &["INCRBY", "k2", "9223372036854775807"],
        &["INCRBYFLOAT", "k3", "1e300"],
        &["APPEND", "k1", "more"],
        &["SETRANGE", "k1", "100", "x"],
        &[
            "GETRANGE",
            "k1",
            "-9223372036854775808",
            "9223372036854775807",
        ],
        &["EXPIRE", "k1", "9223372036854775", "GT"],
        &["PEXPIREAT", "k2", "1"],
        &["DEL", "k1", "k2", "k3"],
        &[
            "SCAN",
            "18446744073709551615",
            "MATCH",
            "[a-z]*\\",
            "COUNT",
            "1000",
        ],
        &["KEYS", "*[^k]*?"],
        &["HELLO", "3", "SETNAME", "x"],
        &["COMMAND", "DOCS", "get"],
        &["CLIENT", "SETINFO", "lib-name", "x"],
        &["GETEX", "k1", "PXAT", "1"],
        &["MSETNX", "k1", "1", "k4", "2"],
        &["INFO", "everything"],
        &["MULTI"],
        &["EXEC"],
        &["EXEC"],
        &["DISCARD"],
        &["WATCH", "k1", "k2"],
        &["RESET"],
    ];
    request(all[random.next_u32() as usize % all.len()])
}

/// Changes some bytes, numbers or lengths of a frame, or cuts it off.
fn mutate(frame: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    for _ in 0..1 + random.next_u32() % 3 {
        if frame.is_empty() {
            return;
        }
        let at = random.next_u32() as usize % frame.len();
        match random.next_u32() % 7 {
            0 => frame[at] = random.next_u32() as u8,
            1 => frame[at] ^= 1 << (random.next_u32() % 8),
            2 => frame.truncate(at),
            3 => drop(frame.remove(at)),
            4 => frame.insert(at, b"0123456789-$*\r\n\0"[random.next_u32() as usize % 16]),
            5 => {
                let part = frame[at..].to_vec();
                frame.extend(part);
            }
            _ => {
                if let Some(digit) = frame[at..].iter().position(u8::is_ascii_digit) {
                    frame[at + digit] = b'0' + (random.next_u32() % 10) as u8;
                }
            }
        }
    }
}

/// `FARSLOT_SEEDS=200000 cargo test -p farslot-gateway --test gateway mutated` sends so many.
#[test]
fn mutated_frames_harm_nobody() {
    let (_store, gateway) = gateway();
    let mut good = Client::of(&gateway);
    good.expect(&[("SELECT 5", "OK"), ("SET count 0", "OK")]);
    let mut bad = Client::of(&gateway);
    let mut count = 0;
    for seed in 0..frames() {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut frame = sensible(&mut random);
        mutate(&mut frame, &mut random);
        // What was left open takes in the next frames, until it is closed.
        if bad.send(&frame).is_err() || seed % 50 == 49 {
            bad = Client::of(&gateway);
        }
        if seed % 20 == 19 {
            count += 1;
            assert_eq!(good.ask("INCR count"), format!(":{count}"), "seed {seed}");
        }
    }
    good.expect(&[("SET last 1 EX 100", "OK")]);
    good.expect_left("TTL last", 100);
}

//! Functions for any number of keys, and the bytes that a client takes for one.

use super::*;
use proptest::prelude::*;

fn builder(keys: u64, slots: u64, has_filter: bool) -> FunctionBuilder {
    FunctionBuilder {
        shape: PerfectShape::new(keys, has_filter),
        slots,
        seed: 3,
    }
}

fn key(number: usize) -> [u8; 8] {
    (number as u64).to_le_bytes()
}

fn found(builder: &FunctionBuilder, count: usize) -> (Function, Vec<u64>) {
    let keys: Vec<_> = (0..count).map(key).collect();
    builder.find(count, |number| &keys[number]).unwrap()
}

/// Whatever the number of keys and of parts, a table of 99 in 100 slots, or of far more than it
/// was made for, has a slot for each.
#[test]
fn every_key_has_a_slot_of_its_own() {
    for (count, made_for) in [
        (0, 0),
        (1, 1),
        (7, 7),
        (500, 500),
        (3, 200_000),
        (150_000, 150_000),
    ] {
        for has_filter in [false, true] {
            let slots = (made_for as f64 / 0.99).ceil() as u64 + 1;
            let builder = builder(made_for, slots, has_filter);
            let (function, hashes) = found(&builder, count);
            let bytes = function.encode(&builder.shape);
            let function = Function::decode(&builder.shape, slots, bytes).unwrap();
            let mut taken = vec![false; slots as usize];
            for (number, hash) in hashes.iter().enumerate() {
                assert_eq!(function.hashed(&key(number)).hash, *hash);
                let slot = function.slot(function.of_hash(*hash)).unwrap() as usize;
                assert!(!std::mem::replace(&mut taken[slot], true), "{count} keys");
            }
            let absent = (0..20_000).filter(|number| {
                let hash = function.hashed(&key(count + 1 + number));
                function.slot(hash).is_some_and(|slot| {
                    assert!(slot < slots);
                    true
                })
            });
            match (count, has_filter) {
                (0, _) => assert_eq!(absent.count(), 0),
                (_, true) => assert!(absent.count() < 150, "one in 256 is 78"),
                // A part without keys has no slots.
                (3, false) => assert!(absent.count() <= 20_000),
                (_, false) => assert_eq!(absent.count(), 20_000),
            }
        }
    }
}

#[test]
fn it_takes_less_than_a_third_of_a_byte_a_key() {
    let (function, hashes) = found(&builder(150_000, 151_516, false), 150_000);
    let bytes = function.client_bytes() as f64 / hashes.len() as f64;
    assert!(bytes < 0.29, "{bytes}");
}

#[test]
fn equal_keys_are_named() {
    let mut keys: Vec<_> = (0..1000).map(key).collect();
    keys[900] = keys[300];
    let error = builder(1000, 1011, true).find(1000, |number| &keys[number]);
    let expected = IndexError::DuplicateKey {
        record: 900,
        first: 300,
    };
    assert_eq!(error.err(), Some(expected));
}

/// Every bit, flipped: each is seen.
#[test]
fn damaged_bytes_are_refused() {
    for has_filter in [false, true] {
        let builder = builder(40, 41, has_filter);
        let bytes = found(&builder, 40).0.encode(&builder.shape);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let refused = Function::decode(&builder.shape, 41, damaged);
            assert!(
                matches!(refused, Err(IndexError::BadFunction { .. })),
                "{bit}"
            );
        }
        for len in 0..bytes.len() {
            let cut = bytes[..len].to_vec();
            assert!(Function::decode(&builder.shape, 41, cut).is_err());
        }
    }
}

proptest! {
    /// Bytes of somebody who knows the checksum: refused, or a function whose slots are the
    /// table's.
    #[test]
    fn hostile_bytes_never_leave_the_table(
        parts in 1u32..5,
        pilots in 1u32..9,
        slots in 0u64..200,
        filter_bytes in prop_oneof![Just(0u64), 1u64..300],
        random in proptest::collection::vec(any::<u8>(), 800),
        plausible: bool,
        hashes: [u64; 30],
    ) {
        let shape = PerfectShape { parts, pilots, filter_bytes, slot_bytes: 0 };
        let mut bytes = random[..shape.bytes() as usize].to_vec();
        if plausible {
            // Parts in order, and a filter with small segments: so that many pass.
            let mut end = 0;
            for part in 0..parts as usize {
                end = (end + u32::from(bytes[HEAD + part * 4]) % 64).min(slots as u32);
                bytes[HEAD + part * 4..][..4].copy_from_slice(&end.to_le_bytes());
            }
            bytes[24..28].copy_from_slice(&4u32.to_le_bytes());
            let all = u32::from(bytes[28]) % 64 * 4;
            bytes[28..32].copy_from_slice(&all.to_le_bytes());
        }
        let sum = checksum(&bytes[16..], u64_at(&bytes, 0));
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        if let Ok(function) = Function::decode(&shape, slots, bytes) {
            for hash in hashes.into_iter().chain([0, u64::MAX]) {
                function.prefetch(function.of_hash(hash));
                prop_assert!(function.slot(function.of_hash(hash)).is_none_or(|slot| slot < slots));
            }
        }
    }
}

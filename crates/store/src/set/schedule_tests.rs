//! Sets in memory that is mapped, where no verb is posted: a seed says before each access which
//! client goes on, and which stops for good.

use crate::expiry::histories::seeds;
use crate::{FieldSize, OpenOptions, Store, Table, TableOptions};
use farslot_fabric::schedule::{self, Plan};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

const CLIENTS: usize = 3;
const ELEMENTS: u64 = 16;

/// What clients were told.
#[derive(Default)]
struct SetAnswers {
    /// How often elements were new.
    new: BTreeMap<u64, u32>,
    /// Elements that were put or found.
    acknowledged: BTreeSet<u64>,
    wrong: Option<String>,
}

impl SetAnswers {
    /// Notes the value that an element had, or that it was new.
    fn note(&mut self, number: u64, found: Option<&[u8]>, value: &[u8]) {
        self.acknowledged.insert(number);
        match found {
            None => *self.new.entry(number).or_default() += 1,
            Some(found) if found == value => {}
            Some(found) => self.wrong = Some(format!("{number} had {found:?}")),
        }
    }
}

/// An element and its value, of a set whose elements are their buckets or lie beside them.
fn element(number: u64, is_word: bool) -> ([u8; 8], Vec<u8>) {
    let value = match is_word {
        true => Vec::new(),
        false => (number * 7 + 1)
            .to_le_bytes()
            .repeat(1 + number as usize % 3),
    };
    (number.to_le_bytes(), value)
}

fn use_set(set: &Table, mut rng: ChaCha8Rng, is_word: bool, answers: &Mutex<SetAnswers>) {
    let note = |number, found: Option<&[u8]>, value: &[u8]| {
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.note(number, found, value);
    };
    for _ in 0..8 {
        let batch = rng.random_range(1..5);
        let numbers: Vec<u64> = (0..batch).map(|_| rng.random_range(0..ELEMENTS)).collect();
        let elements: Vec<_> = numbers.iter().map(|of| element(*of, is_word)).collect();
        let records: Vec<_> = elements
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .collect();
        match records[..] {
            [(key, value)] => {
                let found = set.find_or_put(key, value).unwrap();
                note(numbers[0], found.as_deref(), value);
                let got = set.get(key).unwrap();
                if got.as_deref() != Some(value) {
                    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                    answers.wrong = Some(format!("{} was {got:?} when it was put", numbers[0]));
                }
            }
            _ => {
                let put = set.find_or_put_many(&records, |at, found| {
                    note(numbers[at], found, records[at].1);
                });
                put.unwrap();
            }
        }
    }
}

fn run(seed: u64, swaps_blindly: bool) -> Result<(), String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let store = Store::embedded_by_its_clock(4 << 20, OpenOptions::default()).unwrap();
    let is_word = seed.is_multiple_of(2);
    let values = match is_word {
        true => FieldSize::Fixed(0),
        false => FieldSize::UpTo(24),
    };
    let options = TableOptions::new(ELEMENTS)
        .keys(FieldSize::Fixed(8))
        .values(values)
        .set();
    store.create("t", &options).unwrap();
    let has_stops = seed % 3 == 2;
    let stops = match has_stops {
        true => vec![
            Some(rng.random_range(0..600)),
            Some(rng.random_range(0..600)),
        ],
        false => Vec::new(),
    };
    let plan = Plan {
        seed: rng.random(),
        begins_at: 0,
        longest_turn: [1, 8, 64][rng.random_range(0..3)],
        stops,
        longest_jump: 0,
        swaps_blindly,
    };
    let answers = Mutex::new(SetAnswers::default());
    let ended = schedule::run(&plan, CLIENTS, |number| {
        let rng = ChaCha8Rng::seed_from_u64(seed * CLIENTS as u64 + number as u64);
        use_set(&store.table("t").unwrap(), rng, is_word, &answers);
    });
    let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(wrong) = answers.wrong {
        return Err(wrong);
    }
    for number in &answers.acknowledged {
        match answers.new.get(number).copied().unwrap_or(0) {
            1 => {}
            0 if has_stops => {}
            times => return Err(format!("{number} was new {times} times")),
        }
    }
    let after = Plan {
        begins_at: ended.at + 1,
        stops: Vec::new(),
        swaps_blindly: false,
        ..plan
    };
    let looked = schedule::run(&after, 1, |_| {
        let set = store.table("t").unwrap();
        for number in &answers.acknowledged {
            let (key, value) = element(*number, is_word);
            if set.get(&key).unwrap() != Some(value) {
                return Err(format!("{number} is lost"));
            }
        }
        let (mut visited, mut twice) = (BTreeSet::new(), None);
        let visit = |key: &[u8], _: &[u8]| {
            if !visited.insert(key.to_vec()) {
                twice = Some(format!("{key:?} is there twice"));
            }
        };
        set.for_each(visit).unwrap();
        twice.map_or(Ok(()), Err)
    });
    looked.results.into_iter().flatten().collect()
}

#[test]
fn elements_are_put_once_and_whole_in_mapped_memory() {
    for seed in seeds(300) {
        if let Err(wrong) = run(seed, false) {
            panic!(
                "FARSLOT_SEED={seed} cargo test -p farslot --lib \
                 elements_are_put_once_and_whole_in_mapped_memory\n{wrong}"
            );
        }
    }
}

#[test]
fn a_swap_without_its_check_is_found_in_sets_in_mapped_memory() {
    let is_found = |first: u64| {
        (first..1_000)
            .step_by(6)
            .any(|seed| run(seed, true).is_err())
    };
    assert!(is_found(0), "of words");
    assert!(is_found(3), "of records");
}

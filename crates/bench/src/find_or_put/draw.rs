//! Which elements are found or inserted, in which order.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Of a hundred find-or-puts, how many find their element; the others insert it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    /// 0 to 99.
    pub found: u8,
}

impl Mix {
    /// Find-or-puts of which so many insert.
    pub(super) fn operations(self, inserts: u64) -> u64 {
        inserts * 100 / u64::from(100 - self.found)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.found, 100 - self.found)
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let part = |text: &str| text.parse::<u8>().ok();
        let parts = text.split_once('/');
        match parts.map(|(found, new)| (part(found), part(new))) {
            Some((Some(found @ 0..=99), Some(new))) if new == 100 - found => Ok(Self { found }),
            _ => Err(format!(
                "{text:?} is no mix of found and inserted such as 80/20: their sum is 100, and some are inserted"
            )),
        }
    }
}

/// Element number `number` of a seed: a word of 62 bits that no other number has.
pub(super) fn element(seed: u64, number: u64) -> u64 {
    // An odd factor permutes the words of 62 bits.
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed) & ((1 << 62) - 1)
}

/// A rank's share of some numbers, where (rank, ranks) say which rank it is.
pub(super) fn share(numbers: Range<u64>, (rank, ranks): (u64, u64)) -> Range<u64> {
    let count = numbers.end - numbers.start;
    let at = |rank: u64| {
        numbers.start + (u128::from(count) * u128::from(rank) / u128::from(ranks)) as u64
    };
    at(rank)..at(rank + 1)
}

/// What a measurement inserts, by the elements' numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InsertSpan {
    /// Elements that are there before.
    pub first: u64,
    /// How many come to them.
    pub inserts: u64,
}

impl InsertSpan {
    /// The span at whose end so many slots are full to a load factor.
    pub(super) fn up_to(load: f64, slots: u64) -> Self {
        let end = (load * slots as f64) as u64;
        let inserts = slots / 32;
        Self {
            first: end - inserts,
            inserts,
        }
    }

    /// A rank's elements in the order in which they are asked for, and how many of them are new.
    /// What is found was there before the span, whoever has inserted it.
    pub(super) fn draw(
        self,
        mix: Mix,
        seed: u64,
        place: (u64, u64),
        random: &mut ChaCha8Rng,
    ) -> (Vec<u64>, u64) {
        let mut new = share(self.first..self.first + self.inserts, place);
        let inserts = new.end - new.start;
        let operations = mix.operations(inserts);
        let draw = |left| {
            let is_new = random.random_range(0..left) < new.end - new.start;
            let number = match is_new.then(|| new.next()).flatten() {
                Some(number) => number,
                None => random.random_range(0..self.first),
            };
            element(seed, number)
        };
        ((1..=operations).rev().map(draw).collect(), inserts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use std::collections::HashSet;

    #[test]
    fn mixes_are_read_as_they_are_written() {
        for text in ["80/20", "0/100", "99/1"] {
            assert_eq!(text.parse::<Mix>().unwrap().to_string(), text);
        }
        for text in ["", "80", "80/30", "100/0", "-1/101", "80/20/0", "300/56"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }

    #[test]
    fn ranks_insert_each_new_element_once_and_find_what_was_there() {
        let span = InsertSpan::up_to(0.5, 1 << 12);
        assert_eq!((span.first, span.inserts), (2048 - 128, 128));
        let numbers = |range: Range<u64>| -> HashSet<u64> {
            range.map(|number| element(9, number)).collect()
        };
        let (before, new) = (numbers(0..1920), numbers(1920..2048));
        assert_eq!((before.len(), new.len()), (1920, 128));
        for ranks in [1, 2, 3] {
            let mut inserted = Vec::new();
            for rank in 0..ranks {
                let mut random = ChaCha8Rng::seed_from_u64(rank);
                let mix = Mix { found: 80 };
                let (words, inserts) = span.draw(mix, 9, (rank, ranks), &mut random);
                assert_eq!(words.len() as u64, inserts * 5);
                let (old, unique): (Vec<u64>, Vec<u64>) =
                    words.into_iter().partition(|word| before.contains(word));
                assert_eq!(
                    (unique.len() as u64, old.len() as u64),
                    (inserts, inserts * 4)
                );
                inserted.extend(unique);
            }
            assert_eq!(inserted.len(), 128);
            assert_eq!(inserted.into_iter().collect::<HashSet<_>>(), new);
        }
    }
}

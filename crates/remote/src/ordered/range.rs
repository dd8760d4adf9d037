//! Ranges of keys, and the leaves that a scan of one reads.

use super::leaf::{Leaf, Pair};

/// A range of an ordered map's keys, and the direction in which it is scanned. `&b"a"[..]` is the
/// range of all keys from `a` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyRange<'k> {
    /// No key of it is below this.
    pub from: &'k [u8],
    /// All keys of it are below this; `None` of a range up to the last key.
    pub to: Option<&'k [u8]>,
    /// Whether it is scanned from its last key down.
    pub is_reversed: bool,
}

impl<'k> From<&'k [u8]> for KeyRange<'k> {
    fn from(from: &'k [u8]) -> Self {
        Self {
            from,
            ..Self::default()
        }
    }
}

impl<'k, const N: usize> From<&'k [u8; N]> for KeyRange<'k> {
    fn from(from: &'k [u8; N]) -> Self {
        Self::from(&from[..])
    }
}

impl<'k> KeyRange<'k> {
    /// The same up to a key, which is not in it.
    #[must_use]
    pub fn to(self, to: &'k [u8]) -> Self {
        Self {
            to: Some(to),
            ..self
        }
    }

    /// The same in the other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            is_reversed: !self.is_reversed,
            ..self
        }
    }

    /// Whether a key is in it.
    #[must_use]
    pub fn has(&self, key: &[u8]) -> bool {
        self.from <= key && self.to.is_none_or(|to| key < to)
    }

    /// From where to where the rest lies, once the pairs up to this key were read, in the range's
    /// direction: for who reads it in pieces.
    #[must_use]
    pub fn rest(&self, last: Vec<u8>) -> (Vec<u8>, Option<Vec<u8>>) {
        if self.is_reversed {
            return (self.from.to_vec(), Some(last));
        }
        // The next key that there can be.
        let mut next = last;
        next.push(0);
        (next, self.to.map(<[u8]>::to_vec))
    }

    /// A key of the first leaf to be read, of a map whose keys have at most so many bytes; `None`
    /// if the range is empty.
    #[must_use]
    pub fn start(&self, longest: usize) -> Option<Vec<u8>> {
        if !self.is_reversed {
            return self.has(self.from).then(|| self.from.to_vec());
        }
        let last = match self.to {
            None => vec![u8::MAX; longest],
            Some(to) => last_below(to, longest)?,
        };
        (self.from <= &last[..]).then_some(last)
    }

    /// A key of the leaf to be read after this one; `None` at the end of the range.
    #[must_use]
    pub fn behind(&self, leaf: &Leaf, longest: usize) -> Option<Vec<u8>> {
        let next = match self.is_reversed {
            false => leaf.high.clone(),
            true => last_below(&leaf.low, longest),
        };
        next.filter(|next| self.has(next))
    }

    /// Adds pairs of a leaf, which are in the order of their keys, to those of the leaves before;
    /// no more than `most` in all.
    pub fn extend<K: AsRef<[u8]> + Into<Vec<u8>>, V: Into<Vec<u8>>>(
        &self,
        found: &mut Vec<Pair>,
        pairs: impl DoubleEndedIterator<Item = (K, V)>,
        most: usize,
    ) {
        let left = most - found.len();
        let inside = pairs.filter(|(key, _)| self.has(key.as_ref()));
        let inside = inside.map(|(key, value)| (key.into(), value.into()));
        match self.is_reversed {
            false => found.extend(inside.take(left)),
            true => found.extend(inside.rev().take(left)),
        }
    }
}

/// The last key below this one, among keys of at most so many bytes: so the leaf in front of one
/// that begins with a key is found as any other is.
fn last_below(key: &[u8], longest: usize) -> Option<Vec<u8>> {
    let (last, before) = key.split_last()?;
    let mut below = before.to_vec();
    if let Some(less) = last.checked_sub(1) {
        below.push(less);
        below.resize(longest.max(below.len()), u8::MAX);
    }
    Some(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All keys of at most three bytes out of a few, in order.
    fn keys() -> Vec<Vec<u8>> {
        let bytes = [0, 1, 7, 254, 255];
        let mut all = vec![Vec::new()];
        for _ in 0..3 {
            let longer = all
                .iter()
                .flat_map(|key: &Vec<u8>| bytes.map(|byte| [&key[..], &[byte]].concat()));
            let longer: Vec<_> = longer.collect();
            all.extend(longer);
            all.sort_unstable();
            all.dedup();
        }
        all
    }

    #[test]
    fn no_key_lies_between_a_key_and_the_last_one_below_it() {
        let all = keys();
        for key in &all {
            let below = last_below(key, 3);
            let below = below.as_deref();
            assert_eq!(below.is_none(), key.is_empty());
            let Some(below) = below else {
                continue;
            };
            assert!(below < &key[..] && below.len() <= 3, "{key:?}: {below:?}");
            assert!(!all.iter().any(|other| below < &other[..] && other < key));
        }
        assert_eq!(last_below(&[5], 0), Some(vec![4]));
    }

    #[test]
    fn a_range_is_its_first_keys_and_its_rest() {
        let all = keys();
        for is_reversed in [false, true] {
            let range = KeyRange {
                from: &all[3],
                to: Some(&all[100]),
                is_reversed,
            };
            for last in all.iter().filter(|key| range.has(key)) {
                let (from, to) = range.rest(last.clone());
                let rest = KeyRange::from(&from[..]).to(to.as_deref().unwrap());
                let is_behind = |key: &&Vec<u8>| (*key > last) != is_reversed && *key != last;
                let expected = all.iter().filter(|key| range.has(key)).filter(is_behind);
                assert!(all.iter().filter(|key| rest.has(key)).eq(expected));
            }
        }
    }

    #[test]
    fn ranges_begin_with_a_key_of_theirs() {
        let all = keys();
        for from in all.iter().step_by(7) {
            for to in all.iter().step_by(5) {
                let range = KeyRange::from(&from[..]).to(to);
                assert_eq!(range.start(3).is_some(), from < to);
                let start = range.reversed().start(3);
                assert_eq!(start.is_some(), from < to, "{from:?} {to:?}");
                assert!(start.is_none_or(|start| range.has(&start)));
            }
        }
        let all = KeyRange::default().reversed();
        assert_eq!(all.start(2), Some(vec![255, 255]));
    }
}

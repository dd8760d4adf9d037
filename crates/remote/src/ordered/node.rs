//! A node, and its words.

use super::layout::{NODE_HEAD, TreeShape};
use crate::sum::{bytes_of, put_bytes, sum};

/// A key's bytes.
pub(super) type Key = Box<[u8]>;

/// What a node holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NodeEntries {
    /// Keys and values, in order.
    Leaf(Vec<(Key, Box<[u8]>)>),
    /// Children, by the low key of each, in order; and the level, from 1 on.
    Inner(u16, Vec<(Key, u64)>),
}

/// A node of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Node {
    /// The node behind it on its level; 0 is none.
    pub(super) next: u64,
    /// The word of the lock on it; 0 is none. Only leaves are locked.
    pub(super) lock: u64,
    /// Grows with each change of its range or its entries.
    pub(super) version: u64,
    /// No key of it is below this.
    pub(super) low: Key,
    /// All keys of it are below this; none of the last of a level.
    pub(super) high: Option<Key>,
    pub(super) entries: NodeEntries,
}

/// The length that stands for no high key.
const NO_KEY: u64 = u64::MAX;

impl Node {
    /// The only leaf of an empty map.
    pub(super) fn first_leaf() -> Self {
        Self {
            next: 0,
            lock: 0,
            version: 1,
            low: Key::default(),
            high: None,
            entries: NodeEntries::Leaf(Vec::new()),
        }
    }

    /// Whether the key lies in the node's range.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        *self.low <= *key && !self.ends_before(key)
    }

    /// Whether the key lies behind the node's range.
    pub(super) fn ends_before(&self, key: &[u8]) -> bool {
        self.high.as_ref().is_some_and(|high| **high <= *key)
    }

    pub(super) fn level(&self) -> u16 {
        match &self.entries {
            NodeEntries::Leaf(_) => 0,
            NodeEntries::Inner(level, _) => *level,
        }
    }

    /// The level above its own; nothing of one that no tree has.
    pub(super) fn level_above(&self) -> Option<u16> {
        self.level().checked_add(1)
    }

    /// The words of a node at a place, its check among them.
    pub(super) fn encode(&self, shape: &TreeShape, at: u64) -> Vec<u64> {
        let mut words = vec![0; shape.words_at(self.level())];
        let count = match &self.entries {
            NodeEntries::Leaf(pairs) => pairs.len(),
            NodeEntries::Inner(_, children) => children.len(),
        };
        words[1] = u64::from(self.level()) | (count as u64) << 16;
        words[2..NODE_HEAD].copy_from_slice(&[self.next, self.lock, self.version]);
        let (_, mut rest) = words.split_at_mut(NODE_HEAD);
        put_key(&mut rest, shape, Some(&self.low));
        put_key(&mut rest, shape, self.high.as_deref());
        match &self.entries {
            NodeEntries::Leaf(pairs) => {
                for (key, value) in pairs {
                    put_key(&mut rest, shape, Some(key));
                    let (words, behind) = rest.split_at_mut(shape.value_words());
                    words[0] = value.len() as u64;
                    put_bytes(&mut words[1..], value);
                    rest = behind;
                }
            }
            NodeEntries::Inner(_, children) => {
                for (key, child) in children {
                    put_key(&mut rest, shape, Some(key));
                    rest[0] = *child;
                    rest = &mut rest[1..];
                }
            }
        }
        words[0] = sum(at, &words[1..]);
        words
    }

    /// The node of these words at a place; nothing if they were never that at one moment.
    pub(super) fn decode(shape: &TreeShape, at: u64, words: &[u64]) -> Option<Self> {
        let (&[check, about, next, lock, version], mut rest) =
            words.split_first_chunk::<NODE_HEAD>()?;
        let (level, count) = (about as u16, usize::from((about >> 16) as u16));
        let right = words.len() == shape.words_at(level) && check == sum(at, &words[1..]);
        if !right {
            return None;
        }
        let low = take_key(&mut rest, shape)??;
        let high = take_key(&mut rest, shape)?;
        let entries = if level == 0 {
            let mut pairs = Vec::with_capacity(count.min(shape.leaf_pairs.into()));
            for _ in 0..count {
                let key = take_key(&mut rest, shape)??;
                let (words, behind) = rest.split_at_checked(shape.value_words())?;
                let len = usize::try_from(words[0]).ok()?;
                pairs.push((key, bytes_of(&words[1..], len)?.into()));
                rest = behind;
            }
            NodeEntries::Leaf(pairs)
        } else {
            let mut children = Vec::with_capacity(count.min(shape.children.into()));
            for _ in 0..count {
                let key = take_key(&mut rest, shape)??;
                let (child, behind) = rest.split_first()?;
                children.push((key, *child));
                rest = behind;
            }
            NodeEntries::Inner(level, children)
        };
        Some(Self {
            next,
            lock,
            version,
            low,
            high,
            entries,
        })
    }

    /// Cuts the upper half off; what is left ends where it begins, and goes on at node `next`.
    pub(super) fn split(&mut self, next: u64) -> Self {
        let (middle, entries) = match &mut self.entries {
            NodeEntries::Leaf(pairs) => {
                let upper = pairs.split_off(pairs.len() / 2);
                (upper[0].0.clone(), NodeEntries::Leaf(upper))
            }
            NodeEntries::Inner(level, children) => {
                let upper = children.split_off(children.len() / 2);
                (upper[0].0.clone(), NodeEntries::Inner(*level, upper))
            }
        };
        Self {
            next: std::mem::replace(&mut self.next, next),
            // Whoever holds a leaf holds both halves.
            lock: self.lock,
            version: self.version,
            high: self.high.replace(middle.clone()),
            low: middle,
            entries,
        }
    }
}

/// Puts a key into the first words and goes on behind them.
fn put_key(rest: &mut &mut [u64], shape: &TreeShape, key: Option<&[u8]>) {
    let (words, behind) = std::mem::take(rest).split_at_mut(shape.key_words());
    words[0] = key.map_or(NO_KEY, |key| key.len() as u64);
    put_bytes(&mut words[1..], key.unwrap_or(&[]));
    *rest = behind;
}

/// The key in the first words, which is none if it says so; nothing if they make no sense. Goes on
/// behind them.
fn take_key(rest: &mut &[u64], shape: &TreeShape) -> Option<Option<Key>> {
    let (words, behind) = rest.split_at_checked(shape.key_words())?;
    *rest = behind;
    if words[0] == NO_KEY {
        return Some(None);
    }
    let len = usize::try_from(words[0]).ok()?;
    Some(Some(bytes_of(&words[1..], len)?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TreeShape = TreeShape {
        at: 0,
        key_bytes: 9,
        value_bytes: 3,
        leaf_pairs: 4,
        children: 5,
        nodes: 10,
    };

    #[test]
    fn nodes_are_their_words_and_notice_any_other() {
        let pair = |key: &str, value: &str| (key.as_bytes().into(), value.as_bytes().into());
        let mut leaf = Node {
            next: 3,
            lock: 0x5_0000_0002,
            version: 8,
            low: b"b"[..].into(),
            high: Some(b"longest k"[..].into()),
            entries: NodeEntries::Leaf(vec![pair("b", ""), pair("c", "val"), pair("d", "x")]),
        };
        let child = |key: &str, child| (key.as_bytes().into(), child);
        let inner = Node {
            next: 0,
            lock: 0,
            version: 9,
            low: Key::default(),
            high: None,
            entries: NodeEntries::Inner(2, vec![child("", 4), child("k", 5)]),
        };
        for node in [&leaf, &inner, &Node::first_leaf()] {
            let words = node.encode(&SHAPE, 64);
            assert_eq!(Node::decode(&SHAPE, 64, &words).as_ref(), Some(node));
            assert_eq!(Node::decode(&SHAPE, 72, &words), None);
            for word in 0..words.len() {
                let mut torn = words.clone();
                torn[word] ^= 1 << 17;
                assert_eq!(Node::decode(&SHAPE, 64, &torn), None);
            }
        }
        assert!(leaf.covers(b"b") && leaf.covers(b"longest") && !leaf.covers(b"longest k"));
        assert!(!leaf.covers(b"a") && inner.covers(b"") && leaf.ends_before(b"m"));
        let upper = leaf.split(9);
        assert_eq!((leaf.next, upper.next), (9, 3));
        assert_eq!((leaf.lock, leaf.version), (upper.lock, upper.version));
        assert_eq!(leaf.high.as_deref(), Some(&b"c"[..]));
        assert_eq!(
            (&*upper.low, upper.high.as_deref()),
            (&b"c"[..], Some(&b"longest k"[..]))
        );
    }
}

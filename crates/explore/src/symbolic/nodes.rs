//! The nodes of all diagrams, each once, and their union.

use super::cache::{Cache, Operation};
use crate::error::ExploreError;
use farslot_set::{Outcome, PairSet, Spare};

/// The diagram of no marking.
pub(super) const EMPTY: u32 = 0;
/// Below the last level: the marking is in the set.
pub(super) const END: u32 = 1;
/// Numbers of nodes begin behind both.
const FIRST: u32 = 2;
/// Nodes to begin with.
const FEW: u64 = 1 << 14;
/// Garbage is collected again once there are so many times as many nodes as were live.
const AGAIN: u64 = 2;
/// The kind of operation that is no transition's.
const UNION: u32 = u32::MAX;

/// A node: markings with `value` tokens in its place are in `down`, those with more in `right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) value: u32,
    pub(super) down: u32,
    pub(super) right: u32,
}

/// One value of a level and what is below it.
pub(super) type Branch = (u32, u32);

/// What making a diagram may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes for the nodes and the operation cache.
    pub(super) memory: u64,
    /// Results of operations.
    pub(super) operations: u64,
    /// Nodes below which garbage is not worth its collection.
    pub(super) garbage: u64,
}

/// Why a diagram could not be made.
#[derive(Debug)]
pub(super) enum Halt {
    /// After as many operations as were allowed.
    Operations,
    Failed(ExploreError),
}

impl From<ExploreError> for Halt {
    fn from(error: ExploreError) -> Self {
        Self::Failed(error)
    }
}

#[derive(Debug)]
pub(super) struct Nodes {
    table: PairSet,
    spare: Spare,
    pub(super) cache: Cache,
    limits: Limits,
    /// Branches of the lists that are being made, those of the innermost last.
    branches: Vec<Branch>,
    /// Garbage is collected where there are more nodes than this and it is safe.
    collect_above: u64,
    collections: u64,
}

impl Nodes {
    pub(super) fn new(limits: Limits) -> Result<Self, ExploreError> {
        Ok(Self {
            table: PairSet::new(FEW)?,
            spare: Spare::default(),
            cache: Cache::new(limits.memory / 3),
            limits,
            branches: Vec::new(),
            collect_above: limits.garbage,
            collections: 0,
        })
    }

    #[inline]
    pub(super) fn get(&self, node: u32) -> Node {
        let [links, value] = self.table.get(node - FIRST);
        Node {
            value: value as u32,
            down: links as u32,
            right: (links >> 32) as u32,
        }
    }

    /// The branches of a list, from `node` on.
    #[inline]
    pub(super) fn list(&self, node: u32) -> List<'_> {
        List { nodes: self, node }
    }

    fn put(&mut self, node: Node) -> Result<u32, ExploreError> {
        let pair = [
            u64::from(node.down) | u64::from(node.right) << 32,
            u64::from(node.value),
        ];
        loop {
            match self.table.find_or_put(&mut self.spare, pair) {
                Outcome::Found(index) | Outcome::Inserted(index) => return Ok(index + FIRST),
                Outcome::Full => self.grow()?,
            }
        }
    }

    fn grow(&mut self) -> Result<(), ExploreError> {
        // While it is copied, the old memory is there beside the new one.
        let needed = 3 * self.table.bytes() + self.cache.bytes();
        if needed > self.limits.memory {
            return Err(ExploreError::OutOfMemory {
                needed,
                limit: self.limits.memory,
                states: self.table.len(),
            });
        }
        self.table.grow()?;
        Ok(())
    }

    /// The list with these branches, in ascending order of values. Branches to nothing are left
    /// out.
    pub(super) fn make(&mut self, branches: &[Branch]) -> Result<u32, ExploreError> {
        let mut right = EMPTY;
        for &(value, down) in branches.iter().rev() {
            if down != EMPTY {
                right = self.put(Node { value, down, right })?;
            }
        }
        Ok(right)
    }

    /// The markings of both.
    pub(super) fn union(&mut self, one: u32, two: u32) -> Result<u32, Halt> {
        if one == two || two == EMPTY {
            return Ok(one);
        }
        if one == EMPTY {
            return Ok(two);
        }
        let operation = Operation {
            kind: UNION,
            one: one.min(two),
            two: one.max(two),
        };
        if let Some(result) = self.cache.get(operation) {
            return Ok(result);
        }
        let start = self.branches.len();
        let (mut left, mut other) = (one, two);
        while left != EMPTY && other != EMPTY {
            let (mine, its) = (self.get(left), self.get(other));
            let branch = match mine.value.cmp(&its.value) {
                std::cmp::Ordering::Less => {
                    left = mine.right;
                    (mine.value, mine.down)
                }
                std::cmp::Ordering::Greater => {
                    other = its.right;
                    (its.value, its.down)
                }
                std::cmp::Ordering::Equal => {
                    (left, other) = (mine.right, its.right);
                    (mine.value, self.union(mine.down, its.down)?)
                }
            };
            self.branches.push(branch);
        }
        // What is left of one of them stands behind all others as it is.
        let mut result = if left == EMPTY { other } else { left };
        while self.branches.len() > start {
            let (value, down) = self.branches[self.branches.len() - 1];
            let right = result;
            result = self.put(Node { value, down, right })?;
            self.branches.pop();
        }
        self.remember(operation, result)
    }

    /// Puts the result of an operation into the cache, and returns it.
    #[inline]
    pub(super) fn remember(&mut self, operation: Operation, result: u32) -> Result<u32, Halt> {
        self.cache.put(operation, result);
        if self.cache.writes() > self.limits.operations {
            return Err(Halt::Operations);
        }
        Ok(result)
    }

    /// Whether there are so many nodes that garbage should be collected.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.table.len() > self.collect_above
    }

    /// Drops all nodes that the diagrams of `roots` do not have, and what the cache says of them.
    /// No other diagram may be in use, in the making either.
    pub(super) fn collect(&mut self, roots: &[u32]) -> Result<(), ExploreError> {
        // While it is rebuilt, the old memory is there beside the new one.
        if 2 * self.table.bytes() + self.cache.bytes() > self.limits.memory {
            self.collect_above = u64::MAX;
            return Ok(());
        }
        let mut live = vec![0u64; self.table.capacity().div_ceil(64) as usize];
        let mut next = roots.to_vec();
        while let Some(node) = next.pop() {
            if node < FIRST {
                continue;
            }
            let (word, bit) = ((node - FIRST) as usize / 64, 1 << ((node - FIRST) % 64));
            if live[word] & bit == 0 {
                live[word] |= bit;
                let Node { down, right, .. } = self.get(node);
                next.extend([down, right]);
            }
        }
        let is_live = |index: u32| (live[index as usize / 64] >> (index % 64)) & 1 != 0;
        self.table.collect(is_live)?;
        self.cache
            .retain(|node| node < FIRST || is_live(node - FIRST));
        self.collect_above = self.limits.garbage.max(AGAIN * self.table.len());
        self.collections += 1;
        Ok(())
    }

    /// How often garbage was collected.
    #[cfg(test)]
    pub(super) fn collections(&self) -> u64 {
        self.collections
    }

    /// Sets the limits anew.
    pub(super) fn allow(&mut self, limits: Limits) {
        self.limits = limits;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.table.bytes() + self.cache.bytes()
    }
}

/// The branches of a list.
#[derive(Debug)]
pub(super) struct List<'n> {
    nodes: &'n Nodes,
    node: u32,
}

impl Iterator for List<'_> {
    type Item = Branch;

    #[inline]
    fn next(&mut self) -> Option<Branch> {
        if self.node == EMPTY {
            return None;
        }
        let node = self.nodes.get(self.node);
        self.node = node.right;
        Some((node.value, node.down))
    }
}

//! What the owner does in the tree.

use super::layout::{PAIRS, PROMISED, ROOT, TreeShape, USED};
use super::node::{Key, Node, NodeEntries};
use crate::error::RefusalReason;
use farslot_fabric::OwnerMemory;
use farslot_rpc::Fault;

/// A map as its owner has it.
pub(super) struct Owner<'m> {
    pub(super) shape: &'m TreeShape,
    pub(super) memory: &'m mut dyn OwnerMemory,
}

/// The way to a leaf: the numbers of its nodes from the root on, and the nodes.
pub(super) type LeafPath = Vec<(u64, Node)>;

/// Nodes on the longest way: with two children each, which is half of the fewest that a full node
/// may have, that is a tree of more nodes than can be numbered.
const HIGHEST: usize = 32;

/// How a write is to treat the pair that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Write {
    /// Sets the value.
    Put,
    /// Sets the value of an absent key.
    Insert,
    /// Sets the value of a key that is there.
    Update,
}

impl Owner<'_> {
    /// The way to the leaf of a key. Of an empty map it makes the first leaf, if that is asked for.
    pub(super) fn way_to(&mut self, key: &[u8], make: bool) -> Result<LeafPath, Fault> {
        let mut number = self.memory.load(self.shape.header(ROOT))?;
        if number == 0 {
            if !make {
                return Ok(LeafPath::new());
            }
            number = self.take_node()?;
            self.store(number, &Node::first_leaf())?;
            self.memory.store(self.shape.header(ROOT), number)?;
        }
        let mut way = LeafPath::new();
        loop {
            let node = self.load(number)?;
            let lower = way
                .last()
                .is_none_or(|(_, above): &(u64, Node)| node.level_above() == Some(above.level()));
            if way.len() == HIGHEST || !node.covers(key) || !lower {
                return Err(Fault::Damaged);
            }
            let child = match &node.entries {
                NodeEntries::Leaf(_) => None,
                NodeEntries::Inner(_, children) => {
                    let behind = children.partition_point(|(low, _)| **low <= *key);
                    let child = behind.checked_sub(1).ok_or(Fault::Damaged)?;
                    Some(children[child].1)
                }
            };
            way.push((number, node));
            match child {
                None => return Ok(way),
                Some(child) => number = child,
            }
        }
    }

    /// Sets a key's value, or leaves it; returns whether the key was there. Of a leaf that is
    /// locked only its holder may change anything, which has been promised room.
    pub(super) fn write(
        &mut self,
        how: Write,
        key: &[u8],
        value: &[u8],
        holder: u64,
    ) -> Result<bool, Fault> {
        let mut way = self.way_to(key, how != Write::Update)?;
        let Some((_, leaf)) = way.last_mut() else {
            return Ok(false);
        };
        if leaf.lock != holder {
            return Err(RefusalReason::Locked.into());
        }
        let NodeEntries::Leaf(pairs) = &mut leaf.entries else {
            return Err(Fault::Damaged);
        };
        let found = pairs.binary_search_by(|(other, _)| (**other).cmp(key));
        match (found, how) {
            (Ok(_), Write::Insert) => return Ok(true),
            (Err(_), Write::Update) => return Ok(false),
            (Ok(at), _) => pairs[at].1 = value.into(),
            (Err(at), _) => pairs.insert(at, (key.into(), value.into())),
        }
        let new = found.is_err();
        // Before anything is changed.
        let needed = self.new_nodes(&way);
        let is_full = match holder {
            // So many that holders' promises last, however the tree grows meanwhile.
            0 => needed > 0 && self.unpromised()? < way.len() as u64 + 1,
            // For which it has grown by more than was promised, or others have.
            _ => needed > self.nodes_left()?,
        };
        if is_full {
            return Err(RefusalReason::Full.into());
        }
        self.put(way)?;
        if new {
            self.add_pairs(1)?;
        }
        Ok(!new)
    }

    /// Removes a key; returns whether it was there. Of a leaf that is locked only its holder may.
    pub(super) fn remove(&mut self, key: &[u8], holder: u64) -> Result<bool, Fault> {
        let mut way = self.way_to(key, false)?;
        let Some((number, mut leaf)) = way.pop() else {
            return Ok(false);
        };
        if leaf.lock != holder {
            return Err(RefusalReason::Locked.into());
        }
        let NodeEntries::Leaf(pairs) = &mut leaf.entries else {
            return Err(Fault::Damaged);
        };
        let Ok(at) = pairs.binary_search_by(|(other, _)| (**other).cmp(key)) else {
            return Ok(false);
        };
        pairs.remove(at);
        leaf.version = leaf.version.wrapping_add(1);
        self.store(number, &leaf)?;
        self.add_pairs(-1)?;
        Ok(true)
    }

    /// Nodes that are to be made if the last node of a way is stored as it is: a half of each that
    /// is split, and a root above the old one.
    fn new_nodes(&self, way: &LeafPath) -> u64 {
        let mut ends = way.iter().rev().enumerate();
        // Each above the last has one entry more by then.
        let kept = ends.position(|(height, (_, node))| !self.is_over(node, height.min(1)));
        kept.unwrap_or(way.len() + 1) as u64
    }

    /// Whether a node has more entries than it may, with so many new ones.
    fn is_over(&self, node: &Node, new: usize) -> bool {
        match &node.entries {
            NodeEntries::Leaf(pairs) => pairs.len() + new > self.shape.leaf_pairs.into(),
            NodeEntries::Inner(_, children) => children.len() + new > self.shape.children.into(),
        }
    }

    /// Stores the last node of a way, which may be split for it, and then each above that has to
    /// learn of that.
    fn put(&mut self, mut way: LeafPath) -> Result<(), Fault> {
        while let Some((number, mut node)) = way.pop() {
            node.version = node.version.wrapping_add(1);
            if !self.is_over(&node, 0) {
                return self.store(number, &node);
            }
            let new = self.take_node()?;
            let upper = node.split(new);
            let entry = (upper.low.clone(), new);
            // The upper half first: whoever finds the lower one cut finds it.
            self.store(new, &upper)?;
            self.store(number, &node)?;
            match way.last_mut() {
                Some((_, above)) => add_child(above, entry)?,
                None => return self.grow(number, &node, entry),
            }
        }
        Ok(())
    }

    /// Makes a new root above the old one's halves.
    fn grow(&mut self, number: u64, lower: &Node, upper: (Key, u64)) -> Result<(), Fault> {
        let children = vec![(lower.low.clone(), number), upper];
        let level = lower.level_above().ok_or(Fault::Damaged)?;
        let root = Node {
            entries: NodeEntries::Inner(level, children),
            ..Node::first_leaf()
        };
        let new = self.take_node()?;
        self.store(new, &root)?;
        Ok(self.memory.store(self.shape.header(ROOT), new)?)
    }

    /// Nodes that are neither used nor promised.
    pub(super) fn unpromised(&self) -> Result<u64, Fault> {
        let promised = self.memory.load(self.shape.header(PROMISED))?;
        Ok(self.nodes_left()?.saturating_sub(promised))
    }

    /// Promises so many nodes more, or fewer.
    pub(super) fn promise(&mut self, change: i64) -> Result<(), Fault> {
        let promised = self.memory.load(self.shape.header(PROMISED))?;
        let promised = promised.saturating_add_signed(change);
        Ok(self.memory.store(self.shape.header(PROMISED), promised)?)
    }

    fn nodes_left(&self) -> Result<u64, Fault> {
        let used = self.memory.load(self.shape.header(USED))?;
        let nodes = u64::from(self.shape.nodes);
        nodes.checked_sub(used).ok_or(Fault::Damaged)
    }

    fn take_node(&mut self) -> Result<u64, Fault> {
        if self.nodes_left()? == 0 {
            return Err(RefusalReason::Full.into());
        }
        let used = self.memory.load(self.shape.header(USED))? + 1;
        self.memory.store(self.shape.header(USED), used)?;
        Ok(used)
    }

    fn add_pairs(&mut self, change: i64) -> Result<(), Fault> {
        let pairs = self.memory.load(self.shape.header(PAIRS))?;
        let pairs = pairs.wrapping_add_signed(change);
        Ok(self.memory.store(self.shape.header(PAIRS), pairs)?)
    }

    pub(super) fn load(&self, number: u64) -> Result<Node, Fault> {
        let at = self.shape.node_at(number).ok_or(Fault::Damaged)?;
        let level = self.memory.load(at + 8)? as u16;
        let mut words = vec![0; self.shape.words_at(level)];
        self.memory.copy_out(at, &mut words)?;
        Node::decode(self.shape, at, &words).ok_or(Fault::Damaged)
    }

    /// Stores what is new of a node, its check last.
    pub(super) fn store(&mut self, number: u64, node: &Node) -> Result<(), Fault> {
        let at = self.shape.node_at(number).ok_or(Fault::Damaged)?;
        let words = node.encode(self.shape, at);
        let mut known = vec![0; words.len()];
        self.memory.copy_out(at, &mut known)?;
        for (index, (word, known)) in words.iter().zip(&known).enumerate().skip(1) {
            if word != known {
                self.memory.store(at + index as u64 * 8, *word)?;
            }
        }
        Ok(self.memory.store(at, words[0])?)
    }
}

fn add_child(above: &mut Node, (low, child): (Key, u64)) -> Result<(), Fault> {
    let NodeEntries::Inner(_, children) = &mut above.entries else {
        return Err(Fault::Damaged);
    };
    let at = children.partition_point(|(other, _)| *other < low);
    children.insert(at, (low, child));
    Ok(())
}

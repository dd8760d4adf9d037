//! The directory: which subtable a key belongs to.
//!
//! In the table it is a list of splits, one word each, appended to by compare-and-swap and never
//! changed again but for one bit. Split number `n` has made subtable `roots + n`:
//!
//! ```text
//! | 1 | finished, 1 bit | depth before, 5 bits | 0 | parent, 32 bits |
//! ```
//! A client has the array that extendible hashing asks for, made from the splits that it has read:
//! a subtable for each suffix of a route. It reads on from where it was, so that a split costs
//! those who did not make it one READ of a word or a few, and doubling costs nobody anything. How
//! deep the splits may go is bounded by the layout, so that no list, however damaged, makes the
//! array longer than a table of that layout can need.

const USED: u64 = 1 << 63;
const FINISHED: u64 = 1 << 62;
const DEPTH_SHIFT: u32 = 57;
const PARENT: u64 = (1 << 32) - 1;

/// A subtable and the keys that are its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SubtableLeaf {
    pub(super) subtable: u64,
    /// How often its line has split.
    pub(super) depth: u32,
    /// How its keys' routes end.
    pub(super) suffix: u64,
}

/// A split: half of the parent's keys, those with the next bit set, go to the child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SubtableSplit {
    /// Its number.
    pub(super) number: u64,
    pub(super) parent: u64,
    pub(super) child: u64,
    /// The parent's depth before.
    pub(super) depth: u32,
}

impl SubtableSplit {
    /// Its entry, while records may still move.
    pub(super) const fn entry(self) -> u64 {
        USED | (self.depth as u64) << DEPTH_SHIFT | self.parent
    }
}

/// The entry of a split that is finished.
pub(super) const fn finished(entry: u64) -> u64 {
    entry | FINISHED
}

/// Whether the split with this entry is.
pub(super) const fn is_finished(entry: u64) -> bool {
    entry & FINISHED != 0
}

/// What a client knows of a subtable.
struct Subtable {
    depth: u32,
    suffix: u64,
    /// The last split that it was the parent or the child of.
    last_split: Option<SubtableSplit>,
}

/// The directory as a client has it.
pub(super) struct RaceDirectory {
    /// Bits of a route that choose among the first subtables.
    root_bits: u32,
    /// How often a subtable can split along its line.
    most_depth: u32,
    subtables: Vec<Subtable>,
    /// The subtable of every suffix of as many bits as matter: the global depth.
    of_suffix: Vec<u32>,
}

impl RaceDirectory {
    /// That of a table that was never split. There is a power of two of roots, at most 2^31.
    pub(super) fn new(roots: u64, most_depth: u32) -> Self {
        let root = |suffix| Subtable {
            depth: 0,
            suffix,
            last_split: None,
        };
        Self {
            root_bits: roots.trailing_zeros(),
            most_depth,
            subtables: (0..roots).map(root).collect(),
            of_suffix: (0..roots as u32).collect(),
        }
    }

    /// Bytes of memory of one that was never split.
    pub(super) const fn bytes_of(roots: u64) -> u64 {
        roots * (size_of::<Subtable>() + size_of::<u32>()) as u64
    }

    /// Splits that are known.
    pub(super) fn splits(&self) -> u64 {
        self.subtables() - (1 << self.root_bits)
    }

    pub(super) fn subtables(&self) -> u64 {
        self.subtables.len() as u64
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let subtables = self.subtables.capacity() * size_of::<Subtable>();
        (subtables + self.of_suffix.capacity() * size_of::<u32>()) as u64
    }

    /// The subtable of the keys with this route.
    #[inline]
    pub(super) fn leaf_of(&self, route: u64) -> SubtableLeaf {
        let suffix = route & (self.of_suffix.len() as u64 - 1);
        self.leaf(u64::from(self.of_suffix[suffix as usize]))
    }

    /// A subtable that is known.
    #[inline]
    pub(super) fn leaf(&self, subtable: u64) -> SubtableLeaf {
        let Subtable { depth, suffix, .. } = self.subtables[subtable as usize];
        SubtableLeaf {
            subtable,
            depth,
            suffix,
        }
    }

    /// Whether a key with this route belongs to a leaf.
    pub(super) fn belongs(&self, route: u64, leaf: SubtableLeaf) -> bool {
        route & ((1 << self.bits(leaf)) - 1) == leaf.suffix
    }

    /// Bits of a leaf's suffix.
    pub(super) fn bits(&self, leaf: SubtableLeaf) -> u32 {
        self.root_bits + leaf.depth
    }

    /// The bit of a route that decides which half of a split a key goes to.
    pub(super) const fn goes_to_child(&self, route: u64, split: SubtableSplit) -> bool {
        route >> (self.root_bits + split.depth) & 1 == 1
    }

    /// The last split that a subtable was part of: the only one whose records may still move.
    pub(super) fn last_split(&self, subtable: u64) -> Option<SubtableSplit> {
        self.subtables[subtable as usize].last_split
    }

    /// The split of a subtable that would come next in the list.
    pub(super) fn next_split(&self, leaf: SubtableLeaf) -> SubtableSplit {
        SubtableSplit {
            number: self.splits(),
            parent: leaf.subtable,
            child: self.subtables(),
            depth: leaf.depth,
        }
    }

    /// Takes in the next entry of the list; false if it is none that a client writes there.
    pub(super) fn append(&mut self, entry: u64) -> bool {
        let (number, child) = (self.splits(), self.subtables());
        let parent = entry & PARENT;
        let Some(of) = self.subtables.get(parent as usize) else {
            return false;
        };
        let (depth, suffix) = (of.depth, of.suffix);
        let split = SubtableSplit {
            number,
            parent,
            child,
            depth,
        };
        if split.entry() != entry & !FINISHED || depth >= self.most_depth {
            return false;
        }
        let bits = self.root_bits + depth;
        if self.of_suffix.len() >> bits == 1 {
            self.of_suffix.extend_from_within(..);
        }
        let child_suffix = suffix | 1 << bits;
        let step = 2 << bits;
        for place in (child_suffix as usize..self.of_suffix.len()).step_by(step) {
            self.of_suffix[place] = child as u32;
        }
        let last_split = Some(split);
        let depth = depth + 1;
        let of = &mut self.subtables[parent as usize];
        (of.depth, of.last_split) = (depth, last_split);
        self.subtables.push(Subtable {
            depth,
            suffix: child_suffix,
            last_split,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_route_has_the_one_leaf_whose_suffix_it_ends_in(
            root_bits in 0u32..4,
            splits in proptest::collection::vec(any::<proptest::sample::Index>(), 0..60),
            routes in proptest::collection::vec(any::<u64>(), 20),
        ) {
            const MOST_DEPTH: u32 = 10;
            let mut directory = RaceDirectory::new(1 << root_bits, MOST_DEPTH);
            let mut entries = Vec::new();
            for split in splits {
                let parent = split.index(directory.subtables() as usize) as u64;
                let leaf = directory.leaf(parent);
                let split = directory.next_split(leaf);
                let can_split = leaf.depth < MOST_DEPTH;
                prop_assert_eq!(directory.append(finished(split.entry())), can_split);
                if can_split {
                    prop_assert_eq!(directory.last_split(parent), Some(split));
                    prop_assert_eq!(directory.last_split(split.child), Some(split));
                    entries.push(split.entry());
                }
            }
            for route in routes {
                let all = (0..directory.subtables()).map(|subtable| directory.leaf(subtable));
                let of_route: Vec<_> = all.filter(|leaf| directory.belongs(route, *leaf)).collect();
                prop_assert_eq!(&of_route[..], &[directory.leaf_of(route)][..]);
            }
            // Who reads the list later comes to the same.
            let mut later = RaceDirectory::new(1 << root_bits, MOST_DEPTH);
            for entry in entries {
                prop_assert!(!is_finished(entry) && later.append(entry));
            }
            prop_assert_eq!(later.of_suffix, directory.of_suffix);
        }
    }

    #[test]
    fn entries_that_no_client_writes_are_noticed() {
        let mut directory = RaceDirectory::new(2, 8);
        let split = directory.next_split(directory.leaf(1));
        let unknown_parent = SubtableSplit { parent: 2, ..split };
        let other_depth = SubtableSplit { depth: 1, ..split };
        for entry in [
            0,
            1,
            unknown_parent.entry(),
            other_depth.entry(),
            split.entry() | 1 << 40,
        ] {
            assert!(!directory.append(entry), "{entry:#x}");
        }
        assert!(directory.append(split.entry()));
        assert_eq!(directory.splits(), 1);
    }
}

//! The bound that does carry over: the vacant slots of a connected component.

/// Vacant slots of connected components: k slots a vertex less one an edge, in a union-find.
///
/// An insertion whose components together have none fails for certain. That they have some proves
/// nothing unless buckets have one slot and keys two candidates. It knows of no removals.
#[derive(Clone, Debug)]
pub struct ComponentSpare {
    /// The next vertex towards the root; a root is its own.
    parents: Box<[u32]>,
    /// Of a root: its component's vacant slots, and its vertices.
    spare: Box<[i64]>,
    sizes: Box<[u32]>,
}

impl ComponentSpare {
    /// Of so many buckets, all vacant, of `slots` slots each.
    #[must_use]
    pub fn new(buckets: u32, slots: u32) -> Self {
        Self {
            parents: (0..buckets).collect(),
            spare: vec![i64::from(slots); buckets as usize].into(),
            sizes: vec![1; buckets as usize].into(),
        }
    }

    /// Whether the components of these buckets have a vacant slot.
    pub fn admits(&mut self, candidates: &[u32]) -> bool {
        let mut candidates = candidates.iter();
        candidates.any(|&bucket| {
            let root = self.root(bucket);
            self.spare[root as usize] > 0
        })
    }

    /// Adds a record with these candidates.
    pub fn connect(&mut self, candidates: &[u32]) {
        let Some((&first, others)) = candidates.split_first() else {
            return;
        };
        let mut root = self.root(first);
        for &other in others {
            let other = self.root(other);
            if other != root {
                let is_larger = self.sizes[other as usize] > self.sizes[root as usize];
                let (up, down) = if is_larger {
                    (other, root)
                } else {
                    (root, other)
                };
                self.parents[down as usize] = up;
                self.sizes[up as usize] += self.sizes[down as usize];
                self.spare[up as usize] += self.spare[down as usize];
                root = up;
            }
        }
        self.spare[root as usize] -= 1;
    }

    fn root(&mut self, mut vertex: u32) -> u32 {
        while self.parents[vertex as usize] != vertex {
            let next = self.parents[vertex as usize];
            self.parents[vertex as usize] = self.parents[next as usize];
            vertex = next;
        }
        vertex
    }
}

//! Who is connected with whom: the subgraphs of the pseudoforest, in four bytes a bucket.
//!
//! A bucket is a *vertex*, a record an *edge* between its two candidate buckets, and a connected
//! component a *subgraph* (paper 004, section 3.1). A subgraph with as many edges as vertices is
//! *maximal*: it has a cycle and no vacant bucket. One with an edge fewer is a tree and has exactly
//! one vacant bucket. As every record lies in one of its two buckets, there are no others.
//!
//! # What is kept
//!
//! The paper gives each vertex the id of a subgraph, ids a tree of merged subgraphs, and subgraphs
//! counts of vertices and edges. Here one word a bucket is all of that: a union-find whose roots
//! say how many vertices their subgraph has and which kind it is. Bits 31 and 30:
//!
//! ```text
//! 00  not a root; bits 29..0: the next vertex towards the root
//! 01  root of a tree; bits 29..0: its vertices. 1: a bucket that no record has as a candidate
//! 10  root of a maximal subgraph
//! 11  root of a group: subgraphs that were one until records were removed
//! ```
//!
//! # When it is kept
//!
//! To keep a union-find costs an insertion two random reads and more, and below half of the slots,
//! where maximal subgraphs are few and small, it saves next to nothing: most insertions find a
//! vacant bucket, and the others would have to follow a path anyway. So a forest begins *unbuilt*:
//! nothing is known of any subgraph, and what an insertion has to know is read off the records, as
//! after deletions (below). Once that has cost enough, the forest is built, and kept from then on.
//!
//! # Deletions
//!
//! Without an edge, a subgraph may be two; a union-find cannot be split, and to number one of the
//! parts anew, as the paper does, needs all vertices of it, which only a scan of all records finds.
//! So a deletion here costs a constant: the two parts stay one *group*, of which is known that its
//! kind is not known. Only an insertion both of whose buckets are occupied must know it. It learns
//! it by following the path of backups from its buckets, reading and moving nothing, and where that
//! leads to a vacant bucket, it is the very path that it has to take anyway. What it cost to read
//! paths that ended in cycles is added up ([`Forest::note_futile_steps`]); once that is as many
//! steps as there are buckets, the forest is built anew from the records, once over all of them. So
//! the cost of not knowing is at most about twice that of the futile steps (the ski-rental
//! argument); in a forest that was built and then lost no edge there are none; and no failure is
//! ever found by kicking records out.
//!
//! Below half of the slots that is a fraction of a step an insertion. In a table of fixed size that
//! is kept at an occupancy of 0.8, where each removal is followed by insertions that mostly fail,
//! it is some hundred reads for each of those (and no move): there the one giant subgraph is hardly
//! ever known to be maximal.
//!
//! Three deletions leave everything known: of the only edge of two vertices, of one of two edges
//! between two vertices, and of an edge on the cycle of a maximal subgraph, which becomes a tree.

/// The most buckets that a forest has.
pub(crate) const MOST_BUCKETS: u32 = (1 << 30) - 2;

const KIND: u32 = 0b11 << 30;
const TREE: u32 = 0b01 << 30;
const MAXIMAL: u32 = 0b10 << 30;
const GROUP: u32 = 0b11 << 30;
const LOW: u32 = !KIND;

/// What is known of a bucket's subgraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is a tree (non-maximal): one of its buckets is vacant.
    Tree,
    /// It is maximal: none is vacant, and a walk in it would never end.
    Maximal,
    /// It was part of another before records were removed, or the forest is unbuilt: a path must be
    /// followed to know.
    Unknown,
}

/// What an insertion meets: the cases of paper 004, section 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scenario {
    /// v+2: no record has either bucket as a candidate. A new tree.
    TwoNewVertices,
    /// v+1: none has one of them. The other one's subgraph gains a vertex and an edge and stays
    /// what it is.
    OneNewVertex,
    /// v+0, figure 4(a): both in the same tree, which becomes maximal. Either may be entered.
    OneTree,
    /// v+0, figure 4(b): in two trees, which become one. Either may be entered.
    TwoTrees,
    /// v+0, figure 4(c): in a tree and a maximal subgraph, which become one maximal. Only the tree
    /// may be entered.
    TreeAndMaximal,
    /// v+0, figure 4(d): in two maximal subgraphs. The insertion fails.
    TwoMaximal,
    /// v+0, figure 4(e): in the same maximal subgraph. The insertion fails.
    OneMaximal,
    /// What one of the subgraphs is must be read off the records: after deletions, or because the
    /// forest is not kept yet.
    Unknown,
}

/// The subgraphs' identities and kinds.
#[derive(Clone, Debug)]
pub(crate) struct Forest {
    /// None while it is unbuilt.
    words: Box<[u32]>,
    vertices: u32,
    /// Steps of paths that were read to learn a kind, and ended in a cycle, since the last build.
    futile_steps: u64,
}

impl Forest {
    /// A forest of so many vertices without an edge, and that is known.
    pub(crate) fn new(buckets: u32) -> Self {
        Self {
            words: vec![TREE | 1; buckets as usize].into_boxed_slice(),
            ..Self::unbuilt(buckets)
        }
    }

    /// A forest of so many vertices of which nothing is known. It takes no memory.
    pub(crate) fn unbuilt(buckets: u32) -> Self {
        debug_assert!(buckets <= MOST_BUCKETS);
        Self {
            words: Box::default(),
            vertices: buckets,
            futile_steps: 0,
        }
    }

    /// Whether anything is known.
    #[inline]
    pub(crate) fn is_built(&self) -> bool {
        !self.words.is_empty()
    }

    /// Bytes for each bucket.
    pub(crate) const fn bytes_per_bucket() -> usize {
        size_of::<u32>()
    }

    /// What an insertion with these candidates meets.
    pub(crate) fn scenario(&self, first: u32, second: u32) -> Scenario {
        if !self.is_built() {
            return Scenario::Unknown;
        }
        let roots = [self.root(first), self.root(second)];
        let [one, two] = roots.map(|root| self.words[root as usize]);
        match (one == TREE | 1, two == TREE | 1) {
            (true, true) => return Scenario::TwoNewVertices,
            (true, false) | (false, true) => return Scenario::OneNewVertex,
            (false, false) => {}
        }
        let is_one = roots[0] == roots[1];
        match (standing(one), standing(two)) {
            (Standing::Unknown, _) | (_, Standing::Unknown) => Scenario::Unknown,
            (Standing::Tree, Standing::Tree) if is_one => Scenario::OneTree,
            (Standing::Tree, Standing::Tree) => Scenario::TwoTrees,
            (Standing::Maximal, Standing::Maximal) if is_one => Scenario::OneMaximal,
            (Standing::Maximal, Standing::Maximal) => Scenario::TwoMaximal,
            _ => Scenario::TreeAndMaximal,
        }
    }

    /// What is known of a bucket's subgraph, and how many vertices it, or its group, has.
    #[inline]
    pub(crate) fn standing(&mut self, bucket: u32) -> (Standing, u32) {
        match self.is_built() {
            true => self.known_standing(bucket),
            false => (Standing::Unknown, self.vertices),
        }
    }

    #[inline(never)]
    fn known_standing(&mut self, bucket: u32) -> (Standing, u32) {
        let root = self.shortened_root(bucket);
        let word = self.words[root as usize];
        (standing(word), word & LOW)
    }

    /// Adds the edge of a record that was placed.
    #[inline]
    pub(crate) fn connect(&mut self, first: u32, second: u32) {
        if self.is_built() {
            self.unite(first, second);
        }
    }

    /// Out of line, so that an insertion into a map without a forest is short.
    #[inline(never)]
    fn unite(&mut self, first: u32, second: u32) {
        let (one, two) = (self.shortened_root(first), self.shortened_root(second));
        let (word_one, word_two) = (self.words[one as usize], self.words[two as usize]);
        if one == two {
            if word_one & KIND == TREE {
                self.words[one as usize] = MAXIMAL | (word_one & LOW);
            }
            return;
        }
        // 01 and 01 give 01; with 10 they give a maximal subgraph, with 11 a group.
        let kind = match (word_one & KIND, word_two & KIND) {
            (TREE, kind) | (kind, TREE) => kind,
            (MAXIMAL, MAXIMAL) => MAXIMAL,
            _ => GROUP,
        };
        let size = (word_one & LOW) + (word_two & LOW);
        let (root, child) = match word_one & LOW >= word_two & LOW {
            true => (one, two),
            false => (two, one),
        };
        self.words[child as usize] = root;
        self.words[root as usize] = kind | size;
    }

    /// Removes the edge of a record that is taken from a bucket; `is_on_cycle`, if known, says
    /// whether the path from its backup leads to it.
    pub(crate) fn disconnect(&mut self, bucket: u32, backup: u32, is_on_cycle: bool) {
        if !self.is_built() {
            return;
        }
        let root = self.shortened_root(bucket);
        let word = self.words[root as usize];
        match (word & KIND, word & LOW) {
            (TREE, 2) => {
                self.words[bucket as usize] = TREE | 1;
                self.words[backup as usize] = TREE | 1;
            }
            (MAXIMAL, size) if is_on_cycle => self.words[root as usize] = TREE | size,
            (_, size) => self.words[root as usize] = GROUP | size,
        }
    }

    /// Notes steps that led into a cycle, which the forest should have known.
    pub(crate) fn note_futile_steps(&mut self, steps: u64) {
        self.futile_steps += steps;
    }

    /// Whether not knowing has cost as much as to build the forest anew would.
    pub(crate) fn is_worth_rebuilding(&self) -> bool {
        self.futile_steps > u64::from(self.vertices)
    }

    fn root(&self, mut vertex: u32) -> u32 {
        loop {
            let word = self.words[vertex as usize];
            if word & KIND != 0 {
                return vertex;
            }
            vertex = word;
        }
    }

    /// The root, and a path to it that is half as long from now on.
    #[inline]
    fn shortened_root(&mut self, mut vertex: u32) -> u32 {
        loop {
            let next = self.words[vertex as usize];
            if next & KIND != 0 {
                return vertex;
            }
            let after = self.words[next as usize];
            if after & KIND != 0 {
                return next;
            }
            self.words[vertex as usize] = after;
            vertex = after;
        }
    }
}

fn standing(word: u32) -> Standing {
    match word & KIND {
        TREE => Standing::Tree,
        MAXIMAL => Standing::Maximal,
        _ => Standing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_paper_is_told_apart() {
        let mut forest = Forest::new(16);
        assert_eq!(forest.scenario(0, 8), Scenario::TwoNewVertices);
        forest.connect(0, 8);
        assert_eq!(forest.scenario(0, 9), Scenario::OneNewVertex);
        assert_eq!(forest.scenario(0, 8), Scenario::OneTree);
        forest.connect(1, 9);
        assert_eq!(forest.scenario(0, 9), Scenario::TwoTrees);
        forest.connect(1, 9);
        assert_eq!(forest.scenario(0, 9), Scenario::TreeAndMaximal);
        assert_eq!(forest.scenario(1, 9), Scenario::OneMaximal);
        forest.connect(0, 8);
        assert_eq!(forest.scenario(0, 9), Scenario::TwoMaximal);
        assert_eq!(forest.scenario(0, 15), Scenario::OneNewVertex);
    }

    #[test]
    fn a_new_vertex_leaves_a_subgraph_what_it_is() {
        let mut forest = Forest::new(8);
        forest.connect(0, 4);
        forest.connect(0, 4);
        forest.connect(1, 4);
        assert_eq!(forest.standing(1), (Standing::Maximal, 3));
    }

    #[test]
    fn small_deletions_leave_nothing_unknown() {
        let mut forest = Forest::new(8);
        forest.connect(0, 4);
        forest.disconnect(0, 4, false);
        assert_eq!(forest.scenario(0, 4), Scenario::TwoNewVertices);
        forest.connect(0, 4);
        forest.connect(0, 4);
        forest.disconnect(0, 4, true);
        assert_eq!(forest.standing(4), (Standing::Tree, 2));
    }

    #[test]
    fn a_split_is_known_to_be_unknown() {
        let mut forest = Forest::new(8);
        forest.connect(0, 4);
        forest.connect(1, 4);
        forest.connect(1, 5);
        forest.disconnect(1, 4, false);
        assert_eq!(forest.standing(5), (Standing::Unknown, 4));
        forest.connect(2, 5);
        assert_eq!(forest.standing(2), (Standing::Unknown, 5));
    }

    #[test]
    fn of_an_unbuilt_forest_nothing_is_known() {
        let mut forest = Forest::unbuilt(8);
        forest.connect(0, 4);
        forest.disconnect(0, 4, false);
        assert_eq!(forest.scenario(0, 4), Scenario::Unknown);
        assert_eq!(forest.standing(0), (Standing::Unknown, 8));
        forest.note_futile_steps(8);
        assert!(!forest.is_worth_rebuilding());
        forest.note_futile_steps(1);
        assert!(forest.is_worth_rebuilding());
    }
}

//! Which buckets are in closed sets: for any table that moves records from bucket to bucket,
//! wherever its buckets are.

/// A set that is closed has itself as its root.
const OPEN: u32 = u32::MAX;
/// The label of a bucket that was never in a search.
const NONE: u32 = u32::MAX;

/// Labels of buckets, and the sets that they stand for: a union-find over sets.
///
/// A search [begins](Self::begin), [visits](Self::visit) the buckets that are not
/// [closed](Self::is_closed), and [closes](Self::close) them if it has come to no vacant slot.
/// Where a slot becomes vacant, its bucket is to be [opened](Self::open).
#[derive(Clone, Debug)]
pub struct ClosedSets {
    /// For each bucket, the last search or set that it was in.
    labels: Box<[u32]>,
    /// For each set the next one towards its root; [`OPEN`] for a root that is not closed (any
    /// more).
    sets: Vec<u32>,
}

impl ClosedSets {
    /// Of so many buckets, none of them closed; fewer than 2^32 - 1.
    #[must_use]
    pub fn new(buckets: usize) -> Self {
        Self {
            labels: vec![NONE; buckets].into_boxed_slice(),
            sets: Vec::new(),
        }
    }

    /// Bytes, at most, for each bucket.
    #[must_use]
    pub const fn bytes_per_bucket() -> usize {
        2 * size_of::<u32>()
    }

    /// Whether the bucket is in a closed set.
    #[inline]
    pub fn is_closed(&mut self, bucket: u32) -> bool {
        self.root_of(bucket).is_some()
    }

    /// Begins a search, the buckets of which may turn out to be closed. One that ends otherwise, a
    /// panic included, needs nothing more.
    pub fn begin(&mut self) -> u32 {
        // So that the sets never need more memory than the labels.
        if self.sets.len() >= self.labels.len() {
            self.compact();
        }
        self.sets.push(OPEN);
        (self.sets.len() - 1) as u32
    }

    /// Notes that a search has come to a bucket, which is not closed; whether it had not before.
    #[inline]
    pub fn visit(&mut self, bucket: u32, search: u32) -> bool {
        let label = &mut self.labels[bucket as usize];
        let is_new = *label != search;
        *label = search;
        is_new
    }

    /// Ends a search: its buckets are closed, given that those of the closed sets it met are.
    pub fn close(&mut self, search: u32, met: &[u32]) {
        self.sets[search as usize] = search;
        for &bucket in met {
            if let Some(root) = self.root_of(bucket) {
                self.sets[root as usize] = search;
            }
        }
    }

    /// Opens the set that a bucket is in, because one of its slots is vacant now.
    pub fn open(&mut self, bucket: u32) {
        if let Some(root) = self.root_of(bucket) {
            self.sets[root as usize] = OPEN;
        }
    }

    /// The closed set of a bucket.
    fn root_of(&mut self, bucket: u32) -> Option<u32> {
        let label = self.labels[bucket as usize];
        if label == NONE {
            None
        } else {
            self.root(label)
        }
    }

    fn root(&mut self, mut set: u32) -> Option<u32> {
        loop {
            let next = self.sets[set as usize];
            if next == OPEN {
                return None;
            }
            if next == set {
                return Some(set);
            }
            // Half the way, next time; unless the root is open, as then the sets stay as they are.
            let after = self.sets[next as usize];
            if after != OPEN {
                self.sets[set as usize] = after;
            }
            set = next;
        }
    }

    /// Numbers the closed sets anew, and forgets the others.
    fn compact(&mut self) {
        let mut numbers = vec![NONE; self.sets.len()];
        let mut closed = 0;
        for bucket in 0..self.labels.len() as u32 {
            self.labels[bucket as usize] = match self.root_of(bucket) {
                None => NONE,
                Some(root) => {
                    let number = &mut numbers[root as usize];
                    if *number == NONE {
                        *number = closed;
                        closed += 1;
                    }
                    *number
                }
            };
        }
        self.sets = (0..closed).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_close_join_and_open() {
        let mut sets = ClosedSets::new(6);
        let one = sets.begin();
        assert!(sets.visit(0, one) && !sets.visit(0, one) && sets.visit(1, one));
        assert!(!sets.is_closed(0));
        sets.close(one, &[]);
        let two = sets.begin();
        sets.visit(2, two);
        sets.close(two, &[1]);
        assert!([0, 1, 2].iter().all(|&bucket| sets.is_closed(bucket)));
        assert!(!sets.is_closed(3));
        sets.open(0);
        assert!((0..6).all(|bucket| !sets.is_closed(bucket)));
    }

    #[test]
    fn forgotten_searches_take_no_memory() {
        let mut sets = ClosedSets::new(4);
        let closed = sets.begin();
        sets.visit(3, closed);
        sets.close(closed, &[]);
        for _ in 0..100 {
            let search = sets.begin();
            sets.visit(0, search);
        }
        assert!(sets.sets.len() <= 4);
        assert!(sets.is_closed(3) && !sets.is_closed(0));
    }
}

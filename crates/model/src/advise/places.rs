//! Where the keys of a cuckoo table stand: which of its buckets a key is in, by the load factor.
//!
//! How often the first choice has room, and how far displacements carry keys from it, has no closed
//! form. So a small table is filled here with keys of random buckets, by the index's own rules, and
//! counted: shares depend on the load factor, and next to nothing on the size.

use super::draws::Draws;
use std::collections::HashSet;

/// The shape of a cuckoo table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CuckooShape {
    /// Hash functions: 2 to 4.
    pub ways: u32,
    /// Slots of a bucket: 1 to 8.
    pub bucket_slots: u32,
}

/// How a table was filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Filling {
    /// Key by key, each into the roomiest of its buckets, the first of equals; displacing others by
    /// the shortest way where all are full.
    Inserted,
    /// Whole, from known keys, each into the first of its buckets that has room.
    Built,
}

/// Where keys stand, and how one more finds its place.
#[derive(Debug, Clone, PartialEq)]
pub struct CuckooPlaces {
    /// The table's shape.
    pub shape: CuckooShape,
    /// Its load factor.
    pub load: f64,
    /// Buckets that are read, one after the other, until a key is found.
    pub buckets_to_hit: f64,
    /// The share of the keys that stand in the first of their buckets, 0 to 1.
    pub in_first_bucket: f64,
    /// The share of the keys whose bucket is full, 0 to 1.
    pub in_full_buckets: f64,
    /// Insertions of keys of random buckets at this load factor; none of a table that is built
    /// whole.
    pub insertions: Vec<CuckooInsertion>,
}

/// How an insertion found its place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CuckooInsertion {
    /// Buckets that it read beyond the key's own, of each level of its search; none where one of
    /// those had room. From each level it moved one record.
    pub searched: Vec<u32>,
}

/// Slots of the table that is filled.
const SLOTS: usize = 1 << 15;
/// How far the index searches for a place: levels of buckets, and buckets when it inserts and when
/// it builds.
const MOST_LEVELS: usize = 16;
const MOST_INSERTING: usize = 512;
const MOST_BUILDING: usize = 4096;
/// Insertions that are tried. At high load factors some of them search far, and most do not.
const TRIED: usize = 4096;
/// A table is no good at its very limit: it must get fuller by this part.
const RESERVE: f64 = 0.01;
const MOST_WAYS: usize = 4;

impl CuckooPlaces {
    /// Fills a table to a load factor; nothing if it does not get that full and a little fuller, or
    /// for a shape or a load that no table has. The same every time.
    #[must_use]
    pub fn find(shape: CuckooShape, load: f64, filling: Filling) -> Option<Self> {
        let is_shape = (2..=4).contains(&shape.ways) && (1..=8).contains(&shape.bucket_slots);
        let is_load = load > 0.0 && load <= 1.0;
        if !(is_shape && is_load) {
            return None;
        }
        let mut table = Table::new(shape);
        let slots = table.slots();
        let keys = ((load * slots as f64).round() as usize).max(1);
        table.insert_up_to(keys, filling)?;
        let stand = table.buckets.iter().flatten();
        let read: usize = stand.map(|key| key.position() + 1).sum();
        let stand = table.buckets.iter().flatten();
        let in_first = stand.filter(|key| key.position() == 0).count();
        let full = table.buckets.iter().map(Vec::len);
        let full = full.filter(|keys| *keys == shape.bucket_slots as usize);
        let in_full: usize = full.sum();
        let insertions = match filling {
            Filling::Inserted => (0..TRIED).filter_map(|_| table.try_one()).collect(),
            Filling::Built => Vec::new(),
        };
        let reserve = (keys as f64 * (1.0 + RESERVE)).round() as usize;
        table.insert_up_to(reserve.min(slots), filling)?;
        Some(Self {
            shape,
            load,
            buckets_to_hit: read as f64 / keys as f64,
            in_first_bucket: in_first as f64 / keys as f64,
            in_full_buckets: in_full as f64 / keys as f64,
            insertions,
        })
    }
}

/// A key, by its buckets in the order in which they are tried.
#[derive(Clone, Copy)]
struct Key {
    candidates: [u32; MOST_WAYS],
    /// The bucket that it is in.
    at: u32,
}

impl Key {
    fn position(&self) -> usize {
        let is_here = |bucket: &u32| *bucket == self.at;
        self.candidates.iter().position(is_here).unwrap_or(0)
    }
}

struct Table {
    shape: CuckooShape,
    keys: usize,
    buckets: Vec<Vec<Key>>,
    random: Draws,
}

/// A bucket that a search has reached, and from where: an earlier one, and the slot in it.
type FrontierBucket = (u32, Option<(usize, usize)>);

/// A path to a bucket with room.
struct VacancyPath {
    reached: Vec<FrontierBucket>,
    /// Which of those that were reached has room.
    end: usize,
    /// Buckets that were reached on each level.
    levels: Vec<u32>,
}

impl Table {
    fn new(shape: CuckooShape) -> Self {
        let buckets = SLOTS / shape.bucket_slots as usize;
        Self {
            shape,
            keys: 0,
            buckets: vec![Vec::with_capacity(shape.bucket_slots as usize); buckets],
            random: Draws::default(),
        }
    }

    fn slots(&self) -> usize {
        self.buckets.len() * self.shape.bucket_slots as usize
    }

    fn room(&self, bucket: u32) -> usize {
        self.shape.bucket_slots as usize - self.buckets[bucket as usize].len()
    }

    /// Puts new keys until there are so many; nothing if one finds no place.
    fn insert_up_to(&mut self, keys: usize, filling: Filling) -> Option<()> {
        while self.keys < keys {
            self.insert(filling)?;
            self.keys += 1;
        }
        Some(())
    }

    /// The buckets of a new key.
    fn draw(&mut self) -> [u32; MOST_WAYS] {
        let mut candidates = [u32::MAX; MOST_WAYS];
        for candidate in &mut candidates[..self.shape.ways as usize] {
            *candidate = self.random.below(self.buckets.len());
        }
        candidates
    }

    /// The bucket with room that a key with these buckets goes to, if one of them has.
    fn with_room(&self, candidates: &[u32], filling: Filling) -> Option<u32> {
        let first = match filling {
            Filling::Inserted => candidates
                .iter()
                .rev()
                .max_by_key(|bucket| self.room(**bucket)),
            Filling::Built => candidates.iter().find(|bucket| self.room(**bucket) > 0),
        };
        first.copied().filter(|bucket| self.room(*bucket) > 0)
    }

    /// Puts a new key; nothing if it finds no place.
    fn insert(&mut self, filling: Filling) -> Option<()> {
        let candidates = self.draw();
        let tried = &candidates[..self.shape.ways as usize];
        let at = match self.with_room(tried, filling) {
            Some(bucket) => bucket,
            None => {
                let path = self.search(tried, filling)?;
                self.move_along(&path)
            }
        };
        self.buckets[at as usize].push(Key { candidates, at });
        Some(())
    }

    /// How a new key would find its place; nothing if there is none.
    fn try_one(&mut self) -> Option<CuckooInsertion> {
        let candidates = self.draw();
        let tried = &candidates[..self.shape.ways as usize];
        let searched = match self.with_room(tried, Filling::Inserted) {
            Some(_) => Vec::new(),
            None => self.search(tried, Filling::Inserted)?.levels,
        };
        Some(CuckooInsertion { searched })
    }

    /// The shortest path to a bucket with room, breadth first.
    fn search(&self, candidates: &[u32], filling: Filling) -> Option<VacancyPath> {
        let most = match filling {
            Filling::Inserted => MOST_INSERTING,
            Filling::Built => MOST_BUILDING,
        };
        let mut seen: HashSet<u32> = candidates.iter().copied().collect();
        let mut reached: Vec<FrontierBucket> =
            candidates.iter().map(|bucket| (*bucket, None)).collect();
        let (mut level, mut levels) = (0..reached.len(), Vec::new());
        for _ in 0..MOST_LEVELS {
            for from in level.clone() {
                let bucket = reached[from].0;
                for (slot, key) in self.buckets[bucket as usize].iter().enumerate() {
                    let ways = &key.candidates[..self.shape.ways as usize];
                    for other in ways {
                        if reached.len() < most && seen.insert(*other) {
                            reached.push((*other, Some((from, slot))));
                        }
                    }
                }
            }
            level = level.end..reached.len();
            levels.push(level.len() as u32);
            let has_room = |index: &usize| self.room(reached[*index].0) > 0;
            if let Some(end) = level.clone().find(has_room) {
                return Some(VacancyPath {
                    reached,
                    end,
                    levels,
                });
            }
        }
        None
    }

    /// Moves keys along the path; the bucket at its start, which has room then.
    fn move_along(&mut self, VacancyPath { reached, end, .. }: &VacancyPath) -> u32 {
        let mut to = *end;
        while let Some((from, slot)) = reached[to].1 {
            let mut key = self.buckets[reached[from].0 as usize].swap_remove(slot);
            key.at = reached[to].0;
            self.buckets[key.at as usize].push(key);
            to = from;
        }
        reached[to].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets_to_hit(ways: u32, bucket_slots: u32, load: f64, filling: Filling) -> Option<f64> {
        let shape = CuckooShape { ways, bucket_slots };
        CuckooPlaces::find(shape, load, filling).map(|places| places.buckets_to_hit)
    }

    #[test]
    fn a_built_table_has_most_keys_in_their_first_bucket() {
        for load in [0.3, 0.5, 0.8, 0.9] {
            let built = buckets_to_hit(3, 4, load, Filling::Built).unwrap();
            let inserted = buckets_to_hit(3, 4, load, Filling::Inserted).unwrap();
            println!("load {load}: built {built:.3}, inserted {inserted:.3}");
            assert!(built < inserted && inserted < 2.0);
        }
        // Hardly a bucket is full yet.
        assert!(buckets_to_hit(2, 8, 0.2, Filling::Built).unwrap() < 1.01);
    }

    /// With one slot a bucket and one key, the first of equally roomy buckets is the first.
    #[test]
    fn an_almost_empty_table_needs_one_read() {
        let one = buckets_to_hit(4, 1, 1e-4, Filling::Inserted).unwrap();
        assert!((1.0..1.3).contains(&one), "{one}");
    }

    #[test]
    fn shapes_that_do_not_get_so_full_are_told() {
        // Two buckets of one slot hold half of the slots (paper 004).
        assert_eq!(buckets_to_hit(2, 1, 0.6, Filling::Inserted), None);
        assert!(buckets_to_hit(2, 1, 0.4, Filling::Inserted).is_some());
        assert!(buckets_to_hit(2, 4, 0.95, Filling::Inserted).is_some());
        assert_eq!(buckets_to_hit(5, 4, 0.5, Filling::Built), None);
        assert_eq!(buckets_to_hit(3, 4, f64::NAN, Filling::Built), None);
    }

    #[test]
    fn the_fuller_the_table_the_further_insertions_search() {
        let find = |load| {
            let shape = CuckooShape {
                ways: 3,
                bucket_slots: 4,
            };
            CuckooPlaces::find(shape, load, Filling::Inserted).unwrap()
        };
        let moved = |places: &CuckooPlaces| {
            let moves = places.insertions.iter().map(|one| one.searched.len());
            moves.sum::<usize>() as f64 / places.insertions.len() as f64
        };
        let (half, nearly) = (find(0.5), find(0.95));
        assert!(half.insertions.len() == TRIED && moved(&half) < 0.01);
        assert!(moved(&nearly) > 0.1, "{}", moved(&nearly));
        assert!(half.in_full_buckets < 0.2 && nearly.in_full_buckets > 0.7);
        // The last level is the first with room.
        let levels = nearly.insertions.iter().flat_map(|one| &one.searched);
        assert!(levels.clone().count() > 0 && levels.clone().all(|buckets| *buckets > 0));
    }

    #[test]
    fn every_key_is_where_it_may_be() {
        let mut table = Table::new(CuckooShape {
            ways: 3,
            bucket_slots: 2,
        });
        for _ in 0..table.slots() * 9 / 10 {
            assert!(table.insert(Filling::Inserted).is_some());
        }
        for (number, bucket) in table.buckets.iter().enumerate() {
            assert!(bucket.len() <= 2);
            for key in bucket {
                assert_eq!(key.at as usize, number);
                assert!(key.candidates.contains(&key.at));
            }
        }
    }
}

//! Sets in one process: against plain maps, and by several threads.

use farslot_set::{
    DataSet, DataShape, Outcome, SetError, Spare, StateId, StateTree, StateTreeShape, TreeSet,
    WordSet,
};
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

proptest! {
    #[test]
    fn a_word_set_is_a_set(words in proptest::collection::vec(0u64..400, 0..600), more in 0u64..500) {
        let mut set = WordSet::alone(500).unwrap();
        let mut plain = HashSet::new();
        for (at, word) in words.iter().enumerate() {
            let inserted = set.find_or_put(*word).unwrap().is_inserted();
            prop_assert_eq!(inserted, plain.insert(*word));
            if at == 300 {
                set = set.rebuilt(400 + more, |word| word % 7 != 0).unwrap();
                plain.retain(|word| word % 7 != 0);
            }
        }
        prop_assert_eq!(set.iter().collect::<HashSet<_>>(), plain.clone());
        prop_assert_eq!(set.segments().counted(), plain.len() as u64);
        for word in 0..400 {
            prop_assert_eq!(set.contains(word).unwrap(), plain.contains(&word));
        }
    }

    #[test]
    fn a_data_set_is_a_map(
        varies: bool,
        elements in proptest::collection::vec((proptest::collection::vec(0u8..2, 9), 0usize..10), 0..500),
    ) {
        let shape = if varies { DataShape::varying(9) } else { DataShape::fixed(9) }.with_values(2);
        let mut set = DataSet::alone(shape, 2000, 8000).unwrap();
        let mut spare = Spare::default();
        let mut plain: HashMap<Vec<u8>, (u64, u64)> = HashMap::new();
        for (at, (bytes, len)) in elements.iter().enumerate() {
            let element = if varies { &bytes[..*len.min(&9)] } else { &bytes[..] };
            let value = at as u64;
            let put = set.find_or_put_with(&mut spare, element, |new| new[1] = value).unwrap();
            let known = plain.get(element).copied();
            let index = put.place().unwrap();
            match known {
                Some((known, _)) => prop_assert_eq!(put, Outcome::Found(known)),
                None => {
                    prop_assert_eq!(put, Outcome::Inserted(index));
                    plain.insert(element.to_vec(), (index, value));
                }
            }
            if at % 200 == 199 {
                let dropped: HashSet<u64> = plain.values().map(|(index, _)| *index).filter(|index| index % 3 == 0).collect();
                set = set.rebuilt(2000, 8000 + at as u64, |index| !dropped.contains(&index)).unwrap();
                plain.retain(|_, (index, _)| !dropped.contains(index));
            }
        }
        prop_assert_eq!(set.iter().count(), plain.len());
        for (element, (index, value)) in plain {
            prop_assert_eq!(set.find(&element).unwrap(), Some(index));
            prop_assert_eq!(&set.get(index).unwrap(), &element);
            let words = set.value(index).unwrap();
            prop_assert_eq!(words[0].load(Ordering::Relaxed), 0);
            prop_assert_eq!(words[1].load(Ordering::Relaxed), value);
        }
    }

    #[test]
    fn a_tree_set_loses_nothing(
        bytes in 1usize..70,
        states in proptest::collection::vec((0usize..70, any::<u8>()), 1..200),
    ) {
        let shape = StateTreeShape { state_bytes: bytes, root_buckets: 64, nodes: 128 };
        let mut set = TreeSet::new(shape).unwrap();
        let (mut tree, mut spare) = (set.tree(), Spare::default());
        let mut known: HashMap<Vec<u8>, StateId> = HashMap::new();
        let mut state = vec![0; bytes];
        for (at, value) in states {
            state[at % bytes] = value;
            let put = loop {
                match set.find_or_put(&mut spare, &mut tree, &state).unwrap() {
                    Outcome::Full => set.grow().unwrap(),
                    put => break put,
                }
            };
            let id = put.place().unwrap();
            match known.get(&state) {
                Some(known) => prop_assert_eq!(put, Outcome::Found(*known)),
                None => prop_assert!(put.is_inserted()),
            }
            known.insert(state.clone(), id);
        }
        check_states(&set, &known);
        let keep: HashSet<StateId> = known.values().copied().filter(|id| id.to_bits() % 2 == 0).collect();
        set.collect(|id| keep.contains(&id)).unwrap();
        known.retain(|_, id| keep.contains(id));
        check_states(&set, &known);
        // New nodes take the places of those that were collected, and disturb none that was kept.
        let (mut tree, mut spare) = (set.tree(), Spare::default());
        for value in 0..50 {
            state.fill(value);
            while set.find_or_put(&mut spare, &mut tree, &state).unwrap() == Outcome::Full {
                set.grow().unwrap();
            }
        }
        for (state, id) in &known {
            let mut seen = vec![1; bytes];
            set.get(*id, &mut seen).unwrap();
            prop_assert_eq!(&seen, state);
        }
    }
}

fn check_states(set: &TreeSet, known: &HashMap<Vec<u8>, StateId>) {
    let all: HashSet<StateId> = set.iter().collect();
    assert_eq!(all, known.values().copied().collect::<HashSet<_>>());
    let mut tree = set.tree();
    for (state, id) in known {
        assert!(set.contains(*id));
        set.load(*id, &mut tree).unwrap();
        assert_eq!(tree.bytes(), state);
    }
}

#[test]
fn threads_insert_each_element_once() {
    const ELEMENTS: u64 = 20_000;
    let words = WordSet::alone(24_000).unwrap();
    let data = DataSet::alone(DataShape::fixed(24), 24_000, 3 * ELEMENTS + 1000).unwrap();
    let trees = TreeSet::new(StateTreeShape {
        state_bytes: 40,
        root_buckets: 24_000,
        nodes: 1 << 16,
    })
    .unwrap();
    let inserted = |thread: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(thread);
        let (mut spare, mut node_spare) = (Spare::default(), Spare::default());
        let mut tree = trees.tree();
        let mut inserted = [0; 3];
        for _ in 0..4 * ELEMENTS {
            let element = rng.random_range(0..ELEMENTS);
            let word = words.find_or_put(element).unwrap();
            let bytes = element.wrapping_mul(0x9e37_79b9).to_le_bytes().repeat(3);
            let datum = data.find_or_put(&mut spare, &bytes).unwrap();
            assert_eq!(data.get(datum.place().unwrap()).unwrap(), bytes);
            let state = [element % 100, 5, element / 100, 6, 7].map(u64::to_le_bytes);
            let state = trees.find_or_put(&mut node_spare, &mut tree, state.as_flattened());
            let outcomes = [
                word.is_inserted(),
                datum.is_inserted(),
                state.unwrap().is_inserted(),
            ];
            for (count, new) in inserted.iter_mut().zip(outcomes) {
                *count += u64::from(new);
            }
        }
        inserted
    };
    let mut all = [0; 3];
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| scope.spawn(move || inserted(thread)))
            .collect();
        for thread in threads {
            let inserted = thread.join().unwrap();
            all.iter_mut()
                .zip(inserted)
                .for_each(|(all, one)| *all += one);
        }
    });
    let counts = [
        words.iter().count(),
        data.iter().count(),
        trees.iter().count(),
    ];
    assert_eq!(all, counts.map(|count| count as u64));
    assert!(all[0] > ELEMENTS * 9 / 10);
}

#[test]
fn what_does_not_fit_is_refused() {
    let words = WordSet::alone(8).unwrap();
    assert!(matches!(
        words.find_or_put(1 << 63),
        Err(SetError::WordTooLarge { .. })
    ));
    assert!(matches!(
        WordSet::alone(0),
        Err(SetError::OutOfRange { .. })
    ));
    let outcomes = (0..10).map(|word| words.find_or_put(word).unwrap());
    assert_eq!(outcomes.filter(|put| *put == Outcome::Full).count(), 2);
    assert!(matches!(
        words.rebuilt(7, |_| true),
        Err(SetError::NoRoom { buckets: 7 })
    ));

    let data = DataSet::alone(DataShape::varying(20), 64, 10).unwrap();
    let mut spare = Spare::default();
    let long = data.find_or_put(&mut spare, &[0; 21]);
    assert_eq!(
        long,
        Err(SetError::WrongLength {
            len: 21,
            expected: 20
        })
    );
    let outcomes: Vec<_> = (0..5u8)
        .map(|byte| data.find_or_put(&mut spare, &[byte; 20]).unwrap())
        .collect();
    assert_eq!(outcomes.iter().filter(|put| put.is_inserted()).count(), 2);
    assert_eq!(outcomes[2], Outcome::Full);
    assert!(matches!(
        data.get(1 << 40),
        Err(SetError::NoSuchElement { .. })
    ));
    assert!(matches!(
        data.get(9),
        Err(SetError::NoSuchElement { .. }) | Ok(_)
    ));
    assert!(matches!(
        DataSet::alone(DataShape::fixed(0), 8, 8),
        Err(SetError::OutOfRange { .. })
    ));

    let trees = TreeSet::new(StateTreeShape::new(10)).unwrap();
    assert!(matches!(
        trees.get(StateId::from_bits(u64::MAX), &mut [0; 10]),
        Err(SetError::NoSuchElement { .. })
    ));
}

/// Any bits of an id give a vector or an error, and leave the tree fit for use.
#[test]
fn hostile_ids_do_no_harm() {
    let set = TreeSet::new(StateTreeShape::new(30)).unwrap();
    let (mut tree, mut spare) = (set.tree(), Spare::default());
    let id = set
        .find_or_put(&mut spare, &mut tree, &[3; 30])
        .unwrap()
        .place()
        .unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..1000 {
        let bits = rng.next_u64() >> (rng.next_u64() % 64);
        let _ = set.load(StateId::from_bits(bits), &mut tree);
        set.load(id, &mut tree).unwrap();
        assert_eq!(tree.bytes(), [3; 30]);
    }
}

/// 12 bytes a vector at most, all memory counted, where vectors differ in few places.
#[test]
fn vectors_of_64_to_256_bytes_take_12_bytes_at_most() {
    for bytes in [64usize, 100, 256] {
        let mut set = TreeSet::new(StateTreeShape {
            state_bytes: bytes,
            root_buckets: 1 << 18,
            nodes: 1 << 12,
        })
        .unwrap();
        let (mut tree, mut spare) = (set.tree(), Spare::default());
        let insert = |tree: &mut StateTree, spare: &mut Spare, set: &mut TreeSet| {
            while set.is_crowded() {
                set.grow().unwrap();
            }
            let id = set.compress(spare, tree).unwrap();
            let new = set.put(id).is_inserted();
            set.count_inserted(new.into());
        };
        // Eight counters of eight values, spread over the vector.
        for number in 0..400_000u32 {
            for counter in 0..8 {
                tree.set(
                    counter as usize * (bytes / 32),
                    ((number * 5) >> (3 * counter)) & 7,
                );
            }
            insert(&mut tree, &mut spare, &mut set);
        }
        let (vectors, all) = (set.iter().count() as u64, set.bytes());
        assert_eq!(vectors, set.len());
        assert_eq!(vectors, 400_000);
        println!(
            "{bytes} bytes: {:.2} bytes a vector, {} nodes",
            all as f64 / vectors as f64,
            set.nodes()
        );
        assert!(
            all <= 12 * vectors,
            "{bytes}: {all} bytes for {vectors} vectors"
        );
    }
}

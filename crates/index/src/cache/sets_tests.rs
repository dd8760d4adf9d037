use super::*;

fn sets(bytes: u64, record_bytes: usize) -> CacheSets {
    CacheSets::new(bytes, record_bytes).unwrap()
}

/// One set, for records of 16 bytes.
fn one_set() -> CacheSets {
    let sets = sets(1_000, 16);
    assert_eq!(sets.sets.len(), 1);
    sets
}

fn put(sets: &mut CacheSets, key: u8, began: Nanos, value: Option<&[u8]>) {
    let fetch = sets.fetch(key.into(), began, true);
    sets.end(fetch, &[key], value);
}

fn find(sets: &mut CacheSets, key: u8, oldest: Nanos) -> Option<Option<Vec<u8>>> {
    let found = sets.find(key.into(), &[key], oldest);
    found.map(|value| value.map(|value| value.to_vec()))
}

#[test]
fn the_least_recently_used_goes_first() {
    let mut sets = one_set();
    for key in 0..8 {
        put(&mut sets, key, 5, Some(&[key; 15]));
    }
    assert_eq!(find(&mut sets, 0, 0), Some(Some(vec![0; 15])));
    put(&mut sets, 8, 5, None);
    assert_eq!(find(&mut sets, 1, 0), None);
    assert_eq!(find(&mut sets, 8, 0), Some(None));
    assert!(
        (2..8)
            .chain([0])
            .all(|key| find(&mut sets, key, 0).is_some())
    );
    assert_eq!(sets.entries(), 8);
}

#[test]
fn what_is_too_old_is_gone() {
    let mut sets = one_set();
    put(&mut sets, 1, 5, Some(&[1]));
    assert_eq!(find(&mut sets, 1, 5), Some(Some(vec![1])));
    assert_eq!(find(&mut sets, 1, 6), None);
    assert_eq!((sets.entries(), find(&mut sets, 1, 0)), (0, None));
}

#[test]
fn a_fetch_is_kept_only_if_nothing_came_between() {
    let mut sets = one_set();
    // The one that ended first may be the older one.
    let (early, late) = (sets.fetch(1, 1, true), sets.fetch(1, 2, true));
    sets.end(late, &[1], Some(&[2]));
    assert!(find(&mut sets, 1, 0).is_some());
    sets.end(early, &[1], Some(&[1]));
    assert_eq!(find(&mut sets, 1, 0), None);
    // Unless both have to be the same.
    let (early, late) = (sets.fetch(1, 1, false), sets.fetch(1, 2, false));
    sets.end(late, &[1], Some(&[1]));
    sets.end(early, &[1], Some(&[1]));
    assert!(find(&mut sets, 1, 0).is_some());
    // Or of another key.
    let (one, other) = (sets.fetch(1, 1, true), sets.fetch(2, 2, true));
    sets.end(other, &[2], Some(&[2]));
    sets.end(one, &[1], Some(&[1]));
    assert!(find(&mut sets, 1, 0).is_some() && find(&mut sets, 2, 0).is_some());
    let fetch = sets.fetch(1, 3, true);
    sets.forget(1, &[1]);
    sets.end(fetch, &[1], Some(&[3]));
    assert_eq!(find(&mut sets, 1, 0), None);
    let fetch = sets.fetch(1, 4, true);
    sets.clear();
    sets.end(fetch, &[1], Some(&[4]));
    assert_eq!(find(&mut sets, 1, 0), None);
    put(&mut sets, 1, 5, Some(&[5]));
    assert_eq!(find(&mut sets, 1, 0), Some(Some(vec![5])));
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    let mut sets = one_set();
    let fetch = sets.fetch(7, 1, true);
    sets.end(fetch, b"one", Some(b"1"));
    assert!(sets.find(7, b"other", 0).is_none());
    sets.forget(7, b"other");
    let found = sets.find(7, b"one", 0).unwrap();
    assert_eq!(found.as_deref(), Some(&b"1"[..]));
}

#[test]
fn it_never_takes_more_than_its_bytes() {
    for (bytes, record_bytes) in [(1_000, 16), (100_000, 100), (1 << 20, 1), (3_000, 200)] {
        let mut sets = sets(bytes, record_bytes);
        let mut most = 0;
        for round in 0..20_000_u64 {
            let hash = round_hash(round);
            let value = vec![7; (hash % (3 * record_bytes as u64)) as usize];
            let fetch = sets.fetch(hash, round, true);
            sets.end(fetch, &round.to_le_bytes(), Some(&value));
            if round % 500 == 0 {
                most = most.max(sets.bytes());
            }
        }
        most = most.max(sets.bytes());
        assert!(most <= bytes, "{most} of {bytes}");
        assert!(most > bytes / 2, "{most} of {bytes}");
        sets.clear();
        assert_eq!(sets.entries(), 0);
    }
}

#[test]
fn answers_go_where_there_is_less_room() {
    let mut sets = sets(100_000, 100);
    let mut round = 0_u64;
    let mut fill = |sets: &mut CacheSets| {
        for _ in 0..2_000 {
            round += 1;
            let hash = round_hash(round);
            let fetch = sets.fetch(hash, round, true);
            sets.end(fetch, &round.to_le_bytes(), Some(&[7; 60]));
        }
        sets.entries()
    };
    let most = fill(&mut sets);
    for left in [80_000, 60_000, 50_000] {
        let before = sets.entries();
        sets.fit(left);
        assert!(sets.bytes() <= left && sets.entries() < before);
        assert!(sets.entries() > 0);
        fill(&mut sets);
        assert!(sets.bytes() <= left);
    }
    // The least recently used go.
    let last = round_hash(2_000 * 4);
    assert!(sets.find(last, &8_000_u64.to_le_bytes(), 0).is_some());
    sets.fit(40_000);
    assert!(sets.find(last, &8_000_u64.to_le_bytes(), 0).is_some());
    sets.fit(1_000);
    assert_eq!((sets.entries(), fill(&mut sets)), (0, 0));
    sets.fit(u64::MAX);
    assert_eq!(fill(&mut sets), most);
    assert!(sets.bytes() <= 100_000);
}

fn round_hash(round: u64) -> u64 {
    crate::Hasher::Xxh3 { seed: 1 }.hash(&round.to_le_bytes())
}

#[test]
fn what_is_larger_than_a_set_is_not_kept() {
    let mut sets = one_set();
    put(&mut sets, 1, 1, Some(&[1; 1_000]));
    assert_eq!(find(&mut sets, 1, 0), None);
    // Nor does what was known of the key stay.
    put(&mut sets, 2, 1, Some(&[2]));
    put(&mut sets, 2, 2, Some(&[2; 1_000]));
    assert_eq!(find(&mut sets, 2, 0), None);
}

#[test]
fn less_than_a_set_is_refused() {
    let refused = CacheSets::new(100, 16).err().unwrap().to_string();
    assert!(refused.contains("cache bytes = 100"), "{refused}");
    assert!(CacheSets::new(1 << 20, usize::MAX).is_err());
}

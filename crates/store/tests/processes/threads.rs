//! Threads of one process that share a store.

use crate::common::TestStore;
use farslot::FieldSize;
use farslot::TableOptions;

pub fn share_a_table<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("shared", &TableOptions::new(10_000)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let store = store.clone();
            scope.spawn(move || {
                let table = store.table("shared").unwrap();
                for number in 0..1_000u32 {
                    let name = format!("{thread}/{number}");
                    table.put(name.as_bytes(), &number.to_le_bytes()).unwrap();
                    table
                        .find_or_put(b"everybody's", &thread.to_le_bytes())
                        .unwrap();
                }
            });
        }
    });
    let table = store.table("shared").unwrap();
    assert_eq!(table.survey().unwrap().live(), 4_001);
    assert_eq!(table.occupancy().unwrap().entries, 4_001);
    assert_eq!(table.get(b"3/999").unwrap().unwrap(), 999u32.to_le_bytes());
}

pub fn large_values_leave_room_for_smaller_ones<S: TestStore>() {
    let node = S::start(1 << 30);
    let store = node.open();
    let options = TableOptions::new(100)
        .values(FieldSize::UpTo(2 << 20))
        .heap_bytes(700 << 20);
    store.create("large", &options).unwrap();
    let table = store.table("large").unwrap();
    let keys: Vec<_> = (0..40u32).map(u32::to_le_bytes).collect();
    for bytes in [2 << 20, 1 << 20, 300_000, 70_000, 1_000, 10] {
        let value = vec![bytes as u8; bytes];
        let records: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &value[..])).collect();
        for _ in 0..2 {
            table.put_many(&records, |_, _| ()).unwrap();
        }
    }
}

pub fn a_hot_key_is_never_unreadable<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let store = &store;
    store.create("hot", &TableOptions::new(1_000)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let store = store.clone();
            scope.spawn(move || {
                let table = store.table("hot").unwrap();
                let value = [thread as u8; 100];
                // By calls the one thread of an agent does a batch after the other. Those of 200
                // are done within the time that a verb has, however busy the machine is.
                let records: Vec<(&[u8], &[u8])> = vec![(&b"hot"[..], &value[..]); 200];
                for _ in 0..10 {
                    table
                        .put_many(&records, |_, put| assert!(!put || thread < 4))
                        .unwrap();
                }
                let keys = vec![&b"hot"[..]; 200];
                for _ in 0..10 {
                    table
                        .get_many(&keys, |_, found| {
                            let found = found.unwrap();
                            assert!(found.iter().all(|byte| *byte == found[0]));
                        })
                        .unwrap();
                }
            });
        }
    });
}

pub fn of_many_creators_of_one_name_one_wins<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let options = TableOptions::new(100);
    let options = &options;
    let made: usize = std::thread::scope(|scope| {
        let creators: Vec<_> = (0..8)
            .map(|creator| {
                let store = store.clone();
                scope.spawn(move || {
                    let same = store.create("same", options).is_ok();
                    store.create(&format!("own-{creator}"), options).unwrap();
                    usize::from(same)
                })
            })
            .collect();
        creators
            .into_iter()
            .map(|creator| creator.join().unwrap())
            .sum()
    });
    assert_eq!(made, 1);
    let tables = store.tables().unwrap();
    assert_eq!(tables.len(), 9);
    let mut offsets: Vec<_> = tables.iter().map(|table| table.offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    assert_eq!(offsets.len(), 9, "no two tables share memory");
}

//! Clients and owners that are killed at any moment.

use crate::common::TestStore;
use crate::common::{Served, open};
use crate::roles::{BUILT, CHURNED, LASTING, Other, is_whole, value_of};
use farslot::fabric::FabricError;
use farslot::index::IndexError;
use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{FieldSize, SlotKind, Store, StoreError, Survey, Table, TableOptions};
use std::time::Duration;

const MEMORY: u64 = 64 << 20;

fn options(kind: SlotKind) -> TableOptions {
    TableOptions::new(4_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(48))
        .slots(kind)
        .heap_bytes(8 << 20)
}

pub fn a_client_leaves_whole_records_and_a_table_that_serves<S: Served>() {
    let race = options(SlotKind::Heap).race(RaceShape::default());
    for options in [
        options(SlotKind::Inline),
        options(SlotKind::Heap),
        options(SlotKind::Hybrid),
        // It is killed while it splits subtables, too.
        race.capacity(100).grow_to(4_000),
    ] {
        let node = S::start(MEMORY);
        let store = node.open();
        store.create("t", &options).unwrap();
        for number in 0..S::repeat(5) {
            let role = ["writer", "writer by calls"][number as usize % 2];
            let mut writer = Other::start(role, &node.address(), "t");
            writer.wait_for("under way");
            writer.kill();
            check_records(&store.table("t").unwrap(), 2_000);
        }
    }
}

/// Clients of a small heap are killed at any moment, and at least 95 % of it can be used after
/// that.
#[test]
#[ignore = "four minutes: each of the sweeps waits for half a minute"]
fn what_a_thousand_killed_clients_held_of_a_heap_comes_back() {
    let node = crate::common::Shm::start(MEMORY);
    // Without the tests' patience: a sweep waits for twice a client's own timeout at least.
    let store = open(&node.address()).unwrap();
    for name in ["new", "t"] {
        let options = TableOptions::new(4_000)
            .keys(FieldSize::Fixed(8))
            .values(FieldSize::UpTo(1_000))
            .slots(SlotKind::Heap)
            .heap_bytes(1 << 20);
        store.create(name, &options).unwrap();
    }
    let of_new = filled(&store.table("new").unwrap(), 1);
    for _ in 0..1_000 {
        let mut churner = Other::start("churner", &node.address(), "t");
        churner.wait_for("under way");
        churner.kill();
    }
    let table = store.table("t").unwrap();
    for number in CHURNED {
        table.remove(&number.to_le_bytes()).unwrap();
    }
    let again = filled(&table, 4);
    println!("{again} of {of_new} records");
    assert!(again * 100 >= of_new * 95, "{again} of {of_new}");
    assert_eq!(table.survey().unwrap().live(), again);
    assert_eq!(table.occupancy().unwrap().entries, again);
}

/// How many records of 400 bytes a table takes, if so many sweeps in a row may find nothing.
fn filled(table: &Table, most_vain: u32) -> u64 {
    let (mut put, mut vain) = (0, 0);
    while vain < most_vain {
        match table.put(&(1_000_u64 + put).to_le_bytes(), &[7; 400]) {
            Ok(_) => (put, vain) = (put + 1, 0),
            Err(StoreError::NoRoom(no_room)) => {
                assert!(matches!(no_room.cause, IndexError::HeapFull { .. }));
                vain += 1;
                // A sweep ends half a minute after it began: nothing shows that but the clock.
                std::thread::sleep(Duration::from_secs(if vain < most_vain { 31 } else { 0 }));
            }
            Err(error) => panic!("{error}"),
        }
    }
    put
}

/// Checks what a killed writer has left, and that all can be written: so many records are there
/// then.
fn check_records(table: &Table, records: u64) {
    let mut found = 0;
    table
        .for_each(|key, value| {
            assert!(is_whole(value), "{key:?} has {value:?}");
            found += 1;
        })
        .unwrap();
    assert!(found > 1_000);
    let all: Vec<_> = (0u64..2_000)
        .map(|number| (number.to_le_bytes(), value_of(number)))
        .collect();
    let keys: Vec<&[u8]> = all.iter().map(|(key, _)| &key[..]).collect();
    let mut absent = vec![false; all.len()];
    let got = table.get_many(&keys, |number, value| {
        assert!(value.is_none_or(is_whole), "{value:?}");
        absent[number] = value.is_none();
    });
    got.unwrap();
    let pairs: Vec<(&[u8], &[u8])> = all.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    table
        .put_many(&pairs, |number, put| {
            assert_eq!(put, absent[number], "key {number}");
        })
        .unwrap();
    let mut answers = 0;
    table
        .get_many(&keys, |number, value| {
            assert_eq!(value, Some(&all[number].1[..]));
            answers += 1;
        })
        .unwrap();
    assert_eq!(answers, all.len());
    assert_eq!(table.survey().unwrap().live(), records);
}

/// Its clients are told, its address is free, and who serves there next is another: nothing of the
/// one before is found there.
pub fn an_owner_is_named_and_its_address_is_free<S: Served>() {
    let (mut owner, address) = Other::owner(&S::fresh_address());
    let store = open(&address).unwrap();
    let options = options(SlotKind::Heap);
    store.create("t", &options).unwrap();
    store.create("c", &cuckoo(SlotKind::Heap)).unwrap();
    let sealed = TableOptions::new(1).sealed();
    store
        .build("s", &sealed, &[(&[1; 8], &value_of(1))])
        .unwrap();
    let tables = ["t", "c", "s"].map(|name| store.table(name).unwrap());
    for table in &tables[..2] {
        table.put(&[1; 8], &value_of(1)).unwrap();
    }
    owner.kill();
    for table in &tables {
        // Over shared memory the news may take a moment.
        let error = loop {
            if let Err(error) = table.get(&[1; 8]) {
                break error;
            }
        };
        let node = farslot::fabric::NodeId(0);
        let is_stopped = |error| matches!(error, StoreError::Fabric(FabricError::NodeStopped { node: of, .. }) if of == node);
        assert!(is_stopped(error));
        assert!(is_stopped(table.for_each(|_, _| ()).unwrap_err()));
        if !table.is_sealed() {
            let error = table.put(&[1; 8], &value_of(2)).unwrap_err();
            assert!(!error.may_have_taken_effect(), "nothing was sent: {error}");
        }
        // How many records a table has that never changes, its clients know.
        match table.survey() {
            Ok(_) => assert!(table.is_sealed()),
            Err(error) => assert!(is_stopped(error) && !table.is_sealed()),
        }
    }
    assert!(store.table("t").is_err() && store.create("u", &options).is_err());
    assert!(matches!(
        open(&address).map(|_| ()),
        Err(StoreError::Fabric(
            FabricError::NoSuchRegion { .. } | FabricError::ConnectionRefused { .. }
        ))
    ));

    let (_owner, same) = Other::owner(&address);
    assert_eq!(same, address);
    assert!(tables.iter().all(|table| table.get(&[1; 8]).is_err()));
    let fresh = open(&address).unwrap();
    assert_eq!(fresh.tables().unwrap(), []);
    fresh.create("t", &options).unwrap();
    assert_eq!(fresh.table("t").unwrap().get(&[1; 8]).unwrap(), None);
    assert!(tables[0].get(&[1; 8]).is_err() && tables[0].put(&[1; 8], &value_of(2)).is_err());
}

pub fn an_owner_that_ends_by_itself_frees_its_address_too<S: Served>() {
    let (mut owner, address) = Other::owner(&S::fresh_address());
    owner.end();
    assert!(open(&address).is_err());
    let _again = S::serve(&address, 16 << 20);
}

pub fn cuckoo(kind: SlotKind) -> TableOptions {
    options(kind).cuckoo(CuckooShape {
        ways: 2,
        bucket_slots: 4,
    })
}

pub fn duo(kind: SlotKind) -> TableOptions {
    options(kind).duo(DuoShape::default())
}

fn is_busy(result: farslot::Result<bool>) -> bool {
    matches!(
        result,
        Err(StoreError::Index(IndexError::WriterBusy { .. }))
    )
}

/// Options for a client that takes over from dead ones: it waits for as long as a verb of theirs
/// may take.
pub fn impatient() -> farslot::OpenOptions {
    let mut options = crate::common::patient();
    options.limits.verb_timeout = 2_000_000_000;
    options
}

pub fn a_writer_that_was_alone_is_replaced_and_nothing_is_lost<S: Served>() {
    // Each waits for as long as a verb of the dead may take.
    for options in [
        cuckoo(SlotKind::Inline),
        cuckoo(SlotKind::Signatures),
        duo(SlotKind::Inline),
    ] {
        let node = S::start(MEMORY);
        let store = Store::open_with(&node.address(), impatient()).unwrap();
        store.create("t", &options).unwrap();
        let last = |table: &Table| {
            for number in LASTING {
                table.put(&number.to_le_bytes(), &value_of(number)).unwrap();
            }
        };
        last(&store.table("t").unwrap());
        for _ in 0..2 {
            let mut writer = Other::start("writer", &node.address(), "t");
            writer.wait_for("under way");
            writer.kill();
            let table = store.table("t").unwrap();
            assert!(is_busy(table.put(&[1; 8], &value_of(1))));
            for number in LASTING {
                let value = table.get(&number.to_le_bytes()).unwrap();
                assert_eq!(value.as_deref(), Some(&value_of(number)[..]));
            }
            table.take_over().unwrap();
            // What stood twice stands once when it has been written.
            last(&table);
            check_records(&table, 2_000 + LASTING.count() as u64);
            for number in 0u64..2_000 {
                assert!(table.remove(&number.to_le_bytes()).unwrap());
            }
            assert_eq!(table.survey().unwrap().live(), LASTING.count() as u64);
        }
    }
}

pub fn a_writer_that_was_alone_and_ends_by_itself_leaves_the_table_to_the_next<S: Served>() {
    for options in [cuckoo(SlotKind::Heap), duo(SlotKind::Heap)] {
        let node = S::start(MEMORY);
        let store = node.open();
        store.create("t", &options).unwrap();
        for _ in 0..2 {
            Other::start("clean writer", &node.address(), "t").end();
        }
        let table = store.table("t").unwrap();
        assert_eq!(table.writer().unwrap(), None);
        assert!(!table.put(&[7; 8], &value_of(8)).unwrap());
    }
}

pub fn readers_beside_a_writer_never_miss_what_it_moves<S: Served>() {
    for options in [cuckoo(SlotKind::Inline), duo(SlotKind::Inline)] {
        move_beside_readers::<S>(&options);
    }
}

fn move_beside_readers<S: Served>(options: &TableOptions) {
    let node = S::start(MEMORY);
    let store = node.open();
    // So full that new keys displace others.
    let options = options.clone().load_factor(0.95);
    store.create("t", &options).unwrap();
    let table = store.table("t").unwrap();
    for number in LASTING {
        table.put(&number.to_le_bytes(), &value_of(number)).unwrap();
    }
    let mut readers: Vec<_> = (0..2)
        .map(|_| Other::start("reader", &node.address(), "t"))
        .collect();
    for reader in &mut readers {
        reader.wait_for("under way");
    }
    for round in 0..u64::from(S::repeat(15)) {
        for number in 0..3_000u64 {
            let key = (round * 10_000 + number).to_le_bytes();
            table.put(&key, &value_of(number)).unwrap();
        }
        for number in 0..3_000u64 {
            assert!(
                table
                    .remove(&(round * 10_000 + number).to_le_bytes())
                    .unwrap()
            );
        }
    }
    for reader in &mut readers {
        reader.end();
    }
    match table.survey().unwrap() {
        Survey::Cuckoo(survey) => assert!(
            survey.displacements > u64::from(S::repeat(1_000)),
            "{}",
            survey.displacements
        ),
        // Where keys move is counted by the index's own tests: at this load, for one insertion in
        // ten.
        Survey::Duo(survey) => assert_eq!(survey.counts.live, LASTING.count() as u64),
        other => panic!("{other:?}"),
    }
}

/// Checks that every record of a table that [`build_numbers`] has built is there.
fn check_numbers(table: &Table) {
    let keys: Vec<_> = (0..BUILT).map(u64::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut answers = 0;
    table
        .get_many(&keys, |number, value| {
            assert_eq!(value, Some(&value_of(number as u64)[..]));
            answers += 1;
        })
        .unwrap();
    assert_eq!(answers, BUILT);
    assert_eq!(table.survey().unwrap().live(), BUILT);
}

pub fn a_builder_leaves_a_table_that_says_so<S: Served>() {
    let node = S::start(256 << 20);
    let store = node.open();
    let mut finished = 0;
    for round in 0..4 {
        let name = format!("t{round}");
        let mut builder = Other::start("builder", &node.address(), &name);
        while store.table(&name).is_err() {
            std::thread::yield_now();
        }
        builder.kill();
        let table = store.table(&name).unwrap();
        match table.get(&[1; 8]) {
            Err(StoreError::Index(IndexError::NotBuilt)) => {
                assert!(table.survey().is_err() && table.for_each(|_, _| ()).is_err());
            }
            // It was faster than the kill: then all of it is there.
            Ok(None) => {
                check_numbers(&table);
                finished += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(finished < 4, "never killed in time");
    // What a builder that ends by itself has built in another process is found here.
    Other::start("builder", &node.address(), "whole").end();
    check_numbers(&store.table("whole").unwrap());
}

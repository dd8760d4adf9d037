//! Catalogs that something else than a client has written to: words flipped, and records forged
//! with right checksums.

use super::entry::{ID_AT, MOST_RECORD, State};
use super::record::MapPlace;
use super::region::{LOCK_AT, MARK_AT, entry_at, record_at};
use super::*;
use crate::fabrics::Fabric;
use crate::shapes::{CuckooShape, DuoShape, RaceShape};
use crate::{FieldSize, OpenOptions, Store, StoreError, TableOptions};
use farslot_fabric::{AnyEndpoint, Endpoint, EndpointExt, Executor};
use std::rc::Rc;

const MIB: u64 = 1 << 20;

fn store() -> Store {
    Store::open(&format!("sim://cx5-edr?seed=1&memory={}B", 16 * MIB)).unwrap()
}

fn options() -> TableOptions {
    TableOptions::new(64)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(16))
}

/// Writes bytes into the node's memory.
fn write(store: &Store, offset: u64, bytes: &[u8]) {
    let endpoint = Rc::new(
        store
            .0
            .fabric
            .endpoint(store.0.sessions.options.limits)
            .unwrap(),
    );
    let executor: Executor<AnyEndpoint> = Executor::new(Rc::clone(&endpoint));
    let bytes = endpoint.core().buffers.copy_of(bytes).unwrap();
    let written = endpoint.write(region::at(NodeId(0), offset), bytes);
    executor.block_on(written).unwrap();
}

/// Overwrites an entry with these words and bytes.
fn overwrite(store: &Store, entry: usize, word: u64, id: u64, record: &[u8]) {
    let at = entry_at(NodeId(0), entry).offset;
    write(store, record_at(NodeId(0), entry, 16 * MIB).offset, record);
    write(store, at + ID_AT, &id.to_le_bytes());
    write(store, at, &word.to_le_bytes());
}

/// Makes an entry say this, with the checksum that fits.
fn forge(store: &Store, entry: usize, record: &TableRecord) {
    let json = serde_json::to_vec(record).unwrap();
    overwrite(store, entry, State::table(&json), record.id, &json);
}

/// The number of the entry of the table in the middle: it follows from its name, as a table of each
/// name lies in its bucket.
fn middle_entry() -> usize {
    three().1.entry
}

/// Tables of three names; the one in the middle is damaged, which the others do not notice.
fn only_the_middle_one_is_lost(store: &Store, named: Option<&str>, reason: &str) {
    let entry = middle_entry();
    let listing = store.listing().unwrap();
    let names: Vec<_> = listing.tables.iter().map(|table| &*table.name).collect();
    assert_eq!(names, ["first", "last"], "{reason}");
    let [damaged] = &listing.damaged[..] else {
        panic!("{reason}: {listing:?}")
    };
    assert_eq!(
        (damaged.entry, damaged.name.as_deref()),
        (entry, named),
        "{reason}"
    );
    assert!(damaged.reason.contains(reason), "{reason}: {damaged}");
    for name in names {
        let table = store.table(name).unwrap();
        assert!(table.put(&[1; 8], &[2; 16]).unwrap());
        assert_eq!(table.get(&[1; 8]).unwrap().unwrap(), [2; 16]);
    }
    let error = store.table("middle").map(drop).unwrap_err();
    match (named, &error) {
        (Some("middle"), StoreError::DamagedCatalog { entry: of, .. }) if *of == entry => {}
        (_, StoreError::NoSuchTable { tables, .. }) => {
            assert!(
                tables.contains(&format!("entry {entry} of the catalog")),
                "{tables}"
            );
        }
        other => panic!("{reason}: {other:?}"),
    }
    store.create("new", &options()).unwrap();
    assert!(store.table("new").unwrap().put(&[1; 8], &[2; 16]).unwrap());
}

fn three() -> (Store, TableRecord) {
    let store = store();
    store.create("first", &options()).unwrap();
    let middle = store.create("middle", &options()).unwrap();
    store.create("last", &options()).unwrap();
    (store, middle)
}

#[test]
fn words_that_no_client_writes_lose_one_table_and_no_other() {
    let too_long = State::table(&[0; MOST_RECORD + 1]);
    for word in [1, 1 << 40, 1 << 62, 2 << 62, 3 << 62, too_long] {
        let (store, middle) = three();
        overwrite(&store, middle.entry, word, 1, b"{}");
        only_the_middle_one_is_lost(&store, None, "none that a client writes");
    }
    for (json, named, reason) in [
        (&b"{}"[..], None, "missing field"),
        (b"\xff\xff", None, "expected value"),
        (
            br#"{"name":"middle","offset":-1}"#,
            Some("middle"),
            "invalid value",
        ),
    ] {
        let (store, middle) = three();
        overwrite(&store, middle.entry, State::table(json), 1, json);
        only_the_middle_one_is_lost(&store, named, reason);
    }
    let (store, record) = three();
    let mut json = serde_json::to_vec(&record).unwrap();
    let word = State::table(&json);
    *json.last_mut().unwrap() = b' ';
    overwrite(&store, record.entry, word, record.id, &json);
    only_the_middle_one_is_lost(&store, None, "checksum");
    let (store, record) = three();
    let json = serde_json::to_vec(&record).unwrap();
    overwrite(
        &store,
        record.entry,
        State::table(&json),
        record.id ^ 1,
        &json,
    );
    only_the_middle_one_is_lost(&store, Some("middle"), "id word");
    let (store, record) = three();
    forge(&store, record.entry, &TableRecord { id: 0, ..record });
    only_the_middle_one_is_lost(&store, Some("middle"), "its id is 0");
}

/// Schemes whose sizes the region cannot have, or that nobody can have, each with a part of the
/// reason.
fn forged_schemes() -> Vec<(Scheme, &'static str)> {
    let duo = options().duo(DuoShape::default()).scheme().unwrap();
    let race = options().race(RaceShape::default()).grow_to(1000);
    let race = race.scheme().unwrap();
    let cuckoo = options().cuckoo(CuckooShape::default()).scheme().unwrap();
    let (Scheme::Linear(linear), Scheme::Cuckoo(cuckoo), Scheme::Duo(duo), Scheme::Race(race)) =
        (options().scheme().unwrap(), cuckoo, duo, race)
    else {
        panic!("the schemes that were asked for")
    };
    let Scheme::Sealed(sealed) = options().sealed().scheme().unwrap() else {
        panic!("sealed")
    };
    let past = "passes the region's end";
    let mut forged = Vec::new();
    for buckets in [1 << 32, 1 << 36] {
        let mut layout = duo.clone();
        layout.buckets = buckets;
        forged.push((Scheme::Duo(layout), past));
    }
    let mut layout = duo.clone();
    layout.buckets = u64::MAX;
    forged.push((Scheme::Duo(layout), "is not possible"));
    let mut layout = duo;
    layout.reserve_bytes = u64::MAX;
    forged.push((Scheme::Duo(layout), past));
    for (roots, most, reason) in [
        (1 << 31, 1 << 31, "is not possible"),
        (1 << 20, 1 << 20, past),
        (1, 1 << 24, past),
        (3, 3, "is not possible"),
        (1, u64::MAX, "is not possible"),
    ] {
        let mut layout = race.clone();
        (layout.roots, layout.most_subtables) = (roots, most);
        forged.push((Scheme::Race(layout), reason));
    }
    let mut layout = race;
    layout.groups = u64::MAX;
    forged.push((Scheme::Race(layout), "is not possible"));
    for (slots, reason) in [(1 << 40, past), (u64::MAX, "is not possible")] {
        let mut layout = linear.clone();
        layout.slots = slots;
        forged.push((Scheme::Linear(layout), reason));
        let mut layout = cuckoo.clone();
        layout.buckets = slots / 8;
        forged.push((Scheme::Cuckoo(layout), reason));
    }
    let mut layout = linear;
    layout.heap_bytes = u64::MAX;
    forged.push((Scheme::Linear(layout), past));
    let mut layout = sealed;
    layout.slots = u64::from(u32::MAX) - 1;
    forged.push((Scheme::Sealed(layout), past));
    forged
}

#[test]
fn forged_sizes_with_right_checksums_are_refused_before_anything_is_allocated() {
    for (scheme, reason) in forged_schemes() {
        let (store, middle) = three();
        forge(&store, middle.entry, &TableRecord { scheme, ..middle });
        only_the_middle_one_is_lost(&store, Some("middle"), reason);
    }
}

#[test]
fn forged_places_with_right_checksums_are_refused() {
    let (_, middle) = three();
    let map = |offset, bytes, number| {
        let map = MapPlace {
            offset,
            bytes,
            sum: 1,
        };
        Some(Partition {
            creation: 1,
            number,
            incarnation: 1,
            prebuilt: false,
            remade: false,
            on_restart: OnRestart::default(),
            map,
        })
    };
    let end = middle.extent().end;
    let at = |offset| TableRecord {
        offset,
        ..middle.clone()
    };
    let with = |partition| TableRecord {
        partition,
        ..middle.clone()
    };
    for (record, reason) in [
        (at(u64::MAX), "no multiple of 8"),
        (at(!7), "passes the region's end"),
        (at(16 * MIB), "passes the region's end"),
        (at(16 * MIB - 8), "passes the region's end"),
        (at(0), "no multiple of 8"),
        (at(middle.offset + 4), "no multiple of 8"),
        (with(map(end, u64::MAX, 0)), "its map of"),
        (with(map(end, 2 * MIB, 0)), "its map of"),
        (with(map(u64::MAX, 8, 0)), "its map of"),
        (with(map(0, 8, 0)), "its map of"),
        (with(map(end, 8, u16::MAX)), "partition 65535"),
    ] {
        let (store, _) = three();
        forge(&store, middle.entry, &record);
        only_the_middle_one_is_lost(&store, Some("middle"), reason);
    }
}

#[test]
fn words_of_the_header_that_no_client_writes_stop_nobody() {
    for lock in [1, 2, u64::MAX, 1 << 63] {
        let (store, _) = three();
        write(&store, LOCK_AT, &lock.to_le_bytes());
        let Fabric::Sim(world) = &store.0.fabric else {
            panic!("it is simulated")
        };
        let since = world.now();
        store.create("t", &options()).unwrap();
        // As long as if its client had died.
        assert!((500_000_000..4_000_000_000).contains(&(world.now() - since)));
        let since = world.now();
        store.create("u", &options()).unwrap();
        assert!(world.now() - since < 10_000_000);
    }
    for used in [0, 1, u64::MAX] {
        let (store, _) = three();
        write(&store, MARK_AT + 8, &used.to_le_bytes());
        assert_eq!(store.tables().unwrap().len(), 3);
        store.create("t", &options()).unwrap();
        assert!(store.table("t").unwrap().put(&[1; 8], &[2; 16]).unwrap());
    }
}

/// Nobody knows where the table lies whose entry is damaged: new ones lie behind all that was ever
/// taken.
#[test]
fn no_table_is_made_where_a_damaged_entry_may_have_its_own() {
    let (store, middle) = three();
    let last = store.tables().unwrap().pop().unwrap();
    overwrite(&store, middle.entry, 1, 0, b"");
    let made = store.create("t", &options()).unwrap();
    assert!(made.offset >= last.extent().end && made.offset > middle.offset);
    for mark in [u64::MAX, 1 << 62, 16 * MIB] {
        write(&store, MARK_AT, &mark.to_le_bytes());
        let refused = store.create("u", &options()).unwrap_err();
        assert!(
            matches!(refused, StoreError::OutOfMemory { free: 0, .. }),
            "{refused}"
        );
        assert_eq!(store.tables().unwrap().len(), 3);
        assert!(store.table("last").is_ok());
        assert_eq!(store.memory().unwrap().free(), 0);
    }
}

#[test]
fn a_catalog_of_damaged_entries_is_full() {
    let store = store();
    let limit = most_tables(16 * MIB);
    for entry in 0..limit {
        overwrite(&store, entry, 1, 0, b"");
    }
    let full = store.create("t", &options()).unwrap_err();
    assert_eq!(full, StoreError::TooManyTables { limit });
    assert_eq!(store.listing().unwrap().damaged.len(), limit);
}

#[test]
fn a_table_whose_index_is_over_the_limit_is_refused() {
    for shape in [
        options().duo(DuoShape::default()),
        options().race(RaceShape::default()).grow_to(1000),
    ] {
        let options = OpenOptions {
            client_memory: Some(100),
            ..OpenOptions::default()
        };
        let store = Store::open_with("sim://cx5-edr?seed=1&memory=16MiB", options).unwrap();
        store.create("t", &shape).unwrap();
        let refused = store.table("t").map(drop).unwrap_err();
        let StoreError::ClientMemory {
            needed, limit: 100, ..
        } = refused
        else {
            panic!("{refused}")
        };
        assert!(needed > 100);
    }
}

/// Damages the entry of a table.
type Damaging = Box<dyn Fn(&Store, &TableRecord)>;

/// Ways to damage the entry in the middle.
fn damages() -> Vec<Damaging> {
    let forged = |record: TableRecord| {
        move |store: &Store, _: &TableRecord| forge(store, record.entry, &record)
    };
    let (_, middle) = three();
    let far = TableRecord {
        offset: 16 * MIB - 8,
        ..middle.clone()
    };
    let of_another_id = |store: &Store, record: &TableRecord| {
        let json = serde_json::to_vec(record).unwrap();
        overwrite(
            store,
            record.entry,
            State::table(&json),
            record.id ^ 1,
            &json,
        );
    };
    // The table stays open to clients whose id is still there.
    let with_its_id = |store: &Store, record: &TableRecord| {
        overwrite(store, record.entry, State::table(b"{}"), record.id, b"{}");
    };
    vec![
        Box::new(|store, record| overwrite(store, record.entry, u64::MAX, 0, b"\xff")),
        Box::new(of_another_id),
        Box::new(with_its_id),
        Box::new(forged(far)),
        Box::new(forged(TableRecord { id: 0, ..middle })),
    ]
}

#[test]
fn a_repair_gives_memory_back_and_touches_no_other_table() {
    for (number, damage) in damages().iter().enumerate() {
        let (store, _) = three();
        let before = store.memory().unwrap();
        let tables = ["first", "middle", "last"].map(|name| store.table(name).unwrap());
        for table in &tables {
            for key in 0..50u64 {
                assert!(table.put(&key.to_le_bytes(), &[7; 16]).unwrap());
            }
        }
        // Offsets are those of this store; ids are drawn.
        let middle = store.tables().unwrap().remove(1);
        damage(&store, &middle);
        let [seen] = &store.damage().unwrap()[..] else {
            panic!("{number}")
        };
        let extent = middle.extent();
        assert_eq!(seen.entries[0].entry, middle.entry, "{number}");
        assert!(
            seen.bytes >= extent.end - extent.start,
            "{number}: {seen:?}"
        );
        let repaired = store.repair().unwrap();
        assert_eq!(repaired, std::slice::from_ref(seen), "{number}");
        assert_eq!(
            (store.damage().unwrap(), store.repair().unwrap()),
            (vec![], vec![])
        );
        let gone = tables[1].get(&0u64.to_le_bytes()).unwrap_err();
        assert_eq!(gone.kind(), crate::ErrorKind::TableGone, "{number}: {gone}");
        // As much is free as if it had been dropped; and it is zeros: a table that is made there is
        // empty.
        let taken = before.taken - space_of(&middle);
        assert_eq!(store.memory().unwrap().taken, taken, "{number}");
        let again = store.create("middle", &options()).unwrap();
        assert_eq!(again.offset, middle.offset, "{number}");
        let table = store.table("middle").unwrap();
        assert_eq!(table.into_iter().count(), 0, "{number}");
        assert!(table.put(&[1; 8], &[2; 16]).unwrap());
        for table in [&tables[0], &tables[2]] {
            assert_eq!(table.into_iter().count(), 50, "{number}");
        }
    }
}

/// Bytes of a table to the multiple at which the next can start.
fn space_of(record: &TableRecord) -> u64 {
    let extent = record.extent();
    (extent.end - extent.start).next_multiple_of(region::TABLE_ALIGNMENT)
}

/// Whoever dies in a repair leaves one that the next ends: at each step of it.
#[test]
fn a_repair_that_was_cut_off_is_ended_by_the_next() {
    for polls in (1..400).step_by(7) {
        let (store, middle) = three();
        let table = store.table("middle").unwrap();
        assert!(table.put(&[1; 8], &[2; 16]).unwrap());
        overwrite(&store, middle.entry, 1, 0, b"");
        store
            .change(async |endpoint| {
                let catalog = Catalog::new(endpoint, NodeId(0))?;
                let mut repair = std::pin::pin!(catalog.repair());
                let mut polled = 0;
                std::future::poll_fn(|cx| {
                    polled += 1;
                    match polled {
                        _ if polled > polls => std::task::Poll::Ready(()),
                        _ => repair
                            .as_mut()
                            .poll(cx)
                            .map(|repaired| drop(repaired.unwrap())),
                    }
                })
                .await;
                Ok(())
            })
            .unwrap();
        store.repair().unwrap();
        assert_eq!(store.damage().unwrap(), [], "{polls}");
        let again = store.create("middle", &options()).unwrap();
        assert_eq!(again.offset, middle.offset, "{polls}");
        let table = store.table("middle").unwrap();
        assert_eq!(table.into_iter().count(), 0, "{polls}");
    }
}

/// What other nodes say is there, and is not, is not taken for what was never made.
#[test]
fn a_part_that_was_cleared_is_lost_until_that_is_accepted() {
    let store = Store::open("sim://cx5-edr?seed=1&memory=16MiB&nodes=3").unwrap();
    let made = store.create("t", &options().capacity(1000)).unwrap();
    let keys = || (0..300u64).map(u64::to_le_bytes);
    let table = store.table("t").unwrap();
    keys().for_each(|key| assert!(table.put(&key, &[7; 16]).unwrap()));
    // The first node's.
    overwrite(&store, made.entry, 1, 0, b"");
    store.repair().unwrap();
    assert_eq!(store.nodes().unwrap()[0].lost, ["t"]);
    let table = store.table("t").unwrap();
    let found = |table: &crate::Table| keys().map(|key| table.get(&key)).collect::<Vec<_>>();
    let lost = found(&table)
        .into_iter()
        .filter_map(std::result::Result::err);
    let lost: Vec<_> = lost.collect();
    assert!((50..200).contains(&lost.len()), "{}", lost.len());
    for error in &lost {
        assert!(error.to_string().contains("came back empty"), "{error}");
    }
    assert_eq!(store.accept_loss("t").unwrap().len(), 1);
    let table = store.table("t").unwrap();
    let absent = found(&table)
        .into_iter()
        .filter(|got| matches!(got, Ok(None)));
    assert_eq!(absent.count(), lost.len());
}

//! A table that is made without saying how large or what for.

use farslot::layout::{DuoShape, RaceShape};
use farslot::{
    ErrorKind, FieldSize, IndexError, OpenOptions, SchemeKind, Server, SlotKind, Store, StoreError,
    TableOptions,
};

const MIB: u64 = 1 << 20;

/// A record's value, of a length of its own.
fn value(key: u64) -> Vec<u8> {
    let bytes = (key.wrapping_mul(0x9e37_79b9) % 41) as usize;
    let mut value = key.to_le_bytes().repeat(bytes.div_ceil(8));
    value.truncate(bytes);
    value
}

/// Keeps `live` keys, the newest of `all` that come and go, and looks at them now and then.
fn churn(store: &Store, live: u64, all: u64) {
    let made = store.create("sessions", &TableOptions::default()).unwrap();
    assert_eq!(made.scheme.kind(), SchemeKind::Race);
    let table = store.table("sessions").unwrap();
    const BATCH: u64 = 500;
    for first in (0..all).step_by(BATCH as usize) {
        let records: Vec<_> = (first..first + BATCH)
            .map(|key| (key.to_string().into_bytes(), value(key)))
            .collect();
        let borrowed: Vec<_> = records
            .iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .collect();
        table
            .put_many(&borrowed, |number, put| {
                assert!(put, "{number} from {first}")
            })
            .unwrap();
        if first >= live {
            let old: Vec<_> = (first - live..first - live + BATCH)
                .map(|key| key.to_string().into_bytes())
                .collect();
            let old: Vec<_> = old.iter().map(|key| &key[..]).collect();
            table
                .remove_many(&old, |_, removed| assert!(removed))
                .unwrap();
        }
    }
    for key in (all - live..all).step_by(97) {
        assert_eq!(
            table.get(key.to_string().as_bytes()).unwrap(),
            Some(value(key))
        );
    }
    assert!(
        !table
            .contains_key((all - live - 1).to_string().as_bytes())
            .unwrap()
    );
    assert_eq!(table.survey().unwrap().live(), live);
    drop(table);
    store.drop_table("sessions").unwrap();
    assert_eq!(store.memory().unwrap().taken, 0);
}

fn one() -> Store {
    Store::embedded_with(128 * MIB, OpenOptions::default()).unwrap()
}

fn three() -> Store {
    Store::open("sim://cx5-edr?seed=1&nodes=3&memory=64MiB").unwrap()
}

#[test]
fn it_survives_keys_that_come_and_go() {
    churn(&one(), 5_000, 200_000);
}

#[test]
fn it_survives_them_on_three_nodes() {
    churn(&three(), 3_000, 30_000);
}

#[test]
#[ignore = "takes minutes: scripts/test --all"]
fn it_holds_200_000_keys_while_20_million_go_through_it() {
    churn(&one(), 200_000, 20_000_000);
}

/// On nodes that are reached over sockets: the simulator would take hours.
#[test]
#[ignore = "takes minutes: scripts/test --all"]
fn it_holds_200_000_keys_while_20_million_go_through_three_nodes() {
    let start = || Server::start("tcp://127.0.0.1:0", 64 * MIB).unwrap();
    let nodes = [(); 3].map(|()| start());
    let addresses = nodes.each_ref().map(|node| node.addresses()[0].to_string());
    let ports = addresses
        .each_ref()
        .map(|address| &address["tcp://".len()..]);
    let store = Store::open(&format!("tcp://{}", ports.join(","))).unwrap();
    churn(&store, 200_000, 20_000_000);
}

/// Many may be made, and share what there is: one that finds none says so, and one whose heap is
/// limited leaves the rest to the others.
#[test]
fn there_is_room_for_others_beside_it() {
    let store = Store::embedded_with(32 * MIB, OpenOptions::default()).unwrap();
    for number in 0..20 {
        let name = format!("t{number}");
        store.create(&name, &TableOptions::default()).unwrap();
        let table = store.table(&name).unwrap();
        assert_eq!(table.put(b"key", &[number; 100]), Ok(true));
    }
    for number in 0..20 {
        let name = format!("t{number}");
        let table = store.table(&name).unwrap();
        assert_eq!(table.get(b"key").unwrap(), Some(vec![number; 100]));
    }
    let before = store.memory().unwrap().free();
    let limited = TableOptions::default().heap_bytes(4 * MIB);
    store.create("c", &limited).unwrap();
    store.create("a", &TableOptions::default()).unwrap();
    let table = store.table("c").unwrap();
    let full = (0..10_000_u32).find_map(|key| table.put(&key.to_le_bytes(), &[7; 4_000]).err());
    let full = full.expect("it is smaller");
    assert_eq!(full.kind(), ErrorKind::OutOfMemory, "{full}");
    assert_eq!(table.get(&[0; 4]).unwrap().unwrap(), [7; 4_000]);
    assert!(store.memory().unwrap().free() + 6 * MIB > before);
    // Records of any sizes.
    let table = store.table("a").unwrap();
    table.put(&[1; 60_000], &[2; 1 << 20]).unwrap();
    assert_eq!(table.get(&[1; 60_000]).unwrap().unwrap().len(), 1 << 20);
}

#[test]
fn values_are_replaced_and_counted_up_in_one_step() {
    let store = Store::embedded_with(64 * MIB, OpenOptions::default()).unwrap();
    store.create("race", &TableOptions::default()).unwrap();
    store.create("linear", &TableOptions::new(1_000)).unwrap();
    let cuckoo = TableOptions::new(100).cuckoo(farslot::layout::CuckooShape::default());
    store.create("cuckoo", &cuckoo).unwrap();
    for name in ["race", "linear"] {
        let table = store.table(name).unwrap();
        assert_eq!(table.get_or(b"k", b"none").unwrap(), b"none");
        assert!(!table.contains_key(b"k").unwrap());
        assert!(!table.compare_and_set(b"k", Some(b""), b"1").unwrap());
        assert!(table.compare_and_set(b"k", None, b"1").unwrap());
        assert!(!table.compare_and_set(b"k", None, b"2").unwrap());
        assert!(!table.compare_and_set(b"k", Some(b"2"), b"3").unwrap());
        assert!(table.compare_and_set(b"k", Some(b"1"), b"three").unwrap());
        assert_eq!(table.get_or(b"k", b"none").unwrap(), b"three");
        assert!(!table.compare_and_remove(b"k", b"four").unwrap());
        assert!(!table.compare_and_remove(b"absent", b"").unwrap());
        let refused = table.increment(b"k", 1).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DoesNotFit, "{refused}");
        assert_eq!(table.increment(b"n", -5).unwrap(), -5);
        assert!(
            table
                .compare_and_set(b"n", Some(b"-5"), i64::MAX.to_string().as_bytes())
                .unwrap()
        );
        assert!(table.increment(b"n", 1).is_err());
        assert_eq!(
            table.get(b"n").unwrap().unwrap(),
            i64::MAX.to_string().as_bytes()
        );
        assert!(table.compare_and_remove(b"k", b"three").unwrap());
        assert!(!table.compare_and_remove(b"k", b"three").unwrap());
        assert!(!table.contains_key(b"k").unwrap());
        // None is lost, however many count.
        let (threads, each) = (4, 300);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let table = store.table(name).unwrap();
                    for _ in 0..each {
                        table.increment(b"many", 1).unwrap();
                    }
                });
            }
        });
        assert_eq!(table.increment(b"many", 0).unwrap(), threads * each);
    }
    let refused = store
        .table("cuckoo")
        .unwrap()
        .compare_and_set(b"k", Some(b"1"), b"2");
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    let cuckoo = store.table("cuckoo").unwrap();
    let refused = cuckoo.compare_and_remove(b"k", b"1");
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_heap_that_a_table_was_given_holds_a_record() {
    let store = Store::embedded().unwrap();
    let sizes = TableOptions::new(100)
        .keys(FieldSize::UpTo(8))
        .values(FieldSize::UpTo(8));
    for (name, options) in [
        ("linear", sizes.clone().slots(SlotKind::Heap)),
        ("race", sizes.clone().race(RaceShape::default())),
        (
            "growing",
            sizes.clone().race(RaceShape::default()).grow_to(200),
        ),
        (
            "expiring",
            sizes.clone().race(RaceShape::default()).expiring(true),
        ),
        (
            "duo",
            sizes.clone().duo(DuoShape::default()).slots(SlotKind::Heap),
        ),
    ] {
        let refused = store.create(name, &options.clone().heap_bytes(0));
        let Err(StoreError::Index(IndexError::BadOption { option, .. })) = refused else {
            panic!("{name}: {refused:?}");
        };
        assert_eq!(option, "heap bytes", "{name}");
        let mut sizes = (64..1024).step_by(8);
        let least = sizes.find(|bytes| {
            store
                .create(name, &options.clone().heap_bytes(*bytes))
                .is_ok()
        });
        let table = store.table(name).unwrap();
        assert_eq!(table.put(b"k", b""), Ok(true), "{name}: {least:?}");
        assert_eq!(
            table.get(b"k").unwrap().as_deref(),
            Some(&b""[..]),
            "{name}"
        );
    }
}

/// Memory that a table had and does not need is another's, which lies on all nodes as well.
#[test]
fn tables_give_back_memory_for_one_over_several_nodes() {
    let store = Store::open("sim://cx5-edr?seed=1&nodes=2&memory=16MiB").unwrap();
    store.create("log", &TableOptions::default()).unwrap();
    let log = store.table("log").unwrap();
    let mut keys = 0_u32;
    while log.put(&keys.to_le_bytes(), &[1; 10_000]).is_ok() {
        keys += 1;
    }
    assert!(keys > 2_000, "{keys}");
    let sized = TableOptions::new(1_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(4_000));
    let refused = store.create("pages", &sized).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{refused}");
    let all: Vec<_> = (0..keys).map(u32::to_le_bytes).collect();
    let all: Vec<_> = all.iter().map(|key| &key[..]).collect();
    log.remove_many(&all, |_, _| ()).unwrap();
    store.create("pages", &sized).unwrap();
    let pages = store.table("pages").unwrap();
    assert_eq!(pages.put(&[7; 8], &[7; 4_000]), Ok(true));
}

//! Tables of every scheme in the hands of many processes at once.

use crate::common::Served;
use crate::roles::{Other, is_whole, value_of};
use farslot::index::IndexError;
use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{FieldSize, SlotKind, Store, StoreError, Table, TableOptions};

const PROCESSES: u64 = 8;
/// Of each process.
const RECORDS: u64 = 200;
const SHARED: u64 = 20;
const ROUNDS: u64 = 3;

fn options(slot: SlotKind) -> TableOptions {
    TableOptions::new(4_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(48))
        .slots(slot)
}

/// Tables that all may write.
const WRITTEN: [&str; 5] = ["inline", "heap", "hybrid", "race", "race that grows"];
/// Tables that one writes at a time.
const ONE_WRITER: [&str; 5] = [
    "cuckoo-inline",
    "cuckoo-heap",
    "cuckoo-signatures",
    "duo-inline",
    "duo-heap",
];
const BUILT: [(&str, SlotKind); 2] = [
    ("sealed-inline", SlotKind::Inline),
    ("sealed-heap", SlotKind::Heap),
];

fn is_busy(result: &farslot::Result<bool>) -> bool {
    matches!(
        result,
        Err(StoreError::Index(IndexError::WriterBusy { .. }))
    )
}

fn written(name: &str) -> TableOptions {
    let race = options(SlotKind::Heap).race(RaceShape::default());
    match name {
        "inline" => options(SlotKind::Inline),
        "heap" => options(SlotKind::Heap),
        "hybrid" => options(SlotKind::Hybrid),
        "race" => race,
        _ => race.capacity(100).grow_to(4_000),
    }
}

fn of_one_writer(name: &str) -> TableOptions {
    let cuckoo = |slot| options(slot).cuckoo(CuckooShape::default());
    let duo = |slot| options(slot).duo(DuoShape::default());
    match name {
        "cuckoo-inline" => cuckoo(SlotKind::Inline),
        "cuckoo-heap" => cuckoo(SlotKind::Heap),
        "cuckoo-signatures" => cuckoo(SlotKind::Signatures),
        "duo-inline" => duo(SlotKind::Inline),
        _ => duo(SlotKind::Heap),
    }
}

/// A key of this process, and the number of its value.
fn own(process: u64, number: u64) -> u64 {
    1_000_000 + process * RECORDS + number
}

/// What each of the processes does: it opens all tables, says so, and when all have, puts records
/// of its own and some that all share, removes some of its own again, and looks at everything
/// meanwhile.
pub fn one_of_many(store: &Store, process: u64) {
    let open = |name: &str| store.table(name).unwrap();
    let written = WRITTEN.map(open);
    let one_writer = ONE_WRITER.map(open);
    let built = BUILT.map(|(name, _)| open(name));
    println!("open");
    let _ = std::io::stdin().read_line(&mut String::new());
    for round in 0..ROUNDS {
        for table in &written {
            write_own(table, process, round);
        }
        for table in &one_writer {
            // Whoever comes first writes, the others are told.
            for number in 0..SHARED {
                let put = table.put(&number.to_le_bytes(), &value_of(number));
                assert!(put.is_ok() || is_busy(&put), "{put:?}");
            }
        }
        for table in &built {
            for number in 0..RECORDS {
                let got = table.get(&number.to_le_bytes()).unwrap();
                assert_eq!(got.as_deref(), Some(&value_of(number)[..]));
            }
            assert_eq!(table.get(&own(process, 0).to_le_bytes()).unwrap(), None);
        }
        for table in written.iter().chain(&one_writer) {
            table
                .for_each(|_, value| assert!(is_whole(value), "{value:?}"))
                .unwrap();
        }
    }
    println!("done");
}

/// A round of one process: batches of its own records, and some that all write.
fn write_own(table: &Table, process: u64, round: u64) {
    let value = |number| value_of(number + round);
    let records: Vec<_> = (0..RECORDS)
        .map(|number| own(process, number))
        .map(|number| (number.to_le_bytes(), value(number)))
        .collect();
    let pairs: Vec<(&[u8], &[u8])> = records.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    table.put_many(&pairs, |_, _| ()).unwrap();
    for number in 0..SHARED {
        let key = number.to_le_bytes();
        table.put(&key, &value_of(process)).unwrap();
        assert!(table.get(&key).unwrap().is_some_and(|got| is_whole(&got)));
    }
    let keys: Vec<&[u8]> = records.iter().map(|(key, _)| &key[..]).collect();
    let mut answers = 0;
    table
        .get_many(&keys, |number, got| {
            assert_eq!(got, Some(&records[number].1[..]));
            answers += 1;
        })
        .unwrap();
    assert_eq!(answers, keys.len());
    // In the last round every other one of its own stays removed.
    let half: Vec<&[u8]> = keys.into_iter().step_by(2).collect();
    table.remove_many(&half, |_, was| assert!(was)).unwrap();
    for key in &half {
        assert_eq!(table.get(key).unwrap(), None);
    }
}

pub fn eight_processes_open_and_use_every_scheme<S: Served>() {
    let node = S::start(128 << 20);
    let store = node.open();
    for name in WRITTEN {
        store.create(name, &written(name)).unwrap();
    }
    for name in ONE_WRITER {
        store.create(name, &of_one_writer(name)).unwrap();
    }
    let records: Vec<_> = (0..RECORDS)
        .map(|number| (number.to_le_bytes(), value_of(number)))
        .collect();
    let pairs: Vec<(&[u8], &[u8])> = records.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    for (name, slot) in BUILT {
        let built = store.build(name, &options(slot).sealed(), &pairs);
        assert_eq!(built, Ok(RECORDS));
    }
    let address = node.address();
    let mut processes: Vec<_> = (0..PROCESSES)
        .map(|process| Other::start("one of many", &address, &process.to_string()))
        .collect();
    for process in &mut processes {
        process.wait_for("open");
    }
    for process in &mut processes {
        process.go_on();
    }
    for process in &mut processes {
        process.wait_for("done");
        process.end();
    }

    for name in WRITTEN {
        let table = store.table(name).unwrap();
        for process in 0..PROCESSES {
            for number in 0..RECORDS {
                let number = own(process, number);
                let got = table.get(&number.to_le_bytes()).unwrap();
                let there = (number - own(process, 0)) % 2 == 1;
                let value = there.then(|| value_of(number + ROUNDS - 1).to_vec());
                assert_eq!(got, value, "{name}, {number} of {process}");
            }
        }
        let live = SHARED + PROCESSES * RECORDS / 2;
        assert_eq!(table.survey().unwrap().live(), live, "{name}");
        assert_eq!(table.occupancy().unwrap().entries, live, "{name}");
    }
    for name in ONE_WRITER {
        let table = store.table(name).unwrap();
        assert_eq!(table.writer().unwrap(), None, "{name}: all have let go");
        for number in 0..SHARED {
            let got = table.get(&number.to_le_bytes()).unwrap();
            assert_eq!(got.as_deref(), Some(&value_of(number)[..]), "{name}");
        }
        assert_eq!(table.survey().unwrap().live(), SHARED, "{name}");
        assert!(!table.put(&[0; 8], &value_of(1)).unwrap());
    }
}

//! Clients that may only read: every operation of every scheme, and of the store.

use crate::common::{Served, patient};
use farslot::fabric::{FabricError, Rights};
use farslot::layout::{CuckooShape, DuoShape, RaceShape};
use farslot::{
    ErrorKind, FieldSize, OpenOptions, SlotKind, Store, StoreError, Table, TableOptions,
};

fn options(slot: SlotKind) -> TableOptions {
    TableOptions::new(100)
        .keys(FieldSize::Fixed(4))
        .values(FieldSize::Fixed(3))
        .slots(slot)
}

/// A table of each kind of slot of each scheme that is written after it was made.
fn written() -> Vec<(&'static str, TableOptions)> {
    use SlotKind::{Heap, Hybrid, Inline, Pair, Signatures, Word};
    let cuckoo = |slot| options(slot).cuckoo(CuckooShape::default());
    vec![
        ("word", options(Word)),
        ("pair", options(Pair)),
        ("inline", options(Inline)),
        ("heap", options(Heap)),
        ("hybrid", options(Hybrid).inline_bytes(8)),
        ("cuckoo-word", cuckoo(Word)),
        ("cuckoo-inline", cuckoo(Inline)),
        ("cuckoo-heap", cuckoo(Heap)),
        ("cuckoo-signatures", cuckoo(Signatures)),
        ("race", options(Heap).race(RaceShape::default())),
        ("duo-inline", options(Inline).duo(DuoShape::default())),
        ("duo-heap", options(Heap).duo(DuoShape::default())),
    ]
}

const KEY: &[u8] = b"key1";
const VALUE: &[u8] = b"one";

/// The error of a write that the client has no right to. It must not have taken effect.
fn denied<T: std::fmt::Debug>(name: &str, operation: &str, result: farslot::Result<T>) {
    match result {
        Err(error) => {
            assert!(!error.may_have_taken_effect(), "{name}, {operation}");
            assert!(
                matches!(
                    error,
                    StoreError::Fabric(FabricError::AccessDenied { granted, .. })
                    if granted == Rights::READ
                ),
                "{name}, {operation}: {error:?}"
            );
        }
        Ok(done) => panic!("{name}, {operation}: {done:?}"),
    }
}

fn reads_are_answered(name: &str, table: &Table) {
    assert_eq!(table.get(KEY).unwrap().as_deref(), Some(VALUE), "{name}");
    assert_eq!(table.get(b"none").unwrap(), None);
    assert_eq!(table.get_all(KEY).unwrap(), [VALUE]);
    let mut answers = 0;
    table
        .get_many(&[KEY, b"none"], |number, got| {
            assert_eq!(got, (number == 0).then_some(VALUE), "{name}");
            answers += 1;
        })
        .unwrap();
    table
        .get_all_many(&[KEY, b"none"], |number, got| {
            assert_eq!(got.len(), usize::from(number == 0), "{name}");
            answers += 1;
        })
        .unwrap();
    assert_eq!(answers, 4);
    let mut met = 0;
    table
        .for_each(|key, value| {
            assert_eq!((key, value), (KEY, VALUE));
            met += 1;
        })
        .unwrap();
    assert_eq!(met, 1);
    assert_eq!(table.survey().unwrap().live(), 1, "{name}");
    assert_eq!(table.occupancy().unwrap().entries, 1, "{name}");
    assert_eq!(table.writer().unwrap(), None, "{name}");
}

/// The writes that change something where they are granted, one after the other and as batches.
fn writes_are_denied(name: &str, table: &Table) {
    denied(name, "put, new", table.put(b"new1", b"two"));
    denied(name, "put, again", table.put(KEY, b"two"));
    denied(name, "find_or_put", table.find_or_put(b"new1", b"two"));
    denied(name, "update", table.update(KEY, b"two"));
    denied(name, "remove", table.remove(KEY));
    let records: [(&[u8], &[u8]); 2] = [(b"new1", b"two"), (KEY, b"two")];
    let (mut done, mut denied_of_batches) = (0, 0);
    let put = table.put_many(&records, |_, _| done += 1);
    let found = table.find_or_put_many(&records[..1], |_, _| done += 1);
    let updated = table.update_many(&records[1..], |_, _| done += 1);
    let removed = table.remove_many(&[KEY], |_, _| done += 1);
    for (operation, batch) in [
        ("put_many", put),
        ("find_or_put_many", found),
        ("update_many", updated),
        ("remove_many", removed),
    ] {
        for (_, error) in batch.unwrap_err() {
            denied::<()>(name, operation, Err(error));
            denied_of_batches += 1;
        }
    }
    assert_eq!(
        (done, denied_of_batches),
        (0, 5),
        "{name}: each has one answer"
    );
}

pub fn a_reader_answers_and_is_refused_every_write<S: Served>() {
    let node = S::start(64 << 20);
    let writer = node.open();
    for (name, options) in written() {
        writer.create(name, &options).unwrap();
        let table = writer.table(name).unwrap();
        assert!(table.put(KEY, VALUE).unwrap());
        table.close().unwrap();
    }
    let reader = Store::open_with(
        &node.address(),
        OpenOptions {
            rights: Rights::READ,
            ..patient()
        },
    )
    .unwrap();
    denied(
        "store",
        "create",
        reader.create("u", &options(SlotKind::Pair)),
    );
    assert_eq!(reader.tables().unwrap().len(), written().len());
    for (name, _) in written() {
        let table = reader.table(name).unwrap();
        reads_are_answered(name, &table);
        writes_are_denied(name, &table);
        if table.scheme().one_writer() {
            denied(name, "start_writing", table.start_writing());
            denied(name, "take_over", table.take_over());
        }
        if table.scheme().buildable() {
            denied(name, "build", table.build(&[(b"key2", b"two")]));
        }
        // What it was refused has left nothing to be reported, nor to be given up.
        table.flush().unwrap();
        table.resign().unwrap();
        reads_are_answered(name, &table);
        table.close().unwrap();
        reads_are_answered(name, &writer.table(name).unwrap());
    }
}

/// A sealed table is built by who may write, and read by all.
pub fn a_reader_of_a_sealed_table_needs_no_more<S: Served>() {
    let node = S::start(64 << 20);
    let writer = node.open();
    let options_of_reader = OpenOptions {
        rights: Rights::READ,
        ..patient()
    };
    let reader = Store::open_with(&node.address(), options_of_reader).unwrap();
    for slot in [SlotKind::Inline, SlotKind::Heap] {
        let (name, other) = (format!("{slot:?}"), format!("{slot:?} of a reader"));
        let sealed = options(slot).sealed();
        denied(
            &name,
            "build",
            reader.build(&other, &sealed, &[(KEY, VALUE)]),
        );
        assert!(
            writer
                .tables()
                .unwrap()
                .iter()
                .all(|table| table.name != other)
        );

        writer.create(&name, &sealed).unwrap();
        let early = reader.table(&name).unwrap();
        denied(&name, "build", early.build(&[(KEY, VALUE)]));
        writer.table(&name).unwrap().build(&[(KEY, VALUE)]).unwrap();
        for table in [early, reader.table(&name).unwrap()] {
            reads_are_answered(&name, &table);
            table.flush().unwrap();
            table.close().unwrap();
        }
    }
}

/// Who may call and read looks at a queue, and takes nothing from it.
pub fn a_reader_of_a_queue_sees_its_front_and_changes_nothing<S: Served>() {
    let node = S::start(64 << 20);
    let writer = node.open();
    writer
        .create(
            "q",
            &TableOptions::new(10).values(FieldSize::UpTo(8)).queue(),
        )
        .unwrap();
    let queue = writer.queue("q").unwrap();
    queue.push_all(&[b"one", b"two"]).unwrap();
    let reader = OpenOptions {
        rights: Rights::READ.and(Rights::CALL),
        ..patient()
    };
    let reader = Store::open_with(&node.address(), reader).unwrap();
    let reader = reader.queue("q").unwrap();
    for _ in 0..3 {
        for refused in [reader.push(b"three").map(drop), reader.pop().map(drop)] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
            assert!(!error.may_have_taken_effect(), "{error}");
        }
        assert_eq!(reader.front().unwrap().as_deref(), Some(&b"one"[..]));
    }
    let mut seen = Vec::new();
    reader.for_each(|item| seen.push(item.to_vec())).unwrap();
    assert_eq!(seen, [b"one", b"two"]);
    reader.close().unwrap();
    assert_eq!(queue.len(), Ok(2));
}

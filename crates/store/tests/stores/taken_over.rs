//! Writers that were taken over from, and go on.

use farslot::layout::{CuckooShape, DuoShape};
use farslot::{ErrorKind, FieldSize, Server, SlotKind, Store, Table, TableOptions};

fn options(of: &str) -> TableOptions {
    let options = TableOptions::new(2_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8));
    match of {
        "duo" => options.duo(DuoShape::default()),
        _ => options.cuckoo(CuckooShape::default()),
    }
}

fn put(table: &Table, number: u64) -> farslot::Result<bool> {
    table.put(&number.to_le_bytes(), &(number * 3).to_le_bytes())
}

/// Two clients of a server that share nothing, as of two processes.
fn goes_on(address: &str, scheme: &str, kind: SlotKind) {
    let server = Server::start(address, 64 << 20).unwrap();
    let address = server.addresses()[0].to_string();
    let [store, other] = [(); 2].map(|()| Store::open(&address).unwrap());
    store.create("t", &options(scheme).slots(kind)).unwrap();
    let (before, after) = (store.table("t").unwrap(), other.table("t").unwrap());
    for number in 0..200 {
        assert!(put(&before, number).unwrap());
    }
    after.take_over().unwrap();
    for number in 200..400 {
        assert!(put(&after, number).unwrap());
    }
    for number in 100..700 {
        let refused = put(&before, number).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WriterBusy, "{number}: {refused}");
        let refused = before.remove(&(number - 100).to_le_bytes()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WriterBusy, "{number}: {refused}");
    }
    let mut seen = 0;
    after.for_each(|_, _| seen += 1).unwrap();
    assert_eq!(seen, 400);
    for number in 0..400_u64 {
        let found = after.get(&number.to_le_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(&(number * 3).to_le_bytes()[..]));
    }
    // The one who was taken over from can be the writer again.
    before.resign().unwrap();
    after.close().unwrap();
    assert!(put(&before, 400).unwrap());
    assert_eq!(before.survey().unwrap().live(), 401);
}

const KINDS: [(&str, SlotKind); 5] = [
    ("duo", SlotKind::Inline),
    ("duo", SlotKind::Heap),
    ("cuckoo", SlotKind::Inline),
    ("cuckoo", SlotKind::Heap),
    ("cuckoo", SlotKind::Signatures),
];

#[test]
fn a_writer_over_tcp_destroys_nothing() {
    for (scheme, kind) in KINDS {
        goes_on("tcp://127.0.0.1:0", scheme, kind);
    }
}

#[test]
fn a_writer_in_shared_memory_destroys_nothing() {
    for (scheme, kind) in KINDS {
        let name = format!("shm://taken-over-{}-{scheme}-{kind:?}", std::process::id());
        goes_on(&name, scheme, kind);
    }
}

/// Two clients are deposed, or resign, that hold a free block each, which the third finds and uses.
/// When they are the writer again, they do not use it.
fn uses_no_memory_of_before(scheme: &str, is_deposed: bool) {
    let process = std::process::id();
    let name = format!("shm://memory-of-before-{process}-{scheme}-{is_deposed}");
    let _server = Server::start(&name, 64 << 20).unwrap();
    let stores = [(); 3].map(|()| Store::open(&name).unwrap());
    let options = options(scheme)
        .values(FieldSize::UpTo(4_000))
        .slots(SlotKind::Heap)
        .heap_bytes(256 << 10);
    stores[0].create("t", &options).unwrap();
    let [first, second, third] = stores.each_ref().map(|store| store.table("t").unwrap());
    let value = |number: u64| vec![number as u8; 4_000];
    for table in [&first, &second] {
        if is_deposed {
            table.take_over().unwrap();
        }
        table.put(&0_u64.to_le_bytes(), &value(0)).unwrap();
        assert!(table.remove(&0_u64.to_le_bytes()).unwrap());
        if !is_deposed {
            table.resign().unwrap();
        }
    }
    if is_deposed {
        third.take_over().unwrap();
    }
    let is_put = |number: &u64| {
        let put = third.put(&number.to_le_bytes(), &value(*number));
        put.inspect_err(|error| assert_eq!(error.kind(), ErrorKind::OutOfMemory))
            .is_ok()
    };
    let end = (1..).find(|number| !is_put(number)).unwrap();
    third.close().unwrap();
    for table in [&first, &second] {
        // The heap is full, but a block may be left that holds none of the records.
        let _ = table.put(&end.to_le_bytes(), &value(end));
        table.resign().unwrap();
    }
    for number in 1..end {
        let found = first.get(&number.to_le_bytes()).unwrap();
        assert_eq!(found, Some(value(number)), "{number} of {end}");
    }
}

#[test]
fn a_duo_writer_that_returns_uses_no_memory_of_before() {
    uses_no_memory_of_before("duo", true);
    uses_no_memory_of_before("duo", false);
}

#[test]
fn a_cuckoo_writer_that_returns_uses_no_memory_of_before() {
    uses_no_memory_of_before("cuckoo", true);
    uses_no_memory_of_before("cuckoo", false);
}

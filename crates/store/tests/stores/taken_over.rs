//! The writer of a CuckooDuo table that was taken over from, and goes on.

use farslot::{DuoShape, ErrorKind, FieldSize, Server, SlotKind, Store, Table, TableOptions};

fn put(table: &Table, number: u64) -> farslot::Result<bool> {
    table.put(&number.to_le_bytes(), &(number * 3).to_le_bytes())
}

/// Two clients of a server that share nothing, as of two processes.
fn goes_on(address: &str, kind: SlotKind) {
    let server = Server::start(address, 64 << 20).unwrap();
    let address = server.addresses()[0].to_string();
    let [store, other] = [(); 2].map(|()| Store::open(&address).unwrap());
    let options = TableOptions::new(2_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
        .duo(DuoShape::default())
        .slots(kind);
    store.create("t", &options).unwrap();
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

#[test]
fn a_writer_over_tcp_destroys_nothing() {
    for kind in [SlotKind::Inline, SlotKind::Heap] {
        goes_on("tcp://127.0.0.1:0", kind);
    }
}

#[test]
fn a_writer_in_shared_memory_destroys_nothing() {
    for kind in [SlotKind::Inline, SlotKind::Heap] {
        let name = format!("shm://taken-over-{}-{kind:?}", std::process::id());
        goes_on(&name, kind);
    }
}

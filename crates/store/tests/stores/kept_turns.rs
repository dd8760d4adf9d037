//! Transactions that change more at a node whose memory is kept than one turn of its owner may.

use farslot::{FieldSize, Server, ServerOptions, Store, TableOptions};

/// What a transaction has at another node than its home is applied, once it is decided, however
/// many words that takes.
#[test]
fn a_part_of_a_decided_transaction_may_be_larger_than_a_turn() {
    // Each put writes a slot with room for 16,000 bytes; a turn changes a million words at most.
    const KEYS: u32 = 600;
    let address = |name: &str| format!("shm://stores-turns-{name}-{}", std::process::id());
    let [home, other] = [address("home"), address("other")];
    let memory = Server::memory_to_keep(256 << 20).unwrap();
    let _servers = [
        Server::start(&home, 16 << 20).unwrap(),
        Server::start_on(&[&other], memory, &ServerOptions::default()).unwrap(),
    ];
    let both = format!("{home},{}", other.trim_start_matches("shm://"));
    let [at_home, at_other, store] = [&home, &other, &both].map(|at| Store::open(at).unwrap());
    let small = TableOptions::new(100).chained();
    at_home.create("small", &small).unwrap();
    let long = TableOptions::new(1_000).values(FieldSize::UpTo(16_000));
    at_other.create("large", &long.chained()).unwrap();
    store
        .transaction(|t| {
            t.put("small", b"a", b"1")?;
            (0..KEYS).try_for_each(|key| t.put("large", &key.to_le_bytes(), b"2"))
        })
        .unwrap();
    let [small, large] = ["small", "large"].map(|name| store.table(name).unwrap());
    assert_eq!(small.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    for key in 0..KEYS {
        let value = large.get(&key.to_le_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&b"2"[..]), "{key}");
    }
}

//! What the holders of a grant of a prefix learn of tables: what they need, and nothing of what
//! keys are hashed by.

use crate::callers::{call, request};
use crate::grants::{MIB, grant, open_at, secret, server};
use crate::prefixes::{of_prefix, record, tenants};
use crate::raw::RawClient;
use farslot::calls::reply::{Status, status_of};
use farslot::calls::request::Question;
use farslot::fabric::shm::{Node, RegionSpec};
use farslot::fabric::tcp::{Agent, AgentOptions, ConnectOptions, Grant, ServeOptions, wire};
use farslot::fabric::{Call, CallAnswer, FabricError, Handler, Rights};
use farslot::index::IndexError;
use farslot::{
    ErrorKind, FieldSize, Operation, Server, ServerOptions, Store, StoreError, TableOptions,
    TableRecord,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Bytes of the catalog of a node of 32 MiB, of the head before its entries, of an entry's words
/// and of its record.
const CATALOG: u64 = (4 + 512 + 32) << 10;
const HEAD: u64 = 4 << 10;
const WORDS: u64 = 32;
const RECORD: u64 = 992;

/// All that nodes have sent to clients, connection by connection.
type Seen = Arc<Mutex<Vec<Arc<Mutex<Vec<u8>>>>>>;

/// Carries what clients and a node send each other, and keeps what the node sends; returns where.
fn listen_in(server: &Server, seen: &Seen) -> String {
    let to = authority_of(server);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::clone(seen);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, node) = (client.unwrap(), TcpStream::connect(&to).unwrap());
            client.set_nodelay(true).unwrap();
            node.set_nodelay(true).unwrap();
            let kept = Arc::default();
            seen.lock().unwrap().push(Arc::clone(&kept));
            let back = (node.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || carry(client, node, None));
            std::thread::spawn(move || carry(back.0, back.1, Some(kept)));
        }
    });
    address
}

fn carry(mut from: TcpStream, mut to: TcpStream, kept: Option<Arc<Mutex<Vec<u8>>>>) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if let Some(kept) = &kept {
            kept.lock().unwrap().extend_from_slice(&bytes[..count]);
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn authority_of(server: &Server) -> String {
    server.addresses()[0].to_string().replace("tcp://", "")
}

/// Whatever is called a seed in a table's record.
fn seeds_of(record: &TableRecord) -> Vec<u64> {
    fn walk(value: &Value, seeds: &mut Vec<u64>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value.as_u64() {
                        Some(seed) if name.contains("seed") => seeds.push(seed),
                        _ => walk(value, seeds),
                    }
                }
            }
            Value::Array(all) => all.iter().for_each(|value| walk(value, seeds)),
            _ => {}
        }
    }
    let mut seeds = Vec::new();
    walk(&serde_json::to_value(record).unwrap(), &mut seeds);
    assert!(!seeds.is_empty(), "{record:?}");
    seeds
}

/// Whether a number stands in what was seen: as a word, in either order of its bytes, or as text.
fn shows(seen: &Seen, number: u64) -> bool {
    let forms: [&[u8]; 4] = [
        &number.to_le_bytes(),
        &number.to_be_bytes(),
        &number.to_string().into_bytes(),
        &format!("{number:x}").into_bytes(),
    ];
    let seen = seen.lock().unwrap();
    seen.iter().any(|connection| {
        let bytes = connection.lock().unwrap();
        let is_in = |form: &[u8]| bytes.windows(form.len()).any(|part| part == form);
        forms.iter().any(|form| is_in(form))
    })
}

/// Does all that a holder of the prefix `a:` can do, and much that it cannot.
fn use_all(store: &Store, table: &str, others: &[&str]) {
    let found: Vec<_> = store.tables().unwrap();
    let names: Vec<_> = found.iter().map(|record| &*record.name).collect();
    assert_eq!(names, [table], "no other table is shown");
    assert!(found.iter().flat_map(seeds_of).all(|seed| seed == 0));
    assert_eq!(store.listing().unwrap().tables, found);
    let memory = store.memory().unwrap();
    assert!(memory.total > 0 && memory.taken > 0 && memory.largest_free > 0);
    for report in store.nodes().unwrap() {
        assert_eq!((report.tables, report.error), (Some(1), None));
        assert!(report.round_trip.is_some() && report.lost.is_empty());
    }
    for other in others {
        let error = store.table(other).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSuchTable, "{error}");
    }
    for refused in [
        store.create("new", &TableOptions::new(8)).map(drop),
        store.drop_table(table),
        store.rename(table, "new"),
        store.clear(table),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    }

    let table = store.table(table).unwrap();
    assert!(seeds_of(table.record()).iter().all(|seed| *seed == 0));
    let keys: Vec<_> = (0..100).map(|number| record("a:", number).0).collect();
    let keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
    let mut found = 0;
    table
        .get_many(&keys, |number, value| {
            let (_, expected) = record("a:", number as u64);
            assert_eq!(value, Some(&expected[..]));
            found += 1;
        })
        .unwrap();
    assert_eq!(found, keys.len());
    assert!(table.get(b"b:1").is_err());
    assert_eq!(table.get_all(b"a:3").unwrap().len(), 1);
    let operations = [
        Operation::Put(b"a:new", b"1"),
        Operation::Update(b"a:new", b"2"),
        Operation::FindOrPut(b"a:new", b"3"),
        Operation::Remove(b"a:new"),
        Operation::Put(b"a:long", &[0; 400]),
    ];
    // A sealed table takes none of them, and others none of a reader.
    let failed = table.run_many(&operations, |_, _| ()).unwrap_err();
    let first = if table.remove(b"a:none").is_ok() {
        4
    } else {
        0
    };
    let numbers = failed.failures().iter().map(|(number, _)| *number);
    assert!(numbers.eq(first..5), "{failed}");
    assert!(table.occupancy().is_err() && table.for_each(|_, _| ()).is_err());
    table.close().unwrap();
}

#[test]
fn nothing_that_a_node_sends_to_the_holder_of_a_prefix_shows_a_seed() {
    let (server, tables) = tenants();
    let seen = Seen::default();
    let address = format!("tcp://{}", listen_in(&server, &seen));
    let all = server.store().tables().unwrap();
    let seeds: Vec<_> = all.iter().flat_map(seeds_of).collect();
    assert!(seeds.iter().all(|seed| *seed > u64::from(u32::MAX)));
    for (name, writes) in tables {
        let rights = if writes { Rights::ALL } else { Rights::READ };
        let tenant = of_prefix("tenant", 2, name, rights, b"a:");
        server.grant(&tenant).unwrap();
        let others: Vec<_> = tables.iter().map(|(other, _)| *other).collect();
        let others: Vec<_> = others.into_iter().filter(|other| *other != name).collect();
        use_all(
            &open_at(&address, "tenant", secret(2)).unwrap(),
            name,
            &others,
        );
        for seed in &seeds {
            assert!(!shows(&seen, *seed), "{seed} of {name}");
        }
    }
    // It is found where it is sent.
    let reader = grant("reader", 3, &["linear"], Rights::READ);
    server.grant(&reader).unwrap();
    let store = open_at(&address, "reader", secret(3)).unwrap();
    store.tables().unwrap();
    assert!(seeds.iter().all(|seed| shows(&seen, *seed)));
}

#[test]
fn nothing_of_a_table_over_several_nodes_shows_the_seeds_of_its_parts() {
    let options = ServerOptions {
        secrets: secret(1).into_iter().collect(),
        ..ServerOptions::default()
    };
    let start = || Server::start_with(&["tcp://127.0.0.1:0"], 32 * MIB, &options).unwrap();
    let servers = [start(), start()];
    let of_both = |authorities: [String; 2]| format!("tcp://{}", authorities.join(","));
    let admin = of_both(servers.each_ref().map(authority_of));
    let admin = open_at(&admin, "default", secret(1)).unwrap();
    let sizes = TableOptions::new(1_000)
        .keys(FieldSize::UpTo(20))
        .values(FieldSize::UpTo(300));
    for name in ["t", "other"] {
        admin.create(name, &sizes).unwrap();
    }
    let table = admin.table("t").unwrap();
    for number in 0..100 {
        let (key, value) = record("a:", number);
        assert!(table.put(&key, &value).unwrap());
    }
    for server in &servers {
        let tenant = of_prefix("tenant", 2, "t", Rights::ALL, b"a:");
        server.grant(&tenant).unwrap();
    }
    let seen = Seen::default();
    let address = of_both(servers.each_ref().map(|server| listen_in(server, &seen)));
    use_all(
        &open_at(&address, "tenant", secret(2)).unwrap(),
        "t",
        &["other"],
    );
    // Where its keys lie is told, of others' not.
    let tenant = open_at(&address, "tenant", secret(2)).unwrap();
    for part in servers[0].store().tables().unwrap() {
        let asked = request(Question::Map, part.id, &[]);
        let told = call(&tenant, &asked, 64 << 10).unwrap();
        let expected = match &*part.name {
            "t" => Status::Done,
            _ => Status::Denied,
        };
        assert_eq!(status_of(&told).unwrap().0, expected, "{}", part.name);
    }
    let parts = servers
        .iter()
        .flat_map(|server| server.store().tables().unwrap());
    let seeds: Vec<_> = parts.flat_map(|part| seeds_of(&part)).collect();
    assert!(seeds.len() >= 8);
    for seed in seeds {
        assert!(!shows(&seen, seed), "{seed}");
    }
}

/// What a client without the checks of an endpoint is answered by the node.
#[test]
fn the_holder_of_a_prefix_reads_nothing_of_the_catalog() {
    let server = server();
    server
        .grant(&of_prefix("tenant", 2, "b", Rights::ALL, b"a:"))
        .unwrap();
    server
        .grant(&grant("reader", 3, &["b"], Rights::READ))
        .unwrap();
    let client = |grant: &str, number| {
        let options = ConnectOptions {
            grant: grant.into(),
            secret: secret(number),
            ..ConnectOptions::default()
        };
        RawClient::connect(&server.agents()[0], &options)
    };
    let table = server.store().table("b").unwrap().record().extent();
    let words = [
        0,
        8,
        16,
        24,
        HEAD,
        HEAD + 8,
        HEAD + 16,
        CATALOG - 8,
        CATALOG,
    ];
    let mut areas: Vec<_> = words.map(|at| (at, 8)).to_vec();
    let records = HEAD + farslot::layout::most_tables(32 * MIB) as u64 * WORDS;
    let entry = |number| {
        let words = (HEAD + number * WORDS, WORDS as u32);
        [words, (records + number * RECORD, RECORD as u32)]
    };
    areas.extend((0..4).flat_map(entry));
    areas.extend([(0, 32), (HEAD, 8 << 10), (0, CATALOG as u32)]);
    areas.extend([(table.start, 8), (table.end - 8, 8)]);
    let (mut tenant, mut reader) = (client("tenant", 2), client("reader", 3));
    for (at, len) in areas {
        let span = tenant.span(0, at, len);
        let refused = |answer: Result<Vec<u64>, FabricError>| {
            assert!(
                matches!(answer, Err(FabricError::AccessDenied { .. })),
                "{answer:?} at {at}"
            );
        };
        refused(tenant.ask(|out| wire::put_read(out, span)));
        refused(tenant.ask(|out| wire::put_read_many(out, [span].into_iter())));
        refused(tenant.ask(|out| wire::put_write(out, span, &vec![0; len as usize / 8])));
        refused(tenant.ask(|out| wire::put_compare_swap(out, span, 0, 1)));
        refused(tenant.ask(|out| wire::put_fetch_add(out, span, 0)));
        if at + u64::from(len) <= CATALOG {
            let span = reader.span(0, at, len);
            let read = reader.ask(|out| wire::put_read(out, span)).unwrap();
            assert_eq!(read.len() * 8, len as usize);
        }
    }
}

#[test]
fn one_of_many_tables_is_found_by_the_holder_of_its_prefix() {
    let server = server();
    let small = TableOptions::new(8)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8));
    // There are four already.
    let names: Vec<_> = (4..farslot::layout::most_tables(32 * MIB))
        .map(|at| format!("t{at}"))
        .collect();
    for name in &names {
        server.store().create(name, &small).unwrap();
    }
    let last = names.last().unwrap();
    server
        .grant(&of_prefix("tenant", 2, last, Rights::ALL, &[7]))
        .unwrap();
    let address = server.addresses()[0].to_string();
    let store = open_at(&address, "tenant", secret(2)).unwrap();
    let table = store.table(last).unwrap();
    assert_eq!(table.put(&[7; 8], &[1; 8]), Ok(true));
    // Of memory it knows what was taken ever, and not by whom.
    let (own, all) = (store.memory().unwrap(), server.store().memory().unwrap());
    assert_eq!(own.total, all.total);
    assert!(own.taken >= all.taken && own.largest_free <= all.largest_free);

    // One that is dropped is shown no more, nor the one that comes in its place.
    server.store().drop_table(last).unwrap();
    let gone = store.table(last).map(drop).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NoSuchTable, "{gone}");
    assert!(table.get(&[7; 8]).is_err());
    assert_eq!(store.tables().unwrap(), []);
}

#[test]
fn a_table_that_is_emptied_is_opened_anew_by_the_holder_of_its_prefix() {
    let server = server();
    server
        .grant(&of_prefix("tenant", 2, "b", Rights::ALL, &[1]))
        .unwrap();
    let address = server.addresses()[0].to_string();
    let store = open_at(&address, "tenant", secret(2)).unwrap();
    let table = store.table("b").unwrap();
    assert_eq!(table.get(&[1; 8]), Ok(Some(vec![2; 8])));
    std::thread::scope(|scope| {
        let admin = server.store().clone();
        let clearing = scope.spawn(move || admin.clear("b"));
        // Whoever opens it meanwhile waits.
        while !clearing.is_finished() {
            if let Ok(table) = store.table("b") {
                let _ = table.get(&[1; 8]);
            }
        }
        clearing.join().unwrap().unwrap();
    });
    let table = store.table("b").unwrap();
    assert_eq!(table.get(&[1; 8]), Ok(None));
    assert_eq!(table.put(&[1; 8], &[3; 8]), Ok(true));
}

/// An owner that answers every call with these bytes.
struct Says(Arc<Mutex<Vec<u8>>>);

impl Handler for Says {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        let said = self.0.lock().unwrap();
        let len = said.len().min(call.reply.len());
        call.reply[..len].copy_from_slice(&said[..len]);
        CallAnswer::Now(len)
    }

    fn checks_callers(&self) -> bool {
        true
    }
}

#[test]
fn an_owner_that_means_harm_is_told_so() {
    // A catalog of one table, as its owner tells of it.
    let (server, _) = tenants();
    server
        .grant(&of_prefix("tenant", 2, "race", Rights::ALL, b"a:"))
        .unwrap();
    let address = server.addresses()[0].to_string();
    let honest = open_at(&address, "tenant", secret(2)).unwrap();
    // The part of it that has the table, for a turn may end before; as if that were all.
    let (mut valid, mut first) = (Vec::new(), 0);
    while valid.len() < 200 {
        let asked = request(Question::Tables, first, &[]);
        valid = call(&honest, &asked, 64 << 10).unwrap();
        let next = valid[valid.len() - 40..].first_chunk().unwrap();
        first = u64::from_le_bytes(*next);
    }
    let head = valid.len() - 40;
    valid[head..][..8]
        .copy_from_slice(&(farslot::layout::most_tables(64 * MIB) as u64).to_le_bytes());

    let region = RegionSpec {
        len: 64 * MIB,
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    let says = Arc::new(Mutex::new(valid.clone()));
    node.serve_calls(Arc::new(Says(Arc::clone(&says))));
    let hostile = Grant {
        areas: Some(Vec::new()),
        ..Grant::everything(None)
    };
    let options = AgentOptions::from(ServeOptions {
        grants: vec![hostile],
        ..ServeOptions::default()
    });
    let agent = Agent::start(node, &options).unwrap();
    let store = Store::open(&format!("tcp://{}", agent.address())).unwrap();
    assert_eq!(store.tables().unwrap()[0].name, "race");

    let (mut refused, mut damaged) = (0, 0);
    for seed in 0..400 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |end: usize| (random.next_u64() % end as u64) as usize;
        let mut said = valid.clone();
        for _ in 0..1 + below(3) {
            let at = below(said.len());
            match below(4) {
                // The heads are where it is decided how much follows.
                0 => said[at % 48] = below(256) as u8,
                1 => said[at] ^= 1 << below(8),
                2 => said[at / 8 * 8] = below(16) as u8,
                _ => said.truncate(at.max(1)),
            }
        }
        *says.lock().unwrap() = said;
        match store.listing() {
            Ok(listing) => damaged += listing.damaged.len(),
            Err(StoreError::Index(IndexError::AtOwner { .. })) => refused += 1,
            // Of its phase.
            Err(StoreError::Fabric(FabricError::Restoring { .. } | FabricError::Ending { .. })) => {
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
        // There is no telling what it then says of keys, but it is an answer or an error.
        if let Ok(table) = store.table("race") {
            let _ = table.get(b"a:1");
        }
    }
    assert!(refused > 50 && damaged > 50, "{refused}, {damaged}");
}

//! Who may call an owner, and what it makes of calls that make no sense.

use crate::calls::{ALL, MIB, besides_calls, by, open, operation, serve, value_of, written};
use farslot::admission::{Rate, Secret, TableGrant};
use farslot::calls::reply::{Status, status_of};
use farslot::calls::request::{Question, RequestWriter, operation_bytes};
use farslot::fabric::{EndpointExt, Executor, FabricError, NodeId, RegionId, RemoteAddr, Rights};
use farslot::index::IndexError;
use farslot::layout::DuoShape;
use farslot::{
    Access, FieldSize, OpenOptions, Operation, Server, ServerOptions, Store, StoreError,
    TableOptions,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn secret(number: u8) -> Option<Secret> {
    Some(Secret::new([number; 16]).unwrap())
}

/// A request as any caller could make it who waits for one turn.
pub fn request(question: Question, table: u64, operations: &[Operation<'_>]) -> Vec<u8> {
    patient_request(question, (table, 0), operations)
}

/// One as any caller could make it who waits for so many nanoseconds.
pub fn patient_request(
    question: Question,
    table: (u64, u64),
    operations: &[Operation<'_>],
) -> Vec<u8> {
    let bytes = operations
        .iter()
        .map(|operation| operation_bytes(operation).unwrap());
    let mut request = vec![0; RequestWriter::bytes(bytes.sum())];
    let mut writer = RequestWriter::new(&mut request, question, table, operations.len());
    operations
        .iter()
        .for_each(|operation| writer.put(operation));
    request
}

/// Calls the owner with these bytes, by verbs alone.
pub fn call(store: &Store, request: &[u8], room: usize) -> Result<Vec<u8>, FabricError> {
    let executor = Executor::new(store.tcp_endpoint().unwrap().unwrap());
    let endpoint = executor.endpoint();
    let request = endpoint.core_copy(request);
    let called = endpoint.call((NodeId(0), RegionId(0)), request, room);
    executor.block_on(called).map(|reply| reply.to_vec())
}

trait CoreCopy {
    fn core_copy(&self, bytes: &[u8]) -> farslot::fabric::Buffer;
}

impl<E: farslot::fabric::Endpoint> CoreCopy for E {
    fn core_copy(&self, bytes: &[u8]) -> farslot::fabric::Buffer {
        self.core().buffers.copy_of(bytes).unwrap()
    }
}

fn status(store: &Store, request: &[u8]) -> Status {
    let reply = call(store, request, 4096).unwrap();
    status_of(&reply).unwrap().0
}

#[test]
fn a_caller_may_do_what_it_may_do_by_verbs() {
    let options = ServerOptions {
        secrets: secret(1).into_iter().collect(),
        read_only_secrets: secret(2).into_iter().collect(),
        ..ServerOptions::default()
    };
    let server = Server::start_with(&["tcp://127.0.0.1:0"], 32 * MIB, &options).unwrap();
    let options = TableOptions::new(100)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(100));
    let places = ["a", "b"].map(|name| {
        let record = server.store().create(name, &options).unwrap();
        let table = server.store().table(name).unwrap();
        table.put(&[1; 8], b"first").unwrap();
        record.id
    });
    let grant = |name: &str, number, tables: &[&str], rights| TableGrant {
        name: name.into(),
        secrets: secret(number).into_iter().collect(),
        clients: None,
        tables: tables.iter().map(ToString::to_string).collect(),
        rights,
        prefix: None,
        rate: Rate::UNLIMITED,
    };
    server
        .grant(&grant("writer of a", 3, &["a"], Rights::ALL))
        .unwrap();
    server
        .grant(&grant("reader of a", 4, &["a"], Rights::READ))
        .unwrap();
    let without_calls = Rights::READ.and(Rights::WRITE).and(Rights::ATOMIC);
    server
        .grant(&grant("both", 5, &["a", "b"], without_calls))
        .unwrap();
    let admitted = |grant: &str, number| {
        let options = OpenOptions {
            grant: grant.into(),
            secret: secret(number),
            ..by(Access::Auto)
        };
        Store::open_with(&server.addresses()[0].to_string(), options).unwrap()
    };
    let get = |place| request(Question::Run, place, &[Operation::Get(&[1; 8])]);
    let put = |place| request(Question::Run, place, &[Operation::Put(&[1; 8], b"second")]);
    let flush = |place| request(Question::Flush, place, &[]);
    let denied = |store: &Store, table: &str| {
        let put = store.table(table).unwrap().put(&[1; 8], b"third");
        matches!(
            put,
            Err(StoreError::Fabric(FabricError::AccessDenied { .. })
                | StoreError::Index(IndexError::Fabric(FabricError::AccessDenied { .. })))
        )
    };

    for (name, number) in [("read-only", 2), ("reader of a", 4)] {
        let reader = admitted(name, number);
        assert_eq!(status(&reader, &get(places[0])), Status::Done, "{name}");
        for request in [put(places[0]), flush(places[0])] {
            assert_eq!(status(&reader, &request), Status::Denied, "{name}");
        }
        // What is refused by call is refused by verbs too, which say why.
        assert!(denied(&reader, "a"), "{name}");
        let table = reader.table("a").unwrap();
        let before = table.counters();
        assert_eq!(table.get(&[1; 8]), Ok(Some(b"first".to_vec())));
        assert_eq!(besides_calls(&table.counters().since(&before)), (0, 0));
    }
    for (name, number) in [("writer of a", 3), ("reader of a", 4)] {
        let other = admitted(name, number);
        for request in [get(places[1]), put(places[1]), flush(places[1])] {
            assert_eq!(status(&other, &request), Status::Denied, "{name}");
        }
    }
    let writer = admitted("writer of a", 3);
    assert_eq!(status(&writer, &put(places[0])), Status::Done);
    // So long a request reaches the agent in pieces.
    let values = vec![vec![7; 100]; 1_000];
    let keys: Vec<_> = (0..1_000_u64).map(|key| (key % 50).to_le_bytes()).collect();
    let updates: Vec<_> = keys
        .iter()
        .zip(&values)
        .map(|(key, value)| Operation::Update(key, value))
        .collect();
    let long = request(Question::Run, places[0], &updates);
    let reply = call(&writer, &long, 100_000).unwrap();
    assert_eq!(status_of(&reply), Some((Status::Done, 1_000)));
    let both = admitted("both", 5);
    assert_eq!(status(&both, &put(places[1])), Status::Done);
    let all = admitted("default", 1);
    let table = all.table("a").unwrap();
    assert_eq!(table.get(&[1; 8]), Ok(Some(b"second".to_vec())));
    assert_eq!(
        all.table("b").unwrap().get(&[1; 8]),
        Ok(Some(b"second".to_vec()))
    );

    // A grant that is revoked ends calls too.
    let table = both.table("b").unwrap();
    assert_eq!(table.get(&[1; 8]), Ok(Some(b"second".to_vec())));
    assert!(server.revoke("both"));
    let revoked = table.put(&[1; 8], b"third");
    assert!(revoked.is_err(), "{revoked:?}");
}

#[test]
fn what_makes_no_sense_is_refused_and_harms_nobody() {
    let server = serve(32 * MIB);
    let store = open(&server, Access::Calls);
    let options = TableOptions::new(100)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(100));
    let place = store.create("t", &options).unwrap().id;
    let duo = options.duo(DuoShape::default());
    let of_duo = store.create("duo", &duo).unwrap().id;
    let table = store.table("t").unwrap();
    table.put(&[1; 8], b"value").unwrap();
    let get = |place| request(Question::Run, place, &[Operation::Get(&[1; 8])]);
    assert_eq!(status(&store, &get(place)), Status::Done);
    for wrong in [0, place ^ 8, !place] {
        assert_eq!(status(&store, &get(wrong)), Status::NoTable, "{wrong}");
    }
    assert_eq!(status(&store, &get(of_duo)), Status::NotServed);
    assert_eq!(status(&store, &[]), Status::Malformed);
    let other_region = {
        let executor = Executor::new(store.tcp_endpoint().unwrap().unwrap());
        let endpoint = executor.endpoint();
        let called = endpoint.call(
            (NodeId(0), RegionId(1)),
            endpoint.core_copy(&get(place)),
            64,
        );
        executor.block_on(called).map(drop)
    };
    assert!(matches!(
        other_region,
        Err(FabricError::UnknownRegion { .. })
    ));
    for room in 0..24 {
        let reply = call(&store, &get(place), room).unwrap();
        let known = status_of(&reply).map(|(status, _)| status);
        // There is no room for its one outcome.
        let expected = [None, Some(Status::Malformed), Some(Status::Done)];
        assert_eq!(known, expected[room / 8], "{room}");
    }
    let valid = request(
        Question::Run,
        place,
        &[
            Operation::Get(&[1; 8]),
            Operation::FindOrPut(&[1; 8], b"other"),
            Operation::GetAll(&[2; 8]),
        ],
    );
    for seed in 0..2_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut bytes = match seed % 3 {
            0 => vec![0; rng.random_range(0..200)],
            _ => valid.clone(),
        };
        if seed % 3 == 0 {
            rng.fill_bytes(&mut bytes);
        }
        for _ in 0..rng.random_range(0..4) {
            if let Some(at) = (!bytes.is_empty()).then(|| rng.random_range(0..bytes.len())) {
                bytes[at] = rng.random();
            }
        }
        bytes.truncate(rng.random_range(0..=bytes.len()));
        call(&store, &bytes, rng.random_range(0..300)).unwrap();
    }
    assert_eq!(table.get(&[1; 8]), Ok(Some(b"value".to_vec())));
}

#[test]
fn a_table_of_noise_leads_the_owner_nowhere() {
    for (seed, (name, options)) in (0_u64..).zip(written()) {
        let server = serve(32 * MIB);
        let store = open(&server, Access::Calls);
        let record = store.create(name, &options).unwrap();
        let other = store.create("other", &options).unwrap();
        let kept = store.table("other").unwrap();
        for number in 0..20_u64 {
            kept.put(&number.to_le_bytes(), &value_of(7, true)).unwrap();
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let executor = Executor::new(store.tcp_endpoint().unwrap().unwrap());
        let endpoint = executor.endpoint();
        for round in 0..6 {
            // Words of any kind, or such as point somewhere near.
            let noise: Vec<u8> = (0..(other.offset - record.offset).min(1 << 16) / 8)
                .flat_map(|_| match round % 2 {
                    0 => rng.random::<u64>().to_le_bytes(),
                    _ => (rng.random::<u64>() >> rng.random_range(0..64)).to_le_bytes(),
                })
                .collect();
            let at = RemoteAddr {
                node: NodeId(0),
                region: RegionId(0),
                offset: record.offset,
            };
            executor
                .block_on(endpoint.write(at, endpoint.core_copy(&noise)))
                .unwrap();
            let keys: Vec<_> = (0..20_u64).map(u64::to_le_bytes).collect();
            for key in &keys {
                let value = value_of(8, true);
                let operations = ALL.map(|kind| operation(kind, key, &value, &value));
                let request = request(Question::Run, record.id, &operations);
                call(&store, &request, 4096).unwrap();
            }
        }
        for number in 0..20_u64 {
            let got = kept.get(&number.to_le_bytes());
            assert_eq!(got, Ok(Some(value_of(7, true))), "{name}");
        }
    }
}

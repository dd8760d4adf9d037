//! Nodes that restore their tables before clients may come, and that end.

use super::{borrowed, cuckoo, duo, key, options, records, served, value};
use farslot::fabric::FabricError;
use farslot::snapshots::{SnapshotOptions, SnapshotProgress};
use farslot::{
    Access, ErrorKind, OpenOptions, Server, ServerOptions, Store, StoreError, TableOptions,
};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

fn go_on(_: SnapshotProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn error_at<T: std::fmt::Debug>(result: farslot::Result<T>, node: &str) -> FabricError {
    match result {
        Err(StoreError::Node { address, error }) if *address == *node => error,
        other => panic!("{other:?}"),
    }
}

/// Clients get an error that says so and that they may try again, whatever they had open; nobody
/// makes anything there before what was there is back.
#[test]
fn a_node_that_restores_has_nothing_for_clients_before_it_is_done() {
    let directory = tempfile::tempdir().unwrap();
    let (mut servers, all) = served();
    let store = Store::open(&all).unwrap();
    store.create("t", &options(600)).unwrap();
    let table = store.table("t").unwrap();
    let all_records = records(0..300);
    table
        .put_many(&borrowed(&all_records), |_, put| assert!(put))
        .unwrap();
    let part = servers[1].store().tables().unwrap().remove(0);
    servers[1].end_writes().unwrap();
    let taken = servers[1].keeper().snapshot_own_part(
        &part,
        directory.path(),
        &SnapshotOptions::default(),
        &go_on,
    );
    assert!(taken.unwrap().records > 50);

    let address = servers[1].addresses()[0].to_string();
    drop(std::mem::replace(
        &mut servers[1],
        Server::start("tcp://127.0.0.1:0", 1 << 20).unwrap(),
    ));
    let restoring = ServerOptions {
        restoring: true,
        ..ServerOptions::default()
    };
    servers[1] = Server::start_with(&[&address], 32 << 20, &restoring).unwrap();
    let is_restoring = |error: &FabricError| matches!(error, FabricError::Restoring { .. });
    let on_it = (0..300)
        .find(|number| table.get(&key(*number)).is_err())
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !is_restoring(&error_at(table.get(&key(on_it)), &address)) {
        assert!(Instant::now() < until, "{:?}", table.get(&key(on_it)));
    }
    assert!(is_restoring(&error_at(
        table.put(&key(on_it), b"new"),
        &address
    )));
    let late = store.table("t").unwrap();
    assert!(is_restoring(&error_at(late.get(&key(on_it)), &address)));
    assert!(is_restoring(&error_at(
        store.create("u", &options(10)),
        &address
    )));
    assert!(is_restoring(&error_at(store.accept_loss("t"), &address)));
    let alone = Store::open(&address).unwrap();
    for refused in [
        alone.create("t", &TableOptions::default()).map(drop),
        alone.create("u", &TableOptions::default()).map(drop),
        alone.table("t").map(drop),
        alone.tables().map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NodeDown);
        assert!(!error.may_have_taken_effect());
        assert!(
            error.to_string().contains("restores its tables: try again"),
            "{error}"
        );
    }

    servers[1]
        .keeper()
        .restore("t", directory.path(), &go_on)
        .unwrap();
    assert!(is_restoring(&error_at(
        store.table("t").unwrap().get(&key(on_it)),
        &address
    )));
    servers[1].open_to_clients().unwrap();
    for table in [&table, &late] {
        for number in 0..300 {
            while let Err(error) = table.get(&key(number)) {
                assert!(Instant::now() < until, "{error}");
            }
            assert_eq!(table.get(&key(number)).unwrap(), Some(value(number)));
        }
    }
    assert!(!table.put(&key(on_it), b"new").unwrap());
    store.create("u", &options(10)).unwrap();
}

/// A writer that is alive, and admits no other, does not keep the node from its last snapshot.
#[test]
fn the_last_snapshot_is_taken_although_a_table_has_a_writer() {
    for options in [cuckoo(600), duo(600)] {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start("tcp://127.0.0.1:0", 32 << 20).unwrap();
        let by_verbs = OpenOptions {
            access: Access::Reads,
            ..OpenOptions::default()
        };
        let store = Store::open_with(&server.addresses()[0].to_string(), by_verbs).unwrap();
        let record = store.create("t", &options).unwrap();
        let writer = store.table("t").unwrap();
        writer.start_writing().unwrap();
        let all_records = records(0..300);
        writer
            .put_many(&borrowed(&all_records), |_, put| assert!(put))
            .unwrap();
        let keeper = server.keeper();
        let refused = keeper.snapshot_own_part(
            &record,
            directory.path(),
            &SnapshotOptions::default(),
            &go_on,
        );
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::WriterBusy);
        server.end_writes().unwrap();
        let refused = writer.put(&key(7), b"new").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NodeDown, "{refused}");
        let taken = keeper.snapshot_own_part(
            &record,
            directory.path(),
            &SnapshotOptions::default(),
            &go_on,
        );
        assert_eq!(taken.unwrap().records, 300);
    }
}

/// What a client writes is refused, and so are changes of tables; what it reads is not.
#[test]
fn a_node_that_ends_takes_no_writes_and_answers_lookups() {
    let (servers, all) = served();
    let store = Store::open(&all).unwrap();
    store.create("t", &options(600)).unwrap();
    let table = store.table("t").unwrap();
    let all_records = records(0..300);
    table
        .put_many(&borrowed(&all_records), |_, put| assert!(put))
        .unwrap();
    servers[2].end_writes().unwrap();
    let address = servers[2].addresses()[0].to_string();
    let late = store.table("t").unwrap();
    let mut refused = 0;
    for table in [&table, &late] {
        for number in 0..300 {
            match table.put(&key(number), &value(number)) {
                Ok(_) => {}
                Err(StoreError::Node { address: of, error }) => {
                    assert!(
                        of == address && matches!(error, FabricError::Ending { .. }),
                        "{error}"
                    );
                    assert!(!error.may_have_taken_effect());
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
            assert_eq!(table.get(&key(number)).unwrap(), Some(value(number)));
        }
    }
    // A third of the keys, of each table: also of the one that was opened just now.
    assert!((140..260).contains(&refused), "{refused}");
    for refused in [
        store.create("u", &options(10)).map(drop),
        store.clear("t"),
        store.rename("t", "u"),
        store.drop_table("t"),
    ] {
        let error = error_at(refused, &address);
        assert!(matches!(error, FabricError::Ending { .. }), "{error}");
    }
    // Nothing of that was done on the others, whichever a change begins with.
    for server in &servers {
        let there = server.keeper().tables().unwrap();
        let names: Vec<_> = there.iter().map(|record| &record.name[..]).collect();
        assert_eq!(names, ["t"]);
    }
    assert_eq!(table.get(&key(7)).unwrap(), Some(value(7)));
    // The program's own threads make no tables either.
    let refused = servers[2].store().create("u", &options(10)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NodeDown, "{refused}");
}

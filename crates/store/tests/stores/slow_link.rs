//! Tables over TCP links of a second and more.

use crate::calls::{MIB, open, serve};
use crate::no_room::{by_value, fill};
use farslot::fabric::{FabricError, Limits};
use farslot::{Access, ErrorKind, FieldSize, OpenOptions, Store, StoreError, TableOptions};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The address of a way to there on which bytes take so long, each way. It ends with the process.
fn slow_way(to: SocketAddr, delay: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, agent) = (client.unwrap(), TcpStream::connect(to).unwrap());
            for (from, to) in [(&client, &agent), (&agent, &client)] {
                from.set_nodelay(true).unwrap();
                delayed(from.try_clone().unwrap(), to.try_clone().unwrap(), delay);
            }
        }
    });
    format!("tcp://{address}")
}

/// Copies bytes, each so long after it came.
fn delayed(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (late, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let _ = late.send((Instant::now() + delay, bytes[..count].to_vec()));
        }
    });
    std::thread::spawn(move || {
        for (at, bytes) in due {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

fn options() -> TableOptions {
    TableOptions::new(100)
        .keys(FieldSize::Fixed(4))
        .values(FieldSize::UpTo(8))
}

/// A machine that has other things to do besides: verbs are waited for longer than by default.
fn so(access: Access) -> OpenOptions {
    OpenOptions {
        access,
        limits: Limits {
            verb_timeout: 30_000_000_000,
            ..Limits::default()
        },
        connect_timeout: Duration::from_secs(60),
        ..OpenOptions::default()
    }
}

/// Uses a table over a round trip of a second.
fn use_slowly(access: Access) {
    let server = serve(16 * MIB);
    let near = open(&server, Access::Reads);
    near.create("t", &options()).unwrap();
    let at = server.addresses()[0].to_string();
    let at = at.trim_start_matches("tcp://").parse().unwrap();
    let far = slow_way(at, Duration::from_millis(500));
    let store = Store::open_with(&far, so(access)).unwrap();
    let table = store.table("t").unwrap();
    for round in 0..3_u32 {
        let key = round.to_le_bytes();
        assert!(table.put(&key, b"a value").unwrap());
        assert_eq!(table.get(&key).unwrap().as_deref(), Some(&b"a value"[..]));
    }
    table.close().unwrap();
    assert_eq!(near.table("t").unwrap().survey().unwrap().live(), 3);
}

#[test]
fn a_table_is_used_by_verbs_over_a_round_trip_of_a_second() {
    use_slowly(Access::Reads);
}

#[test]
fn a_table_is_used_by_calls_over_a_round_trip_of_a_second() {
    use_slowly(Access::Calls);
}

#[test]
fn a_link_that_is_slower_than_a_lease_is_named() {
    let server = serve(16 * MIB);
    open(&server, Access::Reads)
        .create("t", &options())
        .unwrap();
    let at = server.addresses()[0].to_string();
    let at = at.trim_start_matches("tcp://").parse().unwrap();
    let far = slow_way(at, Duration::from_millis(850));
    let options = OpenOptions {
        limits: Limits {
            verb_timeout: 5_000_000_000,
            ..Limits::default()
        },
        ..so(Access::Reads)
    };
    let store = Store::open_with(&far, options).unwrap();
    let outcome = store.table("t").and_then(|table| table.get(&[1; 4]));
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    // On a machine that is busy enough, a verb is not answered at all in that time.
    let is_named = matches!(
        error,
        StoreError::Fabric(FabricError::SlowLink { .. } | FabricError::TimedOut { .. })
            | StoreError::Index(farslot::index::IndexError::Fabric(
                FabricError::SlowLink { .. } | FabricError::TimedOut { .. }
            ))
    );
    assert!(is_named, "{error:?}");
}

/// A look at the memory takes longer than what it found is told for: all of a batch are told of by
/// the same.
#[test]
fn a_batch_of_refused_records_looks_at_the_memory_once_over_a_slow_link() {
    let server = serve(16 * MIB);
    let near = open(&server, Access::Reads);
    near.create("t", &by_value()).unwrap();
    fill(&near.table("t").unwrap(), 8);
    let at = server.addresses()[0].to_string();
    let at = at.trim_start_matches("tcp://").parse().unwrap();
    let far = slow_way(at, Duration::from_millis(100));
    let far = Store::open_with(&far, so(Access::Reads)).unwrap();
    let keys: Vec<_> = (1_000_000..1_000_030u64).map(u64::to_le_bytes).collect();
    let records: Vec<_> = keys.iter().map(|key| (&key[..], &key[..])).collect();
    let spent = |store: &Store| {
        let table = store.table("t").unwrap();
        let before = table.counters();
        let failed = table.put_many(&records, |_, _| ()).unwrap_err();
        assert_eq!(failed.failures().len(), records.len());
        table.counters().since(&before).verbs.iter().sum::<u64>()
    };
    let (near, far) = (spent(&near), spent(&far));
    assert!(near.abs_diff(far) < 20, "{near}, {far}");
}

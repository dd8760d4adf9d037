//! What it costs to open, to make and to drop one of a thousand tables.

use super::entry::{EntryWords, State, home_of};
use super::finding_tests::{found, options, with_endpoint, write};
use super::region::{entry_at, record_at};
use super::*;
use crate::admission::{Rate, Secret, TableGrant};
use crate::{OpenOptions, Server, ServerOptions, Store};
use farslot_fabric::{Endpoint, Rights};

const MIB: u64 = 1 << 20;

/// Has a node's catalog have so many tables more, named by their numbers, as clients leave it that
/// have made them one after the other.
fn fill_catalog(store: &Store, tables: u64) {
    let made = store.create("model", &options()).unwrap();
    let entries = with_endpoint(store, async |endpoint| {
        most_tables(endpoint.node(NodeId(0)).unwrap().regions[0].len)
    });
    let mut is_used = vec![false; entries];
    is_used[made.entry] = true;
    with_endpoint(store, async |endpoint| {
        for number in 1..=tables {
            let name = format!("t{number}");
            let home = home_of(&name, entries);
            let mut behind = (home..).map(|entry| entry % entries);
            let entry = behind.find(|entry| !is_used[*entry]).unwrap();
            is_used[entry] = true;
            let record = TableRecord {
                name,
                id: number,
                offset: made.offset + number * made.bytes().next_multiple_of(4096),
                ..made.clone()
            };
            let json = serde_json::to_vec(&record).unwrap();
            let words = EntryWords {
                state: State::table(&json),
                id: record.id,
                place: EntryWords::place_of(&record.name, number as u32),
                ..EntryWords::default()
            };
            let region_bytes = endpoint.node(NodeId(0)).unwrap().regions[0].len;
            write(endpoint, record_at(NodeId(0), entry, region_bytes), &json).await;
            let words: Vec<_> = words.bytes().collect();
            write(endpoint, entry_at(NodeId(0), entry), &words).await;
        }
    });
}

/// However many there are: the owner would tell of all of them in many answers.
#[test]
fn the_holder_of_a_prefix_opens_one_of_1000_tables_by_one_call() {
    let secrets = |number| vec![Secret::new([number; 16]).unwrap()];
    let options = ServerOptions {
        secrets: secrets(1),
        ..ServerOptions::default()
    };
    let server = Server::start_with(&["tcp://127.0.0.1:0"], 64 * MIB, &options).unwrap();
    fill_catalog(server.store(), 1_000);
    let tenant = TableGrant {
        name: "tenant".into(),
        secrets: secrets(2),
        clients: None,
        tables: vec!["t500".into(), "t7".into()],
        rights: Rights::READ,
        prefix: Some(b"a:".to_vec()),
        rate: Rate::UNLIMITED,
    };
    server.grant(&tenant).unwrap();
    let options = OpenOptions {
        grant: "tenant".into(),
        secret: secrets(2).pop(),
        ..OpenOptions::default()
    };
    let store = Store::open_with(&server.addresses()[0].to_string(), options).unwrap();
    let calls_of = |name: &str| {
        with_endpoint(&store, async |endpoint| {
            let (listing, calls, round_trips) = found(endpoint, name).await;
            let names = listing.unwrap().tables.into_iter().map(|table| table.name);
            (names.collect::<Vec<_>>(), calls, round_trips)
        })
    };
    assert_eq!(calls_of("t500"), (vec!["t500".to_string()], 1, 1));
    // Of a name that none of its tables has it learns by asking for all.
    let (names, calls, _) = calls_of("t501");
    let mut named: Vec<_> = names.iter().map(|name| &**name).collect();
    named.sort_unstable();
    assert_eq!(named, ["t500", "t7"]);
    assert!(calls > 2, "{calls}");
    // As it does where another record may have come in the place of the table's.
    server.store().rename("t500", "t0").unwrap();
    let (names, calls, _) = calls_of("t500");
    assert!(names.contains(&"t7".to_string()) && calls > 2, "{names:?}");
}

//! What it costs to open, to make and to drop one of a thousand tables.

use super::entry::{EntryWords, State, home_of};
use super::finding_tests::{found, options, store_of, with_endpoint, write};
use super::listing::CatalogSnapshot;
use super::lock::Change;
use super::region::{entry_at, record_at};
use super::*;
use crate::admission::{Rate, Secret, TableGrant};
use crate::{ErrorKind, OpenOptions, Server, ServerOptions, Store};
use farslot_fabric::{AnyEndpoint, Endpoint, EndpointExt, Rights};
use farslot_index::UPKEEP;

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

/// The verbs and the round trips of a client in what it does.
async fn spent<T>(endpoint: &AnyEndpoint, work: impl Future<Output = T>) -> (T, u64, u64) {
    let counted = || endpoint.core().counters.snapshot().operation(UPKEEP);
    let before = counted();
    let done = endpoint.operation(UPKEEP, work).await;
    let after = counted();
    let round_trips = after.round_trips - before.round_trips;
    (done, after.verbs - before.verbs, round_trips)
}

/// While a client changes the catalog, others wait: it has read the records before, and reads them
/// again only where their words are others.
#[test]
fn a_change_of_a_catalog_of_1000_tables_reads_the_words_alone() {
    let store = store_of(64 * MIB);
    fill_catalog(&store, 1_000);
    with_endpoint(&store, async |endpoint| {
        let catalog = Catalog::new(endpoint, NodeId(0)).unwrap();
        let settled = async || {
            let change = async |change: &Change<'_, '_, _>| {
                let (settled, verbs, round_trips) = spent(endpoint, change.settled()).await;
                Ok((settled?.tables().count(), verbs, round_trips))
            };
            catalog.changing(change).await.unwrap()
        };
        // The header, the words of 1,024 entries and of as many segments, in READs of 512.
        assert_eq!(settled().await, (1_001, 5, 2));
        let scheme = options().scheme().unwrap();
        let made = spent(endpoint, catalog.create("new", scheme, None)).await;
        println!("a create takes {} verbs in {} round trips", made.1, made.2);
        assert!(made.0.is_ok() && made.1 <= 15 && made.2 <= 10, "{made:?}");
        let retired = spent(endpoint, catalog.retire("t7", None)).await;
        println!(
            "a drop takes {} verbs in {} round trips",
            retired.1, retired.2
        );
        let retired = (retired.0.unwrap().unwrap(), retired.1, retired.2);
        assert!(retired.1 <= 13 && retired.2 <= 8, "{retired:?}");
        endpoint.sleep(GRACE).await;
        let reclaimed = spent(endpoint, catalog.reclaim(&retired.0)).await;
        println!("and later {} in {}", reclaimed.1, reclaimed.2);
        assert!(
            reclaimed.0.is_ok() && reclaimed.1 <= 20 && reclaimed.2 <= 12,
            "{reclaimed:?}"
        );
        assert_eq!(settled().await.0, 1_001);
        // A client that knows no record reads them all, 16 by a READ and 8 READs at once, but not
        // while others wait.
        let fresh = Catalog::new(endpoint, NodeId(0)).unwrap();
        let all = spent(endpoint, fresh.retire("t8", None)).await;
        println!("of a client that knows none {} in {}", all.1, all.2);
        assert!(
            all.0.is_ok() && all.1 <= 13 + 64 && all.2 <= 8 + 8,
            "{all:?}"
        );
    });
}

/// What others have done since a client has read the records it sees by their words.
#[test]
fn a_change_sees_what_others_have_changed_since_its_client_has_looked() {
    let store = store_of(4 * MIB);
    for name in ["a", "b", "c"] {
        store.create(name, &options()).unwrap();
    }
    with_endpoint(&store, async |endpoint| {
        let catalog = Catalog::new(endpoint, NodeId(0)).unwrap();
        let names = |snapshot: &CatalogSnapshot| {
            let names = snapshot.tables().map(|(_, table)| table.name.clone());
            let mut names: Vec<_> = names.collect();
            names.sort_unstable();
            names.concat()
        };
        assert_eq!(names(&catalog.snapshot().await.unwrap()), "abc");
        let other = Catalog::new(endpoint, NodeId(0)).unwrap();
        other.rename("a", "d", None).await.unwrap().unwrap();
        other.retire("b", None).await.unwrap().unwrap();
        let scheme = || options().scheme().unwrap();
        other.create("e", scheme(), None).await.unwrap();
        let seen = catalog.snapshot().await.unwrap();
        assert_eq!(names(&seen), "cde");
        assert_eq!(seen.retired().count(), 1);
        let refused = catalog.create("e", scheme(), None).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TableExists);
        catalog.create("a", scheme(), None).await.unwrap();
    });
}

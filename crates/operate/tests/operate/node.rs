//! What a memory node says of itself.

use crate::common::{Metrics, get, metrics_that};
use farslot::admission::{READ_ONLY, Secret};
use farslot::{
    Access, FieldSize, Limits, OpenOptions, Rights, Server, ServerOptions, Store, TableOptions,
};
use farslot_fabric::{EndpointExt, Executor, NodeId, RegionId, RemoteAddr, shm};
use farslot_operate::{NodeMetrics, Page, PageOptions};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MEMORY: u64 = 64 << 20;

fn secret(byte: u8) -> Secret {
    Secret::new([byte; 32]).unwrap()
}

fn served(addresses: &[&str]) -> (Arc<Server>, Page) {
    let options = ServerOptions {
        secrets: vec![secret(1)],
        read_only_secrets: vec![secret(2)],
        ..ServerOptions::default()
    };
    let server = Arc::new(Server::start_with(addresses, MEMORY, &options).unwrap());
    let metrics = NodeMetrics::of(Arc::clone(&server));
    let page = Page::start(metrics, &PageOptions::at("127.0.0.1:0")).unwrap();
    (server, page)
}

fn open(address: &str, secret: Secret, access: Access) -> farslot::Result<Store> {
    let options = OpenOptions {
        secret: Some(secret),
        access,
        ..OpenOptions::default()
    };
    Store::open_with(address, options)
}

fn is_ready(address: SocketAddr) -> bool {
    let answer = get(address, "/readyz");
    match answer.status {
        200 => assert_eq!(answer.body, "ready\n"),
        503 => assert!(answer.body.contains("catalog"), "{answer:?}"),
        _ => panic!("{answer:?}"),
    }
    answer.status == 200
}

#[test]
fn a_scrape_says_what_clients_did_and_what_the_catalog_has() {
    let (server, page) = served(&["tcp://127.0.0.1:0"]);
    let address = server.addresses()[0].to_string();
    let fresh = metrics_that(page.address(), |_| true);
    assert_eq!(fresh.sum("farslot_tables", &[]), 0.0);
    assert_eq!(fresh.sum("farslot_memory_taken_bytes", &[]), 0.0);
    assert!(!fresh.has("farslot_table_records"));

    let store = open(&address, secret(1), Access::Reads).unwrap();
    // A name that the format has to escape, if the catalog admits it.
    let name = ["a\"b\\c", "plain"].into_iter().find(|name| {
        let options = TableOptions::new(1_000).values(FieldSize::UpTo(100));
        store.create(name, &options).is_ok()
    });
    let name = name.unwrap();
    let table = store.table(name).unwrap();
    for number in 0..100u32 {
        table.put(&number.to_le_bytes(), &[7; 50]).unwrap();
        assert!(table.get(&number.to_le_bytes()).unwrap().is_some());
    }
    table.close().unwrap();
    assert!(open(&address, secret(3), Access::Reads).is_err());

    let metrics = metrics_that(page.address(), |metrics| {
        metrics.sum("farslot_table_records", &[("table", name)]) == 100.0
            && metrics.sum("farslot_clients_refused_total", &[]) >= 1.0
    });
    let at = ("address", &*address);
    let sum = |name: &str, labels: &[(&str, &str)]| metrics.sum(name, labels);
    assert!(sum("farslot_verbs_total", &[at, ("verb", "read")]) > 100.0);
    assert!(sum("farslot_verbs_total", &[at, ("verb", "compare_swap")]) >= 100.0);
    assert!(sum("farslot_bytes_total", &[at, ("direction", "read")]) > 5_000.0);
    assert!(sum("farslot_bytes_total", &[at, ("direction", "written")]) > 5_000.0);
    assert!(sum("farslot_clients_admitted_total", &[at]) >= 1.0);
    let wrong = [at, ("reason", "wrong_secret")];
    assert!(sum("farslot_clients_refused_total", &wrong) >= 1.0);
    // To everything, and to read everything.
    assert_eq!(sum("farslot_grants", &[at]), 2.0);
    assert_eq!(sum("farslot_ready", &[]), 1.0);
    for (reason, calls) in server.later_calls() {
        assert_eq!(
            sum("farslot_calls_later_total", &[("reason", reason)]),
            calls as f64
        );
    }
    assert!(metrics.has("farslot_calls_later_total"));
    assert_eq!(sum("farslot_tables", &[]), 1.0);
    let of_table = [("table", name), ("scheme", "linear")];
    let load = sum("farslot_table_load_factor", &of_table);
    let slots = sum("farslot_table_slots", &of_table);
    assert!((load - sum("farslot_table_used_slots", &of_table) / slots).abs() < 1e-9);
    assert!(sum("farslot_table_heap_used_bytes", &of_table) > 5_000.0);
    assert!(sum("farslot_memory_taken_bytes", &[]) >= sum("farslot_table_bytes", &of_table));
    assert!(sum("farslot_memory_bytes", &[]) <= MEMORY as f64);

    // A client that may only read is refused its writes.
    let options = OpenOptions {
        secret: Some(secret(2)),
        grant: READ_ONLY.into(),
        access: Access::Calls,
        ..OpenOptions::default()
    };
    let reader = Store::open_with(&address, options).unwrap();
    let reader = reader.table(name).unwrap();
    assert!(reader.put(b"1234", b"").is_err());
    drop((reader, store));
    metrics_that(page.address(), |metrics| {
        metrics.sum("farslot_connections", &[at]) == 0.0
    });
}

#[test]
fn tables_of_every_scheme_are_told_of_and_shared_memory_has_no_verbs() {
    let name = format!("operate-test-{}", std::process::id());
    let (server, page) = served(&[&format!("shm://{name}")]);
    let store = server.store();
    let sizes = |options: TableOptions| options.keys(FieldSize::Fixed(8));
    let options = [
        ("linear", sizes(TableOptions::new(100))),
        (
            "cuckoo",
            sizes(TableOptions::new(100)).cuckoo(Default::default()),
        ),
        ("race", TableOptions::default()),
        ("duo", sizes(TableOptions::new(100)).duo(Default::default())),
        ("sealed", sizes(TableOptions::new(100)).sealed()),
    ];
    for (scheme, options) in &options {
        store.create(scheme, options).unwrap();
        if *scheme != "sealed" {
            let table = store.table(scheme).unwrap();
            table.put(b"12345678", b"").unwrap();
            table.close().unwrap();
        }
    }
    let metrics = metrics_that(page.address(), |metrics| {
        metrics.sum("farslot_table_records", &[]) == 4.0
    });
    for (scheme, _) in &options {
        let labels = [("scheme", *scheme), ("table", *scheme)];
        assert!(
            metrics.sum("farslot_table_bytes", &labels) > 0.0,
            "{scheme}"
        );
    }
    assert!(!metrics.has("farslot_verbs_total"));
    assert!(is_ready(page.address()));
}

/// The part of a table over several nodes that lies on one of them.
#[test]
fn a_part_of_a_table_is_told_of_by_its_node() {
    let nodes = [(); 2].map(|()| served(&["tcp://127.0.0.1:0"]));
    let authority = |(server, _): &(Arc<Server>, Page)| {
        let address = server.addresses()[0].to_string();
        address.strip_prefix("tcp://").unwrap().to_owned()
    };
    let both = format!("tcp://{},{}", authority(&nodes[0]), authority(&nodes[1]));
    let store = open(&both, secret(1), Access::Auto).unwrap();
    store.create("t", &TableOptions::new(1_000)).unwrap();
    let table = store.table("t").unwrap();
    for number in 0..200u32 {
        table.put(&number.to_le_bytes(), b"").unwrap();
    }
    table.close().unwrap();
    let records = |metrics: &Metrics| metrics.sum("farslot_table_records", &[("table", "t")]);
    let [one, other] = nodes.map(|(_, page)| {
        records(&metrics_that(page.address(), |metrics| {
            records(metrics) > 0.0
        }))
    });
    assert_eq!(one + other, 200.0);
}

#[test]
fn a_node_is_unready_while_a_table_cannot_be_opened() {
    let name = format!("operate-ready-{}", std::process::id());
    let (server, page) = served(&[&format!("shm://{name}")]);
    server.store().create("t", &TableOptions::new(100)).unwrap();
    assert!(is_ready(page.address()));
    assert_eq!(get(page.address(), "/healthz").body, "ok\n");
    // A client that may write everything destroys a word of the entry of the table, and mends it.
    let node = shm::attach(&name, Rights::ALL).unwrap();
    let endpoint = shm::ShmEndpoint::new(vec![node], Limits::default());
    let executor = Executor::new(Rc::new(endpoint));
    let word = |entry: u64| RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset: 4096 + 32 * entry,
    };
    let swap = |entry, expected, new| {
        let swapped = executor.endpoint().compare_swap(word(entry), expected, new);
        executor.block_on(swapped)
    };
    let mut entries = 0..farslot::layout::most_tables(MEMORY) as u64;
    let entry = entries.find(|entry| swap(*entry, 0, 0) != Ok(0));
    let entry = entry.unwrap();
    let flip = |expected, new| swap(entry, expected, new);
    let first = flip(0, 0).unwrap();
    assert_eq!(flip(first, !first), Ok(first));
    assert!(!is_ready(page.address()));
    assert_eq!(
        get(page.address(), "/healthz").status,
        200,
        "it answers all the same"
    );
    metrics_that(page.address(), |metrics| {
        metrics.sum("farslot_ready", &[]) == 0.0
            && metrics.sum("farslot_catalog_damaged_entries", &[]) == 1.0
    });
    assert_eq!(flip(!first, first), Ok(!first));
    assert!(is_ready(page.address()));
    metrics_that(page.address(), |metrics| {
        metrics.sum("farslot_ready", &[]) == 1.0 && metrics.sum("farslot_tables", &[]) == 1.0
    });
}

#[test]
fn how_the_keys_of_a_table_lie_is_told_to_who_asks() {
    let name = format!("operate-survey-{}", std::process::id());
    let (server, page) = served(&[&format!("shm://{name}")]);
    let store = server.store();
    let sizes = TableOptions::new(1_000).keys(FieldSize::Fixed(8));
    let tables = [
        ("linear", sizes.clone(), "clusters_by_log2_length"),
        // A name that has to be encoded in a path.
        (
            "a cuckoo 50%",
            sizes.clone().cuckoo(Default::default()),
            "buckets_by_used_slots",
        ),
        (
            "duo",
            sizes.duo(Default::default()),
            "buckets_by_used_slots",
        ),
        ("race", TableOptions::default(), "subtables_by_splits"),
    ];
    for (name, options, form) in tables {
        store.create(name, &options).unwrap();
        let table = store.table(name).unwrap();
        for number in 0..500u64 {
            table.put(&number.to_le_bytes(), b"").unwrap();
        }
        table.close().unwrap();
        let survey = survey_of(page.address(), name);
        assert_eq!(survey["records"], 500, "{survey}");
        assert_eq!(
            survey[form].as_array().map(Vec::is_empty),
            Some(false),
            "{survey}"
        );
        let parts = survey["occupancy"].as_array().unwrap();
        assert!((1..=64).contains(&parts.len()), "{survey}");
    }
    assert_eq!(get(page.address(), "/tables/absent").status, 404);
    assert_eq!(get(page.address(), "/tables/%ff").status, 404);

    // What was told of a table is not told of the next of its name.
    store.drop_table("linear").unwrap();
    assert_eq!(get(page.address(), "/tables/linear").status, 404);
    store.create("linear", &TableOptions::new(1_000)).unwrap();
    assert_eq!(survey_of(page.address(), "linear")["records"], 0);
}

/// What is told of a table, once it is.
fn survey_of(page: SocketAddr, table: &str) -> serde_json::Value {
    let path = format!("/tables/{}", table.replace('%', "%25").replace(' ', "%20"));
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = get(page, &path);
        assert_eq!(answer.status, 200, "{answer:?}");
        let survey: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert!(survey["error"].is_null(), "{survey}");
        if !survey["records"].is_null() {
            return survey;
        }
        assert!(Instant::now() < until, "{survey}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

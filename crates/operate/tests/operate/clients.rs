//! What a program's own tables say: on a page, and in its own registry.

use crate::common::{Metrics, get, metrics_that};
use farslot::metrics::ClientMetrics;
use farslot::{ErrorKind, Handle, HandleOptions, OpenOptions, Store, TableOptions};
use farslot_operate::{Collected, Page, PageOptions};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::time::Duration;

fn measured(address: &str) -> (ClientMetrics, Store) {
    let metrics = ClientMetrics::default();
    let options = OpenOptions {
        metrics: Some(metrics.clone()),
        ..OpenOptions::default()
    };
    (metrics, Store::open_with(address, options).unwrap())
}

#[test]
fn operations_errors_latencies_and_round_trips_are_those_that_were() {
    let (metrics, store) = measured("sim://cx5-edr?seed=1&memory=8MiB");
    let sizes = TableOptions::new(100).keys(farslot::FieldSize::UpTo(8));
    store.create("t", &sizes).unwrap();
    let table = store.table("t").unwrap();
    for number in 0..20u64 {
        table.put(&number.to_le_bytes(), b"").unwrap();
        table.get(&number.to_le_bytes()).unwrap();
    }
    let keys: Vec<_> = (0..10u64).map(u64::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    table
        .get_many(&keys, |_, found| assert!(found.is_some()))
        .unwrap();
    let before = table.counters();
    assert!(table.put(b"too long a key", b"").is_err());
    assert_eq!(metrics.tables()[0].open, 1);
    table.close().unwrap();
    drop(store);

    let of_table = &metrics.tables()[0];
    assert_eq!((&*of_table.table, of_table.open), ("t", 0));
    assert_eq!(of_table.errors[ErrorKind::DoesNotFit as usize], 1);
    assert_eq!(of_table.errors.iter().sum::<u64>(), 1);
    assert_eq!(of_table.latency("put").unwrap().count(), 21);
    assert_eq!(of_table.latency("get").unwrap().count(), 20);
    assert!(of_table.latency("get").unwrap().sum > 0);
    assert_eq!(of_table.batches.count(), 1);
    assert!(of_table.counters.bytes_read >= before.bytes_read);

    let page = Page::start(metrics, &PageOptions::at("127.0.0.1:0")).unwrap();
    let scraped = metrics_that(page.address(), |_| true);
    let get_of_t = [("table", "t"), ("operation", "get")];
    assert_eq!(
        scraped.sum("farslot_client_operations_total", &get_of_t),
        30.0
    );
    assert!(scraped.sum("farslot_client_round_trips_total", &get_of_t) >= 20.0);
    assert!(scraped.sum("farslot_client_operation_bytes_total", &get_of_t) > 100.0);
    assert_eq!(
        scraped.sum("farslot_client_operation_seconds_count", &get_of_t),
        20.0
    );
    assert_eq!(
        scraped.sum("farslot_client_errors_total", &[("kind", "does_not_fit")]),
        1.0
    );
    assert_eq!(get(page.address(), "/readyz").status, 200);
}

#[test]
fn what_took_long_is_told_with_its_key_to_the_program_and_without_on_the_page() {
    let (metrics, store) = measured("sim://cx5-edr?seed=1&memory=8MiB");
    let sizes = TableOptions::new(100).keys(farslot::FieldSize::UpTo(200));
    store.create("t", &sizes).unwrap();
    let table = store.table("t").unwrap();
    // Nothing takes 10 ms there.
    table.put(b"soon", b"").unwrap();
    assert!(metrics.slow_operations().is_empty());
    metrics.set_slower_than(Duration::ZERO);
    table.get(b"a key").unwrap();
    table.get_many(&[b"alpha", b"omega"], |_, _| {}).unwrap();
    assert!(table.put(&[b'k'; 201], b"").is_err());
    let slow = metrics.slow_operations();
    let told: Vec<_> = slow
        .iter()
        .map(|slow| (slow.operation, slow.operations, slow.error))
        .collect();
    let does_not_fit = Some(ErrorKind::DoesNotFit);
    assert_eq!(
        told,
        [("put", 1, does_not_fit), ("get", 2, None), ("get", 1, None)]
    );
    assert_eq!(
        [&slow[0].key[..], &slow[1].key, &slow[2].key],
        [&[b'k'; 128][..], b"alpha", b"a key"]
    );
    assert!(slow[2].took > Duration::from_micros(1), "{slow:?}");
    metrics.set_slower_than(Duration::from_secs(1));
    table.get(b"a key").unwrap();
    assert_eq!(metrics.slow_operations(), slow);

    let page = Page::start(metrics, &PageOptions::at("127.0.0.1:0")).unwrap();
    let body = get(page.address(), "/slow").body;
    assert!(!body.contains("key") && !body.contains("alpha"), "{body}");
    let told: serde_json::Value = serde_json::from_str(&body).unwrap();
    let whats: Vec<_> = (0..3)
        .map(|at| told["slow"][at]["operation"].as_str().unwrap())
        .collect();
    assert_eq!(
        whats,
        ["put: does_not_fit", "2 operations, get the first", "get"]
    );
    assert_eq!(told["slow"][0]["table"], "t");
    assert_eq!(told["slow"][2]["took_seconds"], slow[2].took.as_secs_f64());
    assert!(told["slow"][0]["at_unix_ms"].as_u64().unwrap() > 1_600_000_000_000);
}

/// Some take a look and a write, of a table whose records expire.
#[test]
fn an_operation_on_a_table_whose_records_expire_is_counted_once() {
    let (metrics, store) = measured("embedded");
    store.create("t", &TableOptions::default()).unwrap();
    let table = store.table("t").unwrap();
    let long = Duration::from_secs(1_000);
    table.put_for(b"a", b"1", long).unwrap();
    table
        .put_many_for(&[(b"b", b"2"), (b"c", b"3")], long, |_, _| ())
        .unwrap();
    assert!(table.update(b"a", b"4").unwrap());
    assert!(table.compare_and_set(b"a", Some(b"4"), b"5").unwrap());
    assert!(table.set_time_to_live(b"b", None).unwrap());
    assert!(table.remove(b"a").unwrap());
    table.get_with_time_to_live(b"b").unwrap();
    let refused = table.put_for(b"a", &vec![0; 64 << 20], long).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DoesNotFit);
    table
        .update_many(&[(b"b", b"7"), (b"c", b"8")], |_, updated| {
            assert!(updated);
        })
        .unwrap();
    table.close().unwrap();
    let of_table = &metrics.tables()[0];
    let timed = |name: &str| of_table.latency(name).unwrap().count();
    // A replacement is an update as well.
    assert_eq!([timed("put"), timed("update"), timed("remove")], [2, 3, 1]);
    assert_eq!((timed("get"), of_table.batches.count()), (1, 2));
    assert_eq!(of_table.errors.iter().sum::<u64>(), 1);
    let page = Page::start(metrics, &PageOptions::at("127.0.0.1:0")).unwrap();
    let scraped = metrics_that(page.address(), |_| true);
    for (operation, count) in [("put", 4.0), ("update", 5.0), ("remove", 1.0), ("get", 1.0)] {
        let of = [("table", "t"), ("operation", operation)];
        let counted = scraped.sum("farslot_client_operations_total", &of);
        assert_eq!(counted, count, "{operation}");
    }
}

#[test]
fn a_handle_is_measured_too_and_a_registry_of_the_program_has_the_same() {
    let (metrics, store) = measured("embedded");
    store.create("t", &TableOptions::default()).unwrap();
    let handle = Handle::open(&store, "t", HandleOptions::default()).unwrap();
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    let mut put = std::pin::pin!(handle.put(b"sky", b"blue"));
    while put.as_mut().poll(&mut context).is_pending() {
        std::thread::yield_now();
    }
    let mut closing = std::pin::pin!(handle.close());
    while closing.as_mut().poll(&mut context).is_pending() {
        std::thread::yield_now();
    }
    assert_eq!(metrics.tables()[0].batches.count(), 1);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Collected::of(metrics)));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for part in [
        "# TYPE farslot_client_operations counter\n",
        "farslot_client_operations_total{table=\"t\",operation=\"put\"} 1",
        "farslot_client_batch_seconds_bucket{le=\"+Inf\",table=\"t\"} 1\n",
        "# EOF\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let _: fn(&str) -> Metrics = Metrics::parse;
}

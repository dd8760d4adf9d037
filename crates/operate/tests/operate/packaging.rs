//! The files for packagers: every metric that they name is there.

use farslot::metrics::ClientMetrics;
use farslot::{Evicting, OpenOptions, Server, Store, TableOptions};
use farslot_operate::{NodeMetrics, SnapshotMetrics, Source};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// The names of all metrics of a node and of a client that have done something.
fn names() -> BTreeSet<String> {
    let server = Server::start("tcp://127.0.0.1:0", 64 << 20).unwrap();
    let metrics = ClientMetrics::default();
    let options = OpenOptions {
        metrics: Some(metrics.clone()),
        ..OpenOptions::default()
    };
    let store = Store::open_with(&server.addresses()[0].to_string(), options).unwrap();
    store
        .create("t", &TableOptions::default().evicting(Evicting::All))
        .unwrap();
    let table = store.table("t").unwrap();
    table.put(b"key", b"value").unwrap();
    table.put_many(&[(b"key", b"value")], |_, _| ()).unwrap();
    assert!(table.update(b"key", &vec![0; 2 << 20]).is_err());
    table.close().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let go_on = |_| ControlFlow::Continue(());
    store.snapshot("t", directory.path(), &go_on).unwrap();
    let snapshots = SnapshotMetrics::of(directory.path()).families();
    let node = NodeMetrics::of(Arc::new(server)).families();
    let all = node.into_iter().chain(metrics.families()).chain(snapshots);
    let filled = all.filter(|family| !family.samples.is_empty());
    filled.map(|family| family.name.to_owned()).collect()
}

#[test]
fn rules_dashboards_and_the_book_name_metrics_that_there_are() {
    let names = names();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in [
        "packaging/prometheus/farslot.rules.yml",
        "packaging/grafana/farslot.json",
        "docs/operate/metrics.md",
        "crates/operate/src/page.html",
    ] {
        let text = std::fs::read_to_string(repository.join(file)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let mut named = 0;
        for word in words.filter(|word| word.starts_with("farslot_")) {
            let name = word.strip_suffix("_bucket").unwrap_or(word);
            // The beginning of a name, a gateway's (which its own tests have), or the crate.
            if name.ends_with('_')
                || name.starts_with("farslot_redis_")
                || ["farslot_operate", "farslot_fabric", "farslot_capi"].contains(&name)
            {
                continue;
            }
            assert!(names.contains(name), "{file}: {word}");
            named += 1;
        }
        assert!(named >= 6, "{file}: {named}");
    }
}

#[test]
fn the_book_names_every_metric() {
    let page = include_str!("../../../../docs/operate/metrics.md");
    for name in names() {
        assert!(page.contains(&format!("`{name}")), "{name}");
    }
}

#[test]
fn rules_tell_of_a_full_heap_of_snapshots_and_of_a_restart() {
    let rules = include_str!("../../../../packaging/prometheus/farslot.rules.yml");
    let expressions: Vec<_> = rules
        .split("- alert:")
        .filter_map(|rule| rule.split("annotations:").next()?.split_once("expr:"))
        .map(|(_, expression)| expression)
        .collect();
    for metric in [
        "farslot_table_heap_used_bytes",
        "farslot_snapshot_begun_seconds",
        "farslot_snapshot_failures_total",
        "farslot_start_time_seconds",
    ] {
        let mut of_it = expressions.iter();
        assert!(
            of_it.any(|expression| expression.contains(metric)),
            "{metric}"
        );
    }
}

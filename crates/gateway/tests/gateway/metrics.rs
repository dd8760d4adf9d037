//! What a gateway has counted, as Prometheus reads it.

use crate::client::{Client, gateway_with};
use farslot::admission::Secret;
use farslot_operate::{Source, text};

#[test]
fn a_gateway_tells_what_it_has_done() {
    let (_store, gateway) = gateway_with(|options| {
        options.secrets = vec![Secret::new("Tr0ub4dor-and-3-others").unwrap()];
        options.connections = 1;
    });
    let mut client = Client::of(&gateway);
    client.expect(&[("GET k", "-NOAUTH Authentication required.")]);
    assert!(client.ask("AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(client.ask("AUTH Tr0ub4dor-and-3-others"), "OK");
    client.expect(&[("SET k 1", "OK"), ("GET k", "\"1\""), ("get k", "\"1\"")]);
    assert!(client.ask("INCR k more").starts_with("-ERR wrong number"));
    assert!(client.ask("NONSENSE").starts_with("-ERR unknown command"));
    let mut one_too_many = Client::of(&gateway);
    assert!(
        one_too_many
            .reply()
            .unwrap()
            .shown()
            .contains("max number of clients")
    );
    let told = text(&gateway.metrics().families());
    for line in [
        "farslot_redis_connections 1",
        "farslot_redis_connections_total 1",
        "farslot_redis_connections_rejected_total 1",
        "farslot_redis_wrong_secrets_total 1",
        "farslot_redis_connections_evicted_total 0",
        "farslot_redis_http_connections_total 0",
        "farslot_redis_commands_total{command=\"get\"} 3",
        "farslot_redis_commands_total{command=\"set\"} 1",
        "farslot_redis_commands_total{command=\"auth\"} 2",
        "farslot_redis_errors_total{code=\"ERR\"} 2",
        "farslot_redis_errors_total{code=\"NOAUTH\"} 1",
        "farslot_redis_errors_total{code=\"WRONGPASS\"} 1",
        // Each was a tick of its own, those that no command names included.
        "farslot_redis_command_seconds_count 8",
        "farslot_redis_command_seconds_bucket{le=\"+Inf\"} 8",
    ] {
        assert!(told.lines().any(|of| of == line), "no {line:?} in\n{told}");
    }
    // What the files for packagers, the page and the book name of it.
    for file in [
        "packaging/prometheus/farslot.rules.yml",
        "packaging/grafana/farslot.json",
        "docs/operate/metrics.md",
        "crates/operate/src/page.html",
    ] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let text = std::fs::read_to_string(format!("{path}/{file}")).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named: Vec<_> = words
            .filter(|word| word.starts_with("farslot_redis_") && !word.ends_with('_'))
            .collect();
        assert!(!named.is_empty(), "{file}");
        for name in named {
            let has = |line: &str| {
                line.starts_with(&format!("# TYPE {} ", name.trim_end_matches("_bucket")))
            };
            assert!(told.lines().any(has), "{file}: {name}");
        }
    }
    assert!(!told.contains("nonsense") && !told.contains("command=\"incr\""));
}

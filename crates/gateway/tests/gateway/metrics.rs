//! What a gateway has counted, as Prometheus reads it.

use crate::client::{Client, gateway_with};
use farslot::Secret;
use farslot_operate::{Source, text};

#[test]
fn a_gateway_tells_what_it_has_done() {
    let (_store, gateway) = gateway_with(|options| {
        options.secret = Some(Secret::new("Tr0ub4dor-and-3-others").unwrap());
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
        // Each was a turn of its own, those that no command names included.
        "farslot_redis_command_seconds_count 8",
        "farslot_redis_command_seconds_bucket{le=\"+Inf\"} 8",
    ] {
        assert!(told.lines().any(|of| of == line), "no {line:?} in\n{told}");
    }
    assert!(!told.contains("nonsense") && !told.contains("command=\"incr\""));
}

//! The metrics of a gateway, in the same exposition as those of the memory node.

use crate::commands::all;
use crate::failure::CODES;
use crate::shared::GatewayState;
use farslot::metrics::LATENCY_BOUNDS;
use farslot_operate::{Family, Slow, Source};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Commands, errors, latencies and connections of a [`Gateway`](crate::Gateway), for as long as
/// anybody holds them: [`Gateway::metrics`](crate::Gateway::metrics).
#[derive(Clone, Debug)]
pub struct GatewayMetrics(pub(crate) Arc<GatewayState>);

impl Source for GatewayMetrics {
    fn families(&self) -> Vec<Family> {
        let GatewayState {
            counts, latencies, ..
        } = &*self.0;
        let value = |count: &AtomicU64| count.load(Relaxed) as f64;
        let counter = |name, help, count| Family::counter(name, help).with(value(count));
        let mut commands = Family::counter(
            "farslot_redis_commands_total",
            "Commands of Redis clients that were done or refused, by their names.",
        );
        for (command, count) in all().zip(&counts.by_command) {
            if count.load(Relaxed) > 0 {
                commands.add(&[("command", command.name)], value(count));
            }
        }
        let mut errors = Family::counter(
            "farslot_redis_errors_total",
            "Errors that Redis clients were told, by their codes.",
        );
        for (code, count) in CODES.iter().zip(&counts.errors) {
            errors.add(&[("code", code)], value(count));
        }
        let mut took = Family::histogram(
            "farslot_redis_command_seconds",
            "How long the ticks have taken in which commands were done, for each command.",
        );
        let bounds = LATENCY_BOUNDS.iter().map(|bound| *bound as f64 / 1e9);
        let bounds = bounds.chain(std::iter::once(f64::INFINITY));
        let of_classes = latencies.counts.iter().map(|count| count.load(Relaxed));
        let sum = value(&latencies.sum) / 1e9;
        took.add_classes(&[], sum, bounds.zip(of_classes).collect());
        vec![
            Family::gauge("farslot_redis_connections", "Connections of Redis clients.")
                .with(value(&counts.connected)),
            counter(
                "farslot_redis_connections_total",
                "Connections of Redis clients ever accepted.",
                &counts.accepted,
            ),
            counter(
                "farslot_redis_connections_rejected_total",
                "Connections of Redis clients that were one too many.",
                &counts.turned_away,
            ),
            counter(
                "farslot_redis_wrong_secrets_total",
                "Secrets of Redis clients that were wrong.",
                &counts.refused,
            ),
            counter(
                "farslot_redis_connections_evicted_total",
                "Connections of Redis clients that were closed because others needed their buffers.",
                &counts.evicted,
            ),
            counter(
                "farslot_redis_http_connections_total",
                "Connections to the Redis gateway that spoke HTTP, and were closed.",
                &counts.http,
            ),
            counter(
                "farslot_redis_tls_broken_total",
                "Connections to the Redis gateway that broke TLS, and were closed.",
                &counts.tls_broken,
            ),
            Family::counter(
                "farslot_redis_expired_keys_total",
                "Records of all tables that had expired and were swept.",
            )
            .with(self.0.sweeper.removed() as f64),
            commands,
            errors,
            took,
        ]
    }

    fn slow(&self) -> Vec<Slow> {
        self.0.slow_log.for_page()
    }

    /// A gateway does its work while its memory node does.
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

//! The metrics of a program's own tables.

use crate::family::Family;
use crate::source::{Slow, Source};
use farslot::metrics::{ClientMetrics, LATENCY_BOUNDS, Latencies, TableMetrics};
use farslot::{ErrorKind, VerbKind};

impl Source for ClientMetrics {
    fn families(&self) -> Vec<Family> {
        families(&self.tables())
    }

    fn slow(&self) -> Vec<Slow> {
        let slow = self.slow_operations().into_iter().map(|slow| Slow {
            at: slow.at,
            took: slow.took,
            operation: match (slow.operations, slow.error) {
                (1, None) => slow.operation.to_owned(),
                (1, Some(error)) => format!("{}: {}", slow.operation, error.name()),
                (many, _) => format!("{many} operations, {} the first", slow.operation),
            },
            table: slow.table,
            by: String::new(),
        });
        slow.collect()
    }

    /// A client has nothing to be ready for.
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

fn families(tables: &[TableMetrics]) -> Vec<Family> {
    vec![
        open(tables),
        of_classes(
            Family::counter(
                "farslot_client_operations_total",
                "Operations that ended, failed ones included.",
            ),
            tables,
            |of_class| of_class.count,
        ),
        of_classes(
            Family::counter(
                "farslot_client_round_trips_total",
                "Round trips of operations: the longest chain of verbs that waited for each other.",
            ),
            tables,
            |of_class| of_class.round_trips,
        ),
        of_classes(
            Family::counter(
                "farslot_client_operation_verbs_total",
                "Verbs that operations have posted.",
            ),
            tables,
            |of_class| of_class.verbs,
        ),
        of_classes(
            Family::counter(
                "farslot_client_operation_bytes_total",
                "Payload bytes of the verbs of operations.",
            ),
            tables,
            |of_class| of_class.bytes,
        ),
        verbs(tables),
        bytes(tables),
        doorbells(tables),
        errors(tables),
        latencies(tables),
        batches(tables),
    ]
}

fn open(tables: &[TableMetrics]) -> Family {
    let mut family = Family::gauge(
        "farslot_client_open_tables",
        "Tables of this name that threads have open.",
    );
    for of in tables {
        family.add(&[("table", &of.table)], of.open as f64);
    }
    family
}

/// A counter of each class of operations that a table was asked for.
fn of_classes(
    mut family: Family,
    tables: &[TableMetrics],
    value: impl Fn(&farslot::metrics::OperationCounters) -> u64,
) -> Family {
    for of in tables {
        for (name, of_class) in TableMetrics::OPERATIONS.iter().zip(&of.counters.operations) {
            if of_class.count > 0 {
                let labels = [("table", &*of.table), ("operation", name)];
                family.add(&labels, value(of_class) as f64);
            }
        }
    }
    family
}

fn verbs(tables: &[TableMetrics]) -> Family {
    let mut family = Family::counter("farslot_client_verbs_total", "Verbs that were posted.");
    for of in tables {
        for kind in VerbKind::ALL {
            let labels = [("table", &*of.table), ("verb", kind.name())];
            family.add(&labels, of.counters.verbs_of(kind) as f64);
        }
    }
    family
}

fn bytes(tables: &[TableMetrics]) -> Family {
    let mut family = Family::counter("farslot_client_bytes_total", "Payload bytes of verbs.");
    for of in tables {
        for (direction, bytes) in [
            ("read", of.counters.bytes_read),
            ("written", of.counters.bytes_written),
        ] {
            family.add(
                &[("table", &of.table), ("direction", direction)],
                bytes as f64,
            );
        }
    }
    family
}

fn doorbells(tables: &[TableMetrics]) -> Family {
    let mut family = Family::counter("farslot_client_doorbells_total", "Doorbells rung.");
    for of in tables {
        family.add(&[("table", &of.table)], of.counters.doorbells as f64);
    }
    family
}

fn errors(tables: &[TableMetrics]) -> Family {
    let mut family = Family::counter(
        "farslot_client_errors_total",
        "Operations that failed, by the kind of error.",
    );
    for of in tables {
        for (kind, count) in ErrorKind::ALL.iter().zip(of.errors) {
            if count > 0 {
                let labels = [("table", &*of.table), ("kind", kind.name())];
                family.add(&labels, count as f64);
            }
        }
    }
    family
}

fn latencies(tables: &[TableMetrics]) -> Family {
    let mut family = Family::histogram(
        "farslot_client_operation_seconds",
        "How long operations have taken that were asked for one by one.",
    );
    for of in tables {
        for (name, latencies) in TableMetrics::OPERATIONS.iter().zip(&of.latencies) {
            if latencies.count() > 0 {
                add(
                    &mut family,
                    &[("table", &of.table), ("operation", name)],
                    latencies,
                );
            }
        }
    }
    family
}

fn batches(tables: &[TableMetrics]) -> Family {
    let mut family = Family::histogram(
        "farslot_client_batch_seconds",
        "How long batches of operations have taken.",
    );
    for of in tables {
        if of.batches.count() > 0 {
            add(&mut family, &[("table", &of.table)], &of.batches);
        }
    }
    family
}

fn add(family: &mut Family, labels: &[(&'static str, &str)], latencies: &Latencies) {
    let bounds = LATENCY_BOUNDS.iter().map(|bound| *bound as f64 / 1e9);
    let bounds = bounds.chain(std::iter::once(f64::INFINITY));
    let classes = bounds.zip(latencies.counts).collect();
    family.add_classes(labels, latencies.sum as f64 / 1e9, classes);
}

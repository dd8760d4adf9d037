//! The metrics of a memory node: what its agents have counted, and what its catalog says.

use crate::family::Family;
use crate::source::{Slow, Source};
use crate::surveys::Surveys;
use farslot::admission::Refusal;
use farslot::metrics::{AgentCounters, LongCall, VerbFailure};
use farslot::{Address, Listing, Server, VerbKind};
use serde_json::Value;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The metrics of a memory node, which is ready while every address is served and no entry of its
/// catalog is damaged.
///
/// Verbs over shared memory and RDMA are not among them: no processor of the node sees these.
#[derive(Debug)]
pub struct NodeMetrics {
    server: Arc<Server>,
    surveys: Surveys,
    started: SystemTime,
}

impl NodeMetrics {
    /// Of a node that has started just now.
    #[must_use]
    pub fn of(server: Arc<Server>) -> Self {
        Self {
            server,
            surveys: Surveys::default(),
            started: SystemTime::now(),
        }
    }
}

impl Source for NodeMetrics {
    fn families(&self) -> Vec<Family> {
        let since = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut build = Family::gauge("farslot_build_info", "The version; always 1.");
        build.add(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        let mut families = vec![
            build,
            Family::gauge(
                "farslot_start_time_seconds",
                "When the node started, in seconds since 1970.",
            )
            .with(since.as_secs_f64()),
            Family::gauge("farslot_ready", "Whether the node is ready, 0 or 1.")
                .with(f64::from(u8::from(self.ready().is_ok()))),
        ];
        of_agents(&self.server.counters(), &mut families);
        let mut later = Family::counter(
            "farslot_calls_later_total",
            "Calls to tables that did not end in their turn, by the reason.",
        );
        for (reason, calls) in self.server.later_calls() {
            later.add(&[("reason", reason)], calls as f64);
        }
        families.push(later);
        // A catalog that cannot be read leaves its metrics out, and the node is not ready.
        let memory = self.server.store().memory();
        if let Ok(memory) = memory {
            families.extend([
                Family::gauge("farslot_memory_bytes", "Memory that the node lends.")
                    .with(memory.total as f64),
                Family::gauge(
                    "farslot_memory_taken_bytes",
                    "Memory that tables have taken.",
                )
                .with(memory.taken as f64),
                Family::gauge(
                    "farslot_memory_largest_free_bytes",
                    "The largest piece of memory that is free.",
                )
                .with(memory.largest_free as f64),
            ]);
        }
        if let Ok(listing) = self.server.store().listing() {
            let free = memory.map_or(0, |memory| memory.free());
            of_tables(&self.server, &listing, free, &mut families);
        }
        families
    }

    fn ready(&self) -> Result<(), String> {
        if !self.server.is_serving() {
            return Err("a thread that serves an address has ended".into());
        }
        match self.server.store().listing() {
            Ok(listing) => match listing.damaged.first() {
                None => Ok(()),
                Some(damaged) => Err(damaged.to_string()),
            },
            Err(error) => Err(format!("the catalog cannot be read: {error}")),
        }
    }

    /// The turns of calls that single operations took.
    fn slow(&self) -> Vec<Slow> {
        let long = self.server.long_calls().into_iter().map(|call| Slow {
            at: call.at,
            took: LongCall::LIMIT,
            operation: format!("call: {} of {} operations", call.done, call.operations),
            table: call.table,
            by: call.grant.unwrap_or_default(),
        });
        long.collect()
    }

    fn survey(&self, table: &str) -> Option<Value> {
        let listing = self.server.store().listing().ok()?;
        self.surveys.ask(&self.server, &listing, table)
    }
}

/// One value an address.
fn each(
    family: Family,
    agents: &[(&Address, AgentCounters)],
    value: impl Fn(&AgentCounters) -> u64,
) -> Family {
    each_of(family, agents, "", |counters| vec![("", value(counters))])
}

/// Values of each address, by another label.
fn each_of(
    mut family: Family,
    agents: &[(&Address, AgentCounters)],
    label: &'static str,
    values: impl Fn(&AgentCounters) -> Vec<(&'static str, u64)>,
) -> Family {
    for (address, counters) in agents {
        let address = address.to_string();
        for (name, value) in values(counters) {
            let labels = [("address", &*address), (label, name)];
            let labels = &labels[..if label.is_empty() { 1 } else { 2 }];
            family.add(labels, value as f64);
        }
    }
    family
}

fn of_agents(agents: &[(&Address, AgentCounters)], families: &mut Vec<Family>) {
    // A NIC's verbs are seen by nobody.
    let executed = agents.iter().filter(|(address, _)| !is_of_nic(address));
    let executed: Vec<_> = executed.copied().collect();
    families.extend([
        each(
            Family::gauge(
                "farslot_connections",
                "Connections, unauthenticated ones included.",
            ),
            agents,
            |counters| counters.connections as u64,
        ),
        each(
            Family::counter("farslot_connections_total", "Connections ever accepted."),
            agents,
            |counters| counters.accepted,
        ),
        each_of(
            Family::counter(
                "farslot_connections_closed_total",
                "Connections that the node has closed, by the reason.",
            ),
            agents,
            "reason",
            |counters| {
                vec![
                    ("malformed", counters.malformed),
                    ("turned_away", counters.turned_away),
                    ("cut_off", counters.cut_off),
                    ("no_room", counters.no_room),
                    ("revoked", counters.revoked),
                ]
            },
        ),
        each(
            Family::counter(
                "farslot_clients_admitted_total",
                "Clients that were admitted.",
            ),
            agents,
            |counters| counters.admitted,
        ),
        each_of(
            Family::counter(
                "farslot_clients_refused_total",
                "Clients that were refused, by the reason.",
            ),
            agents,
            "reason",
            |counters| {
                Refusal::NAMES
                    .into_iter()
                    .zip(counters.refused_by)
                    .collect()
            },
        ),
        each(
            Family::gauge("farslot_grants", "Grants in force."),
            agents,
            |counters| counters.grants as u64,
        ),
        each(
            Family::gauge(
                "farslot_held_bytes",
                "Memory that connections hold for unfinished verbs and answers.",
            ),
            agents,
            |counters| counters.held_bytes as u64,
        ),
        each_of(
            Family::counter("farslot_verbs_total", "Verbs that were answered."),
            &executed,
            "verb",
            |counters| {
                let names = VerbKind::ALL.map(VerbKind::name);
                names.into_iter().zip(counters.verbs_by).collect()
            },
        ),
        each_of(
            Family::counter(
                "farslot_verbs_refused_total",
                "Verbs that were answered with an error, by the reason.",
            ),
            &executed,
            "reason",
            |counters| {
                let names = VerbFailure::ALL.map(VerbFailure::name);
                names.into_iter().zip(counters.failed_by).collect()
            },
        ),
        each_of(
            Family::counter("farslot_bytes_total", "Payload bytes of verbs."),
            &executed,
            "direction",
            |counters| {
                vec![
                    ("read", counters.bytes_read),
                    ("written", counters.bytes_written),
                ]
            },
        ),
    ]);
}

const fn is_of_nic(address: &Address) -> bool {
    matches!(address, Address::Verbs { .. })
}

fn of_tables(server: &Server, listing: &Listing, free: u64, families: &mut Vec<Family>) {
    let mut bytes = Family::gauge(
        "farslot_table_bytes",
        "Memory that a table has taken, or the part of it on this node.",
    );
    let [
        mut records,
        mut slots,
        mut used,
        mut load,
        mut heap,
        mut heap_used,
        mut heap_dead,
    ] = [
        ("farslot_table_records", "Records that are present."),
        ("farslot_table_slots", "Slots."),
        (
            "farslot_table_used_slots",
            "Slots in use, those of removed keys included.",
        ),
        ("farslot_table_load_factor", "Slots in use per slot."),
        (
            "farslot_table_heap_bytes",
            "Memory for records out of band: of a table that shares that of its node with what is free there.",
        ),
        (
            "farslot_table_heap_used_bytes",
            "Memory for records out of band that is in use, in whole pages.",
        ),
        (
            "farslot_table_heap_dead_bytes",
            "Memory in use of records that were replaced or removed, about.",
        ),
    ]
    .map(|(name, help)| Family::gauge(name, help));
    let mut evicted = Family::counter(
        "farslot_table_evicted_records_total",
        "Records that a cache forgot for others.",
    );
    for table in &listing.tables {
        let labels = [("table", &*table.name), ("scheme", table.scheme.name())];
        bytes.add(&labels, table.bytes() as f64);
        // One that is not built, or that was changed just now, has no counts.
        let Ok(counts) = server.occupancy(table) else {
            continue;
        };
        records.add(&labels, counts.entries as f64);
        slots.add(&labels, counts.slots as f64);
        used.add(&labels, counts.used_slots as f64);
        load.add(&labels, counts.load_factor());
        if counts.heap_bytes > 0 {
            let more = if table.scheme.is_pooled() { free } else { 0 };
            heap.add(&labels, (counts.heap_bytes + more) as f64);
            heap_used.add(&labels, counts.heap_used as f64);
            heap_dead.add(&labels, counts.heap_dead as f64);
        }
        if table.scheme.evicting().is_some() {
            evicted.add(&labels, counts.evicted as f64);
        }
    }
    families.extend([
        Family::gauge("farslot_tables", "Tables in the catalog.").with(listing.tables.len() as f64),
        Family::gauge(
            "farslot_catalog_damaged_entries",
            "Entries of the catalog that cannot be read.",
        )
        .with(listing.damaged.len() as f64),
        bytes,
        records,
        slots,
        used,
        load,
        heap,
        heap_used,
        heap_dead,
        evicted,
    ]);
}

//! What INFO says.

use crate::databases::Databases;
use crate::failure::Failure;
use crate::shared::GatewayState;
use farslot::{Evicting, Occupancy};
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// The sections that are asked for, or all; of the keys, those of the databases that are shown.
pub(crate) fn info(
    asked: &[&[u8]],
    redis_version: &str,
    shared: &GatewayState,
    databases: &mut Databases,
    is_shown: impl Fn(u8) -> bool,
) -> Result<String, Failure> {
    let wants = |section: &str| {
        let all = ["all", "default", "everything"];
        let is = |asked: &&[u8], word: &str| asked.eq_ignore_ascii_case(word.as_bytes());
        asked.is_empty()
            || asked
                .iter()
                .any(|asked| is(asked, section) || all.iter().any(|word| is(asked, word)))
    };
    let mut text = String::new();
    if wants("server") {
        server(&mut text, redis_version, shared);
    }
    if wants("clients") {
        let connected = shared.counts.connected.load(Relaxed);
        let lines = [
            ("connected_clients", connected.to_string()),
            ("maxclients", shared.connections.to_string()),
        ];
        section(&mut text, "Clients", lines);
    }
    let counted = match ["memory", "stats", "keyspace"].into_iter().any(&wants) {
        true => databases.counted(is_shown),
        false => Vec::new(),
    };
    let sum = |of: fn(&Occupancy) -> u64| counted.iter().map(|(_, counts)| of(counts)).sum();
    if wants("memory") {
        let memory = databases.store().memory()?;
        // What the databases have taken, and neither live nor dead records have.
        let room: u64 = sum(|counts| counts.heap_bytes - counts.heap_used);
        let dead: u64 = sum(|counts| counts.heap_dead);
        let dataset = sum(|counts| counts.heap_used) - dead;
        let used = memory.taken.saturating_sub(room);
        let lines = [
            ("used_memory", used.to_string()),
            ("used_memory_dataset", dataset.to_string()),
            (
                "used_memory_overhead",
                used.saturating_sub(dataset).to_string(),
            ),
            ("farslot_dead_bytes", dead.to_string()),
            ("farslot_reserved_bytes", memory.taken.to_string()),
            ("maxmemory", memory.total.to_string()),
            ("maxmemory_policy", policy_name(databases.evicting()).into()),
        ];
        section(&mut text, "Memory", lines);
    }
    if wants("stats") {
        let counts = &shared.counts;
        let lines = [
            ("total_connections_received", counts.accepted.load(Relaxed)),
            ("total_commands_processed", counts.commands.load(Relaxed)),
            ("rejected_connections", counts.turned_away.load(Relaxed)),
            ("acl_access_denied_auth", counts.refused.load(Relaxed)),
            ("expired_keys", shared.sweeper.removed()),
            ("evicted_keys", sum(|counts| counts.evicted)),
        ];
        let lines = lines.map(|(name, count)| (name, count.to_string()));
        section(&mut text, "Stats", lines);
    }
    if wants("replication") {
        let lines = [("role", "master".into()), ("connected_slaves", "0".into())];
        section(&mut text, "Replication", lines);
    }
    if wants("cluster") {
        section(&mut text, "Cluster", [("cluster_enabled", "0".into())]);
    }
    if wants("keyspace") {
        section(&mut text, "Keyspace", []);
        for (number, counts) in &counted {
            let keys = counts.entries;
            if keys > 0 {
                write_line(
                    &mut text,
                    &format!("db{number}:keys={keys},expires=0,avg_ttl=0"),
                );
            }
        }
    }
    Ok(text)
}

/// The name that Redis has for what a database does that is full.
fn policy_name(evicting: Option<Evicting>) -> &'static str {
    match evicting {
        None => "noeviction",
        Some(Evicting::All) => "allkeys-lru",
        Some(Evicting::Expiring) => "volatile-lru",
    }
}

fn server(text: &mut String, redis_version: &str, shared: &GatewayState) {
    let lines = [
        ("redis_version", redis_version.into()),
        ("redis_mode", "standalone".into()),
        ("farslot_version", env!("CARGO_PKG_VERSION").into()),
        ("arch_bits", usize::BITS.to_string()),
        ("process_id", std::process::id().to_string()),
        ("tcp_port", shared.address.port().to_string()),
        (
            "uptime_in_seconds",
            shared.started.elapsed().as_secs().to_string(),
        ),
    ];
    section(text, "Server", lines);
}

fn section<const N: usize>(text: &mut String, title: &str, lines: [(&str, String); N]) {
    if !text.is_empty() {
        write_line(text, "");
    }
    write_line(text, &format!("# {title}"));
    for (name, value) in lines {
        write_line(text, &format!("{name}:{value}"));
    }
}

fn write_line(text: &mut String, line: &str) {
    write!(text, "{line}\r\n").expect("room in memory");
}

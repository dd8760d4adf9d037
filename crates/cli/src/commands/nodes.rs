//! `farslot nodes`: how the nodes of a store are.

use comfy_table::{CellAlignment, Table, presets};
use farslot::health::NodeReport;
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use serde_json::{Value, json};
use std::time::Duration;

/// The options of `farslot nodes`.
#[derive(clap::Args, Debug)]
pub struct Args {}

/// Asks every node. It fails if one does not answer, when all that the others say is told.
///
/// # Errors
/// That no node answers; [`Failure::Reported`] if any does not.
pub fn run(_: Args, context: &Context) -> Result<()> {
    let store = context.store()?;
    let nodes = store.nodes()?;
    if context.json {
        output::json(&json!({
            "address": store.address().to_string(),
            "nodes": nodes.iter().map(described).collect::<Vec<_>>(),
        }))?;
        return all_up(&nodes);
    }
    output::line(listing(&nodes).to_string())?;
    for node in nodes.iter().filter(|node| !node.lost.is_empty()) {
        output::note(format_args!(
            "{} has lost its part of {}: it came back empty or was repaired, and keys that were there fail, until the part is \
             restored (farslot serve --restore) or the loss is accepted (farslot accept-loss TABLE)",
            node.address,
            node.lost.join(", ")
        ));
    }
    all_up(&nodes)
}

/// Fails if a node is down, where that has been told.
///
/// # Errors
/// [`Failure::Reported`].
pub fn all_up(nodes: &[NodeReport]) -> Result<()> {
    match nodes.iter().any(|node| node.error.is_some()) {
        true => Err(Failure::Reported),
        false => Ok(()),
    }
}

/// A node for machines.
pub fn described(node: &NodeReport) -> Value {
    let mut object = json!({
        "address": node.address,
        "state": state(node),
        // JSON numbers of many programs have 53 bits.
        "incarnation": incarnation(node),
        "adopted": node.adopted,
        "lost": node.lost,
    });
    if let Some(error) = &node.error {
        object["error"] = error.to_string().into();
    }
    if let Some(round_trip) = node.round_trip {
        object["round_trip_ns"] = json!(round_trip.as_nanos() as u64);
    }
    if let Some(memory) = &node.memory {
        object["memory_bytes"] = memory.total.into();
        object["memory_taken"] = memory.taken.into();
        object["memory_free"] = memory.free().into();
    }
    if let Some(tables) = node.tables {
        object["tables"] = tables.into();
    }
    object
}

fn incarnation(node: &NodeReport) -> String {
    match node.incarnation {
        0 => String::new(),
        incarnation => format!("{incarnation:016x}"),
    }
}

fn state(node: &NodeReport) -> &'static str {
    match (&node.error, node.restarted) {
        (Some(_), _) => "down",
        (None, true) => "came back empty",
        (None, false) if !node.lost.is_empty() => "up, came back empty",
        (None, false) => "up",
    }
}

/// The nodes for people, one in a line.
pub fn listing(nodes: &[NodeReport]) -> Table {
    let mut listing = output::new_table(presets::UTF8_FULL_CONDENSED);
    listing.set_header([
        "node",
        "state",
        "round trip",
        "tables",
        "memory taken",
        "memory free",
        "incarnation",
    ]);
    for node in nodes {
        let memory = |of: fn(&farslot::MemoryUse) -> u64| {
            let memory = node.memory.as_ref();
            memory.map_or_else(String::new, |memory| output::sized(of(memory)))
        };
        listing.add_row([
            node.address.clone(),
            match &node.error {
                Some(error) => format!("down: {error}"),
                None => state(node).into(),
            },
            node.round_trip.map_or_else(String::new, in_microseconds),
            node.tables.map_or_else(String::new, output::grouped),
            memory(|memory| memory.taken),
            memory(farslot::MemoryUse::free),
            incarnation(node),
        ]);
    }
    for column in 2..6 {
        if let Some(column) = listing.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    listing
}

fn in_microseconds(time: Duration) -> String {
    format!("{:.1} us", time.as_nanos() as f64 / 1e3)
}

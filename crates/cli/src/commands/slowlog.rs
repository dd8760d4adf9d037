//! `farslot slowlog`: what took long, of nodes and of programs.

use crate::page;
use comfy_table::{CellAlignment, presets};
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The options of `farslot slowlog`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where nodes or programs serve their metrics (farslot serve --metrics)
    #[arg(value_name = "HOST:PORT", required = true)]
    metrics: Vec<String>,
}

/// What a page says of all that took long.
#[derive(Deserialize)]
struct SlowReport {
    slow: Vec<SlowEntry>,
}

/// Something that took long.
#[derive(Serialize, Deserialize)]
struct SlowEntry {
    /// Where it was told.
    #[serde(default)]
    at: String,
    at_unix_ms: u64,
    took_seconds: f64,
    operation: String,
    table: String,
    by: String,
}

/// Says what took long, the latest first.
///
/// # Errors
/// That one of them does not answer.
pub fn run(args: &Args, as_json: bool) -> Result<()> {
    let mut slow = Vec::new();
    for address in &args.metrics {
        let text = page::ask(address, "/slow").map_err(Failure::io(address))?;
        let SlowReport { slow: entries } = serde_json::from_str(&text)
            .map_err(|error| Failure::Failed(format!("{address}: {error}")))?;
        slow.extend(entries.into_iter().map(|slow| SlowEntry {
            at: address.clone(),
            ..slow
        }));
    }
    slow.sort_by_key(|slow| std::cmp::Reverse(slow.at_unix_ms));
    if as_json {
        return output::json(&serde_json::json!({ "slow": slow }));
    }
    if slow.is_empty() {
        output::note("nothing took long");
        return Ok(());
    }
    let mut listing = output::new_table(presets::UTF8_FULL_CONDENSED);
    listing.set_header(["when", "took", "what", "table", "by", "told at"]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    for slow in &slow {
        let ago = now.saturating_sub(Duration::from_millis(slow.at_unix_ms));
        let took = Duration::try_from_secs_f64(slow.took_seconds).unwrap_or_default();
        listing.add_row([
            format!("{} s ago", output::grouped(ago.as_secs())),
            format!("{took:.1?}"),
            output::escaped(&slow.operation),
            output::escaped(&slow.table),
            output::escaped(&slow.by),
            slow.at.clone(),
        ]);
    }
    if let Some(column) = listing.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    output::line(listing.to_string())
}

//! `farslot repair`: clears the entries of catalogs that are damaged.

use super::tables::described_damage;
use farslot::ByteCount;
use farslot::health::Damage;
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::output;

/// The options of `farslot repair`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Clear them: such a table is gone then, for clients that have it open still as well, and its
    /// memory is free
    #[arg(long)]
    apply: bool,
}

/// Says what is damaged, and clears it if that is asked for.
///
/// # Errors
/// A node that does not answer.
pub fn run(args: &Args, context: &Context) -> Result<()> {
    let store = context.store()?;
    let damage = match args.apply {
        true => store.repair()?,
        false => store.damage()?,
    };
    if context.json {
        let nodes = damage.iter().map(as_json).collect::<Vec<_>>();
        return output::json(&serde_json::json!({ "cleared": args.apply, "nodes": nodes }));
    }
    for node in &damage {
        for entry in &node.entries {
            output::line(entry.to_string())?;
        }
        let (bytes, address) = (ByteCount(node.bytes), &node.address);
        output::line(match args.apply {
            true => format!("{address}: cleared; this freed {bytes}"),
            false => format!("{address}: {bytes} cannot be used because of that"),
        })?;
    }
    output::note(match (&*damage, args.apply) {
        ([], _) => "no entry of a catalog is damaged",
        (_, true) => {
            "a table over several nodes that had a part there has lost it: farslot nodes names it"
        }
        (_, false) => {
            "nothing was changed; `farslot repair --apply` clears these entries, and their tables are gone"
        }
    });
    Ok(())
}

fn as_json(node: &Damage) -> serde_json::Value {
    let entries = node.entries.iter().map(described_damage);
    serde_json::json!({
        "node": node.address, "entries": entries.collect::<Vec<_>>(), "bytes": node.bytes,
    })
}

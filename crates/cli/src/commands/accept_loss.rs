//! `farslot accept-loss`: goes on without what a node that came back empty had of a table.

use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::output;

/// The options of `farslot accept-loss`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
}

/// Has empty parts made in place of those that are lost.
///
/// # Errors
/// A table that was built whole; a node of the table that does not answer.
pub fn run(args: &Args, context: &Context) -> Result<()> {
    let nodes = context.store()?.accept_loss(&args.table)?;
    if context.json {
        return output::json(&serde_json::json!({ "table": args.table, "accepted": nodes }));
    }
    output::note(match &*nodes {
        [] => format!("no node has lost its part of {}", args.table),
        nodes => format!(
            "what {} had of {} is lost: its keys are absent now, and can be put again",
            nodes.join(" and "),
            args.table
        ),
    });
    Ok(())
}

//! `farslot count`: counts the records of a table.

use crate::context::Context;
use crate::failure::Result;
use crate::output;

/// The options of `farslot count`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
    /// Read what the clients have added up instead of looking at every slot: at once, and a little
    /// behind
    #[arg(long)]
    approximate: bool,
}

/// Counts the records of a table.
///
/// # Errors
/// What the fabric says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let table = context.table(&args.table)?;
    let count = if args.approximate {
        table.occupancy()?.entries
    } else {
        table.survey()?.live()
    };
    if context.json {
        return output::json(&serde_json::json!({
            "table": args.table, "count": count, "exact": !args.approximate,
        }));
    }
    output::line(count.to_string())
}

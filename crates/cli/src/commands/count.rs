//! `farslot count`: counts the records of a table.

use crate::visit::Visit;
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::output;

/// The options of `farslot count`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
    /// Read what the clients have added up instead of looking at every slot: at once, and a little
    /// behind
    #[arg(long)]
    approximate: bool,
    /// Of a table over several nodes, count what those have that answer, and say what is missing
    #[arg(long, conflicts_with = "approximate")]
    partial: bool,
}

/// Counts the records of a table.
///
/// # Errors
/// What the fabric says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let table = context.table(&args.table)?;
    let mut visit = Visit::new(args.partial);
    let count = if args.partial {
        let mut count = 0;
        visit.all(&table, |_, _| {
            count += 1;
            Ok(())
        })?;
        visit.note();
        count
    } else if args.approximate {
        table.occupancy()?.entries
    } else {
        table.survey()?.live()
    };
    if context.json {
        return output::json(&serde_json::json!({
            "table": args.table, "count": count, "exact": !args.approximate, "gaps": visit.described(),
        }));
    }
    output::line(count.to_string())
}

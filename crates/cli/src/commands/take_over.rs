//! `farslot take-over`: deposes the writer of a table that admits one, after it was killed. What a
//! writer that lives can still do is said at [`Table::take_over`](farslot::Table::take_over).

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;

/// The options of `farslot take-over`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
}

/// Makes room for the next writer.
///
/// # Errors
/// A usage failure for a table that does not have one writer; what the fabric says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let table = context.table(&args.table)?;
    if !table.scheme().one_writer() {
        return Err(Failure::Usage(format!(
            "{} is a {} table, which has no writer to take over from",
            args.table,
            table.scheme().name(),
        )));
    }
    let writer = table.writer()?;
    if writer.is_some() {
        table.take_over()?;
    }
    table.close()?;
    if context.json {
        let deposed = writer.map(|mark| mark.to_string());
        return output::json(&serde_json::json!({ "table": args.table, "deposed": deposed }));
    }
    output::note(match writer {
        Some(writer) => format!(
            "client {writer} is no longer the writer of {}; the next may write",
            args.table
        ),
        None => format!("{} has no writer: any client may write", args.table),
    });
    Ok(())
}

//! `farslot take-over`: deposes the writer of a table that admits one, after it was killed. What a
//! writer that lives can still do is said at
//! [`Table::force_take_over`](farslot::Table::force_take_over).

use farslot::{IndexError, StoreError};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;

/// The options of `farslot take-over`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
    /// Also from a writer whose process is alive. It is refused every later write; but if it was
    /// stopped just as it was about to write, that write can still destroy a record
    #[arg(long)]
    force: bool,
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
        let taken = match args.force {
            true => table.force_take_over(),
            false => table.take_over(),
        };
        taken.map_err(|error| match error {
            StoreError::Index(IndexError::WriterAlive { pid, .. }) => Failure::WriterAlive {
                table: args.table.clone(),
                pid,
                address: None,
            },
            error => error.into(),
        })?;
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

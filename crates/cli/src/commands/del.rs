//! `farslot del`: removes keys.

use super::keys::{Absent, Keys};
use farslot::Table;
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::output;
use std::ffi::OsString;
use std::path::PathBuf;

/// Keys that are removed at a time.
const BATCH: usize = 4096;

/// The options of `farslot del`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
    /// The keys
    #[arg(required_unless_present = "from", allow_negative_numbers = true)]
    keys: Vec<OsString>,
    /// Remove the keys of this file as well, one a line; - for standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The keys are hexadecimal digits
    #[arg(long)]
    hex: bool,
}

/// Removes keys, each with all its records.
///
/// # Errors
/// [`Failure::Reported`](farslot_terminal::failure::Failure::Reported) if a key was absent; a key
/// that does not fit, or what the fabric says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    context.shared_address()?;
    let keys = Keys::new(args.keys, args.from, args.hex)?;
    let table = context.writable_table(&args.table)?;
    let (mut removed, mut absent) = (0, Absent::default());
    keys.each_batch(BATCH, |keys| {
        remove(&table, keys, &mut removed, &mut absent)
    })?;
    table.close()?;
    if context.json {
        output::json(&serde_json::json!({
            "table": args.table, "removed": removed, "absent": absent.count(),
        }))?;
    } else {
        output::note(format_args!("removed {}", output::counted(removed, "key")));
    }
    absent.report()
}

/// Removes keys side by side. One that stands there twice may be absent the second time.
fn remove(table: &Table, keys: &[Vec<u8>], count: &mut u64, absent: &mut Absent) -> Result<()> {
    let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    Ok(
        table.remove_many(&borrowed, |number, was_there| match was_there {
            true => *count += 1,
            false => absent.note(table.name(), &keys[number]),
        })?,
    )
}

//! `farslot del`: removes keys.

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::{bytes, output};
use std::ffi::OsString;

/// The options of `farslot del`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
    /// The keys
    #[arg(required = true, allow_negative_numbers = true)]
    keys: Vec<OsString>,
    /// The keys are hexadecimal digits
    #[arg(long)]
    hex: bool,
}

/// Removes keys, each with all its records.
///
/// # Errors
/// [`Failure::Told`] if a key was absent; a key that does not fit, or what the fabric says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    context.shared_address()?;
    let (table_name, hex) = (args.table, args.hex);
    let keys: Vec<Vec<u8>> = args
        .keys
        .into_iter()
        .map(|key| bytes::of_argument(key, hex).map_err(Failure::Usage))
        .collect::<Result<_>>()?;
    let table = context.writable_table(&table_name)?;
    let mut absent = 0_usize;
    for key in &keys {
        if !table.remove(key)? {
            absent += 1;
            output::note(format_args!(
                "the table {table_name:?} has no key {:?}",
                bytes::shown(key)
            ));
        }
    }
    table.close()?;
    let removed = keys.len() - absent;
    if context.json {
        output::json(&serde_json::json!({
            "table": table_name, "removed": removed, "absent": absent,
        }))?;
    } else {
        output::note(format_args!(
            "removed {}",
            output::counted(removed as u64, "key")
        ));
    }
    if absent == 0 {
        Ok(())
    } else {
        Err(Failure::Told)
    }
}

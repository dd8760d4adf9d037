//! `farslot increment`, `compare-and-set` and `exists`: what takes one step, whoever else writes.

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::{bytes, output};
use std::ffi::OsString;

/// The options of `farslot increment`.
#[derive(clap::Args, Debug)]
pub(crate) struct IncrementArgs {
    /// The table
    table: String,
    /// The key
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// By how much
    #[arg(allow_negative_numbers = true, default_value_t = 1)]
    by: i64,
}

/// The options of `farslot compare-and-set`.
#[derive(clap::Args, Debug)]
pub(crate) struct CompareArgs {
    /// The table
    table: String,
    /// The key
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// The value that it must have; with --absent left out
    #[arg(allow_negative_numbers = true)]
    values: Vec<OsString>,
    /// Put the value only if the key is absent
    #[arg(long)]
    absent: bool,
    /// Key and values are hexadecimal digits
    #[arg(long)]
    hex: bool,
}

/// The options of `farslot exists`.
#[derive(clap::Args, Debug)]
pub(crate) struct ExistsArgs {
    /// The table
    table: String,
    /// The key
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// The key is hexadecimal digits
    #[arg(long)]
    hex: bool,
}

/// Adds to a number, and writes the sum.
///
/// # Errors
/// A value that is no number, a table of another scheme, or what the fabric says.
pub(crate) fn increment(args: IncrementArgs, context: &Context) -> Result<()> {
    let key = bytes::of_argument(args.key, false).map_err(Failure::Usage)?;
    let table = context.writable_table(&args.table)?;
    let sum = table.increment(&key, args.by)?;
    table.close()?;
    if context.json {
        return output::json(&serde_json::json!({ "table": args.table, "value": sum }));
    }
    output::line(sum.to_string())
}

/// Replaces a value by another if it is what it is said to be.
///
/// # Errors
/// [`Failure::Told`] if it is not; a table of another scheme, or what the fabric says.
pub(crate) fn compare_and_set(args: CompareArgs, context: &Context) -> Result<()> {
    let hex = args.hex;
    let decode = |argument| bytes::of_argument(argument, hex).map_err(Failure::Usage);
    let key = decode(args.key)?;
    let values = args.values.into_iter().map(decode);
    let values = values.collect::<Result<Vec<_>>>()?;
    let (expected, value) = match (&values[..], args.absent) {
        ([value], true) => (None, value),
        ([expected, value], false) => (Some(&expected[..]), value),
        _ => {
            let usage = "give the expected value and the new one, or --absent and the new one";
            return Err(Failure::Usage(usage.into()));
        }
    };
    let table = context.writable_table(&args.table)?;
    let changed = table.compare_and_set(&key, expected, value)?;
    table.close()?;
    if context.json {
        output::json(&serde_json::json!({ "table": args.table, "changed": changed }))?;
    } else {
        output::note(if changed {
            "changed"
        } else {
            "not changed: it has another value"
        });
    }
    match changed {
        true => Ok(()),
        false => Err(Failure::Told),
    }
}

/// Says whether a key is present: by the exit code, 0 or 1.
///
/// # Errors
/// [`Failure::Told`] if it is not; what the fabric says.
pub(crate) fn exists(args: ExistsArgs, context: &Context) -> Result<()> {
    let key = bytes::of_argument(args.key, args.hex).map_err(Failure::Usage)?;
    let exists = context.readable_table(&args.table)?.exists(&key)?;
    if context.json {
        output::json(&serde_json::json!({ "table": args.table, "exists": exists }))?;
    }
    match exists {
        true => Ok(()),
        false => Err(Failure::Told),
    }
}

//! `farslot increment`, `compare-and-set`, `exists` and `expire`: what takes one step, whoever else
//! writes.

use crate::bytes;
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::{number, output};
use std::ffi::OsString;
use std::time::Duration;

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

/// The options of `farslot expire`.
#[derive(clap::Args, Debug)]
pub(crate) struct ExpireArgs {
    /// The table
    table: String,
    /// The key
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// How long it lives from now on (30s, 5m, 24h), or "never" to let it live for ever [default:
    /// say how long it has]
    #[arg(value_parser = time_to_live)]
    time: Option<TimeToLive>,
    /// The key is hexadecimal digits
    #[arg(long)]
    hex: bool,
}

/// How long a key lives; for ever without a time.
#[derive(Clone, Copy, Debug)]
struct TimeToLive(Option<Duration>);

fn time_to_live(text: &str) -> std::result::Result<TimeToLive, String> {
    match text {
        "never" => Ok(TimeToLive(None)),
        time => number::time(time).map(|time| TimeToLive(Some(time))),
    }
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
/// [`Failure::Reported`] if it is not; a table of another scheme, or what the fabric says.
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
        false => Err(Failure::Reported),
    }
}

/// Says whether a key is present: by the exit code, 0 or 1.
///
/// # Errors
/// [`Failure::Reported`] if it is not; what the fabric says.
pub(crate) fn exists(args: ExistsArgs, context: &Context) -> Result<()> {
    let key = bytes::of_argument(args.key, args.hex).map_err(Failure::Usage)?;
    let exists = context.readable_table(&args.table)?.contains_key(&key)?;
    if context.json {
        output::json(&serde_json::json!({ "table": args.table, "exists": exists }))?;
    }
    match exists {
        true => Ok(()),
        false => Err(Failure::Reported),
    }
}

/// Changes how long a key lives, or says it.
///
/// # Errors
/// [`Failure::Reported`] if the key is absent; a table whose records do not expire, or what the
/// fabric says.
pub(crate) fn expire(args: ExpireArgs, context: &Context) -> Result<()> {
    let key = bytes::of_argument(args.key, args.hex).map_err(Failure::Usage)?;
    let left = match args.time {
        Some(TimeToLive(time)) => {
            let table = context.writable_table(&args.table)?;
            let is_there = table.set_time_to_live(&key, time)?;
            table.close()?;
            is_there.then_some(time)
        }
        None => {
            let table = context.readable_table(&args.table)?;
            let found = table.get_with_time_to_live(&key)?;
            found.map(|(_, left)| left)
        }
    };
    if context.json {
        output::json(&serde_json::json!({
            "table": args.table,
            "found": left.is_some(),
            "expires_in_seconds": left.flatten().map(|left| left.as_secs_f64()),
        }))?;
    }
    let Some(left) = left else {
        let key = bytes::shown(&key);
        output::note(format_args!(
            "the table {:?} has no key {key:?}",
            args.table
        ));
        return Err(Failure::Reported);
    };
    match left {
        _ if context.json => Ok(()),
        Some(left) => output::line(format!("expires in {:.1} s", left.as_secs_f64())),
        None => output::line("never expires"),
    }
}

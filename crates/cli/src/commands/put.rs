//! `farslot put`: puts one record.

use crate::bytes;
use crate::formats::LONGEST;
use crate::shape::SchemeShape;
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::{number, output};
use std::ffi::OsString;
use std::io::Read;
use std::time::Duration;

/// The options of `farslot put`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
    /// The key
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// The value; - reads it from standard input
    #[arg(allow_negative_numbers = true)]
    value: OsString,
    /// The key is absent again after this time (30s, 5m, 24h); of a table whose records may expire
    #[arg(long, value_name = "TIME", value_parser = number::time)]
    ttl: Option<Duration>,
    /// Key and value are hexadecimal digits (a value from standard input is bytes all the same)
    #[arg(long)]
    hex: bool,
}

/// Puts one record.
///
/// # Errors
/// A key or a value that does not fit, a full table, or what the fabric says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    context.shared_address()?;
    let key = bytes::of_argument(args.key, args.hex).map_err(Failure::Usage)?;
    let value = if args.value == "-" {
        let mut value = Vec::new();
        let mut input = std::io::stdin().lock().take(LONGEST + 1);
        let read = input.read_to_end(&mut value);
        read.map_err(Failure::io("standard input"))?;
        if value.len() as u64 > LONGEST {
            return Err(Failure::Usage(format!(
                "standard input: longer than the limit of {LONGEST} bytes of a value"
            )));
        }
        value
    } else {
        bytes::of_argument(args.value, args.hex).map_err(Failure::Usage)?
    };
    let table = context.writable_table(&args.table)?;
    let multi_key = SchemeShape::of(table.scheme()).multi_key;
    let new = match args.ttl {
        Some(ttl) => table.put_for(&key, &value, ttl)?,
        None => table.put(&key, &value)?,
    };
    table.close()?;
    if context.json {
        return output::json(&serde_json::json!({ "table": args.table, "new": new }));
    }
    output::note(match (new, multi_key) {
        (_, true) => "added",
        (true, false) => "new",
        (false, false) => "replaced",
    });
    Ok(())
}

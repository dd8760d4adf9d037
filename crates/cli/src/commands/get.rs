//! `farslot get`: looks up one key.

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::{bytes, output};
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::io::Write;

/// The options of `farslot get`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
    /// The key
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// All records of the key, of a multi-key table
    #[arg(long)]
    all: bool,
    /// Write this if the key is absent, and succeed
    #[arg(
        long,
        value_name = "VALUE",
        allow_negative_numbers = true,
        conflicts_with = "all"
    )]
    or: Option<String>,
    /// Write the value's bytes and no newline
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// The key is hexadecimal digits, and so shall be the value
    #[arg(long, conflicts_with = "raw")]
    hex: bool,
}

/// Looks up one key and writes its value.
///
/// # Errors
/// [`Failure::Told`] if the key is absent; a key that does not fit, or what the fabric says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    context.shared_address()?;
    let key = bytes::of_argument(args.key.clone(), args.hex).map_err(Failure::Usage)?;
    let table = context.readable_table(&args.table)?;
    let mut left = None;
    let values: Vec<Vec<u8>> = if args.all {
        table.get_all(&key)?
    } else {
        let found = table.get_with_time_to_live(&key)?;
        left = found.as_ref().and_then(|(_, left)| *left);
        let or = args.or.as_ref().map(|or| or.as_bytes().to_vec());
        let found = found.map(|(value, _)| value);
        found.or(or).into_iter().collect()
    };
    let told = if context.json {
        let mut answer = answer(&args, &key, &values);
        if let Some(left) = left {
            answer.insert("expires_in_seconds".into(), left.as_secs_f64().into());
        }
        output::json(&answer)
    } else {
        write_values(&args, &values)
    };
    told?;
    if values.is_empty() {
        output::note(format_args!(
            "the table {:?} has no key {:?}",
            args.table,
            bytes::shown(&key)
        ));
        return Err(Failure::Told);
    }
    Ok(())
}

fn answer(args: &Args, key: &[u8], values: &[Vec<u8>]) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("table".into(), args.table.as_str().into());
    bytes::insert(&mut object, "key", key);
    object.insert("found".into(), (!values.is_empty()).into());
    if args.all {
        let records = values.iter().map(|value| {
            let mut record = Map::new();
            bytes::insert(&mut record, "value", value);
            Value::Object(record)
        });
        object.insert("records".into(), records.collect());
    } else if let [value] = values {
        bytes::insert(&mut object, "value", value);
    }
    object
}

fn write_values(args: &Args, values: &[Vec<u8>]) -> Result<()> {
    for value in values {
        if args.raw {
            let mut out = std::io::stdout().lock();
            out.write_all(value)?;
            out.flush()?;
        } else if args.hex {
            output::line(bytes::to_hex(value))?;
        } else {
            output::line(value)?;
        }
    }
    Ok(())
}

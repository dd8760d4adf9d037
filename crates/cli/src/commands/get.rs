//! `farslot get`: looks up keys.

use super::keys::{Absent, Keys};
use crate::bytes;
use crate::formats::{Format, Writer};
use farslot::Table;
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

/// Keys that are looked up at a time: their values are kept until all are there.
const BATCH: usize = 128;

/// The options of `farslot get`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
    /// The key; of several, or with --from or --format, records are written in place of a value
    #[arg(
        value_name = "KEY",
        required_unless_present = "from",
        allow_negative_numbers = true
    )]
    keys: Vec<OsString>,
    /// Look up the keys of this file as well, one a line; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["all", "raw"])]
    from: Option<PathBuf>,
    /// The format of records, of those that are present [default: csv]
    #[arg(long, short, conflicts_with_all = ["all", "raw"])]
    format: Option<Format>,
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

/// Looks up keys and writes their values.
///
/// # Errors
/// [`Failure::Reported`] if a key is absent; a key that does not fit, or what the fabric says.
pub fn run(mut args: Args, context: &Context) -> Result<()> {
    if args.keys.len() == 1 && args.from.is_none() && args.format.is_none() {
        return one(&args, context);
    }
    if args.all || args.raw {
        let option = if args.all { "--all" } else { "--raw" };
        return Err(Failure::Usage(format!("{option} is for one key")));
    }
    context.shared_address()?;
    let keys = Keys::new(std::mem::take(&mut args.keys), args.from.take(), args.hex)?;
    let table = context.readable_table(&args.table)?;
    let mut records = match context.json {
        true => None,
        false => {
            let format = args.format.unwrap_or(Format::Csv);
            Some(Writer::new(format, io::stdout().lock(), false)?)
        }
    };
    let mut absent = Absent::default();
    keys.each_batch(BATCH, |keys| {
        for (key, value) in keys.iter().zip(values_of(&table, keys)?) {
            let or = || args.or.as_ref().map(|or| or.as_bytes().to_vec());
            let value = value.or_else(or);
            if value.is_none() {
                absent.note(&args.table, key);
            }
            match (&mut records, value) {
                (None, value) => output::json(&answer(&args, key, value.as_slice()))?,
                (Some(records), Some(value)) if args.hex => {
                    let [key, value] = [key, &value].map(|bytes| bytes::to_hex(bytes));
                    records.write(key.as_bytes(), value.as_bytes(), None)?;
                }
                (Some(records), Some(value)) => records.write(key, &value, None)?,
                (Some(_), None) => {}
            }
        }
        Ok(())
    })?;
    if let Some(mut records) = records {
        records.finish()?;
    }
    absent.report()
}

/// The values of keys, in their order.
fn values_of(table: &Table, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
    let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut values = vec![None; keys.len()];
    table.get_many(&borrowed, |number, found| {
        values[number] = found.map(<[u8]>::to_vec);
    })?;
    Ok(values)
}

fn one(args: &Args, context: &Context) -> Result<()> {
    context.shared_address()?;
    let key = bytes::of_argument(args.keys[0].clone(), args.hex).map_err(Failure::Usage)?;
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
    let printed = if context.json {
        let mut answer = answer(args, &key, &values);
        if let Some(left) = left {
            answer.insert("expires_in_seconds".into(), left.as_secs_f64().into());
        }
        output::json(&answer)
    } else {
        write_values(args, &values)
    };
    printed?;
    let mut absent = Absent::default();
    if values.is_empty() {
        absent.note(&args.table, &key);
    }
    absent.report()
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

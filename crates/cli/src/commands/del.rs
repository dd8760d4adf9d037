//! `farslot del`: removes keys.

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::formats::{read_line, unmarked};
use crate::{bytes, output};
use farslot::Table;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Keys that are removed at a time.
const BATCH: usize = 4096;
/// Absent keys that are named; all are counted.
const MOST_NAMED: u64 = 10;

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

/// What was removed.
#[derive(Default)]
struct Counts {
    removed: u64,
    absent: u64,
}

/// Removes keys, each with all its records.
///
/// # Errors
/// [`Failure::Told`] if a key was absent; a key that does not fit, or what the fabric says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    context.shared_address()?;
    let hex = args.hex;
    let decode = |key| bytes::of_argument(key, hex).map_err(Failure::Usage);
    let keys: Vec<Vec<u8>> = args.keys.into_iter().map(decode).collect::<Result<_>>()?;
    let lines = args.from.as_deref().map(open).transpose()?;
    let table = context.writable_table(&args.table)?;
    let mut counts = Counts::default();
    remove(&table, &keys, &mut counts)?;
    if let (Some(mut lines), Some(path)) = (lines, &args.from) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut line = Vec::new();
        let failed = || Failure::io(path.display().to_string());
        for number in 1.. {
            if !read_line(&mut lines, &mut line, number).map_err(failed())? {
                break;
            }
            let key = line.strip_suffix(b"\n").unwrap_or(&line);
            let key = key.strip_suffix(b"\r").unwrap_or(key);
            if !key.is_empty() {
                batch.push(decode(OsString::from_vec(key.to_vec()))?);
            }
            line.clear();
            if batch.len() == BATCH {
                remove(&table, &batch, &mut counts)?;
                batch.clear();
            }
        }
        remove(&table, &batch, &mut counts)?;
    }
    table.close()?;
    let Counts { removed, absent } = counts;
    if context.json {
        output::json(&serde_json::json!({
            "table": args.table, "removed": removed, "absent": absent,
        }))?;
    } else {
        output::note(format_args!("removed {}", output::counted(removed, "key")));
    }
    if absent == 0 {
        Ok(())
    } else {
        Err(Failure::Told)
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(unmarked(std::io::stdin().lock())?));
    }
    let file = File::open(path).map_err(Failure::io(path.display().to_string()))?;
    Ok(Box::new(unmarked(BufReader::new(file))?))
}

/// Removes keys side by side. One that stands there twice may be absent the second time.
fn remove(table: &Table, keys: &[Vec<u8>], counts: &mut Counts) -> Result<()> {
    let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut failed = None;
    table.remove_many(&borrowed, |number, removed| match removed {
        Ok(true) => counts.removed += 1,
        Ok(false) => {
            counts.absent += 1;
            if counts.absent <= MOST_NAMED {
                let (table, key) = (table.name(), bytes::shown(&keys[number]));
                output::note(format_args!("the table {table:?} has no key {key:?}"));
            }
        }
        Err(error) => {
            failed.get_or_insert(error);
        }
    });
    failed.map_or(Ok(()), |error| Err(error.into()))
}

//! `farslot del`: removes keys.

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::{bytes, output};
use farslot::Table;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
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
    if let (Some(lines), Some(path)) = (lines, &args.from) {
        let mut batch = Vec::with_capacity(BATCH);
        let (key, _) = table.scheme().record_sizes();
        let most = key.most() * if hex { 2 } else { 1 };
        let mut lines = Lines {
            input: lines,
            most,
            number: 0,
        };
        while let Some(line) = lines.next(path)? {
            if !line.is_empty() {
                batch.push(decode(OsString::from_vec(line))?);
            }
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

/// The lines of a file of keys, of which none is longer than a key can be.
struct Lines {
    input: Box<dyn BufRead>,
    most: usize,
    number: u64,
}

impl Lines {
    /// The next line without its end; nothing behind the last.
    fn next(&mut self, path: &Path) -> Result<Option<Vec<u8>>> {
        self.number += 1;
        let mut line = Vec::new();
        let longest = self.most as u64 + b"\r\n".len() as u64;
        let read = (&mut self.input).take(longest).read_until(b'\n', &mut line);
        if read.map_err(Failure::io(path.display().to_string()))? == 0 {
            return Ok(None);
        }
        for end in *b"\n\r" {
            line.pop_if(|last| *last == end);
        }
        if line.len() > self.most {
            let (path, number, most) = (path.display(), self.number, self.most);
            return Err(Failure::Failed(format!(
                "{path}: line {number} is longer than {most} bytes, as no key of this table is"
            )));
        }
        Ok(Some(line))
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let file = File::open(path).map_err(Failure::io(path.display().to_string()))?;
    Ok(Box::new(BufReader::new(file)))
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

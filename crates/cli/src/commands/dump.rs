//! `farslot dump`: writes all records of a table.

use crate::formats::{Format, Writer};
use crate::unfinished::RemovedOnSignal;
use crate::visit::Visit;
use farslot::{Expiry, Table};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The options of `farslot dump`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table
    table: String,
    /// The file, which is replaced once all is written [default: standard output]
    file: Option<PathBuf>,
    /// The format [default: by the file's name; csv on standard output]
    #[arg(long, short)]
    format: Option<Format>,
    /// Of a table over several nodes, write what those have that answer, and say what is missing
    #[arg(long)]
    partial: bool,
    /// Say when each record expires, in milliseconds of Unix time, in a column or field
    /// expires_unix_ms: load reads it
    #[arg(long)]
    expires: bool,
}

/// What was written.
#[derive(Default)]
struct Dumped {
    records: u64,
    /// Records that expire, of which the file does not say so.
    expiring: u64,
}

/// Writes all records of a table, as they are met. Others may write meanwhile.
///
/// # Errors
/// What the fabric or the file system says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let file = args.file.as_deref().filter(|file| *file != Path::new("-"));
    let format = match (args.format, file) {
        (Some(format), _) => format,
        (None, Some(file)) => Format::of_path(file)?,
        (None, None) => Format::Csv,
    };
    if file.is_none() && context.json {
        return Err(Failure::Usage(
            "the records and --json would both go to standard output: name a file".into(),
        ));
    }
    let table = context.readable_stored_table(&args.table)?;
    let expires = args.expires;
    let mut visit = Visit::new(args.partial);
    let dumped = match file {
        None => write_records(&table, format, expires, &mut visit, io::stdout().lock())?,
        Some(file) => write_file(&table, format, expires, &mut visit, file)?,
    };
    visit.note();
    let Dumped { records, expiring } = dumped;
    if expiring > 0 {
        output::note(format_args!(
            "{} that will expire: the file does not say when (--expires writes it)",
            output::counted(expiring, "record")
        ));
    }
    if context.json {
        return output::json(&serde_json::json!({
            "table": args.table, "records": records, "gaps": visit.described(),
            "expiring_without_moment": expiring,
        }));
    }
    output::note(format_args!(
        "dumped {}",
        output::counted(records, "record")
    ));
    Ok(())
}

/// Writes to a new file that takes the place of the old when it is whole: a dump that fails leaves
/// the last one as it was.
fn write_file(
    table: &Table,
    format: Format,
    expires: bool,
    visit: &mut Visit,
    path: &Path,
) -> Result<Dumped> {
    let failed = || Failure::io(path.display().to_string());
    if path.exists() && !path.is_file() {
        let device = std::fs::OpenOptions::new().write(true).open(path);
        return write_records(table, format, expires, visit, device.map_err(failed())?);
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Else what it says names a file of which the user knows nothing.
    directory.metadata().map_err(failed())?;
    // Whoever presses Ctrl-C leaves nothing behind.
    let mut removed = None;
    let create = |path: &Path| {
        let (on_signal, file) = RemovedOnSignal::create(path)?;
        removed = Some(on_signal);
        Ok(file)
    };
    let mut fresh = tempfile::Builder::new()
        .make_in(directory, create)
        .map_err(failed())?;
    let dumped = write_records(table, format, expires, visit, fresh.as_file_mut())?;
    fresh.as_file().sync_all().map_err(failed())?;
    fresh
        .persist(&path)
        .map_err(|error| failed()(error.error))?;
    drop(removed);
    Ok(dumped)
}

fn write_records(
    table: &Table,
    format: Format,
    expires: bool,
    visit: &mut Visit,
    output: impl Write,
) -> Result<Dumped> {
    let mut writer = Writer::new(format, output, expires)?;
    let mut dumped = Dumped::default();
    let is_expiring = table.scheme().is_expiring();
    visit.all(table, |key, stored| {
        let (expiry, value) = match is_expiring {
            false => (Expiry::NEVER, stored),
            true => match Expiry::living(stored, Expiry::now()) {
                Some(living) => living,
                None => return Ok(()),
            },
        };
        let moment = Some(expiry).filter(|expiry| *expiry != Expiry::NEVER);
        dumped.records += 1;
        dumped.expiring += u64::from(moment.is_some() && !expires);
        writer.write(key, value, moment)
    })?;
    writer.finish()?;
    Ok(dumped)
}

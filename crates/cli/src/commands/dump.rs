//! `farslot dump`: writes all records of a table.

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::formats::{Format, Writer};
use crate::output;
use crate::unfinished::RemovedOnSignal;
use crate::visit::Visit;
use farslot::Table;
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
    let table = context.readable_table(&args.table)?;
    let mut visit = Visit::new(args.partial);
    let records = match file {
        None => write_records(&table, format, &mut visit, io::stdout().lock())?,
        Some(file) => write_file(&table, format, &mut visit, file)?,
    };
    visit.note();
    if context.json {
        return output::json(&serde_json::json!({
            "table": args.table, "records": records, "gaps": visit.described(),
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
fn write_file(table: &Table, format: Format, visit: &mut Visit, path: &Path) -> Result<u64> {
    let failed = || Failure::io(path.display().to_string());
    if path.exists() && !path.is_file() {
        let device = std::fs::OpenOptions::new().write(true).open(path);
        return write_records(table, format, visit, device.map_err(failed())?);
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut fresh = tempfile::Builder::new();
    let mut fresh = fresh
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(failed())?;
    // Whoever presses Ctrl-C leaves nothing behind.
    let _removed = RemovedOnSignal::new(fresh.path()).map_err(failed())?;
    let records = write_records(table, format, visit, fresh.as_file_mut())?;
    fresh.as_file().sync_all().map_err(failed())?;
    fresh
        .persist(&path)
        .map_err(|error| failed()(error.error))?;
    Ok(records)
}

fn write_records(
    table: &Table,
    format: Format,
    visit: &mut Visit,
    output: impl Write,
) -> Result<u64> {
    let mut writer = Writer::new(format, output)?;
    let mut records = 0;
    visit.all(table, |key, value| {
        records += 1;
        writer.write(key, value)
    })?;
    writer.finish()?;
    Ok(records)
}

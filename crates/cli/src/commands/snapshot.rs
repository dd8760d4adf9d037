//! `farslot snapshot`: writes snapshots of tables.

use crate::until_stopped::UntilStopped;
use farslot::StoreError;
use farslot::snapshots::{SnapshotError, SnapshotInfo, SnapshotOptions, is_unfinished};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The options of `farslot snapshot`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The directory, which is made if it is not there; a table's last snapshot in it is put aside
    /// once the new one is complete
    directory: PathBuf,
    /// The tables [default: all]
    tables: Vec<String>,
    /// How many snapshots of each table are kept, the new one included: those before it as
    /// NAME.snapshot.1, NAME.snapshot.2
    #[arg(long, value_name = "N", default_value_t = SnapshotOptions::default().keep,
          value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Write a snapshot also of a table that lacks what a node had of it, because the node came
    /// back empty since the last snapshot. What is lost stays lost until it is restored, or
    /// accepted (farslot accept-loss)
    #[arg(long)]
    force: bool,
}

/// Writes snapshots. Of several tables those that can be are written, whatever happens to others.
///
/// # Errors
/// What the store or the file system says.
pub(crate) fn run(args: &Args, context: &Context) -> Result<()> {
    let store = context.store()?;
    let directory = &args.directory;
    let name = directory.display().to_string();
    std::fs::create_dir_all(directory).map_err(Failure::io(name))?;
    let mut failed = Vec::new();
    let tables = match &*args.tables {
        [] => {
            let listing = store.listing()?;
            failed.extend(listing.damaged.iter().map(|damaged| {
                let table = damaged.name.clone();
                (table.unwrap_or_default(), damaged.to_string())
            }));
            let names = listing.tables.into_iter().map(|table| table.name);
            names.filter(|name| !is_unfinished(name)).collect()
        }
        tables => tables.to_vec(),
    };
    let options = SnapshotOptions {
        keep: args.keep,
        force: args.force,
    };
    let until = UntilStopped::new()?;
    let mut taken = Vec::new();
    for table in &tables {
        let snapshot = until.run(table, |progress| {
            store.snapshot_with(table, directory, &options, progress)
        });
        match snapshot {
            Ok(snapshot) => {
                if !context.json {
                    note(&snapshot, "wrote");
                }
                taken.push(described(&snapshot));
            }
            Err(error) if tables.len() == 1 || is_stop(&error) => return Err(error.into()),
            Err(error) => failed.push((table.clone(), error.to_string())),
        }
    }
    if context.json {
        let failed = failed.iter();
        let failed = failed.map(|(table, error)| json!({ "table": table, "error": error }));
        output::json(&json!({ "snapshots": taken, "failed": failed.collect::<Vec<_>>() }))?;
    }
    end(failed, "could not be written")
}

/// Says which tables failed.
///
/// # Errors
/// That any has.
pub(crate) fn end(failed: Vec<(String, String)>, action: &str) -> Result<()> {
    for (table, error) in &failed {
        output::note(format_args!("{table}: {error}"));
    }
    match failed.len() {
        0 => Ok(()),
        number => {
            let snapshots = output::counted(number as u64, "snapshot");
            output::note(format_args!("error: {snapshots} {action}"));
            Err(Failure::Reported)
        }
    }
}

/// Whether the user has stopped it.
pub(crate) fn is_stop(error: &StoreError) -> bool {
    matches!(error, StoreError::Snapshot(error) if **error == SnapshotError::Stopped)
}

/// Says to people what was done with a snapshot.
pub(crate) fn note(snapshot: &SnapshotInfo, done: &str) {
    output::note(format_args!(
        "{done} {}{}: {}, {} in {}{}",
        snapshot.table,
        part(snapshot),
        output::counted(snapshot.records, "record"),
        output::sized(snapshot.bytes),
        snapshot.path.display(),
        missing(snapshot),
    ));
}

/// What a snapshot lacks of its table, for people: nothing if it has all.
fn missing(snapshot: &SnapshotInfo) -> String {
    match &*snapshot.missing {
        [] => String::new(),
        nodes => format!(", WITHOUT what {} had of it and lost", nodes.join(", ")),
    }
}

/// Which part of its table a snapshot is of, for people: nothing if of all.
pub(crate) fn part(snapshot: &SnapshotInfo) -> String {
    let part = snapshot.part.map(|part| format!(", part {part}"));
    part.unwrap_or_default()
}

/// A snapshot for machines.
pub(crate) fn described(snapshot: &SnapshotInfo) -> Value {
    json!({
        "table": snapshot.table,
        "file": snapshot.path.display().to_string(),
        "records": snapshot.records,
        "bytes": snapshot.bytes,
        "begun": farslot::admission::utc_time(snapshot.begun),
        "partitions": snapshot.partitions,
        "part": snapshot.part,
        "missing": snapshot.missing,
    })
}

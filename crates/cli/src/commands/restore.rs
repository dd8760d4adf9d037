//! `farslot restore`: makes tables from their snapshots.

use super::snapshot::{described, end, is_stop, note};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;
use crate::until_stopped::UntilStopped;
use farslot::{Store, check_snapshot, snapshot_path, snapshots};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The options of `farslot restore`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The directory of the snapshots
    directory: PathBuf,
    /// The tables, of which none may be there [default: all that are not]
    tables: Vec<String>,
    /// Only read and check the files
    #[arg(long)]
    check: bool,
}

/// Makes tables from their snapshots.
///
/// # Errors
/// A file that is damaged, or what the store says.
pub(crate) fn run(args: &Args, context: &Context) -> Result<()> {
    if args.check {
        return check(args, context);
    }
    let store = context.store()?;
    let (tables, left) = match &*args.tables {
        [] => wanted(&args.directory, &store)?,
        tables => (tables.to_vec(), Vec::new()),
    };
    for table in &left {
        output::note(format_args!("{table} is there already: it stays as it is"));
    }
    let until = UntilStopped::new()?;
    let (mut restored, mut failed) = (Vec::new(), Vec::new());
    for table in &tables {
        let one = until.run(table, |progress| {
            store.restore(table, &args.directory, progress)
        });
        match one {
            Ok(snapshot) => {
                if !context.json {
                    note(&snapshot, "restored");
                }
                restored.push(described(&snapshot));
            }
            Err(error) if tables.len() == 1 || is_stop(&error) => return Err(error.into()),
            Err(error) => failed.push((table.clone(), error.to_string())),
        }
    }
    if context.json {
        let failed = failed.iter();
        let failed = failed.map(|(table, error)| json!({ "table": table, "error": error }));
        let failed: Vec<_> = failed.collect();
        output::json(&json!({ "restored": restored, "left": left, "failed": failed }))?;
    }
    end(failed, "could not be restored")
}

/// The tables of a directory's snapshots that are not in the store, and those that are.
fn wanted(directory: &Path, store: &Store) -> Result<(Vec<String>, Vec<String>)> {
    let there = store.tables()?;
    let found = snapshots(directory)?;
    if found.is_empty() {
        let directory = directory.display();
        return Err(Failure::Failed(format!("{directory} has no snapshots")));
    }
    let names = found.into_iter().map(|snapshot| snapshot.table);
    Ok(names.partition(|name| there.iter().all(|table| table.name != *name)))
}

fn check(args: &Args, context: &Context) -> Result<()> {
    let paths: Vec<_> = match &*args.tables {
        [] => {
            let found = snapshots(&args.directory)?.into_iter();
            found.map(|snapshot| snapshot.path).collect()
        }
        tables => {
            let tables = tables.iter();
            tables
                .map(|table| snapshot_path(&args.directory, table))
                .collect()
        }
    };
    let mut whole = Vec::new();
    for path in paths {
        let snapshot = check_snapshot(&path)?;
        if !context.json {
            note(&snapshot, "checked");
        }
        whole.push(described(&snapshot));
    }
    if context.json {
        return output::json(&json!({ "checked": whole }));
    }
    Ok(())
}

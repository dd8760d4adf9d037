//! `farslot restore`: makes tables from their snapshots.

use super::snapshot::{described, end, is_stop, note};
use crate::until_stopped::UntilStopped;
use farslot::snapshots::{
    RestoreOptions, SnapshotInfo, check_snapshot, list_snapshots, older_snapshot, snapshot_path,
};
use farslot::{ErrorKind, Store};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use serde_json::json;
use std::path::PathBuf;

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
    /// From the snapshot that was written N snapshots before the last one
    #[arg(long, value_name = "N", default_value_t = 0)]
    older: u32,
    /// Only the part that one node had of tables over several, of which it has lost its part:
    /// HOST:PORT or the node's number in --address, from 1. What clients have put there since stays
    #[arg(long, value_name = "NODE", conflicts_with = "check")]
    node: Option<String>,
    /// Restore a table, whole, to fewer nodes than it was sharded over
    #[arg(long, conflicts_with = "node")]
    fewer_nodes: bool,
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
    let options = RestoreOptions {
        older: args.older,
        node: args
            .node
            .iter()
            .map(|node| address_of(node, &store))
            .collect(),
        fewer_nodes: args.fewer_nodes,
    };
    let (tables, mut left) = match &*args.tables {
        [] => wanted(args, &store)?,
        tables => (tables.to_vec(), Vec::new()),
    };
    for table in &left {
        output::note(format_args!("{table} is there already: it stays as it is"));
    }
    let until = UntilStopped::new()?;
    let (mut restored, mut failed) = (Vec::new(), Vec::new());
    for table in &tables {
        let one = until.run(table, |progress| {
            store.restore_with(table, &args.directory, &options, progress)
        });
        match one {
            Ok(snapshot) => {
                if !context.json {
                    note(&snapshot, "restored");
                }
                restored.push(described(&snapshot));
            }
            // Of a table whose part the node has not lost.
            Err(error)
                if args.tables.is_empty()
                    && args.node.is_some()
                    && error.kind() == ErrorKind::TableExists =>
            {
                output::note(format_args!("{table} is there already: it stays as it is"));
                left.push(table.clone());
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

/// The address of a node, or what was given in place of one.
fn address_of(node: &str, store: &Store) -> String {
    let addresses = store.address().nodes();
    let numbered = node
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_sub(1));
    let address = numbered.and_then(|number| addresses.get(number));
    address.map_or_else(|| node.to_owned(), String::clone)
}

/// The snapshots of a directory that are asked for, of which there is one at least.
fn asked_for(args: &Args) -> Result<Vec<SnapshotInfo>> {
    let found = list_snapshots(&args.directory, args.older)?;
    if found.is_empty() {
        let directory = args.directory.display();
        let older = match args.older {
            0 => String::new(),
            older => format!(" that are {older} older than the last"),
        };
        return Err(Failure::Failed(format!(
            "{directory} has no snapshots{older}"
        )));
    }
    Ok(found)
}

/// The tables of a directory's snapshots that are not in the store, or not all of them, and those
/// that are; of one node all, for it may lack its part of those as well.
fn wanted(args: &Args, store: &Store) -> Result<(Vec<String>, Vec<String>)> {
    let tables = match &args.node {
        Some(_) => Vec::new(),
        None => {
            let (mut tables, nodes) = (store.tables()?, store.nodes()?);
            let is_lost = |name: &String| nodes.iter().any(|node| node.lost.contains(name));
            tables.retain(|table| !is_lost(&table.name));
            tables
        }
    };
    let found = asked_for(args)?;
    let mut names: Vec<_> = found.into_iter().map(|snapshot| snapshot.table).collect();
    // The whole table's and the nodes' own.
    names.dedup();
    Ok(names
        .into_iter()
        .partition(|name| tables.iter().all(|table| table.name != *name)))
}

fn check(args: &Args, context: &Context) -> Result<()> {
    let paths: Vec<_> = match &*args.tables {
        [] => {
            let found = asked_for(args)?.into_iter();
            found.map(|snapshot| snapshot.path).collect()
        }
        tables => {
            let tables = tables.iter();
            tables
                .map(|table| older_snapshot(&snapshot_path(&args.directory, table), args.older))
                .collect()
        }
    };
    let mut checked = Vec::new();
    for path in paths {
        let snapshot = check_snapshot(&path)?;
        if !context.json {
            note(&snapshot, "checked");
        }
        checked.push(described(&snapshot));
    }
    if context.json {
        return output::json(&json!({ "checked": checked }));
    }
    Ok(())
}

//! A node that writes snapshots of its tables at intervals, and starts from the last.

use crate::failure::{Failure, Result};
use crate::{number, output};
use farslot::{Store, StoreError, is_unfinished, snapshot_path, snapshots};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// The options of snapshots.
#[derive(clap::Args, Debug)]
pub struct SnapshotArgs {
    /// Write snapshots of all tables into --snapshot-dir at this interval (30s, 5m, 1h), and when
    /// told to end. A crash loses what was written since the last
    #[arg(long, value_name = "TIME", requires = "snapshot_dir", value_parser = number::time)]
    snapshot_every: Option<Duration>,
    /// Where snapshots are
    #[arg(long, value_name = "DIR")]
    snapshot_dir: Option<PathBuf>,
    /// Start with the tables whose snapshots are in --snapshot-dir, if there are any
    #[arg(long, requires = "snapshot_dir")]
    restore: bool,
}

/// The thread that writes snapshots.
pub struct Snapshots {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Snapshots {
    /// Has the last snapshots written.
    pub fn end(self) {
        // It waits for this, and ends by itself.
        let _ = self.end.send(());
        if self.thread.join().is_err() {
            output::note("the thread that writes snapshots has panicked");
        }
    }
}

/// Restores the tables, if that is asked for, and then writes snapshots of them.
///
/// # Errors
/// A directory or a snapshot that cannot be read; snapshots that would be lost.
pub fn start(args: &SnapshotArgs, store: &Store) -> Result<Option<Snapshots>> {
    let Some(directory) = &args.snapshot_dir else {
        return Ok(None);
    };
    let name = directory.display().to_string();
    std::fs::create_dir_all(directory).map_err(Failure::io(name))?;
    let found = snapshots(directory)?;
    let mut known = HashSet::new();
    if args.restore {
        for snapshot in found {
            let restored =
                store.restore(&snapshot.table, directory, &|_| ControlFlow::Continue(()))?;
            output::note(format_args!(
                "restored {}: {}, as of {}",
                restored.table,
                output::counted(restored.records, "record"),
                farslot::fabric::tcp::utc_time(restored.begun),
            ));
            known.insert(restored.table);
        }
    } else if args.snapshot_every.is_some() && !found.is_empty() {
        return Err(Failure::Usage(format!(
            "{} has snapshots, which those of this node would replace\n  \
             start from them: --restore, or use another directory",
            directory.display()
        )));
    }
    let Some(every) = args.snapshot_every else {
        return Ok(None);
    };
    let (end, ended) = mpsc::channel();
    let (store, directory) = (store.clone(), directory.clone());
    let thread = std::thread::Builder::new().name("snapshots".into());
    let thread = thread.spawn(move || {
        let mut keeper = Keeper {
            store,
            directory,
            known,
        };
        loop {
            let is_last = ended.recv_timeout(every) != Err(RecvTimeoutError::Timeout);
            keeper.write();
            if is_last {
                return;
            }
        }
    });
    let thread = thread.map_err(Failure::io("the thread that writes snapshots"))?;
    Ok(Some(Snapshots { end, thread }))
}

struct Keeper {
    store: Store,
    directory: PathBuf,
    /// Tables that this process has written or restored snapshots of.
    known: HashSet<String>,
}

impl Keeper {
    /// Writes snapshots of all tables, and removes those of tables that were dropped. What fails is
    /// said, and the last snapshot stays.
    fn write(&mut self) {
        let tables = match self.store.tables() {
            Ok(tables) => tables,
            Err(error) => return output::note(format_args!("no snapshots: {error}")),
        };
        for table in &tables {
            let name = &table.name;
            if is_unfinished(name) {
                continue;
            }
            // Of a table over several nodes, the part that this node has.
            let go_on = |_| ControlFlow::Continue(());
            let taken = self.store.snapshot_own_part(table, &self.directory, &go_on);
            match taken {
                Ok(_) => drop(self.known.insert(name.clone())),
                Err(StoreError::NoSuchTable { .. }) => {}
                Err(error) => output::note(format_args!("no new snapshot of {name}: {error}")),
            }
        }
        let is_there = |name: &String| tables.iter().any(|table| table.name == *name);
        let dropped: Vec<_> = self
            .known
            .iter()
            .filter(|name| !is_there(name))
            .cloned()
            .collect();
        for name in dropped {
            remove(&snapshot_path(&self.directory, &name));
            self.known.remove(&name);
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        output::note(format_args!("{}: {error}", path.display()));
    }
}

//! A node that writes snapshots of its tables, and starts from the last.

use super::reload::OptionChanges;
use crate::commands::snapshot::part;
use farslot::snapshots::{
    RestoreOptions, SnapshotInfo, SnapshotOptions, is_unfinished, list_snapshots, remove_snapshots,
    snapshot_path,
};
use farslot::{Store, StoreError};
use farslot_operate::SnapshotMetrics;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::{number, output};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// The options of snapshots.
#[derive(clap::Args, Debug)]
pub struct SnapshotArgs {
    /// Write snapshots of all tables into --snapshot-dir at this interval (30s, 5m, 1h) as well as
    /// when told to end. A crash loses what was written since the last
    #[arg(long, value_name = "TIME", requires = "snapshot_dir", value_parser = number::time)]
    snapshot_every: Option<Duration>,
    /// Write snapshots of all tables into this directory when told to end
    #[arg(long, value_name = "DIR")]
    snapshot_dir: Option<PathBuf>,
    /// How many snapshots of each table are kept, the new one included
    #[arg(long, value_name = "N", requires = "snapshot_dir",
          default_value_t = SnapshotOptions::default().keep,
          value_parser = clap::value_parser!(u32).range(1..))]
    snapshot_keep: u32,
    /// Start with the tables whose snapshots are in --snapshot-dir, if there are any
    #[arg(long, requires = "snapshot_dir")]
    restore: bool,
    /// The address by which clients name this node, where they name it by another than it is served
    /// at: says which part of a snapshot of a table over several nodes it had
    #[arg(long, value_name = "ADDRESS", requires = "restore")]
    restore_as: Option<String>,
}

impl SnapshotArgs {
    /// Whether clients are to wait until tables are restored.
    pub const fn restores(&self) -> bool {
        self.restore
    }

    const fn schedule(&self) -> Schedule {
        Schedule {
            every: self.snapshot_every,
            keep: self.snapshot_keep,
        }
    }

    /// Refuses a directory in which no snapshots can be written, or that has some which would be
    /// lost. One that is not there yet is made later.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<()> {
        let Some(directory) = self.snapshot_dir.as_deref().filter(|path| path.exists()) else {
            return Ok(());
        };
        let name = directory.display().to_string();
        tempfile::tempfile_in(directory).map_err(Failure::io(name))?;
        self.found(directory).map(drop)
    }

    /// The snapshots that are there to start from.
    fn found(&self, directory: &Path) -> Result<Vec<SnapshotInfo>> {
        let found = list_snapshots(directory, 0)?;
        if !self.restore && !found.is_empty() {
            return Err(Failure::Usage(format!(
                "{} has snapshots, which those of this node would replace\n  \
                 start from them: --restore, or use another directory",
                directory.display()
            )));
        }
        Ok(found)
    }
}

/// When snapshots are written, and how many are kept.
#[derive(Clone, Copy)]
struct Schedule {
    every: Option<Duration>,
    keep: u32,
}

/// What the thread that writes snapshots is told.
enum SnapshotMessage {
    Schedule(Schedule),
    End,
}

/// The thread that writes snapshots.
pub struct Snapshots {
    tell: Sender<SnapshotMessage>,
    metrics: SnapshotMetrics,
    thread: JoinHandle<()>,
}

impl Snapshots {
    /// What there is to say of them.
    pub fn metrics(&self) -> SnapshotMetrics {
        self.metrics.clone()
    }

    /// Has them written and kept as these options say from now on. The next is written when the
    /// interval has passed from now on.
    pub fn reload(&self, args: &SnapshotArgs, changes: &mut OptionChanges<'_>) {
        if self
            .tell
            .send(SnapshotMessage::Schedule(args.schedule()))
            .is_ok()
        {
            changes.applied(&["snapshot-every", "snapshot-keep"]);
        }
    }

    /// Has the last snapshots written.
    pub fn end(self) {
        // It waits for this, and ends by itself.
        let _ = self.tell.send(SnapshotMessage::End);
        if self.thread.join().is_err() {
            output::note("the thread that writes snapshots has panicked");
        }
    }
}

/// Restores the tables, if that is asked for, and then writes snapshots of them. The node is served
/// at these addresses. Where it has the memory that it had before, which `is_back` says of memory
/// that is kept, the tables are there and the snapshots are theirs.
///
/// # Errors
/// A directory or a snapshot that cannot be read; snapshots that would be lost.
pub fn start(
    args: &SnapshotArgs,
    store: &Store,
    addresses: &[String],
    is_back: Option<bool>,
) -> Result<Option<Snapshots>> {
    let Some(directory) = &args.snapshot_dir else {
        return Ok(None);
    };
    let name = directory.display().to_string();
    std::fs::create_dir_all(directory).map_err(Failure::io(name.clone()))?;
    let files = match (is_back, args.restore) {
        (Some(true), _) => files_of(store, list_snapshots(directory, 0)?)?,
        (_, true) => restore(args, store, directory, addresses, args.found(directory)?)?,
        (_, false) => args.found(directory).map(|_| SnapshotFiles::new())?,
    };
    let mut schedule = args.schedule();
    output::note(match schedule.every {
        Some(every) => {
            format!("snapshots of all tables go to {name} every {every:?}, and at the end")
        }
        None => format!(
            "snapshots of all tables go to {name} at the end alone: a crash{} loses what was \
             written (--snapshot-every)",
            is_back.map_or("", |_| " of the machine")
        ),
    });
    let (tell, wakeups) = mpsc::channel();
    let metrics = SnapshotMetrics::of(directory);
    let mut keeper = SnapshotKeeper {
        store: store.clone(),
        directory: directory.clone(),
        files,
        metrics: metrics.clone(),
    };
    let thread = std::thread::Builder::new().name("snapshots".into());
    let thread = thread.spawn(move || {
        loop {
            let next = match schedule.every {
                Some(every) => wakeups.recv_timeout(every),
                None => wakeups.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(SnapshotMessage::Schedule(now)) => schedule = now,
                Err(RecvTimeoutError::Timeout) => keeper.write(schedule.keep),
                Ok(SnapshotMessage::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        keeper.write(schedule.keep);
    });
    let thread = thread.map_err(Failure::io("the thread that writes snapshots"))?;
    Ok(Some(Snapshots {
        tell,
        metrics,
        thread,
    }))
}

/// Restores the tables of these snapshots; returns their files.
fn restore(
    args: &SnapshotArgs,
    store: &Store,
    directory: &Path,
    addresses: &[String],
    found: Vec<SnapshotInfo>,
) -> Result<SnapshotFiles> {
    let named = args.restore_as.iter().chain(addresses);
    let options = RestoreOptions {
        node: named.cloned().collect(),
        ..RestoreOptions::default()
    };
    let mut files = SnapshotFiles::new();
    // Of one table there may be its own part and a snapshot of all.
    let tables: BTreeSet<_> = found.into_iter().map(|snapshot| snapshot.table).collect();
    for table in tables {
        let go_on = |_| ControlFlow::Continue(());
        let restored = store.restore_with(&table, directory, &options, &go_on)?;
        output::note(format_args!(
            "restored {}{}: {}, as of {}",
            restored.table,
            part(&restored),
            output::counted(restored.records, "record"),
            farslot::admission::utc_time(restored.begun),
        ));
        files.insert(table, BTreeSet::from([restored.path]));
    }
    Ok(files)
}

/// The snapshots that there are of the tables in the store. Others are left alone: they may be of a
/// table that was dropped, or of another node.
fn files_of(store: &Store, found: Vec<SnapshotInfo>) -> Result<SnapshotFiles> {
    let tables = store.tables()?;
    let mut files = SnapshotFiles::new();
    for SnapshotInfo { table, path, .. } in found {
        if tables.iter().any(|existing| existing.name == table) {
            files.entry(table).or_default().insert(path);
            continue;
        }
        output::note(format_args!(
            "the memory that was kept has no table {table:?}: its snapshot is left as it is"
        ));
    }
    Ok(files)
}

/// Tables that this process has written or restored snapshots of, and their files.
type SnapshotFiles = HashMap<String, BTreeSet<PathBuf>>;

/// The writer of snapshots, and those that it has to keep.
struct SnapshotKeeper {
    store: Store,
    directory: PathBuf,
    files: SnapshotFiles,
    metrics: SnapshotMetrics,
}

impl SnapshotKeeper {
    /// Writes snapshots of all tables, and removes those of tables that were dropped. What fails is
    /// said, and the last snapshot stays.
    fn write(&mut self, keep: u32) {
        let listing = match self.store.listing() {
            Ok(listing) => listing,
            Err(error) => {
                self.metrics.count_failure();
                return output::note(format_args!("no snapshots: {error}"));
            }
        };
        // What has not been cleared yet is restored as it was.
        let mut all_written = listing.damaged.is_empty() && listing.clearing.is_empty();
        for damaged in &listing.damaged {
            output::note(format_args!("no new snapshot: {damaged}"));
        }
        let tables = listing.tables;
        let mut last = BTreeSet::new();
        for table in tables.iter().filter(|table| !is_unfinished(&table.name)) {
            let name = &table.name;
            // Of a table over several nodes, the part that this node has.
            let go_on = |_| ControlFlow::Continue(());
            let options = SnapshotOptions {
                keep,
                // Nothing was lost since this process has started: another table of the name is
                // what its user wants there.
                force: self.files.contains_key(name),
            };
            let store = &self.store;
            let taken = store.snapshot_own_part(table, &self.directory, &options, &go_on);
            match taken {
                Ok(SnapshotInfo { path, .. }) => {
                    last.insert(path.clone());
                    self.files.entry(name.clone()).or_default().insert(path);
                }
                Err(StoreError::NoSuchTable { .. }) => {}
                Err(error) => {
                    all_written = false;
                    self.metrics.count_failure();
                    output::note(format_args!("no new snapshot of {name}: {error}"));
                }
            }
        }
        // A table that is not listed may have another name by now, or an entry that is damaged:
        // what was its snapshot may be all that there is of it.
        if all_written {
            self.files.retain(|name, paths| {
                let is_there = tables.iter().any(|table| table.name == *name);
                // Of a table that was dropped, and another has its name: the node had another part
                // of it. What a client has made of a whole table stays for as long as there is one.
                let latest = snapshot_path(&self.directory, name);
                paths.retain(|path| {
                    let stays = last.contains(path) || is_there && *path == latest;
                    if !stays && let Err(error) = remove_snapshots(path) {
                        output::note(error);
                    }
                    stays
                });
                is_there
            });
        }
    }
}

//! What there is to say of the snapshots that a node writes.

use crate::{Family, Source};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// How old the snapshots in a directory are, and how many could not be written. Clones share the
/// count.
#[derive(Clone, Debug)]
pub struct SnapshotMetrics {
    directory: PathBuf,
    failed: Arc<AtomicU64>,
}

impl SnapshotMetrics {
    /// Those of a directory into which no snapshot has failed to be written yet.
    #[must_use]
    pub fn of(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            failed: Arc::default(),
        }
    }

    /// Counts a snapshot that could not be written.
    pub fn count_failure(&self) {
        self.failed.fetch_add(1, Relaxed);
    }
}

impl Source for SnapshotMetrics {
    fn families(&self) -> Vec<Family> {
        let mut last = BTreeMap::new();
        // A directory that cannot be read has no snapshots: an alert tells of tables without one.
        for snapshot in farslot::snapshots::list_snapshots(&self.directory, 0).unwrap_or_default() {
            // Of one table there may be its own part and a snapshot of all.
            let at: &mut SystemTime = last.entry(snapshot.table).or_insert(UNIX_EPOCH);
            *at = snapshot.begun.max(*at);
        }
        let mut begun = Family::gauge(
            "farslot_snapshot_begun_seconds",
            "When the last snapshot of a table was begun, in seconds since 1970.",
        );
        for (table, at) in last {
            let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
            begun.add(&[("table", &table)], at.as_secs_f64());
        }
        let failed = self.failed.load(Relaxed) as f64;
        let failures = Family::counter(
            "farslot_snapshot_failures_total",
            "Snapshots that could not be written.",
        );
        vec![begun, failures.with(failed)]
    }

    fn ready(&self) -> std::result::Result<(), String> {
        Ok(())
    }
}

//! The lines that hold no record that the table takes: counted, and the first of them named.

use crate::formats::BadLine;
use crate::output;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Bad lines, from several threads.
pub struct BadLines {
    strict: bool,
    show: u64,
    seen: Mutex<Seen>,
    bar: OnceLock<ProgressBar>,
}

#[derive(Default)]
struct Seen {
    count: u64,
    first: Vec<BadLine>,
}

impl BadLines {
    /// None yet; the first `show` will be shown, and one is too many if `strict`.
    pub fn new(strict: bool, show: u64) -> Self {
        Self {
            strict,
            show,
            seen: Mutex::default(),
            bar: OnceLock::new(),
        }
    }

    /// Shows bad lines above this progress bar from now on.
    pub fn show_above(&self, bar: &ProgressBar) {
        let _ = self.bar.set(bar.clone());
    }

    /// Counts a bad line.
    ///
    /// # Errors
    /// The line itself, where one is too many.
    pub fn add(&self, bad: BadLine) -> Result<(), BadLine> {
        if self.strict {
            return Err(bad);
        }
        let mut seen = self.lock();
        seen.count += 1;
        if seen.count <= self.show {
            let show = || output::note(format_args!("line {}: {}", bad.line, bad.reason));
            match self.bar.get() {
                Some(bar) => bar.suspend(show),
                None => show(),
            }
            seen.first.push(bad);
        }
        Ok(())
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Those that were shown, for machines.
    pub fn shown(&self) -> Vec<Value> {
        let mut first = self.lock().first.clone();
        first.sort_by_key(|bad| bad.line);
        let object = |bad: &BadLine| json!({ "line": bad.line, "reason": bad.reason });
        first.iter().map(object).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

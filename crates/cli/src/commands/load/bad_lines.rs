//! The lines that hold no record that the table takes: counted, and the first of them named.

use crate::formats::BadLine;
use farslot_terminal::failure::Failure;
use farslot_terminal::output;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bad lines, from several threads, which meet them in any order.
pub struct BadLines {
    strict: bool,
    /// How many may be passed over.
    most: u64,
    /// How many are shown.
    show: u64,
    /// The first line that ends it all, where one does.
    stop_at: AtomicU64,
    tally: Mutex<BadLineTally>,
}

/// How many lines were bad, and the first of them.
#[derive(Default)]
struct BadLineTally {
    count: u64,
    /// Those that come first in the file, with their reasons.
    first: BTreeMap<u64, String>,
}

impl BadLines {
    /// None yet. One is too many if `strict`, else more than `most`; the first `show` of the file
    /// will be shown.
    pub fn new(strict: bool, most: u64, show: u64) -> Self {
        Self {
            strict,
            most,
            show,
            stop_at: AtomicU64::new(u64::MAX),
            tally: Mutex::default(),
        }
    }

    /// Counts a bad line.
    pub fn add(&self, bad: BadLine) {
        if self.strict {
            self.stop_at.fetch_min(bad.line, Ordering::Relaxed);
        }
        let mut tally = self.lock();
        tally.count += 1;
        tally.first.insert(bad.line, bad.reason);
        if tally.first.len() as u64 > self.show.max(1) {
            tally.first.pop_last();
        }
    }

    /// Whether this line is still to be loaded: it stands before the first bad one that ends it
    /// all. All lines before that are, whichever thread meets them when.
    pub fn admits(&self, line: u64) -> bool {
        line < self.stop_at.load(Ordering::Relaxed)
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Shows the first of them to people.
    pub fn note(&self) {
        let tally = self.lock();
        for (line, reason) in tally.first.iter().take(self.show as usize) {
            output::note(format_args!("line {line}: {reason}"));
        }
        let shown = self.show.min(tally.count);
        if tally.count > shown && shown > 0 {
            let more = output::counted(tally.count - shown, "more bad line");
            output::note(format_args!("and {more} (--show-bad)"));
        }
    }

    /// Those that are shown, for machines.
    pub fn shown(&self) -> Vec<Value> {
        let tally = self.lock();
        let first = tally.first.iter().take(self.show as usize);
        let object = |(line, reason)| json!({ "line": line, "reason": reason });
        first.map(object).collect()
    }

    /// The failure, if there were more than may be.
    pub fn failure(&self) -> Option<Failure> {
        let tally = self.lock();
        let (line, reason) = tally.first.first_key_value()?;
        if self.strict {
            return Some(Failure::Failed(format!("line {line}: {reason}")));
        }
        (tally.count > self.most).then(|| {
            Failure::Failed(format!(
                "{}, more than --max-bad {} allows; the first is line {line}: {reason}",
                output::counted(tally.count, "bad line"),
                self.most
            ))
        })
    }

    fn lock(&self) -> MutexGuard<'_, BadLineTally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_file_are_shown_whoever_meets_them_when() {
        let bad = BadLines::new(false, 3, 2);
        for line in [9, 4, 7, 2] {
            assert!(bad.admits(10));
            let reason = format!("reason {line}");
            bad.add(BadLine { line, reason });
        }
        let lines: Vec<_> = bad.shown().iter().map(|bad| bad["line"].clone()).collect();
        assert_eq!(lines, [2, 4]);
        let failure = bad.failure().unwrap().to_string();
        assert!(
            failure.contains("4 bad lines") && failure.contains("line 2: reason 2"),
            "{failure}"
        );
        assert!(BadLines::new(false, 0, 2).failure().is_none());
    }

    #[test]
    fn where_one_is_too_many_all_before_it_is_loaded() {
        let bad = BadLines::new(true, 0, 0);
        for line in [9, 4, 7] {
            bad.add(BadLine {
                line,
                reason: "?".into(),
            });
        }
        assert!(bad.admits(3) && !bad.admits(4));
        assert_eq!(bad.failure().unwrap().to_string(), "line 4: ?");
    }
}

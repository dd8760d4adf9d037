//! What the demo has to show.

use super::crew::TABLE;
use super::fill::FillReport;
use super::lookups::Lookups;
use super::walk::Walked;
use comfy_table::presets;
use farslot_terminal::output::{self, counted, grouped, sized};
use serde_json::{Value, json};

/// What the demo has seen.
pub struct DemoReport<'a> {
    /// The files.
    pub walked: &'a Walked,
    /// How putting them went.
    pub filled: FillReport,
    /// How looking them up went.
    pub lookups: Lookups,
    /// Client threads.
    pub threads: usize,
    /// Slots in use per slot.
    pub load_factor: f64,
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Processor time that the memory node used for all of it.
    pub node_cpu_seconds: f64,
    /// The memory node's address.
    pub address: String,
    /// Whether it goes on.
    pub keep: bool,
}

impl DemoReport<'_> {
    /// Answers that were wrong.
    pub fn wrong(&self) -> u64 {
        self.filled.wrong + self.lookups.wrong
    }

    fn lookups_per_second(&self) -> f64 {
        (self.lookups.hits.lookups + self.lookups.misses.lookups) as f64 / self.lookups.seconds
    }

    fn answers(&self) -> u64 {
        self.lookups.hits.lookups + self.lookups.misses.lookups + self.lookups.latency.len()
    }

    fn quantile_us(&self, quantile: f64) -> f64 {
        self.lookups.latency.value_at_quantile(quantile) as f64 / 1e3
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut table = output::new_table(presets::UTF8_BORDERS_ONLY);
        for (name, value) in self.rows() {
            table.add_row([name, &value]);
        }
        let when = if self.keep {
            "Try next, from another terminal:"
        } else {
            "Try next (or farslot demo --keep, and then on this very table):"
        };
        let next: String = self
            .next()
            .iter()
            .map(|command| format!("  {command}\n"))
            .collect();
        format!("{table}\n\n{when}\n{}", next.trim_end_matches('\n'))
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let (walked, lookups) = (self.walked, &self.lookups);
        let mut found = format!(
            "{} in {} ({:.1} s",
            counted(walked.files.len() as u64, "file"),
            walked.root,
            walked.seconds
        );
        if walked.skipped > 0 {
            found += &format!("; {} could not be read", grouped(walked.skipped));
        }
        vec![
            ("found", found + ")"),
            (
                "entries",
                format!(
                    "{}, put in {:.2} s by {} threads",
                    grouped(self.filled.records),
                    self.filled.seconds,
                    self.threads
                ),
            ),
            ("load factor", format!("{:.3}", self.load_factor)),
            (
                "reads per lookup",
                format!(
                    "{:.2} hit, {:.2} miss",
                    lookups.hits.reads_each(),
                    lookups.misses.reads_each()
                ),
            ),
            (
                "bytes per lookup",
                format!(
                    "{:.0} hit, {:.0} miss",
                    lookups.hits.bytes_each(),
                    lookups.misses.bytes_each()
                ),
            ),
            (
                "lookups/s",
                format!(
                    "{}, 32 at a time in each thread",
                    grouped(self.lookups_per_second() as u64)
                ),
            ),
            (
                "latency, one at a time",
                format!(
                    "{:.1} us p50, {:.1} us p99",
                    self.quantile_us(0.5),
                    self.quantile_us(0.99)
                ),
            ),
            (
                "answers checked",
                format!(
                    "{}, {} wrong",
                    grouped(self.answers()),
                    grouped(self.wrong())
                ),
            ),
            (
                "CPU of the memory node",
                format!(
                    "{:.2} s for all of this (it lent {})",
                    self.node_cpu_seconds,
                    sized(self.table_bytes)
                ),
            ),
        ]
    }

    /// For machines.
    pub fn json(&self) -> Value {
        let (hits, misses) = (&self.lookups.hits, &self.lookups.misses);
        json!({
            "path": self.walked.root,
            "skipped": self.walked.skipped,
            "walk_seconds": self.walked.seconds,
            "entries": self.filled.records,
            "put_seconds": self.filled.seconds,
            "threads": self.threads,
            "load_factor": self.load_factor,
            "table_bytes": self.table_bytes,
            "hits": hits.lookups,
            "misses": misses.lookups,
            "reads_per_hit": hits.reads_each(),
            "reads_per_miss": misses.reads_each(),
            "bytes_per_hit": hits.bytes_each(),
            "bytes_per_miss": misses.bytes_each(),
            "lookups_per_second": self.lookups_per_second(),
            "latency_p50_us": self.quantile_us(0.5),
            "latency_p99_us": self.quantile_us(0.99),
            "answers_checked": self.answers(),
            "wrong": self.wrong(),
            "node_cpu_seconds": self.node_cpu_seconds,
            "next": self.next(),
        })
    }

    /// Three commands that work when pasted.
    fn next(&self) -> [String; 3] {
        let farslot = std::env::args()
            .next()
            .map_or("farslot".into(), |name| quoted(&name));
        if self.keep {
            return self.next_on_this(&farslot);
        }
        let files = self.walked.files.len();
        let root = quoted(&self.walked.root);
        let longest = self.walked.files.iter().map(|file| file.path.len()).max();
        let long_keys = match longest {
            Some(longest @ 257..) => format!(" --max-key {}", longest.next_power_of_two()),
            _ => String::new(),
        };
        let capacity = files + files / 4 + 1_000;
        [
            format!("{farslot} serve shm://work &"),
            format!(
                "find {root} -type f -printf '%p\\t%s\\n' | \
                 {farslot} -a shm://work load {TABLE} -f tsv --create={capacity}{long_keys}"
            ),
            format!("{farslot} -a shm://work stat {TABLE}"),
        ]
    }

    fn next_on_this(&self, farslot: &str) -> [String; 3] {
        let some = self
            .walked
            .files
            .iter()
            .map(|file| String::from_utf8_lossy(&file.path));
        let readable =
            some.min_by_key(|path| (path.contains(char::REPLACEMENT_CHARACTER), path.len()));
        let path = quoted(&readable.unwrap_or_default());
        let address = &self.address;
        [
            format!("{farslot} -a {address} get {TABLE} {path}"),
            format!("{farslot} -a {address} stat {TABLE}"),
            format!("{farslot} -a {address} dump {TABLE} --format ndjson | head -3"),
        ]
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, quote) in [
            ("/a-b.c", "/a-b.c"),
            ("a b", "'a b'"),
            ("a'b", r"'a'\''b'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), quote);
        }
    }
}

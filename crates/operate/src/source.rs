//! What metrics are of.

use crate::family::Family;
use serde_json::Value;
use std::cmp::Reverse;
use std::time::{Duration, SystemTime};

/// What metrics are of.
pub trait Source: Send + 'static {
    /// All of them, as they are now.
    fn families(&self) -> Vec<Family>;

    /// Whether it does its work.
    ///
    /// # Errors
    /// Why not.
    fn ready(&self) -> Result<(), String>;

    /// What is known of how a table's keys lie, as a JSON object; nothing if it has no such table,
    /// or does not tell. It returns at once: what takes long goes on elsewhere, for who asks again.
    fn survey(&self, table: &str) -> Option<Value> {
        let _ = table;
        None
    }

    /// The last things that took long, the latest first. Whoever reaches the page sees them: they
    /// have no keys, and no values.
    fn slow(&self) -> Vec<Slow> {
        Vec::new()
    }
}

/// Something that took long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slow {
    /// When it had ended.
    pub at: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// What it was.
    pub operation: String,
    /// The table that it was done to, if one is known.
    pub table: String,
    /// Whose it was, if that is known.
    pub by: String,
}

/// All of several, which are ready when each of them is.
impl Source for Vec<Box<dyn Source>> {
    fn families(&self) -> Vec<Family> {
        self.iter().flat_map(|source| source.families()).collect()
    }

    fn ready(&self) -> Result<(), String> {
        self.iter().try_for_each(|source| source.ready())
    }

    fn survey(&self, table: &str) -> Option<Value> {
        self.iter().find_map(|source| source.survey(table))
    }

    fn slow(&self) -> Vec<Slow> {
        let mut all: Vec<_> = self.iter().flat_map(|source| source.slow()).collect();
        all.sort_by_key(|slow| Reverse(slow.at));
        all
    }
}

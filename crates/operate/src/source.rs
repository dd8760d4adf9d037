//! What metrics are of.

use crate::family::Family;
use serde_json::Value;

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
}

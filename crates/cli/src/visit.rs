//! Visiting all records of a table, or those of the nodes that answer.

use farslot::{Cursor, FabricError, StoreError, Table};
use farslot_terminal::failure::Result;
use farslot_terminal::output;
use serde_json::{Value, json};
use std::io;

/// Whether a node cannot answer for its keys: it is down, or has lost them.
pub const fn is_missing(error: &FabricError) -> bool {
    error.is_outage() || matches!(error, FabricError::NodeRestarted { .. })
}

/// A visit, and what it could not reach.
pub struct Visit {
    partial: bool,
    /// The nodes that do not answer, and why.
    gaps: Vec<(String, String)>,
}

impl Visit {
    /// One that fails with the first node that does not answer, or, if `partial`, passes it over.
    pub const fn new(partial: bool) -> Self {
        Self {
            partial,
            gaps: Vec::new(),
        }
    }

    /// Visits the records.
    ///
    /// # Errors
    /// What the store or the visitor says.
    pub fn all(
        &mut self,
        table: &Table,
        mut visitor: impl FnMut(&[u8], &[u8]) -> io::Result<()>,
    ) -> Result<()> {
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            let mut visited = Ok(());
            let next = table.scan(from, u64::MAX, |key, value| {
                if visited.is_ok() {
                    visited = visitor(key, value);
                }
            });
            visited?;
            cursor = match next {
                Ok(next) => next,
                Err(StoreError::Node { address, error }) if self.partial && is_missing(&error) => {
                    self.gaps.push((address, error.to_string()));
                    table.next_partition(from)
                }
                Err(error) => return Err(error.into()),
            };
        }
        Ok(())
    }

    /// Says to people what is missing.
    pub fn note(&self) {
        for (node, why) in &self.gaps {
            output::note(format_args!("without what {node} has of it: {why}"));
        }
    }

    /// What is missing, for machines.
    pub fn described(&self) -> Value {
        let gaps = self.gaps.iter();
        gaps.map(|(node, why)| json!({ "node": node, "error": why }))
            .collect()
    }
}

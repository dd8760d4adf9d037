//! What `farslot top` sees at a time.

use super::scrape::{Scrape, scrape};
use crate::commands::stat::counts_of;
use farslot::health::NodeReport;
use farslot::{Occupancy, Store, Table};
use farslot_terminal::failure::{Failure, Result};
use std::time::Instant;

/// A store that is looked at.
pub(super) struct StoreWatch {
    store: Store,
    /// Where the nodes serve their metrics, in their order.
    metrics: Vec<String>,
}

/// What was seen of the store.
pub(super) struct StoreOverview {
    pub(super) at: Instant,
    /// The store's address.
    pub(super) address: String,
    pub(super) nodes: Vec<Node>,
    pub(super) tables: Vec<TableOverview>,
    /// What could not be seen, and why.
    pub(super) errors: Vec<String>,
}

/// A node, and what its metrics say where these are asked for.
pub(super) struct Node {
    pub(super) report: NodeReport,
    pub(super) scrape: Option<Scrape>,
}

/// What was seen of a table.
pub(super) struct TableOverview {
    pub(super) name: String,
    pub(super) scheme: &'static str,
    pub(super) bytes: u64,
    /// Nothing if it is to be built and is not.
    pub(super) counts: Option<Occupancy>,
}

impl StoreWatch {
    pub(super) fn new(store: Store, metrics: Vec<String>) -> Self {
        Self { store, metrics }
    }

    /// Looks at everything. Tables stay open between looks.
    pub(super) fn look(&self, open: &mut Vec<Table>) -> StoreOverview {
        let at = Instant::now();
        let mut errors = Vec::new();
        let mut nodes = Vec::new();
        match self.store.nodes() {
            Ok(reports) => {
                for (number, report) in reports.into_iter().enumerate() {
                    let scraped = self.metrics.get(number).map(|address| {
                        scrape(address).map_err(|error| format!("metrics of {address}: {error}"))
                    });
                    let scrape = match scraped.transpose() {
                        Ok(scrape) => scrape,
                        Err(error) => {
                            errors.push(error);
                            None
                        }
                    };
                    nodes.push(Node { report, scrape });
                }
            }
            Err(error) => errors.push(error.to_string()),
        }
        let tables = self.tables(open, &mut errors);
        StoreOverview {
            at,
            address: self.store.address().to_string(),
            nodes,
            tables,
            errors,
        }
    }

    fn tables(&self, open: &mut Vec<Table>, errors: &mut Vec<String>) -> Vec<TableOverview> {
        // What the nodes have said tells why there is none.
        let Ok(listing) = self.store.listing() else {
            return Vec::new();
        };
        errors.extend(listing.damaged.iter().map(ToString::to_string));
        let mut before = std::mem::take(open);
        let mut tables = Vec::with_capacity(listing.tables.len());
        for record in &listing.tables {
            // Of one over several nodes, the record of any of its parts is listed.
            let is_it = |table: &Table| table.name() == record.name;
            let table = match before.iter().position(is_it) {
                Some(known) => Ok(before.swap_remove(known)),
                None => self.store.table(&record.name).map_err(Failure::from),
            };
            match table.and_then(|table| Ok((see(&table)?, table))) {
                Ok((of_table, table)) => {
                    tables.push(of_table);
                    open.push(table);
                }
                // It is opened anew at the next look.
                Err(failure) => errors.push(format!("{}: {failure}", record.name)),
            }
        }
        tables
    }
}

fn see(table: &Table) -> Result<TableOverview> {
    let parts = table.partitions();
    let counts = counts_of(table, &parts)?;
    let bytes = match &*parts {
        [] => table.scheme().bytes_with(&counts.unwrap_or_default()),
        parts => parts.iter().map(|part| part.table_bytes).sum(),
    };
    Ok(TableOverview {
        name: table.name().into(),
        scheme: table.scheme().name(),
        bytes,
        counts,
    })
}

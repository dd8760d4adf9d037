//! Paper 000, table 4: READs per lookup to the table and to the heap, with records out of band.

use super::published::RECORD_SIZES;
use super::storage::{STORING, measure, setup};
use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Progress, ReproReport, Result, threads};
use farslot::index::sealed::SealedForm;

pub(crate) const ID: &str = "000-table4";

/// Measures the table: a mean over record sizes, which make no difference to it.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let measured = threads::in_order(RECORD_SIZES.len(), |size| {
        progress(&format!("{} bytes", RECORD_SIZES[size]));
        measure(scale, SealedForm::OutOfBand, size)
    })?;
    let mut rows = Vec::new();
    for (way, storing) in STORING.iter().enumerate() {
        let table = Mean::of(
            measured
                .iter()
                .map(|ways| ways[way].table_reads_per_lookup()),
        );
        let heap = Mean::of(
            measured
                .iter()
                .map(|ways| ways[way].heap_reads_per_lookup()),
        );
        let [to_table, to_heap] = storing.requests;
        let name = storing.name;
        rows.push(table.row(
            format!("requests per lookup to the table, {name}"),
            Some(to_table),
        ));
        rows.push(heap.row(
            format!("requests per lookup to the heap, {name}"),
            Some(to_heap),
        ));
    }
    Ok(ReproReport {
        id: ID,
        setup: setup(scale),
        rows,
        plots: Vec::new(),
    })
}

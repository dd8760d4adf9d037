//! Paper 000, table 2: lookups/s of variable linear probing where the load factor that the read
//! size is for is not that of the table.

use super::linear_tables;
use super::linear_tables::at_each_load;
use super::published::{LOADS, TABLE_2, VARIABLE};
use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result};
use farslot::index::linear::{KeyRule, ReadPolicy};
use farslot::model::{
    HitPolicy, NicModel, Objective, ProbeDistribution, ReadSizeModel, TableLoad, Workload,
};

pub(crate) const ID: &str = "000-table2";

/// A few seconds.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 20,
    tables: 2,
    lookups: 100_000,
    seed: 0,
};

const CELLS: usize = TABLE_2.len();

/// Measures the table.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let loads = &LOADS[..CELLS];
    let tables = at_each_load(scale, KeyRule::Multi, loads, progress, |table| {
        let rate = |size: u32| {
            Ok(table
                .saturated(ReadPolicy::Fixed(size))?
                .lookups_per_second())
        };
        VARIABLE.read_sizes[..CELLS]
            .iter()
            .map(|size| rate(*size))
            .collect::<Result<Vec<f64>>>()
    })?;
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for (row, load) in loads.iter().enumerate() {
        let (mut ours, mut papers) = (Vec::new(), Vec::new());
        for (column, assumed) in loads.iter().enumerate() {
            let mean = Mean::of(tables.iter().map(|cells| cells[row][column] / 1e6));
            let paper = TABLE_2[row][column] / 1e6;
            let size = VARIABLE.read_sizes[column];
            rows.push(ReproRow {
                model: Some(modelled(scale.slots, *load, size as usize)? / 1e6),
                ..mean.row(
                    format!(
                        "million lookups/s, load {load:.2}, {assumed:.2} assumed ({size} slots)"
                    ),
                    Some(paper),
                )
            });
            ours.push((*assumed, mean.mean));
            papers.push((*assumed, paper));
        }
        lines.push(Line::ours(format!("load {load:.2}"), ours));
        lines.push(Line::paper(format!("load {load:.2}"), papers));
    }
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "{} tables of {} slots of 8 bytes; hits that return all matches, by 28 client threads with {} \
             lookups under way each, {} lookups a cell; the NIC's occupancy was fitted on this very table.",
            scale.tables,
            scale.slots,
            linear_tables::WIDTH,
            scale.lookups
        ),
        rows,
        plots: vec![Plot {
            title: "Lookups/s by the load factor that is assumed".into(),
            x: Axis::linear("load factor assumed"),
            y: Axis::linear("million lookups/s"),
            lines,
        }],
    })
}

/// What the exact model gives: the rate at which the table's NIC is busy all the time.
fn modelled(slots: u64, load: f64, read_size: usize) -> Result<f64> {
    let fill = TableLoad::from_load(slots, load)?;
    let distances = ProbeDistribution::lookup(fill, Workload::hits(HitPolicy::AllMatches))?;
    let model = ReadSizeModel::new(8, Objective::Throughput, NicModel::connectx5_edr())?;
    Ok(model.cost(&distances, read_size).lookups_per_second())
}

//! Paper 000, figure 10: lookups/s by read size as measured, and the cost that the model predicts.

use super::linear_tables::{WIDTH, at_each_load};
use super::published::{self, LOADS, RECORD_BYTES, VARIABLE};
use crate::scale::Scale;
use crate::stats::Mean;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result};
use farslot::index::linear::{KeyRule, ReadPolicy};
use farslot::model::{NicModel, Objective, ProbeDistribution, ReadSizeModel, Workload};

pub(crate) const ID: &str = "000-fig10";

/// A quarter of a minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 20,
    tables: 2,
    lookups: 100_000,
    seed: 0,
};

/// Read sizes that are measured, in slots: those that the paper's text names among them.
const READ_SIZES: [u32; 13] = [2, 3, 5, 7, 10, 13, 18, 23, 32, 48, 64, 96, 128];

/// The two of [`LOADS`], by their numbers there.
const ROWS: [usize; 2] = [1, 4];

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let loads = ROWS.map(|row| LOADS[row]);
    let tables = at_each_load(scale, KeyRule::Multi, &loads, progress, |table| {
        let rate = |size: &u32| {
            let measured = table.saturated(ReadPolicy::Fixed(*size))?;
            Ok(measured.lookups_per_second() / 1e6)
        };
        READ_SIZES.iter().map(rate).collect::<Result<Vec<f64>>>()
    })?;
    let (mut rows, mut measured, mut predicted) = (Vec::new(), Vec::new(), Vec::new());
    for (at, row) in ROWS.into_iter().enumerate() {
        let load = LOADS[row];
        let papers = VARIABLE.read_sizes[row];
        let means = (0..READ_SIZES.len())
            .map(|column| Mean::of(tables.iter().map(|loads| loads[at][column])));
        let means: Vec<_> = means.collect();
        for (size, mean) in READ_SIZES.iter().zip(&means) {
            let cell = format!("million lookups/s, {size} slots a READ, load {load:.2}");
            rows.push(mean.row(cell, None));
        }
        let points = READ_SIZES.iter().zip(&means);
        let points: Vec<_> = points
            .map(|(size, mean)| (f64::from(*size), mean.mean))
            .collect();
        let best =
            points.iter().copied().fold(
                (0.0, 0.0),
                |best, point| {
                    if point.1 > best.1 { point } else { best }
                },
            );
        let of_papers = points.iter().find(|point| point.0 == f64::from(papers));
        let of_papers = *of_papers.expect("the paper's read sizes are among those measured");
        rows.push(ReproRow::new(
            format!("paper's read size ({papers} slots) / best measured, load {load:.2}"),
            Some(1.0),
            of_papers.1 / best.1,
        ));
        rows.push(ReproRow::new(
            format!("read size of the highest rate, slots, load {load:.2}"),
            Some(papers.into()),
            best.0,
        ));
        measured.push(Line::ours(format!("load {load:.2}"), points));
        measured.push(Line::paper(
            format!("its choice, load {load:.2}"),
            vec![of_papers],
        ));
        let (cost, chosen) = cost_by_read_size(load)?;
        rows.push(ReproRow::new(
            format!("read size of the least cost up to the cap, slots, load {load:.2}"),
            Some(papers.into()),
            chosen.0,
        ));
        predicted.push(Line::model(format!("load {load:.2}"), cost));
        predicted.push(Line::model(
            format!("the least, load {load:.2}"),
            vec![chosen],
        ));
    }
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "a: {} tables of {} slots of 8 bytes; hits that return all matches, by 28 client threads with {WIDTH} \
             lookups under way each, {} lookups a cell and table. b: exact costs by latency, of misses, for the \
             paper's tables, up to the bandwidth cap.",
            scale.tables, scale.slots, scale.lookups
        ),
        rows,
        plots: vec![
            Plot {
                title: "a: lookups/s by read size".into(),
                x: Axis::logarithmic("slots of a READ"),
                y: Axis::linear("million lookups/s"),
                lines: measured,
            },
            Plot {
                title: "b: predicted cost by read size".into(),
                x: Axis::linear("slots of a READ"),
                y: Axis::linear("ns"),
                lines: predicted,
            },
        ],
    })
}

/// E[X(R)] T(R) for every R up to the cap, in ns, and the point of the least.
#[allow(clippy::type_complexity, reason = "points")]
fn cost_by_read_size(load: f64) -> Result<(Vec<(f64, f64)>, (f64, f64))> {
    let distances = ProbeDistribution::lookup(published::table_load(load)?, Workload::misses())?;
    let nic = NicModel::connectx5_edr();
    let model = ReadSizeModel::new(RECORD_BYTES, Objective::Latency, nic)?.with_bandwidth_cap();
    let point = |size: usize| (size as f64, model.cost(&distances, size).cost_ns);
    let points = (1..=model.max_read_slots()).map(point).collect();
    Ok((points, point(model.choose(&distances).read_size)))
}

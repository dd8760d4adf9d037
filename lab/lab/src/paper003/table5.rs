//! Paper 003, table 5: round trips of an idle cluster.

use super::fits::fit;
use super::systems::DataplaneSystem;
use super::verbs::VerbThreads;
use crate::cluster::idle;
use crate::scale::Scale;
use crate::{Basis, Progress, ReproReport, ReproRow, Result};
use farslot::fabric::sim::NicProfile;

pub(crate) const ID: &str = "003-table5";
pub(crate) const SCALE: Scale = super::common::SCALE;

/// A column: a system, and the paper's us on InfiniBand and on RoCE.
const COLUMNS: [(DataplaneSystem, &str, [f64; 2]); 5] = [
    (DataplaneSystem::Perfect, "Storm (READ)", [1.8, 2.8]),
    (DataplaneSystem::Calls, "Storm (call)", [2.7, 3.9]),
    (
        DataplaneSystem::Erpc { controlled: false },
        "eRPC",
        [2.7, 3.6],
    ),
    (DataplaneSystem::Farm, "FaRM", [2.1, 3.0]),
    (DataplaneSystem::Lite, "LITE", [5.8, 6.4]),
];

/// Measures the table.
pub(crate) fn run(scale: &Scale, _: Progress<'_>) -> Result<ReproReport> {
    let fits = fit()?;
    let platforms = [
        ("InfiniBand", NicProfile::connectx4_edr()),
        ("RoCE", NicProfile::connectx4_roce()),
    ];
    let mut rows = Vec::new();
    for (number, (platform, profile)) in platforms.into_iter().enumerate() {
        for (system, name, papers) in COLUMNS {
            let measured = match system.mix(1.0) {
                Some(mix) => idle(profile.clone(), VerbThreads { mix, places: 64 }, scale.seed),
                None => idle(profile.clone(), system.uncollided(&fits)?, scale.seed),
            }?;
            let us = measured.latency.mean() / 1e3;
            let cell = format!("us, {name}, ConnectX-4 on {platform}");
            let is_fitted = match system {
                DataplaneSystem::Perfect => true,
                DataplaneSystem::Calls | DataplaneSystem::Lite => number == 0,
                _ => false,
            };
            let basis = match (is_fitted, system) {
                (true, _) => Basis::Fitted,
                // The sum of two that are fitted.
                (false, DataplaneSystem::Lite) => Basis::Follows,
                _ => Basis::Predicted,
            };
            rows.push(ReproRow {
                basis: Some(basis),
                ..ReproRow::new(cell, Some(papers[number]), us)
            });
        }
    }
    let setup = "Simulated: one operation at a time, 100 of each; Storm's are lookups in the product's tables, eRPC's and FaRM's \
                 their verbs, of 128 bytes, and of 1 KiB for FaRM. Fitted: a READ on either network, a call on \
                 InfiniBand (by the owner's time for it), and what LITE's kernel adds to a READ there. An idle session of eRPC bypasses its congestion control."
        .to_owned();
    Ok(ReproReport::emulated(ID, setup, rows, Vec::new()))
}

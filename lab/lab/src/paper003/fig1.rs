//! Paper 003, figure 1: READs by the number of connections, of three generations of NICs.

use super::mix::{Demand, only};
use super::pair::{FittedNic, MANY_CONNECTIONS, Memory, NEAR_CONNECTIONS};
use super::systems::datagrams;
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result};

pub(crate) const ID: &str = "003-fig1";
pub(crate) const SCALE: Scale = super::common::SCALE;

/// Bytes of a READ.
const BYTES: u64 = 64;
/// Connections of the lines.
const CONNECTIONS: [u64; 12] = [
    8, 16, 32, 64, 128, 512, 1_024, 2_048, 3_072, 4_096, 8_192, 16_384,
];
/// Where ConnectX-5's cache has no connection any more, and what is left, M READs/s (section 3.3).
const NO_HITS: (u64, f64) = (10_000, 10.0);
/// Connections at which READs are as slow as calls by datagrams, on ConnectX-5 (section 3.4).
const AS_SLOW_AS_CALLS: [f64; 2] = [2_500.0, 3_800.0];

/// Computes the figure.
pub(crate) fn run(_: &Scale, _: Progress<'_>) -> Result<ReproReport> {
    let nics = FittedNic::all()?;
    let mut rows = Vec::new();
    let large = Memory::LARGE_PAGES;
    for nic in &nics {
        let few = nic.rate(BYTES, NEAR_CONNECTIONS, large)?;
        let papers = match nic.name {
            "ConnectX-3" => Some(10.0),
            "ConnectX-5" => Some(40.0),
            _ => None,
        };
        let cell = format!("M READs/s, {}, {NEAR_CONNECTIONS} connections", nic.name);
        rows.push(ReproRow::new(cell, papers, few).fitted());
        let many = nic.rate(BYTES, MANY_CONNECTIONS, large)?;
        let cell = format!("% lost from 8 to 64 connections, {}", nic.name);
        let lost = 100.0 * (1.0 - many / few);
        rows.push(ReproRow::new(cell, Some(100.0 * nic.lost), lost).fitted());
    }
    let [cx3, _, cx5] = &nics;
    let none = 1e3 / (1e3 / rows[4].ours + cx5.profile.cache.miss_occupancy_ns);
    rows.push(
        ReproRow::new(
            "M READs/s, ConnectX-5, no connection in the cache",
            Some(NO_HITS.1),
            none,
        )
        .fitted(),
    );
    let (connections, papers) = NO_HITS;
    let at = cx5.rate(BYTES, connections, large)?;
    let cell = format!("M READs/s, ConnectX-5, {connections} connections");
    rows.push(ReproRow::new(cell, Some(papers), at).following());
    let calls =
        Demand::of(&cx5.profile, &only(vec![(datagrams(BYTES as usize), 1.0)])).rate(u32::MAX);
    rows.push(ReproRow::new("M calls/s by datagrams, ConnectX-5", None, calls).predicted());
    let met = (1..)
        .map(|hundreds| hundreds * 100)
        .find_map(|connections| match cx5.rate(BYTES, connections, large) {
            Ok(rate) if rate > calls && connections < 1 << 20 => None,
            rate => Some(rate.map(|_| connections as f64)),
        });
    if let Some(met) = met {
        let met = met?;
        let cell = "connections at which READs are as slow as calls by datagrams";
        rows.push(ReproRow::in_range(cell, AS_SLOW_AS_CALLS, met).predicted());
    }
    let small = Memory::small_pages(1024);
    for connections in [NEAR_CONNECTIONS, MANY_CONNECTIONS] {
        let rate = cx5.rate(BYTES, connections, small)?;
        let cell = format!(
            "M READs/s, ConnectX-5, pages of 4 KiB, 1024 regions, {connections} connections"
        );
        rows.push(ReproRow::new(cell, None, rate).predicted());
    }
    let line = |name: &str, nic: &FittedNic, memory| -> Result<Line> {
        let points = CONNECTIONS
            .iter()
            .map(|connections| Ok((*connections as f64, nic.rate(BYTES, *connections, memory)?)));
        Ok(Line::model(name, points.collect::<Result<_>>()?))
    };
    let lines = vec![
        line("2MB, 1MR (CX5)", cx5, large)?,
        line("4KB, 1024MR (CX5)", cx5, small)?,
        line("2MB, 1MR (CX3)", cx3, large)?,
    ];
    let setup = "Computed: READs of 64 bytes in 20 GB, random places, connections in turn; what a NIC lacks in its cache of 2 MiB occupies it, \
                 75 ns for a connection, 12.5 ns for a line of 64 bytes of a table. Fitted: the rates without contention, that without hits (by the 75 \
                 ns; a connection's context is six lines), and what is lost from 8 to 64 connections (by a near cache of 8 connections: the state of 64 is \
                 a few KiB, which the cache of 2 MiB holds). The paper has no rate of ConnectX-4 on RoCE: that of ConnectX-5 is taken. Bytes of a \
                 connection are fitted on figure 7."
        .to_owned();
    let plot = Plot {
        title: "READs by connections".into(),
        x: Axis::logarithmic("connections"),
        y: Axis::linear("M READs/s"),
        lines,
    };
    Ok(ReproReport::emulated(ID, setup, rows, vec![plot]))
}

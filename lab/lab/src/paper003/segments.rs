//! Paper 003, section 6.2.5: a physical segment in place of pages of 4 KiB.

use super::mix::ITEM;
use super::pair::{FittedNic, Memory};
use super::systems::PAPERS_THREADS;
use crate::scale::Scale;
use crate::{Progress, ReproReport, ReproRow, Result};

pub(crate) const ID: &str = "003-segments";
pub(crate) const SCALE: Scale = super::common::SCALE;

/// % by which throughput is higher.
const GAIN: f64 = 32.0;
/// Connections of a machine of two: 2 m t.
const CONNECTIONS: u64 = 2 * 2 * PAPERS_THREADS as u64;

/// Computes it.
pub(crate) fn run(_: &Scale, _: Progress<'_>) -> Result<ReproReport> {
    let nic = FittedNic::connectx5()?;
    let rate = |memory| nic.rate(ITEM as u64, CONNECTIONS, memory);
    let [segment, large, small] = [
        rate(Memory::SEGMENT)?,
        rate(Memory::LARGE_PAGES)?,
        rate(Memory::small_pages(1))?,
    ];
    let row = |label: &str, rate: f64| {
        ReproRow::new(format!("M lookups/s of a machine, {label}"), None, rate).predicted()
    };
    let rows = vec![
        row("physical segment", segment),
        row("pages of 2 MiB", large),
        row("pages of 4 KiB", small),
        ReproRow::new(
            "% gained by a physical segment over pages of 4 KiB",
            Some(GAIN),
            100.0 * (segment / small - 1.0),
        )
        .predicted(),
        ReproRow::new(
            "physical segment / pages of 4 KiB",
            Some(1.0 + GAIN / 100.0),
            segment / small,
        )
        .predicted(),
    ];
    let setup = format!(
        "Computed: READs of {ITEM} bytes in 20 GB between two servers with a ConnectX-5 on RoCE and {PAPERS_THREADS} threads, so {CONNECTIONS} connections; the NIC \
         of figure 1, with what is fitted there. Nothing is fitted here: a READ whose page's translation is not in the cache waits for a sixth of what a \
         connection's context takes, one of six cache lines."
    );
    Ok(ReproReport::emulated(ID, setup, rows, Vec::new()))
}

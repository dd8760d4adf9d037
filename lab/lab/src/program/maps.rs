//! `farslot-lab maps`: Farslot in a program's own memory, beside maps of other crates.

use crate::maps::Options;
use farslot_terminal::bench_report;
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::number;
use farslot_terminal::output::on_spinner;

/// The options of `farslot-lab maps`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Records of each map, with keys of 16 bytes
    #[arg(long, value_name = "N", value_parser = number::count, default_value_t = Options::default().records.into())]
    records: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = Options::default().value_bytes)]
    value_size: usize,
    /// Threads that share a map
    #[arg(long, value_name = "N", default_value_t = Options::default().threads)]
    threads: usize,
    /// Repetitions, of which the median counts
    #[arg(long, value_name = "N", default_value_t = Options::default().repetitions)]
    repetitions: usize,
    /// What keys derive from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Runs the measurement.
///
/// # Errors
/// A usage failure for options that no measurement can be made with; what the measurement says.
pub(super) fn run(args: &Args, context: &Context) -> Result<()> {
    let options = Options {
        records: u32::try_from(args.records).unwrap_or(u32::MAX),
        value_bytes: args.value_size,
        threads: args.threads,
        repetitions: args.repetitions,
        seed: args.seed,
    };
    let measure = |progress: farslot_bench::Progress<'_>| crate::maps::run(&options, progress);
    bench_report::print(&on_spinner(measure)?, context)
}

//! `farslot-lab find-or-put`: Farslot's set beside others in one process.

use farslot_bench::find_or_put::Options;
use farslot_terminal::bench_report;
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::find_or_put_args::WorkArgs;
use farslot_terminal::output::on_spinner;

/// The options of `farslot-lab find-or-put`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// How many threads share a set, once for each number
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    #[command(flatten)]
    work: WorkArgs,
}

/// Runs the measurement.
///
/// # Errors
/// A usage failure for options that no measurement can be made with; what the measurement says.
pub(super) fn run(args: &Args, context: &Context) -> Result<()> {
    let options = args.work.options(Options::default().slots);
    let measure = |progress: farslot_bench::Progress<'_>| {
        crate::find_or_put::run(&options, &args.threads, progress)
    };
    bench_report::print(&on_spinner(measure)?, context)
}

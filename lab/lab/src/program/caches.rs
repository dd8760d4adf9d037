//! `farslot-lab caches`: hit ratios beside other stores.

use crate::ycsb::PeerKind;
use crate::ycsb::caches::{self, Options};
use farslot_terminal::bench_report;
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::number;
use farslot_terminal::output::on_spinner;

/// The options of `farslot-lab caches`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Objects whose popularity is Zipf's
    #[arg(long, value_name = "N", value_parser = number::count, default_value = "40000")]
    objects: u64,
    /// Requests of each trace, of which the first half is not counted
    #[arg(long, value_name = "N", value_parser = number::count, default_value = "600000")]
    requests: u64,
    /// The memory of each system, in hundredths of the objects' bytes, once for each
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [5, 20])]
    percent: Vec<u64>,
    /// Systems to compare with, which are started: redis, memcached
    #[arg(long, value_name = "SYSTEM,..", value_delimiter = ',', value_parser = peer)]
    against: Vec<PeerKind>,
    /// What the objects and their order derive from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

fn peer(text: &str) -> std::result::Result<PeerKind, String> {
    let known = [PeerKind::Redis, PeerKind::Memcached];
    let found = known.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| {
        format!("{text:?} is no system to compare with: there are redis and memcached")
    })
}

/// Runs the measurement.
///
/// # Errors
/// What the measurement says.
pub(super) fn run(args: &Args, context: &Context) -> Result<()> {
    let options = Options {
        objects: args.objects,
        requests: args.requests,
        percent: args.percent.clone(),
        against: args.against.clone(),
        seed: args.seed,
    };
    let measure = |progress: farslot_bench::Progress<'_>| caches::run(&options, progress);
    bench_report::print(&on_spinner(measure)?, context)
}

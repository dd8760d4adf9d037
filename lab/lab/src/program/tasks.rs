//! `farslot-lab tasks`: lookups of many tasks through a handle, beside batches of threads.

use crate::tasks::{self, Options};
use farslot::Store;
use farslot_terminal::bench_report;
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::memory_node::MemoryNode;
use farslot_terminal::number;
use farslot_terminal::output::on_spinner;

/// Where the table is: in the memory of another process of this host, which is started for it.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Fabric {
    /// Over shared memory
    Shm,
    /// Over TCP
    Tcp,
}

/// The options of `farslot-lab tasks`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Where the table is, once for each
    #[arg(long, value_enum, value_name = "shm,tcp", value_delimiter = ',',
          default_values_t = [Fabric::Shm, Fabric::Tcp])]
    fabric: Vec<Fabric>,
    /// Tasks, each with one lookup under way at a time
    #[arg(long, value_name = "N", value_parser = number::count, default_value_t = Options::default().tasks)]
    tasks: u64,
    /// Workers of the handle, threads of the tasks' runtime, and threads that call get_many: of
    /// each so many
    #[arg(long, value_name = "N", default_value_t = Options::default().threads)]
    threads: usize,
    /// Records of the table
    #[arg(long, value_name = "N", value_parser = number::count, default_value_t = Options::default().records)]
    records: u64,
    /// Lookups of a repetition
    #[arg(long, value_name = "N", value_parser = number::count, default_value_t = Options::default().lookups)]
    operations: u64,
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
        tasks: args.tasks,
        threads: args.threads,
        records: args.records,
        lookups: args.operations,
        repetitions: args.repetitions,
        seed: args.seed,
    };
    let memory = tasks::memory(&options)?;
    let mut rows = Vec::new();
    let mut fabrics = Vec::new();
    for fabric in &args.fabric {
        let (name, node) = match fabric {
            Fabric::Shm => ("shm", MemoryNode::start("tasks", memory)?),
            Fabric::Tcp => ("tcp", MemoryNode::start_tcp(memory, args.threads)?),
        };
        let store = Store::open(node.address()).map_err(|error| node.explain(error.into()))?;
        let measure =
            |progress: farslot_bench::Progress<'_>| tasks::run(&store, name, &options, progress);
        rows.extend(on_spinner(measure).map_err(Failure::from)?);
        fabrics.push(name);
    }
    bench_report::print(&tasks::report(rows, &fabrics), context)
}

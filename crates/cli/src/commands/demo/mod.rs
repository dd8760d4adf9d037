//! `farslot demo`: the whole thing at work, on the files of this machine.

mod crew;
mod fill;
mod lookups;
mod report;
mod walk;

use super::load::measure::Measure;
use crate::shape::SchemeShape;
use crew::TABLE;
use farslot::{FieldSize, Store, TableOptions};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::memory_node::MemoryNode;
use farslot_terminal::number::count;
use farslot_terminal::output;
use farslot_terminal::serve_signal::switch;
use report::DemoReport;
use std::path::PathBuf;
use walk::Walked;

/// Longer than any value that [`File::value`] gives.
const MOST_VALUE: u32 = 128;
/// What a store needs beside its tables, amply.
const STORE_BYTES: u64 = 4 << 20;

/// The options of `farslot demo`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory whose files are put: all of its file system, hidden files too
    #[arg(default_value = "/usr")]
    path: PathBuf,
    /// Lookups in all; a tenth as many are timed one by one
    #[arg(long, default_value = "1_000_000", value_parser = count)]
    lookups: u64,
    /// Client threads [default: as many as there are processors, from 2 to 8]
    #[arg(long, value_parser = count)]
    threads: Option<u64>,
    /// Leave the memory node running until Ctrl-C, to work on its table from another terminal
    #[arg(long)]
    keep: bool,
}

/// Shows the whole thing at work.
///
/// # Errors
/// A path without files, a wrong answer, or what the store says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let threads = threads(args.threads);
    let walked = walk::walk(&args.path)?;
    let options = options(&walked);
    let bytes = u64::try_from(options.scheme()?.table_bytes()).unwrap_or(u64::MAX);
    let node = MemoryNode::start("demo", bytes.saturating_add(STORE_BYTES))?;
    let report = measure(&args, &walked, &options, &node, threads)
        .map_err(|failure| node.explain(failure))?;
    if context.json {
        output::json(&report.json())?;
    } else {
        output::line(report.text())?;
    }
    if report.wrong() > 0 {
        output::note(format_args!("error: {} answers were wrong", report.wrong()));
        return Err(Failure::Reported);
    }
    if args.keep {
        let signals = switch(false, false)?;
        output::note("The memory node runs until you press Ctrl-C.");
        let _ = signals.recv();
    }
    drop(node);
    Ok(())
}

/// Puts the files, looks them up, and asks the node what it had to do for it.
fn measure<'w>(
    args: &Args,
    walked: &'w Walked,
    options: &TableOptions,
    node: &MemoryNode,
    threads: usize,
) -> Result<DemoReport<'w>> {
    let store = Store::open(node.address())?;
    let record = store.create(TABLE, options)?;
    let cpu_before = node.cpu_seconds()?;
    let filled = fill::fill(&store, &walked.files, threads)?;
    let lookups = lookups::look_up(&store, &walked.files, args.lookups, threads)?;
    Ok(DemoReport {
        node_cpu_seconds: node.cpu_seconds()? - cpu_before,
        load_factor: store.table(TABLE)?.survey()?.load_factor(),
        keep: args.keep,
        address: node.address().into(),
        walked,
        filled,
        lookups,
        threads,
        table_bytes: SchemeShape::of(&record.scheme).table_bytes,
    })
}

fn threads(asked: Option<u64>) -> usize {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    asked.map_or(processors.clamp(2, 8), |threads| threads.min(256) as usize)
}

/// A table that these files fill to three quarters.
fn options(walked: &Walked) -> TableOptions {
    let mut measure = Measure::default();
    for file in &walked.files {
        measure.add(file.path.len(), MOST_VALUE as usize);
    }
    let longest = u32::try_from(measure.longest_key.max(1)).unwrap_or(u32::MAX);
    TableOptions::new(measure.records)
        .keys(FieldSize::UpTo(longest))
        .values(FieldSize::UpTo(MOST_VALUE))
        .heap_bytes(measure.heap_bytes())
}

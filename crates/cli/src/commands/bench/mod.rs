//! `farslot bench`: measurements, each beside the limit that was measured in the same run.

mod find_or_put;
mod lookup;

pub use find_or_put::WorkArgs;

use crate::context::Context;
use crate::failure::Result;
use crate::number;
use crate::output::{self, number as shown, on_spinner};
use comfy_table::{CellAlignment, Table, presets};
use farslot_bench::{BenchReport, BenchRow, raw};

/// The options of `farslot bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    bench: BenchCommand,
}

#[derive(clap::Subcommand, Debug)]
enum BenchCommand {
    /// Find-or-puts per second of processes that share one table, as it fills, beside bare
    /// compare-and-swaps of the same memory
    FindOrPut(Box<find_or_put::Args>),
    /// Lookups per second of one or several schemes, beside bare READs (sim, tcp, verbs) or bare
    /// loads (shm)
    Lookup(Box<lookup::Args>),
    /// Bare READs through a fabric, beside a plain echo (tcp) or plain loads (shm) of the same
    /// bytes
    Raw(RawArgs),
}

/// The fabrics whose READs are measured bare.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum RawFabric {
    /// Shared memory of this host
    Shm,
    /// TCP over loopback
    Tcp,
    /// This machine's RDMA NIC
    Verbs,
}

#[derive(clap::Args, Debug)]
struct RawArgs {
    /// The fabric
    #[arg(long, value_enum, default_value_t = RawFabric::Tcp)]
    fabric: RawFabric,
    /// Read over TCP under TLS: what is lost to the echo, which stays plain, is its price as well
    #[arg(long)]
    tls: bool,
    /// Bytes of a READ, a multiple of 8, over shm of 64
    #[arg(long, value_name = "BYTES", value_parser = number::field_bytes,
          default_value_t = raw::Options::default().read_bytes as u32)]
    size: u32,
    /// READs under way at once
    #[arg(long, value_name = "N", value_parser = number::small_count, default_value_t = raw::Options::default().outstanding)]
    outstanding: usize,
    /// Repetitions, of which the median counts
    #[arg(long, value_name = "N", value_parser = number::small_count, default_value_t = raw::Options::default().repetitions)]
    repetitions: usize,
    /// READs of one repetition, with so many under way
    #[arg(long, value_name = "N", value_parser = number::small_count, default_value_t = raw::Options::default().operations)]
    operations: usize,
    /// READs of one repetition that are timed one by one
    #[arg(long, value_name = "N", value_parser = number::small_count, default_value_t = raw::Options::default().single_reads)]
    single_reads: usize,
    /// Memory that is read from, at random places
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    memory: bytesize::ByteSize,
    /// What the places derive from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Runs a benchmark.
///
/// # Errors
/// A usage failure for options that do not go together; what the measurement says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let report = match args.bench {
        BenchCommand::FindOrPut(args) => match find_or_put::run(&args)? {
            Some(report) => report,
            None => return Ok(()),
        },
        BenchCommand::Lookup(args) => lookup::run(*args)?,
        BenchCommand::Raw(args) => bare_reads(&args)?,
    };
    tell(&report, context)
}

/// Prints a report, as a table or as one object.
///
/// # Errors
/// That it cannot be printed.
pub fn tell(report: &BenchReport, context: &Context) -> Result<()> {
    if context.json {
        return output::json(report);
    }
    output::line(table(report).to_string())?;
    output::line(format!(
        "fabric: {}; limits were measured in this run",
        report.fabric
    ))
}

fn bare_reads(args: &RawArgs) -> Result<BenchReport> {
    let options = raw::Options {
        fabric: match args.fabric {
            RawFabric::Shm => raw::Fabric::Shm,
            RawFabric::Tcp => raw::Fabric::Tcp,
            RawFabric::Verbs => raw::Fabric::Verbs,
        },
        tls: args.tls,
        memory: args.memory.as_u64() / 8 * 8,
        read_bytes: args.size as usize,
        outstanding: args.outstanding,
        repetitions: args.repetitions,
        operations: args.operations,
        single_reads: args.single_reads,
        seed: args.seed,
    };
    Ok(on_spinner(|progress| raw::run(&options, progress))?)
}

fn table(report: &BenchReport) -> Table {
    let mut table = output::new_table(presets::ASCII_MARKDOWN);
    let header = [
        "", "value", "unit", "limit", "ratio", "paper", "model", "slots", "reads", "trips", "bytes",
    ];
    table.set_header(header);
    for row in &report.rows {
        table.add_row(cells(row));
    }
    for column in [1, 3, 4, 5, 6, 7, 8, 9, 10] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(row: &BenchRow) -> [String; 11] {
    let optional = |value: Option<f64>| value.map_or_else(String::new, shown);
    let ratio = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    [
        row.name.clone(),
        shown(row.value),
        row.unit.into(),
        optional(row.limit),
        ratio(row.ratio),
        optional(row.paper),
        optional(row.model),
        row.read_size
            .map_or_else(String::new, |slots| slots.to_string()),
        ratio(row.reads_per_lookup),
        ratio(row.round_trips_per_lookup),
        row.bytes_per_lookup
            .map_or_else(String::new, |bytes| format!("{bytes:.0}")),
    ]
}

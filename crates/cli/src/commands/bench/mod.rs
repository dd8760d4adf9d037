//! `farslot bench`: measurements, each beside the limit that was measured in the same run.

mod find_or_put;
mod lookup;

use farslot_bench::{BenchReport, raw};
use farslot_terminal::bench_report;
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::number;
use farslot_terminal::output::on_spinner;

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
    bench_report::print(&report, context)
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

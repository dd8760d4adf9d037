//! `farslot bench`: measurements, each beside the limit that was measured in the same run.

mod ycsb;

use crate::commands::cache_args::CacheArgs;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::memory_node::MemoryNode;
use crate::output;
use comfy_table::{CellAlignment, Table, presets};
use farslot::fabric::sim::NicProfile;
use farslot::model::NicModel;
use farslot_bench::{
    BenchError, BenchReport, BenchRow, Progress, duo_shm, lookup_served, lookup_sim, raw,
    schemes_shm,
};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// The options of `farslot bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand, Debug)]
enum Bench {
    /// Lookups per second, beside bare READs (sim, tcp, verbs) or bare loads (shm) of the same memory
    Lookup(LookupArgs),
    /// Bare READs through a fabric, beside a plain echo (tcp) or plain loads (shm) of the same bytes
    Raw(RawArgs),
    /// The schemes side by side in memory of another process: hits and misses, by load factor
    Schemes(SchemesArgs),
    /// CuckooDuo nearly full beside a linear table half full, in memory of another process: puts, gets, bytes a key
    Duo(DuoArgs),
    /// YCSB's workloads, beside other stores
    Ycsb(ycsb::Args),
}

/// Where the table is.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Fabric {
    /// Behind a simulated NIC, in virtual time
    Sim,
    /// In the memory of another process of this host, which is started for it
    Shm,
    /// In the memory of another process of this host, which is started for it, over TCP
    Tcp,
    /// The same, over this machine's RDMA NIC
    Verbs,
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
    /// Bytes of a READ, a multiple of 8, over shm of 64
    #[arg(long, value_name = "BYTES", default_value_t = raw::Options::default().read_bytes)]
    size: usize,
    /// READs under way at once
    #[arg(long, value_name = "N", default_value_t = raw::Options::default().outstanding)]
    outstanding: usize,
    /// Repetitions, of which the median counts
    #[arg(long, value_name = "N", default_value_t = raw::Options::default().repetitions)]
    repetitions: usize,
    /// READs of one repetition, with so many under way
    #[arg(long, value_name = "N", default_value_t = raw::Options::default().operations)]
    operations: usize,
    /// READs of one repetition that are timed one by one
    #[arg(long, value_name = "N", default_value_t = raw::Options::default().single_reads)]
    single_reads: usize,
    /// Memory that is read from, at random places
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    memory: bytesize::ByteSize,
    /// What the places derive from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// The schemes whose lookups are measured.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum LookupScheme {
    /// Linear probing
    Linear,
    /// Three buckets of four slots, read side by side
    Cuckoo,
    /// Two pairs of buckets, read side by side, and then the record
    Race,
    /// CuckooDuo: the one slot that a client's copy of the index names
    Duo,
}

impl From<LookupScheme> for farslot_bench::LookupScheme {
    fn from(scheme: LookupScheme) -> Self {
        match scheme {
            LookupScheme::Linear => Self::Linear,
            LookupScheme::Cuckoo => Self::Cuckoo,
            LookupScheme::Race => Self::Race,
            LookupScheme::Duo => Self::Duo,
        }
    }
}

#[derive(clap::Args, Debug)]
struct LookupArgs {
    /// Where the table is
    #[arg(long, value_enum, default_value_t = Fabric::Shm)]
    fabric: Fabric,
    /// Schemes to be measured side by side, with the same records and in turns; in sim hits and misses [default: linear, in
    /// sim at many load factors and read sizes]
    #[arg(long, value_enum, value_name = "NAME,..", value_delimiter = ',')]
    scheme: Vec<LookupScheme>,
    /// The simulated NIC: a profile, or a file that `farslot calibrate` wrote [default: cx5-edr]
    #[arg(long, value_name = "NAME|FILE", value_parser = farslot::nic_profile)]
    profile: Option<NicProfile>,
    /// Slots of each table [default: 2^23 in sim; 2^26, which is 1 GiB, over shm; 2^22 over
    /// tcp; with --scheme 2^20 in sim and 2^22 elsewhere]
    #[arg(long, value_name = "N")]
    slots: Option<u64>,
    #[command(flatten)]
    cache: CacheArgs,
    /// What all chance derives from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(clap::Args, Debug)]
struct SchemesArgs {
    /// Slots of each table; four of them are made
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: bytesize::ByteSize,
    /// Load factors, rising
    #[arg(long, value_name = "PART,..", value_delimiter = ',', default_values_t = [0.5, 0.9])]
    loads: Vec<f64>,
    /// What read sizes are chosen by: a profile, or a file that `farslot calibrate` wrote [default: shared memory as
    /// it was measured once]
    #[arg(long, value_name = "NAME|FILE", value_parser = farslot::nic_profile)]
    profile: Option<NicProfile>,
    /// What all chance derives from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(clap::Args, Debug)]
struct DuoArgs {
    /// Records of each table, of 8 bytes of key and 8 of value
    #[arg(long, value_name = "N", default_value_t = duo_shm::Options::default().records)]
    records: u64,
    /// Keys per slot of CuckooDuo's table
    #[arg(long, value_name = "PART", default_value_t = duo_shm::Options::default().load)]
    load: f64,
    /// Keys per slot of the linear table
    #[arg(long, value_name = "PART", default_value_t = duo_shm::Options::default().linear_load)]
    linear_load: f64,
    /// What the linear table's read sizes are chosen by: a profile, or a file that `farslot calibrate` wrote [default:
    /// shared memory as it was measured once]
    #[arg(long, value_name = "NAME|FILE", value_parser = farslot::nic_profile)]
    profile: Option<NicProfile>,
    /// What all chance derives from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Runs a benchmark.
///
/// # Errors
/// A usage failure for options that do not go together; what the measurement says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let report = match args.bench {
        Bench::Lookup(args) => match args.fabric {
            Fabric::Sim => simulated(args)?,
            Fabric::Shm | Fabric::Tcp | Fabric::Verbs => served(&args)?,
        },
        Bench::Raw(args) => bare_reads(&args)?,
        Bench::Schemes(args) => schemes(args)?,
        Bench::Duo(args) => duo(&args)?,
        Bench::Ycsb(args) => return ycsb::run(&args, context),
    };
    if context.json {
        return output::json(&report);
    }
    output::line(table(&report).to_string())?;
    output::line(format!(
        "fabric: {}; limits were measured in this run",
        report.fabric
    ))
}

fn simulated(args: LookupArgs) -> Result<BenchReport> {
    if args.cache.cache().is_some() {
        return Err(Failure::Usage(
            "--cache is not for --fabric sim, which measures the table alone".into(),
        ));
    }
    let profile = args.profile.unwrap_or_else(NicProfile::connectx5_edr);
    let mut defaults = lookup_sim::Options::new(profile);
    if !args.scheme.is_empty() {
        defaults = defaults.of_schemes(schemes_of(&args.scheme));
    }
    let options = lookup_sim::Options {
        slots: args.slots.unwrap_or(defaults.slots),
        seed: args.seed,
        ..defaults
    };
    Ok(on_spinner(|progress| lookup_sim::run(&options, progress))?)
}

/// Each of them once, in the order in which they were named.
fn schemes_of(named: &[LookupScheme]) -> Vec<farslot_bench::LookupScheme> {
    let mut schemes: Vec<farslot_bench::LookupScheme> = Vec::new();
    for scheme in named.iter().copied().map(Into::into) {
        if !schemes.contains(&scheme) {
            schemes.push(scheme);
        }
    }
    schemes
}

fn bare_reads(args: &RawArgs) -> Result<BenchReport> {
    let options = raw::Options {
        fabric: match args.fabric {
            RawFabric::Shm => raw::Fabric::Shm,
            RawFabric::Tcp => raw::Fabric::Tcp,
            RawFabric::Verbs => raw::Fabric::Verbs,
        },
        memory: args.memory.as_u64() / 8 * 8,
        read_bytes: args.size,
        outstanding: args.outstanding,
        repetitions: args.repetitions,
        operations: args.operations,
        single_reads: args.single_reads,
        seed: args.seed,
    };
    Ok(on_spinner(|progress| raw::run(&options, progress))?)
}

fn served(args: &LookupArgs) -> Result<BenchReport> {
    if args.profile.is_some() {
        return Err(Failure::Usage(
            "--profile is for --fabric sim: shared memory and TCP are what they are".into(),
        ));
    }
    let mut defaults = match args.fabric {
        Fabric::Tcp | Fabric::Verbs => lookup_served::Options::over_tcp(),
        _ => lookup_served::Options::default(),
    };
    if !args.scheme.is_empty() {
        defaults = defaults.of_schemes(schemes_of(&args.scheme));
    }
    let options = lookup_served::Options {
        slots: args.slots.unwrap_or(defaults.slots),
        seed: args.seed,
        cache: args.cache.cache(),
        ..defaults
    };
    let node = match args.fabric {
        Fabric::Tcp => MemoryNode::start_tcp(options.memory()?, 1)?,
        Fabric::Verbs => MemoryNode::start_verbs(options.memory()?)?,
        _ => MemoryNode::start("bench", options.memory()?)?,
    };
    Ok(on_spinner(|progress| {
        lookup_served::run(node.address(), &options, progress)
    })?)
}

fn schemes(args: SchemesArgs) -> Result<BenchReport> {
    let defaults = schemes_shm::Options::default();
    let options = schemes_shm::Options {
        table_bytes: args.memory.as_u64() / 8 * 8,
        loads: args.loads,
        nic: read_cost(args.profile.as_ref(), defaults.nic),
        seed: args.seed,
        ..defaults
    };
    in_lent_memory(options.memory()?, |address, progress| {
        schemes_shm::run(address, &options, progress)
    })
}

fn duo(args: &DuoArgs) -> Result<BenchReport> {
    let defaults = duo_shm::Options::default();
    let options = duo_shm::Options {
        records: args.records,
        load: args.load,
        linear_load: args.linear_load,
        nic: read_cost(args.profile.as_ref(), defaults.nic),
        seed: args.seed,
        ..defaults
    };
    in_lent_memory(options.memory()?, |address, progress| {
        duo_shm::run(address, &options, progress)
    })
}

/// What read sizes are chosen by.
fn read_cost(profile: Option<&NicProfile>, default: NicModel) -> NicModel {
    profile.map_or(default, farslot::read_cost)
}

/// Bytes of the catalog, and of what regions are rounded up to.
const BESIDES: u64 = 2 << 20;

/// Measures tables of so many bytes in the memory of another process, which is started for it.
fn in_lent_memory(
    bytes: u64,
    measurement: impl FnOnce(&str, Progress<'_>) -> farslot_bench::Result<BenchReport>,
) -> Result<BenchReport> {
    let node = MemoryNode::start("bench", bytes + BESIDES)?;
    Ok(on_spinner(|progress| {
        measurement(node.address(), progress)
    })?)
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            error if error.is_usage() => Self::Usage(error.to_string()),
            BenchError::Store(error) => error.into(),
            BenchError::NotInstalled { program, .. } => Self::Failed(format!(
                "{error}\n  install it:  sudo apt-get install {program}    (or scripts/peers install)"
            )),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// Runs a measurement that says on standard error, if that is a terminal, what it is at.
pub fn on_spinner<T>(measurement: impl FnOnce(Progress<'_>) -> T) -> T {
    let spinner = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    spinner.enable_steady_tick(Duration::from_millis(200));
    let measured = measurement(&|at| spinner.set_message(at.to_owned()));
    spinner.finish_and_clear();
    measured
}

fn table(report: &BenchReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
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
    let optional = |value: Option<f64>| value.map_or_else(String::new, number);
    let ratio = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    [
        row.name.clone(),
        number(row.value),
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

/// A number as a table shows it: rates in millions, small ones with two digits, others whole.
fn number(value: f64) -> String {
    if value >= 1e5 {
        format!("{:.2} M", value / 1e6)
    } else if value < 100.0 && value.fract() != 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

//! `farslot-lab ycsb`: YCSB's workloads, on Farslot and other stores side by side.

use crate::ycsb::{self, PeerAddress, ServedStore, Workload, YcsbReport, YcsbRow};
use comfy_table::{CellAlignment, Table, presets};
use farslot::{Address, Cache, OpenOptions, SlotKind, Store};
use farslot_terminal::cache_args::CacheArgs;
use farslot_terminal::choice;
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::memory_node::MemoryNode;
use farslot_terminal::output::{self, on_spinner};
use std::time::Duration;

/// Where Farslot's table is.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Fabric {
    /// In the memory of this process
    Embedded,
    /// In the memory of another process of this host, which is started for it
    Shm,
    /// In the memory of another process of this host, which is started for it, over TCP
    Tcp,
}

/// The options of `farslot-lab ycsb`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The workloads: of a to f, or all
    #[arg(
        long,
        value_name = "LETTER,..|all",
        value_delimiter = ',',
        default_value = "all"
    )]
    workload: Vec<String>,
    /// Where Farslot's table is; with --address, there. On any fabric, with a table `ycsb-LETTER`
    /// of each workload
    #[arg(long, value_enum, default_value_t = Fabric::Tcp)]
    fabric: Fabric,
    /// What to compare with: redis and memcached, started for it, or the empty one that runs at an
    /// address
    #[arg(
        long,
        value_name = "redis[=HOST:PORT],memcached[=HOST:PORT]",
        value_delimiter = ','
    )]
    against: Vec<PeerAddress>,
    /// Records that are loaded
    #[arg(long, value_name = "N", default_value_t = ycsb::Options::default().records)]
    records: u64,
    /// Bytes of a value: YCSB's ten fields make 1000; 64 show what operations cost where copying
    /// hardly counts
    #[arg(long, value_name = "BYTES", default_value_t = ycsb::Options::default().value_bytes)]
    value_bytes: usize,
    /// What a slot of Farslot's table holds: `inline` and `hybrid` have room for all of a record,
    /// up to 1 KiB [default: what suits the sizes]
    #[arg(long, value_name = "KIND", value_parser = choice::slots())]
    slots: Option<SlotKind>,
    #[command(flatten)]
    cache: CacheArgs,
    /// Leave out the echo of the same bytes, which is measured over tcp beside other systems
    #[arg(long)]
    no_echo: bool,
    /// Client threads of each system
    #[arg(long, value_name = "N", default_value_t = ycsb::Options::default().threads)]
    threads: usize,
    /// Records under way at once, of each thread, in all systems (Farslot's batches keep at most
    /// 32)
    #[arg(long, value_name = "N", default_value_t = ycsb::Options::default().pipeline)]
    pipeline: usize,
    /// Threads of each server
    #[arg(long, value_name = "N", default_value_t = ycsb::Options::default().server_threads)]
    server_threads: usize,
    /// How long each system is measured under each workload, in all rounds together
    #[arg(long, value_name = "N", default_value_t = ycsb::Options::default().time.as_secs_f64())]
    seconds: f64,
    /// Rounds, in which the systems take turns, and of which the median counts
    #[arg(long, value_name = "N", default_value_t = ycsb::Options::default().rounds)]
    rounds: usize,
    /// What keys, values and operations derive from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Runs the benchmark.
///
/// # Errors
/// A usage failure for options that no measurement can be made with; what the measurement says.
pub(super) fn run(args: &Args, context: &Context) -> Result<()> {
    let options = args.options()?;
    let serve = |bytes| match &context.address {
        Some(address) => at_address(address, context, options.cache),
        None => started(args, context, bytes, options.cache),
    };
    let report = on_spinner(|progress| ycsb::run(&options, serve, progress))?;
    if context.json {
        return output::json(&report);
    }
    output::line(table(&report).to_string())?;
    output::line(description(&report))
}

impl Args {
    fn options(&self) -> Result<ycsb::Options> {
        let time = Duration::try_from_secs_f64(self.seconds);
        let time =
            time.map_err(|error| Failure::Usage(format!("--seconds {}: {error}", self.seconds)))?;
        Ok(ycsb::Options {
            workloads: self.workloads()?,
            records: self.records,
            value_bytes: self.value_bytes,
            slots: self.slots,
            threads: self.threads,
            pipeline: self.pipeline,
            time,
            rounds: self.rounds,
            server_threads: self.server_threads,
            cache: self.cache.cache(),
            against: self.against.clone(),
            echo: match self.fabric {
                Fabric::Tcp if !self.against.is_empty() && !self.no_echo => {
                    let program = std::env::current_exe();
                    Some(program.map_err(Failure::io("this program"))?)
                }
                _ => None,
            },
            seed: self.seed,
        })
    }

    fn workloads(&self) -> Result<Vec<Workload>> {
        if self.workload == ["all"] {
            return Ok(Workload::ALL.to_vec());
        }
        let parsed = self.workload.iter().map(|letter| letter.parse());
        parsed
            .collect::<std::result::Result<_, _>>()
            .map_err(Failure::Usage)
    }
}

/// The store that the user named.
fn at_address(address: &Address, context: &Context, cache: Option<Cache>) -> Result<ServedStore> {
    let options = OpenOptions {
        cache,
        limits: crate::patient(),
        ..context.open_options(address)?
    };
    let opened = Store::open_with(&address.to_string(), options);
    let store = opened.map_err(|error| Failure::from(error).at(address))?;
    Ok(ServedStore {
        store,
        process: None,
        guard: Box::new(()),
    })
}

/// A store that is started for this.
fn started(
    args: &Args,
    context: &Context,
    bytes: u64,
    cache: Option<Cache>,
) -> Result<ServedStore> {
    let options = OpenOptions {
        cache,
        access: context.access.into(),
        limits: crate::patient(),
        ..OpenOptions::default()
    };
    let node = match args.fabric {
        Fabric::Embedded => {
            return Ok(ServedStore {
                store: Store::embedded_with(bytes, options)?,
                process: None,
                guard: Box::new(()),
            });
        }
        Fabric::Shm => MemoryNode::start("ycsb", bytes)?,
        Fabric::Tcp => MemoryNode::start_tcp(bytes, args.server_threads)?,
    };
    Ok(ServedStore {
        store: Store::open_with(node.address(), options)?,
        process: Some(node.process()),
        guard: Box::new(node),
    })
}

fn table(report: &YcsbReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "workload",
        "system",
        "ops/s",
        "p50 µs",
        "p99 µs",
        "round trips",
        "server CPU s/M",
        "client CPU s/M",
        "farslot is",
    ]);
    for row in &report.rows {
        table.add_row(cells(row));
    }
    for column in 2..9 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(row: &YcsbRow) -> [String; 9] {
    let optional = |value: Option<f64>, digits| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    [
        row.workload.to_string(),
        format!("{} {}", row.system, row.version),
        output::number(row.operations_per_second),
        format!("{:.1}", row.p50_us),
        format!("{:.1}", row.p99_us),
        optional(row.round_trips, 2),
        optional(row.server_cpu_seconds_per_million, 2),
        format!("{:.2}", row.client_cpu_seconds_per_million),
        row.farslot_ratio
            .map_or_else(String::new, |ratio| format!("{ratio:.2}x")),
    ]
}

fn description(report: &YcsbReport) -> String {
    let of = |count: usize, noun| output::counted(count as u64, noun);
    let mut text = format!(
        "{} of {} + {} bytes; {} with {} under way each, {} of each server; medians of {}; fabric: {}; slots: {:?}",
        output::counted(report.records, "record"),
        report.key_bytes,
        report.value_bytes,
        of(report.threads, "client thread"),
        of(report.pipeline, "record"),
        of(report.server_threads, "thread"),
        of(report.rounds, "interleaved round"),
        report.fabric,
        report.slots,
    );
    if let Some(bytes) = report.cache_bytes {
        let hits = report.rows.iter().filter_map(|row| {
            let percent = 100.0 * row.cache_hits?;
            Some(format!("{} {percent:.0}%", row.workload))
        });
        let hits: Vec<String> = hits.collect();
        text.push_str(&format!(
            "; a cache of {} a client thread answered, by workload: {}",
            output::sized(bytes),
            hits.join(", ")
        ));
    }
    for note in &report.notes {
        text.push_str("\n- ");
        text.push_str(note);
    }
    text
}

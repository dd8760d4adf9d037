//! `farslot-lab tatp`, `smallbank` and `ycsb-transactions`: transactions, on Farslot and other
//! stores side by side.

use crate::transactions::{
    self, DatabaseNodes, Locking, Options, Rival, ServedDatabase, SystemRow, TransactionBenchmark,
    TransactionsReport,
};
use crate::ycsb::Workload;
use comfy_table::{CellAlignment, Table, presets};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output::{self, on_spinner};
use farslot_terminal::serve_signal::switch;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where Farslot's nodes are.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Fabric {
    /// In the simulator, in its virtual time
    Sim,
    /// In the memory of other processes of this host, which are started for it
    Shm,
    /// In the memory of this process, whose client threads execute calls themselves
    Embedded,
    /// In the memory of other processes of this host, which are started for it, over TCP
    Tcp,
}

/// When Farslot's transactions lock.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum LockingArg {
    /// With each write, as Storm does
    Execution,
    /// At the commit, as FaRM does
    Commit,
}

/// Where Farslot's transactions run whose rows one node has.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum RunsAt {
    /// At the owner of the rows, by one call, as a script of Redis does (TATP and SmallBank)
    Owner,
    /// At the client, by READs and calls
    Client,
}

/// What all workloads have in common.
#[derive(clap::Args, Debug)]
struct CommonArguments {
    /// Where Farslot's nodes are
    #[arg(long, value_enum, default_value_t = Fabric::Tcp)]
    fabric: Fabric,
    /// What to compare with: redis and postgres, started for it, or the empty Redis that runs at an
    /// address
    #[arg(long, value_name = "redis[=HOST:PORT],postgres", value_delimiter = ',')]
    against: Vec<Rival>,
    /// Nodes that share Farslot's rows; of several numbers each is measured
    #[arg(
        long,
        value_name = "N[,N..]",
        value_delimiter = ',',
        default_value = "1"
    )]
    nodes: Vec<u64>,
    /// Where Farslot's transactions run whose rows one node has
    #[arg(long, value_enum, default_value_t = RunsAt::Owner)]
    runs_at: RunsAt,
    /// When those lock that run at the client
    #[arg(long, value_enum, default_value_t = LockingArg::Commit)]
    locking: LockingArg,
    /// Client threads of each system
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Transactions under way at once, of each thread
    #[arg(long, value_name = "N", default_value_t = 32)]
    pipeline: usize,
    /// Threads of each server
    #[arg(long, value_name = "N", default_value_t = 1)]
    server_threads: usize,
    /// How long each system is measured, in all rounds together
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    seconds: f64,
    /// Rounds, in which the systems take turns, and of which the median counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// What rows and transactions derive from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// The options of `farslot-lab tatp`.
#[derive(clap::Args, Debug)]
pub(super) struct TatpArgs {
    /// Subscribers
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    subscribers: u64,
    #[command(flatten)]
    common: CommonArguments,
}

/// The options of `farslot-lab smallbank`.
#[derive(clap::Args, Debug)]
pub(super) struct SmallBankArgs {
    /// Accounts
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    accounts: u64,
    /// Accounts that 90 of 100 transactions are on
    #[arg(long, value_name = "N", default_value_t = 4000)]
    hot: u64,
    #[command(flatten)]
    common: CommonArguments,
}

/// The options of `farslot-lab ycsb-transactions`.
#[derive(clap::Args, Debug)]
pub(super) struct YcsbArgs {
    /// The workload: a to f
    #[arg(long, value_name = "LETTER", default_value_t = Workload::A)]
    workload: Workload,
    /// Records that are loaded, of 1000 bytes each
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    records: u64,
    #[command(flatten)]
    common: CommonArguments,
}

/// The options of `farslot-lab serve-transactions`.
#[derive(clap::Args, Debug)]
pub(super) struct ServeArgs {
    /// Subscribers of TATP
    #[arg(long, conflicts_with = "accounts")]
    subscribers: Option<u64>,
    /// Accounts of SmallBank
    #[arg(long)]
    accounts: Option<u64>,
    /// Records of YCSB
    #[arg(long, requires = "workload", conflicts_with_all = ["subscribers", "accounts"])]
    records: Option<u64>,
    /// Which of YCSB's workloads
    #[arg(long, requires = "records")]
    workload: Option<Workload>,
    /// Which of the nodes
    #[arg(long)]
    node: u64,
    /// How many there are
    #[arg(long)]
    nodes: u64,
    /// Threads that serve
    #[arg(long)]
    threads: usize,
    /// Over shared memory, and not TCP
    #[arg(long)]
    shm: bool,
}

/// Runs TATP.
///
/// # Errors
/// A usage failure for options that no measurement can be made with; what the measurement says.
pub(super) fn tatp(args: &TatpArgs, context: &Context) -> Result<()> {
    let subscribers = args.subscribers;
    run(
        TransactionBenchmark::Tatp { subscribers },
        &args.common,
        context,
    )
}

/// Runs SmallBank.
///
/// # Errors
/// As [`tatp`].
pub(super) fn smallbank(args: &SmallBankArgs, context: &Context) -> Result<()> {
    let (accounts, hot) = (args.accounts, args.hot.min(args.accounts));
    run(
        TransactionBenchmark::SmallBank { accounts, hot },
        &args.common,
        context,
    )
}

/// Runs a workload of YCSB in transactions.
///
/// # Errors
/// As [`tatp`].
pub(super) fn ycsb(args: &YcsbArgs, context: &Context) -> Result<()> {
    let (letter, records) = (args.workload, args.records);
    run(
        TransactionBenchmark::Ycsb { letter, records },
        &args.common,
        context,
    )
}

fn run(bench: TransactionBenchmark, args: &CommonArguments, context: &Context) -> Result<()> {
    let time = Duration::try_from_secs_f64(args.seconds);
    let time =
        time.map_err(|error| Failure::Usage(format!("--seconds {}: {error}", args.seconds)))?;
    let options = Options {
        locking: match args.locking {
            LockingArg::Execution => Locking::Execution,
            LockingArg::Commit => Locking::Commit,
        },
        at_owner: args.runs_at == RunsAt::Owner,
        threads: args.threads,
        pipeline: args.pipeline,
        time,
        rounds: args.rounds,
        server_threads: args.server_threads,
        against: args.against.clone(),
        seed: args.seed,
        ..Options::new(bench)
    };
    let serve = |options: &Options| -> Result<ServedDatabase> {
        match args.fabric {
            Fabric::Sim => Ok(transactions::serve_here(options, true)?),
            Fabric::Embedded => Ok(transactions::serve_here(options, false)?),
            Fabric::Shm => started(options, true),
            Fabric::Tcp => started(options, false),
        }
    };
    let mut reports = Vec::new();
    for nodes in &args.nodes {
        let options = Options {
            nodes: *nodes,
            ..options.clone()
        };
        let report = on_spinner(|progress| transactions::run(&options, serve, progress))?;
        if context.json {
            output::json(&report)?;
            continue;
        }
        output::line(table(&report).to_string())?;
        output::line(kinds(&report).to_string())?;
        output::line(description(&report))?;
        reports.push(report);
    }
    if reports.is_empty() {
        return Ok(());
    }
    output::line(posted(&reports).to_string())
}

/// A process that serves a node; it ends with this, and however this process ends: its standard
/// input closes then.
struct NodeProcess {
    process: Child,
    address: String,
}

impl NodeProcess {
    fn start(options: &Options, node: u64, over_shm: bool) -> Result<Self> {
        let failed = || Failure::io("a node of the database");
        let program = std::env::current_exe().map_err(failed())?;
        let (size, of, letter) = match options.bench {
            TransactionBenchmark::Tatp { subscribers } => ("--subscribers", subscribers, None),
            TransactionBenchmark::SmallBank { accounts, .. } => ("--accounts", accounts, None),
            TransactionBenchmark::Ycsb { letter, records } => ("--records", records, Some(letter)),
        };
        let letter = letter.map(|letter| format!("--workload={letter}"));
        let numbers = [of, node, options.nodes, options.server_threads as u64];
        let numbers = numbers.map(|number| number.to_string());
        let names = [size, "--node", "--nodes", "--threads"];
        let args = names
            .iter()
            .zip(&numbers)
            .flat_map(|(name, number)| [*name, number]);
        let process = Command::new(program)
            .arg("serve-transactions")
            .args(args)
            .args(letter)
            .args(over_shm.then_some("--shm"))
            .env_remove("FARSLOT_ADDRESS")
            .env_remove("FARSLOT_SECRET")
            .env_remove("FARSLOT_SECRET_FILE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed())?;
        let mut started = Self {
            process,
            address: String::new(),
        };
        let mut ready = String::new();
        if let Some(output) = started.process.stdout.take() {
            BufReader::new(output)
                .read_line(&mut ready)
                .map_err(failed())?;
        }
        let ready: serde_json::Value = serde_json::from_str(&ready)
            .map_err(|_| Failure::Failed("a node of the database did not start".into()))?;
        started.address = ready["address"].as_str().unwrap_or_default().into();
        Ok(started)
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It would end by itself now. Killing it makes sure that waiting for it ends.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn started(options: &Options, over_shm: bool) -> Result<ServedDatabase> {
    let nodes = (0..options.nodes).map(|node| NodeProcess::start(options, node, over_shm));
    let nodes = nodes.collect::<Result<Vec<_>>>()?;
    let addresses = nodes.iter().map(|node| node.address.clone());
    Ok(ServedDatabase {
        nodes: match over_shm {
            true => DatabaseNodes::Attached(addresses.collect()),
            false => DatabaseNodes::Tcp(addresses.collect()),
        },
        processes: nodes.iter().map(|node| node.process.id()).collect(),
        _guard: Box::new(nodes),
    })
}

/// Serves one node until standard input is closed.
///
/// # Errors
/// That the memory or a port cannot be had.
pub(super) fn serve(args: &ServeArgs) -> Result<()> {
    let ycsb = args.workload.zip(args.records);
    let bench = match (args.subscribers, args.accounts, ycsb) {
        (Some(subscribers), ..) => TransactionBenchmark::Tatp { subscribers },
        (None, Some(accounts), _) => TransactionBenchmark::SmallBank { accounts, hot: 2 },
        (None, None, Some((letter, records))) => TransactionBenchmark::Ycsb { letter, records },
        (None, None, None) => {
            let reason = "--subscribers, --accounts, or --records with --workload";
            return Err(Failure::Usage(reason.into()));
        }
    };
    let told = switch(true, false)?;
    let (address, _served) = bench.serve(args.node, args.nodes, args.threads, args.shm)?;
    output::line(json!({ "address": address }).to_string())?;
    // The only signal is to end.
    let _ = told.recv();
    Ok(())
}

fn table(report: &TransactionsReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "system",
        "attempted/s",
        "committed/s",
        "p50 µs",
        "p99 µs",
        "conflicts/M",
        "server CPU s/M",
        "client CPU s/M",
        "farslot is",
    ]);
    for row in &report.rows {
        table.add_row(cells(row));
    }
    for column in 1..9 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(row: &SystemRow) -> [String; 9] {
    let optional =
        |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    [
        format!("{} {}", row.system, row.version),
        output::number(row.attempted_per_second),
        output::number(row.committed_per_second),
        format!("{:.1}", row.p50_us),
        format!("{:.1}", row.p99_us),
        format!("{:.0}", row.conflicts_per_million),
        optional(row.server_cpu_seconds_per_million),
        format!("{:.2}", row.client_cpu_seconds_per_million),
        row.farslot_ratio
            .map_or_else(String::new, |ratio| format!("{ratio:.2}x")),
    ]
}

/// How often each kind succeeded, by system.
fn kinds(report: &TransactionsReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let systems = report.rows.iter().map(|row| format!("{} %", row.system));
    let mut header = vec!["succeeds".to_owned(), "specified %".to_owned()];
    header.extend(systems);
    let columns = header.len();
    table.set_header(header);
    for (at, kind) in report.rows[0].kinds.iter().enumerate() {
        let specified = kind.specified_percent;
        let specified = specified.map_or_else(String::new, |percent| format!("{percent:.2}"));
        let mut cells = vec![kind.kind.to_owned(), specified];
        let rows = report.rows.iter();
        cells.extend(rows.map(|row| format!("{:.2}", row.kinds[at].success_percent)));
        table.add_row(cells);
    }
    for column in 1..columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// What a transaction of Farslot takes, by nodes.
fn posted(reports: &[TransactionsReport]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "nodes",
        "READs",
        "calls",
        "bytes",
        "round trips",
        "at most",
        "p50 µs",
        "p99 µs",
    ]);
    for report in reports {
        let row = &report.rows[0];
        if let Some(posted) = row.posted {
            table.add_row([
                report.nodes.to_string(),
                format!("{:.3}", posted.reads),
                format!("{:.3}", posted.calls),
                format!("{:.0}", posted.bytes),
                format!("{:.3}", posted.round_trips),
                posted.most_round_trips.to_string(),
                format!("{:.1}", row.p50_us),
                format!("{:.1}", row.p99_us),
            ]);
        }
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn description(report: &TransactionsReport) -> String {
    let of = |count: usize, noun| output::counted(count as u64, noun);
    let unit = match report.bench {
        "tatp" => "subscriber",
        "smallbank" => "account",
        _ => "record",
    };
    let mut text = format!(
        "{} of {} on {}; {} with {} under way each, {} of each server; medians of {}; fabric: {}; run at the {}; locks: {}",
        report.bench,
        output::counted(report.size, unit),
        output::counted(report.nodes, "node"),
        of(report.threads, "client thread"),
        of(report.pipeline, "transaction"),
        of(report.server_threads, "thread"),
        of(report.rounds, "interleaved round"),
        report.fabric,
        report.runs_at,
        report.locking,
    );
    for row in &report.rows {
        if let (Some(loaded), Some(added), Some(all)) =
            (row.loaded_cents, row.added_cents, row.final_cents)
        {
            text.push_str(&format!(
                "\n- {}: {loaded} cents loaded, {added} added by what committed, {all} in the end",
                row.system
            ));
        }
    }
    for note in &report.notes {
        text.push_str("\n- ");
        text.push_str(note);
    }
    text
}

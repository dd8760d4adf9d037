//! `farslot bench lookup`: lookups in tables of one or several schemes.

use farslot_bench::lookup::{self, LookupScheme, Options, Served, Simulated};
use farslot_bench::{BenchReport, NicProfile};
use farslot_terminal::cache_args::CacheArgs;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::memory_node::MemoryNode;
use farslot_terminal::number;
use farslot_terminal::output::on_spinner;

/// Where the tables are.
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

/// The options of `farslot bench lookup`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Where the tables are
    #[arg(long, value_enum, default_value_t = Fabric::Shm)]
    fabric: Fabric,
    /// Schemes to measure side by side, with the same records: linear, sealed, perfect (sealed,
    /// with a perfect hash function), cuckoo, race, duo, duo-alone (whose client is its writer)
    #[arg(
        long,
        value_name = "NAME,..",
        value_delimiter = ',',
        default_value = "linear"
    )]
    scheme: Vec<LookupScheme>,
    /// Measure sealed tables with a perfect hash function: --scheme sealed means perfect
    #[arg(long)]
    perfect: bool,
    /// Load factors to measure at, rising
    #[arg(long, value_name = "FRACTION,..", value_delimiter = ',', default_values_t = [0.5, 0.9])]
    load: Vec<f64>,
    /// Look up absent keys too
    #[arg(long)]
    misses: bool,
    /// Measure batches of writes too, of linear, RACE and CuckooDuo tables; not in sim
    #[arg(long)]
    writes: bool,
    /// The simulated NIC: a profile, or a file that `farslot calibrate` wrote [default: cx5-edr]
    #[arg(long, value_name = "NAME|FILE", value_parser = farslot_bench::nic_profile)]
    profile: Option<NicProfile>,
    /// Slots of each table [default: 2^20 in sim, 2^22 elsewhere; of a linear table alone 2^23 in
    /// sim, and 2^26, which is 1 GiB, over shm]
    #[arg(long, value_name = "N", value_parser = number::count)]
    slots: Option<u64>,
    /// Operations of a figure, not for --fabric sim [default: 2^21 over shm, 2^20 over a network]
    #[arg(long, value_name = "N", value_parser = number::count)]
    operations: Option<u64>,
    #[command(flatten)]
    cache: CacheArgs,
    /// What all chance derives from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Args {
    fn options(&self) -> Options {
        let mut schemes: Vec<LookupScheme> = Vec::new();
        for scheme in &self.scheme {
            let scheme = match scheme {
                LookupScheme::Sealed if self.perfect => LookupScheme::Perfect,
                scheme => *scheme,
            };
            if !schemes.contains(&scheme) {
                schemes.push(scheme);
            }
        }
        let alone = schemes == [LookupScheme::Linear];
        let slots = match (self.fabric, alone) {
            (Fabric::Sim, true) => 1 << 23,
            (Fabric::Sim, false) => 1 << 20,
            (Fabric::Shm, true) => 1 << 26,
            _ => 1 << 22,
        };
        Options {
            loads: self.load.clone(),
            misses: self.misses,
            seed: self.seed,
            ..Options::new(schemes, self.slots.unwrap_or(slots))
        }
    }
}

/// Runs the measurement.
///
/// # Errors
/// A usage failure for options that do not go together; what the measurement says.
pub(super) fn run(args: Args) -> Result<BenchReport> {
    match args.fabric {
        Fabric::Sim => simulated(args),
        Fabric::Shm | Fabric::Tcp | Fabric::Verbs => served(&args),
    }
}

fn simulated(args: Args) -> Result<BenchReport> {
    if args.cache.cache().is_some() {
        return Err(Failure::Usage(
            "--cache is not for --fabric sim, which measures the table alone".into(),
        ));
    }
    if args.writes {
        return Err(Failure::Usage(
            "--writes is not for --fabric sim: `farslot-lab` simulates writes".into(),
        ));
    }
    if args.operations.is_some() {
        return Err(Failure::Usage(
            "--operations is not for --fabric sim, which measures for a time".into(),
        ));
    }
    let options = args.options();
    let measure = Simulated::new(args.profile.unwrap_or_else(NicProfile::connectx5_edr));
    let measured = on_spinner(|progress| lookup::simulated(&options, &measure, progress));
    Ok(measured?)
}

fn served(args: &Args) -> Result<BenchReport> {
    if args.profile.is_some() {
        return Err(Failure::Usage(
            "--profile is for --fabric sim: shared memory and networks are what they are".into(),
        ));
    }
    let options = args.options();
    let memory = lookup::memory(&options)?;
    let (node, measure) = match args.fabric {
        Fabric::Tcp => (MemoryNode::start_tcp(memory, 1)?, Served::over_network()),
        Fabric::Verbs => (MemoryNode::start_verbs(memory)?, Served::over_network()),
        _ => (MemoryNode::start("bench", memory)?, Served::default()),
    };
    // No more keys than fit into memory twice over; more would change no median.
    let operations = args.operations.map_or(measure.operations, |operations| {
        operations.min(1 << 30) as usize
    });
    let measure = Served {
        operations,
        single_lookups: measure.single_lookups.min(operations),
        writes: args.writes,
        cache: args.cache.cache(),
        ..measure
    };
    let address = node.address();
    let measured = on_spinner(|progress| lookup::served(address, &options, &measure, progress));
    Ok(measured?)
}

//! `farslot advise`: which scheme suits a workload.

use comfy_table::{CellAlignment, Table, presets};
use farslot_bench::advise::{
    self, Advice, AdviceQuestion, CheckOptions, Checked, Excluded, Ranked, WritePrice, Writers,
};
use farslot_bench::{NicProfile, Objective};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::number;
use farslot_terminal::output::{self, on_spinner};
use serde::Serialize;
use std::str::FromStr;

/// The options of `farslot advise`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Records: 10000000, or 10M
    #[arg(long, value_name = "N", value_parser = number::count)]
    entries: u64,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", value_parser = number::field_bytes)]
    key: u32,
    /// Bytes of a value; several sizes with their weights as 100:9,4000:1
    #[arg(
        long,
        value_name = "BYTES[:WEIGHT],..",
        value_delimiter = ',',
        required = true
    )]
    value: Vec<Weighted>,
    /// Slots in use per slot [default: the lowest that --memory allows; without it 0.75]
    #[arg(long, value_name = "PART")]
    load: Option<f64>,
    /// What the table may take
    #[arg(long, value_name = "SIZE")]
    memory: Option<bytesize::ByteSize>,
    /// What each client may keep of the table in its own memory
    #[arg(long, value_name = "SIZE")]
    client_memory: Option<bytesize::ByteSize>,
    /// Programs that use the table at the same time
    #[arg(long, value_name = "N", default_value = "2", value_parser = number::clients)]
    clients: u32,
    /// Threads of all of them together: what bounds operations that cost a client's processor alone
    #[arg(long, value_name = "N", default_value_t = 64)]
    client_threads: u32,
    /// Keys of which each client of a linear table remembers where their records lie
    #[arg(long, value_name = "N", value_parser = number::count)]
    record_locations: Option<u64>,
    /// How many of them write
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::clients)]
    writers: u32,
    /// Records that it must be able to grow to while it is used: 100M
    #[arg(long, value_name = "N", value_parser = number::count)]
    grow_to: Option<u64>,
    /// The share of lookups that find their key
    #[arg(long, value_name = "PART", default_value_t = 0.9)]
    hit_ratio: f64,
    /// The share of operations that replace a value
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    updates: f64,
    /// The share of operations that put a new key
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    inserts: f64,
    /// Zipf's skew of the keys that are looked up
    #[arg(long, value_name = "SKEW", default_value_t = 0.0)]
    skew: f64,
    /// A key may have several records
    #[arg(long)]
    multi_key: bool,
    /// The table is built whole and then only read
    #[arg(long)]
    sealed: bool,
    /// What counts
    #[arg(long, value_enum, default_value_t = Counts::Throughput)]
    objective: Counts,
    /// The NIC: a profile, or a file that `farslot calibrate` wrote
    #[arg(long, value_name = "NAME|FILE", default_value = "cx5-edr", value_parser = farslot_bench::nic_profile)]
    profile: NicProfile,
    /// Simulate what is shown, and compare
    #[arg(long)]
    check: bool,
    /// Show what a limit excludes too, and why
    #[arg(long)]
    excluded: bool,
    /// Schemes that are shown
    #[arg(long, value_name = "N", default_value_t = 12)]
    top: usize,
}

/// What counts.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Counts {
    /// Operations a second of many clients
    Throughput,
    /// The time of one lookup on an idle network
    Latency,
}

/// A size and its weight.
#[derive(Clone, Copy, Debug)]
struct Weighted {
    bytes: u32,
    weight: f64,
}

impl FromStr for Weighted {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (bytes, weight) = text.split_once(':').unwrap_or((text, "1"));
        let bytes = number::field_bytes(bytes)?;
        let weight = weight
            .parse()
            .map_err(|_| format!("{weight:?} is no weight"))?;
        Ok(Self { bytes, weight })
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct AdviceReport<'a> {
    #[serde(flatten)]
    advice: &'a Advice,
    /// In the order of the ranks, as far as they were simulated.
    check: Option<&'a [Checked]>,
}

/// Ranks the schemes.
///
/// # Errors
/// A usage failure for a workload that there is not; what the check says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let question = AdviceQuestion {
        entries: args.entries,
        key: args.key,
        values: args
            .value
            .iter()
            .map(|value| (value.bytes, value.weight))
            .collect(),
        load: args.load,
        memory: args.memory.map(|memory| memory.as_u64()),
        client_memory: args.client_memory.map(|memory| memory.as_u64()),
        clients: args.clients,
        threads: args.client_threads,
        record_locations: args.record_locations.unwrap_or(0),
        writers: args.writers,
        grow_to: args.grow_to,
        hit_ratio: args.hit_ratio,
        updates: args.updates,
        inserts: args.inserts,
        skew: args.skew,
        unique: !args.multi_key,
        sealed: args.sealed,
        objective: match args.objective {
            Counts::Throughput => Objective::Throughput,
            Counts::Latency => Objective::Latency,
        },
        calls: AdviceQuestion::has_calls(&args.profile),
        profile: args.profile,
    };
    let advice = advise::advise(&question)?;
    let shown = &advice.ranked[..args.top.min(advice.ranked.len())];
    let checked = match args.check {
        true => Some(on_spinner(|progress| {
            advise::check(&question, shown, &CheckOptions::default(), progress)
        })?),
        false => None,
    };
    if context.json {
        return output::json(&AdviceReport {
            advice: &advice,
            check: checked.as_deref(),
        });
    }
    if advice.ranked.is_empty() {
        return Err(Failure::Failed(nothing_left(&advice)));
    }
    output::line(ranking(shown).to_string())?;
    output::line("\nwrites of one client, memory, and what else tells them apart:")?;
    output::line(properties(shown).to_string())?;
    for (rank, ranked) in (1..).zip(shown) {
        output::line(format!("{rank:>3}  {}: {}", ranked.scheme, ranked.why))?;
    }
    if let Some(rows) = &checked {
        output::line("\nlookups simulated, and predicted / simulated:")?;
        output::line(comparison(rows).to_string())?;
        let writes = compared_writes(rows);
        if !writes.is_empty() {
            output::line("\nwrites of one client simulated, and predicted / simulated:")?;
            output::line(writes.to_string())?;
        }
    }
    if args.excluded && !advice.excluded.is_empty() {
        output::line("\nexcluded:")?;
        for (why, schemes) in by_reason(&advice.excluded) {
            output::line(format!("  {}: {why}", schemes.join("; ")))?;
        }
    }
    for note in &advice.notes {
        output::line(format!("note: {note}"))?;
    }
    output::line(format!(
        "{} schemes ranked (--top, --json) and {} excluded (--excluded), for NIC {}",
        advice.ranked.len(),
        advice.excluded.len(),
        advice.profile
    ))
}

/// The excluded schemes, those of one reason together.
fn by_reason(excluded: &[Excluded]) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in excluded {
        match reasons.iter_mut().find(|(why, _)| *why == one.why) {
            Some((_, schemes)) => schemes.push(&one.scheme),
            None => reasons.push((&one.why, vec![&one.scheme])),
        }
    }
    reasons
}

fn nothing_left(advice: &Advice) -> String {
    let reasons = by_reason(&advice.excluded).into_iter();
    let reasons: Vec<_> = reasons
        .map(|(why, schemes)| format!("  {}: {why}", schemes.join("; ")))
        .collect();
    format!("no scheme will do:\n{}", reasons.join("\n"))
}

fn ranking(ranked: &[Ranked]) -> Table {
    let mut table = new_table([
        "", "scheme", "load", "slots", "READs", "bytes", "trips", "latency", "M ops/s", "memory",
    ]);
    for (rank, ranked) in (1..).zip(ranked) {
        table.add_row([
            rank.to_string(),
            ranked.scheme.clone(),
            format!("{:.2}", ranked.load),
            ranked
                .read_slots
                .map_or_else(String::new, |slots| slots.to_string()),
            format!("{:.3}", ranked.reads),
            format!("{:.0}", ranked.bytes),
            format!("{:.2}", ranked.round_trips),
            format!("{:.0} ns", ranked.latency_ns),
            format!("{:.1}", ranked.operations_per_second / 1e6),
            output::sized(ranked.memory_bytes),
        ]);
    }
    table
}

/// What each scheme's writes cost, what it takes where, and who may write.
fn properties(ranked: &[Ranked]) -> Table {
    let mut table = new_table([
        "",
        "scheme",
        "update",
        "trips",
        "put, new key",
        "trips",
        "growth",
        "client ns",
        "remote B/record",
        "client B/record",
        "writers",
        "grows",
    ]);
    for (rank, ranked) in (1..).zip(ranked) {
        let latency = |price: Option<WritePrice>| {
            price.map_or_else(String::new, |price| format!("{:.0} ns", price.latency_ns))
        };
        let trips = |price: Option<WritePrice>| {
            price.map_or_else(String::new, |price| format!("{:.2}", price.round_trips))
        };
        let writers = match ranked.writers {
            Writers::None => "none",
            Writers::One => "one",
            Writers::Any => "any",
        };
        table.add_row([
            rank.to_string(),
            ranked.scheme.clone(),
            latency(ranked.update),
            trips(ranked.update),
            latency(ranked.put),
            trips(ranked.put),
            ranked
                .growth
                .map_or_else(String::new, |growth| format!("{:.1} verbs", growth.verbs)),
            format!("{:.0}", ranked.client_ns),
            format!("{:.1}", ranked.bytes_per_record),
            format!("{:.2}", ranked.client_bytes_per_record),
            writers.into(),
            if ranked.can_grow { "yes" } else { "no" }.into(),
        ]);
    }
    table
}

/// Updates and puts, as far as there are any.
fn compared_writes(rows: &[Checked]) -> Table {
    let mut table = new_table([
        "",
        "scheme",
        "write",
        "verbs",
        "ratio",
        "bytes ratio",
        "trips",
        "ratio",
        "latency",
        "ratio",
    ]);
    for (rank, row) in (1..).zip(rows) {
        let Checked::Simulated(row) = row else {
            continue;
        };
        let writes = [("update", row.update), ("put", row.put)];
        for (name, write) in writes {
            let Some(write) = write else {
                continue;
            };
            table.add_row([
                rank.to_string(),
                row.scheme.clone(),
                name.into(),
                format!("{:.3}", write.verbs),
                format!("{:.3}", write.verbs_ratio),
                format!("{:.3}", write.bytes_ratio),
                format!("{:.3}", write.round_trips),
                format!("{:.3}", write.round_trips_ratio),
                format!("{:.0} ns", write.latency_ns),
                format!("{:.3}", write.latency_ratio),
            ]);
        }
    }
    table
}

fn comparison(rows: &[Checked]) -> Table {
    let mut table = new_table([
        "",
        "scheme",
        "M lookups/s",
        "ratio",
        "READs",
        "ratio",
        "latency",
        "ratio",
    ]);
    for (rank, row) in (1..).zip(rows) {
        let row = match row {
            Checked::Simulated(row) => row,
            Checked::Not { scheme, why } => {
                let said = format!("{scheme}: not simulated: {why}");
                table.add_row([rank.to_string(), said]);
                continue;
            }
        };
        table.add_row([
            rank.to_string(),
            row.scheme.clone(),
            format!("{:.1}", row.lookups_per_second / 1e6),
            format!("{:.3}", row.throughput_ratio),
            format!("{:.3}", row.reads),
            format!("{:.3}", row.reads_ratio),
            format!("{:.0} ns", row.latency_ns),
            format!("{:.3}", row.latency_ratio),
        ]);
    }
    table
}

/// A table whose columns but the second are numbers.
fn new_table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = output::new_table(presets::ASCII_MARKDOWN);
    table.set_header(header);
    for (number, column) in table.column_iter_mut().enumerate() {
        if number != 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weighted_sizes_are_read() {
        let value: Weighted = "100:2.5".parse().unwrap();
        assert_eq!((value.bytes, value.weight), (100, 2.5));
        let value: Weighted = "4KiB:1".parse().unwrap();
        assert_eq!(value.bytes, 4096);
        assert!("a".parse::<Weighted>().is_err() && "1:b".parse::<Weighted>().is_err());
    }
}

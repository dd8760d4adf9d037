//! `farslot calibrate`: what a fabric costs, measured, as a NIC profile.

use comfy_table::{CellAlignment, Table, presets};
use farslot::Address;
use farslot_bench::calibrate::{self, Calibration, Options, file_text};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output::{self, on_spinner};
use std::path::PathBuf;

/// The options of `farslot calibrate`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to measure: embedded, shm://NAME, tcp://HOST:PORT, verbs://HOST:PORT, or sim://PROFILE
    #[arg(id = "fabric", value_name = "ADDRESS")]
    fabric: Option<Address>,
    /// Where to write the profile [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Client threads [default: as many as help]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Memory to measure in: taken from a store that is in use, once, as a table that stays empty
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    scratch: bytesize::ByteSize,
    /// What the places of the READs derive from
    #[arg(long, value_name = "N", default_value_t = Options::default().seed)]
    seed: u64,
}

/// Measures a fabric and writes its profile.
///
/// # Errors
/// A usage failure where no address was given; what the measurement or the file system says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let address = args.fabric.as_ref().or(context.address.as_ref());
    let Some(address) = address else {
        return Err(Failure::Usage(
            "what shall be measured? embedded, shm://NAME, tcp://HOST:PORT, verbs://HOST:PORT, or sim://PROFILE"
                .into(),
        ));
    };
    let options = Options {
        scratch_bytes: args.scratch.as_u64(),
        clients: args.threads,
        seed: args.seed,
    };
    if let Some(path) = &args.output {
        output::check_writable(path)?;
    }
    let opening = context.open_options(address)?;
    let address = address.to_string();
    let calibration = on_spinner(|progress| calibrate::run(&address, opening, &options, progress))?;
    let text = file_text(&calibration)?;
    if let Some(path) = &args.output {
        let failed = Failure::io(path.display().to_string());
        std::fs::write(path, &text).map_err(failed)?;
        output::note(format_args!("written: {}", path.display()));
    }
    if context.json {
        return output::json(&calibration);
    }
    if args.output.is_none() {
        return output::line(text.trim_end());
    }
    output::line(summary(&calibration))?;
    output::line(table(&calibration).to_string())
}

fn summary(calibration: &Calibration) -> String {
    let profile = &calibration.profile;
    let load = calibration.responder_load;
    let processor = match profile.processor {
        in_place if in_place.is_in_place() => format!(
            "\na client's processor: {:.1} ns a verb, {:.1} ns a cache line, {:.1} ns more an atomic",
            in_place.verb_ns, in_place.line_ns, in_place.atomic_ns
        ),
        _ => String::new(),
    };
    format!(
        "{}\n{}: {:.0} ns + {:.3} ns/B a READ, {:.2} M READs/s at most\n\
         saturated ({} threads, {} READs each): {:.2} ns + {:.4} ns/B, {:.2} GB/s{processor}",
        calibration.fabric,
        profile.name,
        profile.read_latency_ns,
        profile.latency_per_byte_ns,
        calibration.peak_reads_per_second / 1e6,
        load.clients,
        load.width,
        profile.responder_ns.per_message,
        profile.responder_ns.per_byte,
        profile.link_bytes_per_ns,
    )
}

/// The check: what was measured beside what the profile gives.
fn table(calibration: &Calibration) -> Table {
    let mut table = output::new_table(presets::ASCII_MARKDOWN);
    table.set_header([
        "READ, bytes",
        "unloaded, ns",
        "profile",
        "ratio",
        "saturated, ns",
        "profile",
        "ratio",
    ]);
    for (idle, busy) in calibration.latency.iter().zip(&calibration.occupancy) {
        table.add_row([
            idle.bytes.to_string(),
            format!("{:.1}", idle.measured_ns),
            format!("{:.1}", idle.predicted_ns),
            format!("{:.3}", idle.ratio),
            format!("{:.2}", busy.measured_ns),
            format!("{:.2}", busy.predicted_ns),
            format!("{:.3}", busy.ratio),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

//! The file that a calibration leaves: a NIC profile with a note above each field.

use super::measure::Calibration;
use super::probe::VerbProbe;
use crate::{BenchError, Result};
use farslot::NicProfileError;
use std::fmt::Write;

/// The profile as TOML, which [`nic_profile`](farslot::nic_profile) reads, with how each number was
/// found and, at its end, what was measured beside what the profile gives.
///
/// # Errors
/// [`BenchError::Profile`] where what was measured cannot be simulated: a fabric without time.
pub fn file_text(calibration: &Calibration) -> Result<String> {
    let note = |field: &str| match calibration.notes.get(field) {
        Some(how) => Some(how.clone()),
        None => (field != "name").then(|| calibration.default_note.to_owned()),
    };
    let fields = calibration.profile.to_toml(note).map_err(|error| {
        BenchError::Profile(NicProfileError::Refused {
            path: calibration.address.clone(),
            error,
        })
    })?;
    let mut text = format!(
        "# The NIC profile of {}: {}.\n# Measured by `farslot calibrate`. Use it wherever a profile is named: \
         --profile FILE, sim://FILE.\n\n{fields}",
        calibration.address, calibration.fabric
    );
    // Writing to a string does not fail.
    let _ = check_lines(&mut text, calibration);
    Ok(text)
}

fn check_lines(text: &mut String, calibration: &Calibration) -> std::fmt::Result {
    writeln!(
        text,
        "\n# What was measured, and what this profile gives (ratio: given / measured)."
    )?;
    writeln!(
        text,
        "# {:>8}  {:>26}  {:>26}",
        "READ", "unloaded, ns", "saturated, t(b), ns"
    )?;
    for (idle, busy) in calibration.latency.iter().zip(&calibration.occupancy) {
        writeln!(
            text,
            "# {:>6} B  {:>9.1} {:>9.1} {:>6.3}  {:>9.2} {:>9.2} {:>6.3}",
            idle.bytes,
            idle.measured_ns,
            idle.predicted_ns,
            idle.ratio,
            busy.measured_ns,
            busy.predicted_ns,
            busy.ratio,
        )?;
    }
    writeln!(
        text,
        "# Other verbs: unloaded, saturated, and against a READ of the same payload."
    )?;
    for row in &calibration.verbs {
        writeln!(
            text,
            "# {:<14} {:>9.1} ns {:>9.2} ns {:>6.2}",
            name(row.verb),
            row.latency_ns,
            row.occupancy_ns,
            row.against_read
        )?;
    }
    Ok(())
}

/// A verb as tables call it.
fn name(probe: VerbProbe) -> String {
    match probe {
        VerbProbe::Read(bytes) => format!("READ {bytes} B"),
        VerbProbe::Write(bytes) => format!("WRITE {bytes} B"),
        VerbProbe::CompareSwap => "CAS".into(),
        VerbProbe::FetchAdd => "FETCH_ADD".into(),
    }
}

//! The measurements, and the profile that they give.

use super::bed::{FabricBed, Load, Saturate};
use super::fit::{FitPoint, Line, NicOccupancy};
use super::probe::VerbProbe;
use crate::median::median;
use crate::{Progress, Result};
use farslot::fabric::sim::{LinearCost, NicProfile, ProcessorProfile};
use serde::Serialize;
use std::collections::BTreeMap;

/// The smallest READ: paper 000 sends 0 bytes, but a READ of nothing reaches no memory.
const SMALLEST: usize = 8;
/// The payloads, in bytes, of which READs are measured.
const PAYLOADS: [usize; 14] = [
    8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536,
];
/// Verbs that a client has under way, as far as they are swept.
const WIDTHS: [usize; 4] = [1, 4, 16, 64];
/// Bytes under way beyond which nothing is gained.
const BYTES_UNDER_WAY: usize = 4 << 20;
/// The part of the best rate that is as good as all of it: with fewer verbs under way it is
/// steadier.
const AS_GOOD: f64 = 0.99;
/// The verbs that are measured beside READs.
const OTHERS: [VerbProbe; 6] = [
    VerbProbe::Write(8),
    VerbProbe::Write(64),
    VerbProbe::Write(256),
    VerbProbe::Write(1024),
    VerbProbe::CompareSwap,
    VerbProbe::FetchAdd,
];
/// The largest header that is believed: more is noise.
const LARGEST_HEADER: f64 = 512.0;

/// What was measured of a fabric, and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Where.
    pub address: String,
    /// What it is.
    pub fabric: String,
    /// The profile that reproduces it.
    pub profile: NicProfile,
    /// rho_0 of paper 000, section 3.1: the peak rate of the smallest READs, per second.
    pub peak_reads_per_second: f64,
    /// The threads and verbs of each under way that gave it, and those that the occupancies were
    /// measured with.
    pub peak_load: SweepRow,
    /// The same for one responder.
    pub responder_load: SweepRow,
    /// READs of the smallest payload by threads and verbs under way, where one responder serves
    /// them.
    pub sweep: Vec<SweepRow>,
    /// Unloaded READs.
    pub latency: Vec<LatencyRow>,
    /// Saturated READs, beside what the profile gives.
    pub occupancy: Vec<OccupancyRow>,
    /// The lines through these.
    pub fit: NicOccupancy,
    /// WRITEs and atomics.
    pub verbs: Vec<VerbRow>,
    /// How each field of the profile was found.
    #[serde(skip)]
    pub(super) notes: BTreeMap<&'static str, String>,
    /// What is said of the fields that were not.
    #[serde(skip)]
    pub(super) default_note: &'static str,
}

/// READs/s with so many threads and verbs under way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SweepRow {
    /// Client threads.
    pub clients: usize,
    /// READs that each has under way.
    pub width: usize,
    /// READs/s of all together.
    pub reads_per_second: f64,
}

/// The latency of a READ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyRow {
    /// Its payload.
    pub bytes: usize,
    /// Its median latency, in ns.
    pub measured_ns: f64,
    /// What the profile gives, in ns.
    pub predicted_ns: f64,
    /// Predicted divided by measured.
    pub ratio: f64,
}

/// For how long a READ occupies what limits it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OccupancyRow {
    /// Its payload.
    pub bytes: usize,
    /// The inverse of the rate, in ns.
    pub measured_ns: f64,
    /// What the profile gives, in ns.
    pub predicted_ns: f64,
    /// Predicted divided by measured.
    pub ratio: f64,
}

/// What a verb other than READ costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VerbRow {
    /// The verb.
    pub verb: VerbProbe,
    /// Its median latency, in ns.
    pub latency_ns: f64,
    /// The inverse of its rate, in ns.
    pub occupancy_ns: f64,
    /// That divided by the time for a READ of the same payload, by the profile.
    pub against_read: f64,
}

/// Measures everything.
pub(super) fn calibrate(
    bed: &mut dyn FabricBed,
    address: &str,
    clients: Option<usize>,
    progress: Progress<'_>,
) -> Result<Calibration> {
    let latency = latencies(bed, progress)?;
    let sweep = sweep(bed, clients, Saturate::Responder, progress)?;
    let responder_load = least_load(&sweep);
    let to_all = if bed.tells_nics_apart() {
        self::sweep(bed, clients, Saturate::Requester, progress)?
    } else {
        sweep.clone()
    };
    let peak_load = SweepRow {
        reads_per_second: fastest(&to_all),
        ..least_load(&to_all)
    };
    let occupancies = occupancies(
        bed,
        &PAYLOADS.map(VerbProbe::Read),
        responder_load,
        progress,
    )?;
    let points: Vec<FitPoint> = PAYLOADS
        .iter()
        .zip(&occupancies)
        .map(|(bytes, ns)| (*bytes as f64, *ns))
        .collect();
    let fit = if bed.has_link() {
        NicOccupancy::through(&points)
    } else {
        NicOccupancy::without_link(&points)
    };
    let verbs = others(bed, responder_load, fit, progress)?;
    progress("loads of cache lines");
    let line_ns = bed.line_ns()?;
    let (profile, default_note) = bed.defaults();
    let input = ProfileInput {
        latency: &latency,
        peak: peak_load,
        points: &points,
        fit,
        verbs: &verbs,
        line_ns,
        clients: responder_load.clients as f64,
        apart: bed.tells_nics_apart(),
    };
    let (profile, notes) = input.profile(profile);
    Ok(Calibration {
        address: address.into(),
        fabric: bed.describe(),
        peak_reads_per_second: peak_load.reads_per_second,
        peak_load,
        responder_load,
        sweep,
        latency: latency_rows(&latency, &profile),
        occupancy: occupancy_rows(&points, &profile),
        fit,
        verbs,
        notes,
        default_note,
        profile,
    })
}

/// Unloaded READs of all payloads.
fn latencies(bed: &mut dyn FabricBed, progress: Progress<'_>) -> Result<Vec<FitPoint>> {
    let mut samples = vec![Vec::new(); PAYLOADS.len()];
    for _ in 0..bed.repetitions() {
        for (samples, bytes) in samples.iter_mut().zip(PAYLOADS) {
            progress(&format!("latency of READs of {bytes} B"));
            samples.push(bed.idle_ns(VerbProbe::Read(bytes))?);
        }
    }
    let medians = samples.into_iter().map(median);
    Ok(PAYLOADS
        .iter()
        .map(|bytes| *bytes as f64)
        .zip(medians)
        .collect())
}

/// The smallest READs with ever more threads and more under way.
fn sweep(
    bed: &mut dyn FabricBed,
    clients: Option<usize>,
    saturate: Saturate,
    progress: Progress<'_>,
) -> Result<Vec<SweepRow>> {
    let counts: Vec<usize> = match clients {
        Some(fixed) => vec![fixed],
        None => (0..usize::BITS)
            .map(|power| 1 << power)
            .take_while(|count| *count <= bed.most_clients())
            .collect(),
    };
    let mut rows = Vec::new();
    for clients in counts {
        for width in WIDTHS {
            progress(&format!("peak rate, {clients} threads, {width} READs each"));
            let load = Load {
                probe: VerbProbe::Read(SMALLEST),
                clients,
                width,
                saturate,
            };
            rows.push(SweepRow {
                clients,
                width,
                reads_per_second: median_rate(bed, &load)?,
            });
        }
    }
    Ok(rows)
}

fn fastest(rows: &[SweepRow]) -> f64 {
    rows.iter()
        .map(|row| row.reads_per_second)
        .fold(0.0, f64::max)
}

/// The row with the fewest READs under way that is as good as the best.
fn least_load(rows: &[SweepRow]) -> SweepRow {
    let enough = AS_GOOD * fastest(rows);
    let good = rows.iter().filter(|row| row.reads_per_second >= enough);
    *good
        .min_by_key(|row| row.clients * row.width)
        .expect("there is a row for each width")
}

fn median_rate(bed: &mut dyn FabricBed, load: &Load) -> Result<f64> {
    let rates: Result<Vec<f64>> = (0..bed.repetitions()).map(|_| bed.rate(load)).collect();
    Ok(median(rates?))
}

/// The inverse rates of verbs, in ns, the repetitions interleaved.
fn occupancies(
    bed: &mut dyn FabricBed,
    probes: &[VerbProbe],
    load: SweepRow,
    progress: Progress<'_>,
) -> Result<Vec<f64>> {
    let mut samples = vec![Vec::new(); probes.len()];
    for _ in 0..bed.repetitions() {
        for (samples, probe) in samples.iter_mut().zip(probes) {
            progress(&format!("rate of {probe:?}"));
            let most = BYTES_UNDER_WAY / (load.clients * probe.bytes());
            let rate = bed.rate(&Load {
                probe: *probe,
                clients: load.clients,
                width: load.width.min(most).max(1),
                saturate: Saturate::Responder,
            })?;
            samples.push(1e9 / rate);
        }
    }
    Ok(samples.into_iter().map(median).collect())
}

fn others(
    bed: &mut dyn FabricBed,
    load: SweepRow,
    fit: NicOccupancy,
    progress: Progress<'_>,
) -> Result<Vec<VerbRow>> {
    let busy = occupancies(bed, &OTHERS, load, progress)?;
    OTHERS
        .iter()
        .zip(busy)
        .map(|(verb, occupancy_ns)| {
            progress(&format!("latency of {verb:?}"));
            Ok(VerbRow {
                verb: *verb,
                latency_ns: bed.idle_ns(*verb)?,
                occupancy_ns,
                against_read: occupancy_ns / fit.at(verb.bytes() as f64),
            })
        })
        .collect()
}

/// What was measured, on the way to a profile.
struct ProfileInput<'m> {
    latency: &'m [FitPoint],
    peak: SweepRow,
    points: &'m [FitPoint],
    fit: NicOccupancy,
    verbs: &'m [VerbRow],
    /// As [`FabricBed::line_ns`].
    line_ns: Option<f64>,
    /// The client threads whose rates were added to those of the points and of the verbs.
    clients: f64,
    /// Whether requester and responder were saturated apart.
    apart: bool,
}

impl ProfileInput<'_> {
    /// The profile, and how its fields were found; the others stay as they are in `profile`.
    fn profile(&self, profile: NicProfile) -> (NicProfile, BTreeMap<&'static str, String>) {
        let mut notes = BTreeMap::new();
        let mut note = |field, how: String| notes.insert(field, how);
        let (_, smallest) = self.latency[0];
        let alpha = Line::slope_from_first(self.latency).max(0.0);
        note(
            "read_latency_ns",
            format!(
                "measured: {smallest:.1} ns is the median of READs of {SMALLEST} B one after the other (c of paper 000), \
                 less {SMALLEST} times the next",
            ),
        );
        note(
            "latency_per_byte_ns",
            "measured: least squares over the latencies of READs of 8 B to 64 KiB (alpha of paper 000)".into(),
        );
        let peak = self.peak;
        let reach = if self.apart {
            "to 8 nodes"
        } else {
            "to the one node there is"
        };
        note(
            "requester_ns.per_message",
            format!(
                "measured: {:.2} million READs of {SMALLEST} B a second (rho_0 of paper 000), {} threads with {} each, {reach}",
                peak.reads_per_second / 1e6,
                peak.clients,
                peak.width,
            ),
        );
        let responder = self.fit.responder;
        for field in ["responder_ns.per_message", "responder_ns.per_byte"] {
            note(
                field,
                "measured: least squares over the rates of READs, saturated (t(b), below)".into(),
            );
        }
        let (longest, its_time) = self.points[self.points.len() - 1];
        let link = match self.fit.link {
            Some(link) => {
                note(
                    "link_bytes_per_ns",
                    "measured: least squares over the rates of the READs that are too long for the responder to limit".into(),
                );
                1.0 / link.slope
            }
            None => {
                note(
                    "link_bytes_per_ns",
                    format!("measured: the rate of READs of {longest} B"),
                );
                longest / its_time
            }
        };
        let header = self
            .fit
            .link
            .map(|line| (line.intercept / line.slope).round());
        let header = header.filter(|bytes| (1.0..=LARGEST_HEADER).contains(bytes) && self.apart);
        if header.is_some() {
            note(
                "header_bytes",
                "measured: what is left of those when there is no payload".into(),
            );
        }
        let atomics = self
            .verbs
            .iter()
            .filter(|row| matches!(row.verb, VerbProbe::CompareSwap | VerbProbe::FetchAdd));
        let dearest = atomics.map(|row| row.occupancy_ns).fold(0.0, f64::max);
        note(
            "atomic_ns",
            format!(
                "measured: the dearer of CAS and FETCH_ADD, {dearest:.2} ns, less a READ of 8 B"
            ),
        );
        let processor = self.processor(dearest);
        if self.line_ns.is_some() {
            for (field, how) in PROCESSOR_NOTES {
                note(field, how.into());
            }
        }
        let profile = NicProfile {
            processor: processor.unwrap_or(profile.processor),
            read_latency_ns: (smallest - alpha * SMALLEST as f64).max(0.0),
            latency_per_byte_ns: alpha,
            requester_ns: LinearCost {
                per_message: 1e9 / peak.reads_per_second,
                per_byte: 0.0,
            },
            responder_ns: LinearCost {
                // A line may meet the axis below zero; no NIC answers in less than the clock's
                // picosecond.
                per_message: responder.intercept.max(1e-3),
                per_byte: responder.slope.max(0.0),
            },
            link_bytes_per_ns: link,
            header_bytes: header.map_or(profile.header_bytes, |bytes| bytes as u32),
            atomic_ns: (dearest - self.fit.at(8.0)).max(0.0),
            ..profile
        };
        (profile, notes)
    }
}

/// How the fields were found that say what a client's processor needs.
const PROCESSOR_NOTES: [(&str, &str); 3] = [
    (
        "processor.verb_ns",
        "measured: a thread's processor time for a READ of 8 B, saturated, less the next",
    ),
    (
        "processor.line_ns",
        "measured: one thread's processor time for random loads of cache lines, 16 prefetched at a time",
    ),
    (
        "processor.atomic_ns",
        "measured: a thread's processor time for the dearer of CAS and FETCH_ADD, less that for a READ of 8 B",
    ),
];

impl ProfileInput<'_> {
    /// What a client's processor needs, where it moves the bytes: rates are those of all client
    /// threads, each with a processor. `dearest` is the time of the dearest atomic.
    fn processor(&self, dearest: f64) -> Option<ProcessorProfile> {
        let line_ns = self.line_ns?;
        let read_ns = self.points[0].1 * self.clients;
        Some(ProcessorProfile {
            // Eight bytes lie on one line.
            verb_ns: (read_ns - line_ns).max(0.0),
            line_ns,
            atomic_ns: (dearest * self.clients - read_ns).max(0.0),
        })
    }
}

fn latency_rows(points: &[FitPoint], profile: &NicProfile) -> Vec<LatencyRow> {
    let row = |(bytes, measured_ns): &FitPoint| {
        let predicted_ns = profile.read_latency_ns + profile.latency_per_byte_ns * bytes;
        LatencyRow {
            bytes: *bytes as usize,
            measured_ns: *measured_ns,
            predicted_ns,
            ratio: predicted_ns / measured_ns,
        }
    };
    points.iter().map(row).collect()
}

/// What a profile gives for saturated READs: the responder's time or the link's.
fn occupancy_rows(points: &[FitPoint], profile: &NicProfile) -> Vec<OccupancyRow> {
    let row = |(bytes, measured_ns): &FitPoint| {
        let responder = profile.responder_ns.per_message + profile.responder_ns.per_byte * bytes;
        let link = (bytes + f64::from(profile.header_bytes)) / profile.link_bytes_per_ns;
        let predicted_ns = responder.max(link);
        OccupancyRow {
            bytes: *bytes as usize,
            measured_ns: *measured_ns,
            predicted_ns,
            ratio: predicted_ns / measured_ns,
        }
    };
    points.iter().map(row).collect()
}

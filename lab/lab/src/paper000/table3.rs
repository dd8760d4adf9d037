//! Paper 000, table 3: slots that a READ fetches, by record size, inline and out of band.

use super::published::{
    self, CUCKOO_STORING, FIXED_STORING, OUT_OF_BAND_SLOT, RECORD_SIZES, STORAGE_LOAD,
    VARIABLE_STORING,
};
use crate::scale::Scale;
use crate::{Progress, ReproReport, ReproRow, Result};
use farslot::FieldSize;
use farslot::index::Sizing;
use farslot::index::cuckoo::CuckooOptions;
use farslot::model::{NicModel, Objective, ProbeDistribution, ReadCost, ReadSizeModel, Workload};

pub(crate) const ID: &str = "000-table3";

/// Nothing is measured.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 18,
    tables: 1,
    lookups: 1,
    seed: 0,
};

/// Bytes that fixed linear probing reads.
const FIXED_BYTES: usize = 256;

/// Computes the table.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    progress("read sizes");
    let four_bytes = FieldSize::Fixed(4);
    let cuckoo =
        CuckooOptions::new(Sizing::new(scale.slots, four_bytes, four_bytes, 0)).layout()?;
    let mut rows = Vec::new();
    let columns = RECORD_SIZES
        .into_iter()
        .map(|bytes| (bytes, format!("{bytes} bytes inline")));
    let columns = columns.chain([(OUT_OF_BAND_SLOT, "out of band".to_owned())]);
    for (column, (slot, name)) in columns.enumerate() {
        let papers = |storing: &published::PublishedStorage| {
            *storing.inline.get(column).unwrap_or(&storing.out_of_band)
        };
        let mut row = |storing: &published::PublishedStorage, ours: usize| {
            let cell = format!("read size, slots, {}, {name}", storing.name);
            rows.push(ReproRow::new(
                cell,
                Some(papers(storing).into()),
                ours as f64,
            ));
        };
        row(&CUCKOO_STORING, cuckoo.bucket_slots as usize);
        row(&FIXED_STORING, FIXED_BYTES / slot);
        let chosen = ReadSizeChoice::of(slot, papers(&VARIABLE_STORING))?;
        row(&VARIABLE_STORING, chosen.ours.read_size);
        rows.push(ReproRow::new(
            format!(
                "exact cost of the read size, ns, {}, {name}",
                VARIABLE_STORING.name
            ),
            Some(chosen.papers.cost_ns),
            chosen.ours.cost_ns,
        ));
    }
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Computed: cuckoo tables read a bucket, fixed linear probing {FIXED_BYTES} bytes, variable linear \
             probing what the model chooses for latency and misses, under the bandwidth cap, in the paper's tables \
             at load {STORAGE_LOAD}; slots out of band have {OUT_OF_BAND_SLOT} bytes."
        ),
        rows,
        plots: Vec::new(),
    })
}

/// The model's choice beside the paper's.
struct ReadSizeChoice {
    ours: ReadCost,
    papers: ReadCost,
}

impl ReadSizeChoice {
    fn of(slot_bytes: usize, papers: u32) -> Result<Self> {
        let table = published::table_load(STORAGE_LOAD)?;
        let distances = ProbeDistribution::lookup(table, Workload::misses())?;
        let nic = NicModel::connectx5_edr();
        let model = ReadSizeModel::new(slot_bytes, Objective::Latency, nic)?.with_bandwidth_cap();
        Ok(Self {
            ours: model.choose(&distances),
            papers: model.cost(&distances, papers as usize),
        })
    }
}

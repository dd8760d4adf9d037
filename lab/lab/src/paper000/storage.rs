//! Records in the slots of a table and out of band, as paper 000's section 5.7 has them.

use super::cuckoo_tables::PAPERS;
use super::linear_tables::WIDTH;
use super::published::{
    CUCKOO_STORING, FIXED_STORING, KEYS_PER_RECORD, OUT_OF_BAND_SLOT, PublishedStorage,
    RECORD_SIZES, STORAGE_LOAD, VARIABLE_STORING,
};
use crate::Result;
use crate::scale::Scale;
use farslot::FieldSize;
use farslot::ReadPolicy;
use farslot::fabric::sim::NicProfile;
use farslot::index::Sizing;
use farslot::index::cuckoo::{CuckooOptions, LookupOrder};
use farslot::index::linear::{KeyRule, SlotKind};
use farslot::index::sealed::{SealedForm, SealedOptions, SlotOrder};
use farslot::layout::Scheme;
use farslot_bench::simulated::{
    Answer, Ask, BuiltSealed, CLIENT_THREADS, Experiment, Measured, Records, RunLimit,
    SimulatedTable, TableMemory, WARM_UP, Zipf, built_cuckoo,
};

/// Half a minute.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 18,
    tables: 1,
    lookups: 100_000,
    seed: 0,
};

/// Where the records lie, and the name of that.
pub(crate) const FORMS: [(SealedForm, &str); 2] = [
    (SealedForm::Inline, "inline"),
    (SealedForm::OutOfBand, "out of band"),
];

/// The ways of probing, in the order of the paper's tables.
pub(crate) const STORING: [&PublishedStorage; 3] =
    [&CUCKOO_STORING, &FIXED_STORING, &VARIABLE_STORING];

/// What lookups of each of [`STORING`] do, in tables of records of one of [`RECORD_SIZES`].
pub(crate) fn measure(scale: &Scale, form: SealedForm, size: usize) -> Result<Vec<Measured>> {
    let bytes = RECORD_SIZES[size];
    let seed = scale.seed_of(size as u32);
    let count = (scale.slots as f64 * STORAGE_LOAD).round() as u32;
    let keys = Zipf::new((f64::from(count) * KEYS_PER_RECORD) as u32, 0.0);
    let records = Records::drawn(seed, count, &keys, bytes - 4);
    let run = StorageRun {
        lookups: scale.lookups.into(),
        records: &records,
        seed,
    };
    let mut measured = vec![run.cuckoo(form)?];
    let built = BuiltSealed::new(&run.sealed_options(form), &records)?;
    for storing in [&FIXED_STORING, &VARIABLE_STORING] {
        let read_size = match form {
            SealedForm::Inline => storing.inline[size],
            SealedForm::OutOfBand => storing.out_of_band,
        };
        let scheme = Scheme::Sealed(built.layout.clone());
        let table = SimulatedTable::by_policy(scheme, ReadPolicy::Fixed(read_size));
        measured.push(run.lookups(&built.memory, table)?);
    }
    Ok(measured)
}

/// What is the same for all tables of the same records.
struct StorageRun<'r> {
    lookups: u64,
    records: &'r Records,
    seed: u64,
}

impl StorageRun<'_> {
    fn value(&self) -> FieldSize {
        FieldSize::Fixed(self.records.value_bytes() as u32)
    }

    /// The paper's linear tables: slots without a byte more than the record, or than
    /// [`OUT_OF_BAND_SLOT`].
    fn sealed_options(&self, form: SealedForm) -> SealedOptions {
        SealedOptions {
            form: Some(form),
            offset_bytes: (form == SealedForm::OutOfBand).then_some(OUT_OF_BAND_SLOT as u8 - 1),
            order: SlotOrder::Arrival,
            ..SealedOptions::new(Sizing {
                load_factor: Some(STORAGE_LOAD),
                keys: KeyRule::Multi,
                ..Sizing::new(0, FieldSize::Fixed(4), self.value(), self.seed)
            })
        }
    }

    /// Parallel lookups in a cuckoo table. Out of band, a bucket is the paper's: four signatures
    /// and an offset in 8 bytes. Inline, slots are ours: records of more than 8 bytes have 8 more.
    fn cuckoo(&self, form: SealedForm) -> Result<Measured> {
        let slot = match (form, self.records.bytes()) {
            (SealedForm::OutOfBand, _) => SlotKind::Signatures,
            (SealedForm::Inline, 8) => SlotKind::Word,
            (SealedForm::Inline, _) => SlotKind::Inline,
        };
        let layout = CuckooOptions {
            ways: PAPERS.ways,
            bucket_slots: PAPERS.bucket_slots,
            slot: Some(slot),
            ..CuckooOptions::new(Sizing {
                load_factor: Some(STORAGE_LOAD),
                keys: KeyRule::Multi,
                ..Sizing::new(
                    self.records.count().into(),
                    FieldSize::Fixed(4),
                    self.value(),
                    self.seed,
                )
            })
        }
        .layout()?;
        let memory = built_cuckoo(&layout, self.records)?;
        let table = SimulatedTable::cuckoo(layout, LookupOrder::Parallel);
        self.lookups(&memory, table)
    }

    fn lookups(&self, memory: &TableMemory, table: SimulatedTable) -> Result<Measured> {
        let experiment = Experiment {
            table,
            records: self.records.clone(),
            ask: Ask::Hits,
            answer: Answer::AllRecords,
            threads: CLIENT_THREADS,
            width: WIDTH,
            warm_up: WARM_UP,
            until: RunLimit::Lookups(self.lookups),
            seed: self.seed,
        };
        Ok(experiment.run(memory.world(self.seed, NicProfile::connectx5_edr())?)?)
    }
}

/// How these were measured.
pub(crate) fn setup(scale: &Scale) -> String {
    format!(
        "Tables of {} slots, load {STORAGE_LOAD}, built whole and sealed; keys of 4 bytes drawn from {} times as many \
         as there are records, as the paper's are; hits that return all matches, by 28 client threads with {WIDTH} \
         lookups under way each, {} lookups a cell; the paper's read sizes. Slots are the \
         paper's to the byte, but for inline ones of cuckoo tables, which have 8 bytes more above 8.",
        scale.slots,
        KEYS_PER_RECORD.round(),
        scale.lookups
    )
}

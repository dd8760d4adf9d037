//! The designs that are compared, each as the paper has it. A design more is an implementation of
//! [`TableDesign`] and an entry in [`SCHEMES`].

use super::design::{InsertionMoves, SizedTable, TableDesign};
use super::inline_race::{InlineRace, InlineRaceShape};
use super::running;
use super::trial::{Outcome, TableTrial, TrialFabric};
use crate::Result;
use crate::baseline::map_embed::{MapEmbed, MapEmbedTable};
use crate::baseline::tea::{TEA_STASH, Tea, TeaTable};
use crate::baseline::{BaselineOptions, BaselineTable, Homes, RoomPlanner};
use farslot::FieldSize;
use farslot::fabric::{Endpoint, Executor, RemoteAddr};
use farslot::index::Index;
use farslot::index::Sizing;
use farslot::index::duo::{DuoLayout, DuoOptions, DuoTable};
use farslot::index::race::{RaceLayout, RaceOptions, RaceTable};
use std::rc::Rc;

/// A design that is compared.
#[derive(Clone, Copy)]
pub(crate) struct ComparedDesign {
    pub(crate) name: &'static str,
    /// Does a trial with it.
    pub(crate) run: fn(&TableTrial, &TrialFabric) -> Result<Outcome>,
    /// The load factor at which the paper takes its insertions to cost the most.
    pub(crate) high_load: f64,
    /// Whether its batches are of the verbs of which the paper's are.
    pub(crate) has_published_verbs: bool,
    /// Its row and column in the published tables.
    pub(crate) published: usize,
}

/// All of them, CuckooDuo first: the paper's four, in its order, and RACE as it is here.
pub(crate) const SCHEMES: [ComparedDesign; 5] = [
    ComparedDesign {
        name: "CuckooDuo",
        run: running::run::<Duo>,
        high_load: 0.9,
        has_published_verbs: false,
        published: 0,
    },
    ComparedDesign {
        name: "MapEmbed",
        run: running::run::<MapEmbedDesign>,
        high_load: 0.9,
        has_published_verbs: true,
        published: 1,
    },
    ComparedDesign {
        name: "RACE",
        run: running::run::<InlineRaceDesign>,
        high_load: 0.9,
        has_published_verbs: true,
        published: 2,
    },
    ComparedDesign {
        name: "TEA",
        run: running::run::<TeaDesign>,
        high_load: 0.69,
        has_published_verbs: false,
        published: 3,
    },
    ComparedDesign {
        name: "RACE out of band",
        run: running::run::<RaceDesign>,
        high_load: 0.9,
        has_published_verbs: false,
        published: 2,
    },
];

/// CuckooDuo.
struct Duo;

fn duo_layout(trial: &TableTrial) -> Result<DuoLayout> {
    let field = FieldSize::Fixed(trial.field_bytes);
    let options = DuoOptions {
        bucket_slots: trial.bucket_slots,
        fingerprint_bits: trial.fingerprint_bits,
        ..DuoOptions::new(Sizing {
            load_factor: Some(1.0),
            ..Sizing::new(trial.slots, field, field, trial.seed)
        })
    };
    Ok(options.layout()?)
}

impl TableDesign for Duo {
    type Table<E: Endpoint> = DuoTable<E>;

    fn table_bytes(trial: &TableTrial) -> Result<u128> {
        Ok(duo_layout(trial)?.table_bytes())
    }

    fn create<E: Endpoint>(
        endpoint: Rc<E>,
        at: RemoteAddr,
        trial: &TableTrial,
    ) -> Result<SizedTable<DuoTable<E>>> {
        let layout = duo_layout(trial)?;
        Ok(SizedTable {
            slots: layout.slots(),
            slot_bytes: layout.slot_bytes(),
            table: DuoTable::open(endpoint, at, layout)?,
        })
    }

    fn local_bytes<E: Endpoint>(table: &DuoTable<E>) -> u64 {
        table.layout().index_bytes()
    }

    fn moved<E: Endpoint>(table: &DuoTable<E>) -> InsertionMoves {
        InsertionMoves::records(table.work().moved)
    }
}

fn baseline_options(trial: &TableTrial, stash: u32) -> BaselineOptions {
    let field = FieldSize::Fixed(trial.field_bytes);
    BaselineOptions {
        bucket_slots: trial.bucket_slots,
        stash,
        ..BaselineOptions::new(trial.slots, field, field, trial.seed)
    }
}

/// Bytes of a table, and its sizes.
fn opened<E: Endpoint, P: RoomPlanner>(
    table: BaselineTable<E, P>,
) -> SizedTable<BaselineTable<E, P>> {
    let layout = table.layout();
    SizedTable {
        slots: layout.slots(),
        slot_bytes: layout.slot_bytes(),
        table,
    }
}

/// MapEmbed, with a stash of 32 as in the paper.
struct MapEmbedDesign;

impl TableDesign for MapEmbedDesign {
    type Table<E: Endpoint> = BaselineTable<E, MapEmbed>;

    fn table_bytes(trial: &TableTrial) -> Result<u128> {
        Ok(MapEmbed::layout(&baseline_options(trial, 32))?.table_bytes())
    }

    fn create<E: Endpoint>(
        endpoint: Rc<E>,
        at: RemoteAddr,
        trial: &TableTrial,
    ) -> Result<SizedTable<Self::Table<E>>> {
        let options = baseline_options(trial, 32);
        Ok(opened(MapEmbedTable::create(endpoint, at, &options)?))
    }

    fn local_bytes<E: Endpoint>(table: &Self::Table<E>) -> u64 {
        table.design().local_bytes() as u64
    }

    fn moved<E: Endpoint>(table: &Self::Table<E>) -> InsertionMoves {
        InsertionMoves {
            records: table.work().moved,
            cells: table.design().adjusted(),
        }
    }
}

/// RACE with records in its slots, as in the paper.
struct InlineRaceDesign;

fn inline_race_shape(trial: &TableTrial) -> InlineRaceShape {
    InlineRaceShape::new(
        trial.slots,
        trial.bucket_slots,
        trial.field_bytes,
        trial.seed,
    )
}

impl TableDesign for InlineRaceDesign {
    type Table<E: Endpoint> = InlineRace<E>;

    fn table_bytes(trial: &TableTrial) -> Result<u128> {
        Ok(inline_race_shape(trial).table_bytes())
    }

    fn create<E: Endpoint>(
        endpoint: Rc<E>,
        at: RemoteAddr,
        trial: &TableTrial,
    ) -> Result<SizedTable<Self::Table<E>>> {
        let shape = inline_race_shape(trial);
        Ok(SizedTable {
            table: InlineRace::create(endpoint, at, shape),
            slots: shape.slots(),
            slot_bytes: shape.slot_bytes(),
        })
    }

    fn local_bytes<E: Endpoint>(_: &Self::Table<E>) -> u64 {
        0
    }

    fn moved<E: Endpoint>(_: &Self::Table<E>) -> InsertionMoves {
        InsertionMoves::default()
    }
}

/// RACE as the index crate has it, for any number of writers: its records are out of band, and a
/// slot is a word. One subtable, which does not split.
struct RaceDesign;

fn race_layout(trial: &TableTrial) -> Result<RaceLayout> {
    let field = FieldSize::Fixed(trial.field_bytes);
    let options = RaceOptions {
        bucket_slots: trial.bucket_slots,
        ..RaceOptions::new(Sizing {
            load_factor: Some(1.0),
            ..Sizing::new(trial.slots, field, field, trial.seed)
        })
    };
    Ok(options.layout()?)
}

impl TableDesign for RaceDesign {
    type Table<E: Endpoint> = RaceTable<E>;

    fn table_bytes(trial: &TableTrial) -> Result<u128> {
        Ok(race_layout(trial)?.table_bytes())
    }

    fn create<E: Endpoint>(
        endpoint: Rc<E>,
        at: RemoteAddr,
        trial: &TableTrial,
    ) -> Result<SizedTable<Self::Table<E>>> {
        let layout = race_layout(trial)?;
        let slots = layout.roots * layout.subtable_slots();
        let opening = RaceTable::open(Rc::clone(&endpoint), at, layout);
        Ok(SizedTable {
            table: Executor::new(endpoint).block_on(opening)?,
            slots,
            slot_bytes: 8,
        })
    }

    fn local_bytes<E: Endpoint>(table: &Self::Table<E>) -> u64 {
        table.state().client_bytes
    }

    fn moved<E: Endpoint>(table: &Self::Table<E>) -> InsertionMoves {
        InsertionMoves::records(table.work().moved)
    }
}

/// TEA, with a stash that is the same part of the table as in the published one.
struct TeaDesign;

fn tea_options(trial: &TableTrial) -> BaselineOptions {
    let part = u64::from(TEA_STASH) * trial.slots / trial.stands_for;
    let stash = u32::try_from(part).unwrap_or(u32::MAX).min(TEA_STASH);
    baseline_options(trial, stash)
}

impl TableDesign for TeaDesign {
    type Table<E: Endpoint> = BaselineTable<E, Tea>;

    fn table_bytes(trial: &TableTrial) -> Result<u128> {
        Ok(Tea::layout(&tea_options(trial))?.table_bytes())
    }

    fn create<E: Endpoint>(
        endpoint: Rc<E>,
        at: RemoteAddr,
        trial: &TableTrial,
    ) -> Result<SizedTable<Self::Table<E>>> {
        Ok(opened(TeaTable::create(endpoint, at, &tea_options(trial))?))
    }

    fn local_bytes<E: Endpoint>(table: &Self::Table<E>) -> u64 {
        table.design().local_bytes() as u64
    }

    fn moved<E: Endpoint>(table: &Self::Table<E>) -> InsertionMoves {
        InsertionMoves::records(table.work().moved)
    }
}

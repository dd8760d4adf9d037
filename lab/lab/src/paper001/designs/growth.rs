//! What doubling a table takes, of each design that grows: in the fabric's time and in verbs.

use super::trial::{record_bytes, simulated_memory};
use crate::baseline::map_embed::{MapEmbed, MapEmbedTable};
use crate::baseline::{BaselineOptions, CleaningMode, CopyPace};
use crate::{LabError, Result};
use farslot::FieldSize;
use farslot::fabric::sim::{NicProfile, SimEndpoint};
use farslot::fabric::{Endpoint, Executor, Nanos};
use farslot::index::Sizing;
use farslot::index::duo::{DuoGrowth, DuoLayout, DuoOptions, DuoTable, GrowthMemory};
use farslot::index::race::{RaceOptions, RaceTable};
use farslot::index::{Index, IndexError, IndexExt};
use farslot_bench::simulated::TABLE_AT;
use std::rc::Rc;

/// The stash of MapEmbed in paper 001.
const STASH: u32 = super::published::STASH;
/// What lies between a table and the memory that it grows into.
const ALIGNMENT: u64 = 4096;

/// A table that is to grow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrowthTrial {
    /// Slots before, at least.
    pub(crate) slots: u64,
    pub(crate) bucket_slots: u32,
    /// Bytes of a key, and of a value.
    pub(crate) field_bytes: u32,
    /// How full the table is when it grows; RACE's grows where a key finds no room.
    pub(crate) load: f64,
    pub(crate) seed: u64,
}

/// What a growth took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grown {
    /// Nanoseconds of the fabric's time.
    pub(crate) ns: Nanos,
    pub(crate) verbs: u64,
    /// Bytes that they moved, to the client and from it.
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// Keys that were in the table.
    pub(crate) keys: u64,
}

impl Grown {
    /// Bytes that the verbs moved.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }

    /// The least nanoseconds in which this NIC can serve so many verbs with so many bytes: at its
    /// responder, on its link to the client, and on that from it.
    pub(crate) fn least_ns(&self, profile: &NicProfile) -> f64 {
        let responder = profile.responder_ns;
        let served =
            self.verbs as f64 * responder.per_message + self.bytes() as f64 * responder.per_byte;
        let link = |bytes: u64| bytes as f64 / profile.link_bytes_per_ns;
        served
            .max(link(self.bytes_read))
            .max(link(self.bytes_written))
    }

    /// What the growth of a table with so many bytes of slots would move as paper 001 has it:
    /// nothing to copy, which its memory's owner does, and each bucket once to the client, by READs
    /// of so many bytes.
    pub(crate) const fn of_paper(slots: u64, read: u64) -> Self {
        Self {
            ns: 0,
            verbs: slots.div_ceil(read),
            bytes_read: slots,
            bytes_written: 0,
            keys: 0,
        }
    }
}

impl GrowthTrial {
    fn record(&self, number: u64) -> (Vec<u8>, Vec<u8>) {
        let field = |number| record_bytes(number, self.field_bytes, self.seed);
        (field(number), field(!number))
    }

    const fn field(&self) -> FieldSize {
        FieldSize::Fixed(self.field_bytes)
    }

    /// Puts keys until there are so many, or one finds no room; returns how many there are.
    async fn fill(&self, table: &impl Index, from: u64, keys: u64) -> Result<u64> {
        for number in from..keys {
            let (key, value) = self.record(number);
            match table.put(&key, &value).await {
                Err(IndexError::Full { .. }) => return Ok(number),
                put => put.map(drop)?,
            }
        }
        Ok(keys)
    }

    /// Looks every key up: a table that has lost one has not grown.
    async fn check(&self, table: &impl Index, keys: u64) -> Result<()> {
        let mut wrong = 0;
        for number in 0..keys {
            let (key, value) = self.record(number);
            let found = table.get(&key).await?;
            wrong += u64::from(found.as_deref() != Some(&value[..]));
        }
        if wrong > 0 {
            let operations = keys;
            return Err(LabError::wrong(wrong, operations));
        }
        Ok(())
    }
}

/// What happens on an endpoint while `work` is done.
async fn measured(
    endpoint: &SimEndpoint,
    keys: u64,
    work: impl Future<Output = farslot::index::Result<()>>,
) -> Result<Grown> {
    let counters = || endpoint.core().counters.snapshot();
    let (before, begun) = (counters(), endpoint.now());
    work.await?;
    let counted = counters().since(&before);
    Ok(Grown {
        ns: endpoint.now() - begun,
        verbs: counted.verbs.iter().sum(),
        bytes_read: counted.bytes_read,
        bytes_written: counted.bytes_written,
        keys,
    })
}

/// CuckooDuo: lazily it has its new room when the growth has begun, actively when every bucket is
/// split.
pub(crate) fn duo(
    trial: &GrowthTrial,
    profile: &NicProfile,
    cleaning: CleaningMode,
) -> Result<Grown> {
    // As much again, and the bits that say what is split.
    let room = |layout: &DuoLayout| layout.table_bytes() * 9 / 8;
    let (endpoint, opened, memory) = duo_table(trial, profile, room)?;
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        let most = (trial.load * opened.slots() as f64) as u64;
        let keys = trial.fill(&opened, 0, most).await?;
        let grown = measured(&endpoint, keys, async {
            opened.grow(&memory, 2).await?;
            match cleaning {
                CleaningMode::Active => opened.sweep().await,
                CleaningMode::Lazy => Ok(()),
            }
        });
        let grown = grown.await?;
        trial.check(&opened, keys).await?;
        Ok(grown)
    })
}

/// The CuckooDuo table that is to grow.
pub(crate) fn duo_layout(trial: &GrowthTrial) -> Result<DuoLayout> {
    let options = DuoOptions {
        bucket_slots: trial.bucket_slots,
        ..DuoOptions::new(Sizing {
            load_factor: Some(1.0),
            ..Sizing::new(trial.slots, trial.field(), trial.field(), trial.seed)
        })
    };
    Ok(options.layout()?)
}

/// A CuckooDuo table that nobody has used, and the memory behind it that it may grow into: of
/// `room` bytes.
fn duo_table(
    trial: &GrowthTrial,
    profile: &NicProfile,
    room: impl FnOnce(&DuoLayout) -> u128,
) -> Result<(Rc<SimEndpoint>, DuoTable<SimEndpoint>, GrowthMemory)> {
    let layout = duo_layout(trial)?;
    let table_bytes = table_end(layout.table_bytes());
    let memory = GrowthMemory {
        mark: TABLE_AT.plus(table_bytes),
        start: TABLE_AT.plus(table_bytes + ALIGNMENT),
        bytes: table_end(room(&layout)),
    };
    let bytes = table_bytes + ALIGNMENT + memory.bytes;
    let endpoint = simulated_memory(bytes, profile, trial.seed);
    let table = DuoTable::open(Rc::clone(&endpoint), TABLE_AT, layout)?;
    Ok((endpoint, table, memory))
}

/// MapEmbed: it is copied into other memory, and copies that are not a key's own are removed at
/// once or later.
pub(crate) fn map_embed(
    trial: &GrowthTrial,
    profile: &NicProfile,
    cleaning: CleaningMode,
    pace: CopyPace,
) -> Result<Grown> {
    let options = BaselineOptions {
        bucket_slots: trial.bucket_slots,
        stash: STASH,
        ..BaselineOptions::new(trial.slots, trial.field(), trial.field(), trial.seed)
    };
    let layout = MapEmbed::layout(&options)?;
    let before = table_end(layout.table_bytes());
    let endpoint = simulated_memory(4 * before, profile, trial.seed);
    let table = MapEmbedTable::create(Rc::clone(&endpoint), TABLE_AT, &options)?;
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        let most = (trial.load * layout.slots() as f64) as u64;
        let keys = trial.fill(&table, 0, most).await?;
        let to = TABLE_AT.plus(before);
        let grown = measured(&endpoint, keys, table.grow(to, cleaning, pace)).await?;
        trial.check(&table, keys).await?;
        Ok(grown)
    })
}

/// RACE: one subtable, which is split when a key finds no room; then the client that does so
/// carries over every slot. It does that beside its later writes, or all at once when it flushes,
/// as here.
pub(crate) fn race(trial: &GrowthTrial, profile: &NicProfile) -> Result<Grown> {
    let (endpoint, table) = race_table(trial, trial.slots, 2, profile)?;
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        let mut keys = 0;
        while table.work().splits == 0 {
            keys = trial.fill(&table, keys, keys + 1).await?;
        }
        let grown = measured(&endpoint, keys, table.flush()).await?;
        trial.check(&table, keys).await?;
        Ok(grown)
    })
}

/// A RACE table that may grow to so many times its size.
fn race_table(
    trial: &GrowthTrial,
    subtable_slots: u64,
    times: u64,
    profile: &NicProfile,
) -> Result<(Rc<SimEndpoint>, RaceTable<SimEndpoint>)> {
    let options = RaceOptions {
        most_capacity: Some(times * trial.slots),
        bucket_slots: trial.bucket_slots,
        subtable_slots: Some(subtable_slots),
        ..RaceOptions::new(Sizing {
            load_factor: Some(1.0),
            ..Sizing::new(trial.slots, trial.field(), trial.field(), trial.seed)
        })
    };
    let layout = options.layout()?;
    let bytes = table_end(layout.table_bytes());
    let endpoint = simulated_memory(bytes, profile, trial.seed);
    let opening = RaceTable::open(Rc::clone(&endpoint), TABLE_AT, layout);
    let table = Executor::new(Rc::clone(&endpoint)).block_on(opening)?;
    Ok((endpoint, table))
}

/// Where the next multiple of a page is behind so many bytes.
fn table_end(bytes: u128) -> u64 {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX / 8);
    bytes.next_multiple_of(ALIGNMENT)
}

/// Load factors of a table that takes ever more keys: by keys, keys per slot.
pub(crate) type Utilisation = Vec<(f64, f64)>;

/// CuckooDuo, which doubles whenever a key finds no slot, or at a load factor of `at_load`.
pub(crate) fn duo_utilisation(
    trial: &GrowthTrial,
    profile: &NicProfile,
    keys: u64,
    every: u64,
) -> Result<Utilisation> {
    let room = |layout: &DuoLayout| u128::from(keys) * 8 * layout.slot_bytes() as u128;
    let (endpoint, table, memory) = duo_table(trial, profile, room)?;
    let growth = DuoGrowth {
        at_load: trial.load,
        ..DuoGrowth::from(memory)
    };
    let table = table.with_growth(growth)?;
    let filling = fill_noting(trial, &table, keys, every, || table.slots());
    Executor::new(endpoint).block_on(filling)
}

/// RACE, which splits the subtable where a key finds no room.
pub(crate) fn race_utilisation(
    trial: &GrowthTrial,
    profile: &NicProfile,
    keys: u64,
    every: u64,
) -> Result<Utilisation> {
    let times = 4 * keys / trial.slots;
    let (endpoint, table) = race_table(trial, trial.slots, times, profile)?;
    let slots = || table.subtables() * table.layout().subtable_slots();
    let filling = fill_noting(trial, &table, keys, every, slots);
    Executor::new(endpoint).block_on(filling)
}

async fn fill_noting(
    trial: &GrowthTrial,
    table: &impl Index,
    keys: u64,
    every: u64,
    slots: impl Fn() -> u64,
) -> Result<Utilisation> {
    let (mut noted, mut there) = (Vec::new(), 0);
    while there < keys {
        let next = (there + every).min(keys);
        let filled = trial.fill(table, there, next).await?;
        if filled < next {
            return Err(IndexError::Full {
                probed: 0,
                slots: slots(),
            }
            .into());
        }
        there = next;
        noted.push((there as f64, there as f64 / slots() as f64));
    }
    Ok(noted)
}

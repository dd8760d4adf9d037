//! The schemes, and the tables that they would be.

use super::places::PlacementCounts;
use super::question::AdviceQuestion;
use crate::Result;
use farslot::index::Sizing;
use farslot::index::cuckoo::{CuckooLayout, CuckooOptions, LookupOrder};
use farslot::index::duo::{DuoLayout, DuoOptions};
use farslot::index::linear::RecordMix;
use farslot::index::linear::{LinearLayout, LinearOptions, ReadPolicy, ReadSizes};
use farslot::index::race::{RaceLayout, RaceOptions};
use farslot::index::sealed::{SealedForm, SealedLayout, SealedOptions, SlotOrder};
use farslot::index::{KeyRule, SlotKind};
use farslot::layout::{DuoShape, RaceShape};
use farslot::model::advise::{
    CuckooPlaces, CuckooReads, CuckooShape, DuoInsertion, Filling, RacePlaces,
};
use farslot::model::{ProbeDistribution, ReadSizeModel, TableLoad};
use farslot::read_cost;
use serde::Serialize;
use std::rc::Rc;

/// A scheme that may suit the question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SchemeCandidate {
    Linear(SlotKind),
    Sealed(SealedForm, SlotOrder),
    Cuckoo {
        kind: SlotKind,
        shape: CuckooShape,
        reads: CuckooReads,
    },
    Race,
    Duo {
        kind: SlotKind,
        /// Whether others look keys up beside the writer.
        readers: bool,
    },
}

/// A table that a scheme would be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What its slots hold.
    pub kind: SlotKind,
    /// Its load factor.
    pub load: f64,
    /// Its layout, and how lookups read.
    pub reads: Reads,
}

/// A layout, and how lookups read.
#[derive(Clone, Debug)]
pub enum Reads {
    /// Slots of a linear table, so many a READ.
    Linear {
        /// The layout.
        layout: LinearLayout,
        /// Slots of a READ.
        read_slots: u64,
    },
    /// Slots of a sealed linear table, so many a READ.
    Sealed {
        /// The layout.
        layout: SealedLayout,
        /// Slots of a READ.
        read_slots: u64,
    },
    /// Buckets of a cuckoo table.
    Cuckoo {
        /// The layout.
        layout: CuckooLayout,
        /// How its buckets are read.
        reads: CuckooReads,
        /// Where its keys stand.
        places: Rc<CuckooPlaces>,
        /// Whether it is built whole and never changed.
        sealed: bool,
    },
    /// Two pairs of buckets of a RACE table.
    Race {
        /// The layout.
        layout: RaceLayout,
        /// How full its buckets are.
        places: RacePlaces,
    },
    /// The slot of a CuckooDuo table that the client knows.
    Duo {
        /// The layout.
        layout: DuoLayout,
        /// What insertions meet.
        insertions: Rc<[DuoInsertion]>,
    },
}

/// How many clients may write to a table at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Writers {
    /// None, once it is built.
    None,
    /// One.
    One,
    /// Any number.
    Any,
}

/// Load factors that are tried, from the fastest on, where only the memory is given.
const LOADS: [f64; 8] = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];
/// The load factor where nothing is given: that of tables by default.
const USUAL_LOAD: f64 = 0.75;
/// That of sealed tables with a perfect hash function, and the highest that they have.
const PERFECT_LOAD: f64 = 0.99;
const MOST_PERFECT: f64 = 0.995;
/// The longest READ of slots, as in all tables.
const LONGEST_READ: usize = 16 << 10;

impl SchemeCandidate {
    /// All that may be considered. With several records a key, cuckoo lookups read all buckets at
    /// once.
    pub(super) fn all(question: &AdviceQuestion) -> Vec<Self> {
        let kinds = [
            SlotKind::Word,
            SlotKind::Pair,
            SlotKind::Inline,
            SlotKind::Heap,
        ];
        let mut all: Vec<_> = kinds.map(Self::Linear).to_vec();
        if question.values.len() > 1 {
            all.push(Self::Linear(SlotKind::Hybrid));
        }
        for form in [SealedForm::Inline, SealedForm::OutOfBand] {
            all.extend(
                [SlotOrder::ByHash, SlotOrder::Arrival, SlotOrder::Perfect]
                    .map(|order| Self::Sealed(form, order)),
            );
        }
        let mut orders = vec![CuckooReads::Parallel];
        if question.unique {
            orders.push(CuckooReads::Sequential);
        }
        if question.profile.gathers {
            orders.push(CuckooReads::Gathered);
        }
        let kinds = [SlotKind::Word, SlotKind::Inline, SlotKind::Heap];
        for kind in kinds.into_iter().chain([SlotKind::Signatures]) {
            let sizes: &[u32] = match kind {
                SlotKind::Signatures => &[4],
                _ => &[1, 4, 8],
            };
            for ways in 2..=4 {
                for bucket_slots in sizes.iter().copied() {
                    let shape = CuckooShape { ways, bucket_slots };
                    all.extend(orders.iter().map(|reads| Self::Cuckoo {
                        kind,
                        shape,
                        reads: *reads,
                    }));
                }
            }
        }
        all.push(Self::Race);
        for readers in [true, false] {
            let kinds = [SlotKind::Inline, SlotKind::Heap];
            all.extend(kinds.map(|kind| Self::Duo { kind, readers }));
        }
        all
    }

    pub(super) fn name(&self) -> String {
        let kind_name = |kind: &SlotKind| format!("{kind:?}").to_lowercase();
        match self {
            Self::Linear(kind) => format!("linear, {}", kind_name(kind)),
            Self::Sealed(form, order) => {
                let form = match form {
                    SealedForm::Inline => "inline",
                    SealedForm::OutOfBand => "out of band",
                };
                let order = match order {
                    SlotOrder::ByHash => "",
                    SlotOrder::Arrival => ", as they arrive",
                    SlotOrder::Perfect => ", perfect hash",
                };
                format!("sealed, {form}{order}")
            }
            Self::Cuckoo { kind, shape, reads } => format!(
                "cuckoo {} x {}, {}, {}",
                shape.ways,
                shape.bucket_slots,
                format!("{reads:?}").to_lowercase(),
                kind_name(kind)
            ),
            Self::Race => "race".into(),
            Self::Duo { kind, readers } => {
                let readers_note = if *readers { "" } else { ", writer alone" };
                format!("duo, {}{readers_note}", kind_name(kind))
            }
        }
    }

    /// Why a workload excludes the scheme, whatever its table.
    fn refusal(&self, question: &AdviceQuestion) -> Option<String> {
        let grows = matches!(self, Self::Race | Self::Duo { .. });
        let one_writer = match self {
            Self::Cuckoo { .. } => !question.sealed,
            Self::Duo { .. } => true,
            _ => false,
        };
        let why = match self {
            Self::Cuckoo { .. } if !question.unique && !question.sealed => {
                "keys with several records only in sealed tables"
            }
            Self::Race | Self::Duo { .. } if !question.unique => "its keys have one record each",
            Self::Sealed(_, SlotOrder::Perfect) if !question.unique => {
                "its keys have one record each"
            }
            Self::Sealed(..) if !question.sealed => "only for tables that never change (--sealed)",
            _ if question.grow_to.is_some() && !grows => "does not grow while it is used",
            _ if question.writers > 1 && one_writer => "one client at a time writes to it",
            Self::Duo { readers: false, .. } if question.clients > 1 => {
                "nobody but its writer looks keys up (for --clients 1)"
            }
            _ => return None,
        };
        Some(why.into())
    }

    /// The load factor beyond which the store refuses such tables.
    fn most_load(&self) -> f64 {
        match self {
            Self::Race => RaceShape::default().limit(),
            Self::Duo { .. } => DuoShape::default().limit(),
            Self::Sealed(_, SlotOrder::Perfect) => MOST_PERFECT,
            _ => 1.0,
        }
    }

    /// The table that it would be, or why there is none.
    pub(super) fn plan(
        &self,
        question: &AdviceQuestion,
        places: &mut PlacementCounts,
    ) -> std::result::Result<Plan, String> {
        if let Some(why) = self.refusal(question) {
            return Err(why);
        }
        let given = question.load.map(|load| vec![load]);
        let is_limited = question.memory.is_some() || question.client_memory.is_some();
        let loads = given.unwrap_or_else(|| match self {
            // No lookup takes longer the fuller it is.
            Self::Sealed(_, SlotOrder::Perfect) => vec![PERFECT_LOAD],
            _ if is_limited => LOADS.to_vec(),
            _ => vec![USUAL_LOAD],
        });
        let mut why = String::new();
        for load in loads {
            let plan = self.table(question, load, places).map(|reads| Plan {
                kind: self.kind(),
                load,
                reads,
            });
            match plan.and_then(|plan| plan.within(question)) {
                Ok(plan) => return Ok(plan),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    const fn kind(&self) -> SlotKind {
        match self {
            Self::Linear(kind) | Self::Cuckoo { kind, .. } | Self::Duo { kind, .. } => *kind,
            Self::Sealed(SealedForm::Inline, _) => SlotKind::Inline,
            Self::Race | Self::Sealed(SealedForm::OutOfBand, _) => SlotKind::Heap,
        }
    }

    fn table(
        &self,
        question: &AdviceQuestion,
        load: f64,
        places: &mut PlacementCounts,
    ) -> std::result::Result<Reads, String> {
        if load > self.most_load() {
            let most = self.most_load();
            return Err(format!("is full at {most}: not as full as {load}"));
        }
        let said = |error: farslot::index::IndexError| error.to_string();
        let (key, value) = (question.key_size(), question.value_size());
        let keys = if question.unique {
            KeyRule::Unique
        } else {
            KeyRule::Multi
        };
        let heap_bytes = |kind| match (self, kind) {
            (_, SlotKind::Heap) => question.heap_bytes(),
            (Self::Cuckoo { .. }, _) => None,
            // Values that are replaced leave their slots.
            (_, SlotKind::Inline | SlotKind::Hybrid) if question.updates > 0.0 => {
                question.heap_bytes()
            }
            _ => None,
        };
        match self {
            Self::Linear(kind) => {
                let mut layout = LinearOptions {
                    slot: Some(*kind),
                    ..LinearOptions::new(Sizing {
                        load_factor: Some(load),
                        keys,
                        heap_bytes: heap_bytes(*kind),
                        ..Sizing::new(question.entries, key, value, 0)
                    })
                };
                if *kind == SlotKind::Hybrid {
                    let mix = RecordMix {
                        sizes: &question.record_sizes(),
                        nic: read_cost(&question.profile),
                        objective: question.objective,
                        hit_ratio: question.hit_ratio,
                    };
                    layout = layout.hybrid_for(&mix).map_err(said)?;
                    if layout.slot != Some(SlotKind::Hybrid) {
                        return Err("no size of record is better off in its slot".into());
                    }
                }
                let layout = layout.layout().map_err(said)?;
                let policy = ReadPolicy::Modelled {
                    nic: read_cost(&question.profile),
                    objective: question.objective,
                    hit_ratio: question.hit_ratio,
                    capped: false,
                };
                let sizes = ReadSizes::new(&layout, policy).map_err(said)?;
                let read_slots = sizes.at_load(load).min(layout.slots);
                Ok(Reads::Linear { layout, read_slots })
            }
            Self::Sealed(form, order) => {
                let options = SealedOptions {
                    form: Some(*form),
                    order: *order,
                    ..SealedOptions::new(Sizing {
                        load_factor: Some(load),
                        keys,
                        ..Sizing::new(0, key, value, 0)
                    })
                };
                let heap = question.sealed_record().0 * question.entries as f64;
                let layout = options.holding(question.entries, heap as u64).layout();
                let layout = layout.map_err(said)?;
                let read_slots = sealed_read_slots(question, &layout);
                let read_slots = read_slots.map_err(|error| error.to_string())?;
                Ok(Reads::Sealed { layout, read_slots })
            }
            Self::Cuckoo { kind, shape, reads } => {
                let layout = CuckooOptions {
                    slot: Some(*kind),
                    ways: shape.ways,
                    bucket_slots: shape.bucket_slots,
                    ..CuckooOptions::new(Sizing {
                        load_factor: Some(load),
                        keys,
                        heap_bytes: heap_bytes(*kind),
                        ..Sizing::new(question.entries, key, value, 0)
                    })
                };
                let layout = layout.layout().map_err(said)?;
                let filling = if question.sealed {
                    Filling::Built
                } else {
                    Filling::Inserted
                };
                let places = places.cuckoo(*shape, load, filling);
                let places = places.ok_or_else(|| format!("does not get as full as {load}"))?;
                Ok(Reads::Cuckoo {
                    layout,
                    reads: *reads,
                    places,
                    sealed: question.sealed,
                })
            }
            Self::Race => {
                let layout = RaceOptions {
                    most_capacity: question.grow_to,
                    ..RaceOptions::new(Sizing {
                        load_factor: Some(load),
                        heap_bytes: heap_bytes(SlotKind::Heap),
                        ..Sizing::new(question.entries, key, value, 0)
                    })
                };
                let layout = layout.layout().map_err(said)?;
                let places = places.race(layout.bucket_slots, load);
                let places = places.ok_or_else(|| format!("does not get as full as {load}"))?;
                Ok(Reads::Race { layout, places })
            }
            Self::Duo { kind, readers } => {
                let layout = DuoOptions {
                    most_capacity: question.grow_to,
                    slot: *kind,
                    readers: *readers,
                    ..DuoOptions::new(Sizing {
                        load_factor: Some(load),
                        heap_bytes: match kind {
                            SlotKind::Heap => question.heap_bytes(),
                            _ => None,
                        },
                        ..Sizing::new(question.entries, key, value, 0)
                    })
                };
                let layout = layout.layout().map_err(said)?;
                let insertions = places.duo(&layout, load);
                let insertions =
                    insertions.ok_or_else(|| format!("does not get as full as {load}"))?;
                Ok(Reads::Duo { layout, insertions })
            }
        }
    }
}

impl Plan {
    /// The same, if it keeps to the limits of the memory.
    fn within(self, question: &AdviceQuestion) -> std::result::Result<Self, String> {
        let (bytes, load) = (self.reads.table_bytes(), self.load);
        if let Some(limit) = question.memory
            && bytes > u128::from(limit)
        {
            return Err(format!(
                "takes {bytes} bytes at load {load}: over the memory limit of {limit}"
            ));
        }
        let growth = self.reads.most_slots() as f64 / self.reads.slots() as f64;
        let bytes = (self.reads.client_bytes() as f64 * growth) as u64;
        match question.client_memory {
            Some(limit) if bytes > limit => Err(format!(
                "takes {bytes} bytes of each client's memory at load {load}, as large as it may get: over the limit of \
                 {limit}"
            )),
            _ => Ok(self),
        }
    }
}

/// What a client of a sealed table chooses by the model.
fn sealed_read_slots(question: &AdviceQuestion, layout: &SealedLayout) -> Result<u64> {
    let table = TableLoad::new(layout.slots, question.entries)?;
    let workload = question.workload()?;
    let distances = match layout.order {
        SlotOrder::Perfect => return Ok(1),
        SlotOrder::Arrival => ProbeDistribution::lookup(table, workload)?,
        SlotOrder::ByHash => ProbeDistribution::ordered(table, workload)?,
    };
    let (slot, nic) = (layout.slot_bytes(), read_cost(&question.profile));
    let model = ReadSizeModel::new(slot, question.objective, nic)?;
    let model = model.with_max_read_bytes(LONGEST_READ.max(slot))?;
    Ok(model.choose(&distances).read_size as u64)
}

impl Reads {
    /// Slots of the table.
    #[must_use]
    pub fn slots(&self) -> u64 {
        match self {
            Self::Linear { layout, .. } => layout.slots,
            Self::Sealed { layout, .. } => layout.slots,
            Self::Cuckoo { layout, .. } => layout.slots(),
            Self::Race { layout, .. } => layout.slots(),
            Self::Duo { layout, .. } => layout.slots(),
        }
    }

    /// Slots when it has grown as far as it can.
    #[must_use]
    pub fn most_slots(&self) -> u64 {
        match self {
            Self::Race { layout, .. } => layout.most_slots(),
            Self::Duo { layout, .. } => layout.most_slots(),
            other => other.slots(),
        }
    }

    /// How many clients may write at the same time.
    #[must_use]
    pub const fn writers(&self) -> Writers {
        match self {
            Self::Linear { .. } | Self::Race { .. } => Writers::Any,
            Self::Cuckoo { sealed: false, .. } | Self::Duo { .. } => Writers::One,
            Self::Cuckoo { sealed: true, .. } | Self::Sealed { .. } => Writers::None,
        }
    }

    /// Whether tables of the scheme can grow while they are used.
    #[must_use]
    pub const fn can_grow(&self) -> bool {
        matches!(self, Self::Race { .. } | Self::Duo { .. })
    }

    /// Bytes that a client keeps of the table in its own memory, as long as it has not grown.
    #[must_use]
    pub fn client_bytes(&self) -> u64 {
        match self {
            Self::Race { layout, .. } => layout.directory_bytes(),
            Self::Duo { layout, .. } => layout.index_bytes(),
            Self::Sealed { layout, .. } => layout.client_bytes(),
            Self::Linear { .. } | Self::Cuckoo { .. } => 0,
        }
    }

    /// Slots that a READ of a linear table fetches.
    #[must_use]
    pub fn read_slots(&self) -> Option<u64> {
        match self {
            Self::Linear { read_slots, .. } | Self::Sealed { read_slots, .. } => Some(*read_slots),
            Self::Cuckoo { .. } | Self::Race { .. } | Self::Duo { .. } => None,
        }
    }

    /// Bytes of the table, those that it may grow into included.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        match self {
            Self::Linear { layout, .. } => layout.table_bytes(),
            Self::Sealed { layout, .. } => layout.table_bytes(),
            Self::Cuckoo { layout, .. } => layout.table_bytes(),
            Self::Race { layout, .. } => layout.table_bytes(),
            Self::Duo { layout, .. } => layout.table_bytes(),
        }
    }
}

/// The order of READs, as the index calls it.
pub(super) const fn lookup_order(reads: CuckooReads) -> LookupOrder {
    match reads {
        CuckooReads::Sequential => LookupOrder::Sequential,
        CuckooReads::Parallel => LookupOrder::Parallel,
        CuckooReads::Gathered => LookupOrder::Gathered,
    }
}

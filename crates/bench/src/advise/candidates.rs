//! The schemes, and the tables that they would be.

use super::question::Question;
use crate::Result;
use farslot::index::cuckoo::{CuckooLayout, CuckooOptions, LookupOrder};
use farslot::index::linear::{LinearLayout, LinearOptions, ReadPolicy, ReadSizes};
use farslot::index::{KeyRule, SlotKind};
use farslot::model::advise::{CuckooPlaces, CuckooReads, CuckooShape, Filling};
use farslot::read_cost;

/// A scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Candidate {
    Linear(SlotKind),
    Cuckoo {
        kind: SlotKind,
        shape: CuckooShape,
        reads: CuckooReads,
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
    /// Buckets of a cuckoo table.
    Cuckoo {
        /// The layout.
        layout: CuckooLayout,
        /// How its buckets are read.
        reads: CuckooReads,
        /// Where its keys stand.
        places: CuckooPlaces,
        /// Whether it is built whole and never changed.
        sealed: bool,
    },
}

/// Load factors that are tried, from the fastest on, where only the memory is given.
const LOADS: [f64; 8] = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];
/// The load factor where nothing is given: that of tables by default.
const USUAL_LOAD: f64 = 0.75;

impl Candidate {
    /// All that may be considered. With several records a key, cuckoo lookups read all buckets at once.
    pub(super) fn all(question: &Question) -> Vec<Self> {
        let kinds = [
            SlotKind::Word,
            SlotKind::Pair,
            SlotKind::Inline,
            SlotKind::Heap,
        ];
        let mut all: Vec<_> = kinds.map(Self::Linear).to_vec();
        let mut orders = vec![CuckooReads::Parallel];
        if question.unique {
            orders.push(CuckooReads::Sequential);
        }
        if question.profile.gathers {
            orders.push(CuckooReads::Gathered);
        }
        for kind in kinds.into_iter().filter(|kind| *kind != SlotKind::Pair) {
            for ways in 2..=4 {
                for bucket_slots in [1, 4, 8] {
                    let shape = CuckooShape { ways, bucket_slots };
                    all.extend(orders.iter().map(|reads| Self::Cuckoo {
                        kind,
                        shape,
                        reads: *reads,
                    }));
                }
            }
        }
        all
    }

    pub(super) fn name(&self) -> String {
        let kind_name = |kind: &SlotKind| format!("{kind:?}").to_lowercase();
        match self {
            Self::Linear(kind) => format!("linear, {}", kind_name(kind)),
            Self::Cuckoo { kind, shape, reads } => format!(
                "cuckoo {} x {}, {}, {}",
                shape.ways,
                shape.bucket_slots,
                format!("{reads:?}").to_lowercase(),
                kind_name(kind)
            ),
        }
    }

    /// The table that it would be, or why there is none.
    pub(super) fn plan(&self, question: &Question) -> Result<std::result::Result<Plan, String>> {
        if matches!(self, Self::Cuckoo { .. }) && !question.unique && !question.sealed {
            return Ok(Err("keys with several records only in sealed tables".into()));
        }
        let given = question.load.map(|load| vec![load]);
        let loads = given.unwrap_or_else(|| match question.memory {
            Some(_) => LOADS.to_vec(),
            None => vec![USUAL_LOAD],
        });
        let mut why = String::new();
        for load in loads {
            let reads = match self.table(question, load) {
                Ok(reads) => reads,
                Err(error) => {
                    why = error;
                    continue;
                }
            };
            let bytes = reads.table_bytes();
            match question.memory {
                Some(limit) if bytes > u128::from(limit) => {
                    why = format!(
                        "takes {bytes} bytes at load {load}: over the memory limit of {limit}"
                    );
                }
                _ => {
                    let kind = match self {
                        Self::Linear(kind) | Self::Cuckoo { kind, .. } => *kind,
                    };
                    return Ok(Ok(Plan { kind, load, reads }));
                }
            }
        }
        Ok(Err(why))
    }

    fn table(&self, question: &Question, load: f64) -> std::result::Result<Reads, String> {
        let said = |error: farslot::index::IndexError| error.to_string();
        let (key, value) = (question.key_size(), question.value_size());
        let keys = if question.unique {
            KeyRule::Unique
        } else {
            KeyRule::Multi
        };
        let heap_bytes = |kind| match kind {
            SlotKind::Heap => question.heap_bytes(),
            // Values that are replaced leave their slots.
            SlotKind::Inline if question.updates > 0.0 => question.heap_bytes(),
            _ => None,
        };
        match self {
            Self::Linear(kind) => {
                let layout = LinearOptions {
                    load_factor: load,
                    slot: Some(*kind),
                    keys,
                    heap_bytes: heap_bytes(*kind),
                    ..LinearOptions::new(question.entries, key, value, 0)
                };
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
            Self::Cuckoo { kind, shape, reads } => {
                let layout = CuckooOptions {
                    load_factor: load,
                    slot: Some(*kind),
                    keys,
                    heap_bytes: heap_bytes(*kind),
                    ways: shape.ways,
                    bucket_slots: shape.bucket_slots,
                    ..CuckooOptions::new(question.entries, key, value, 0)
                };
                let layout = layout.layout().map_err(said)?;
                let filling = if question.sealed {
                    Filling::Built
                } else {
                    Filling::Inserted
                };
                let places = CuckooPlaces::find(*shape, load, filling);
                let places = places.ok_or_else(|| format!("does not get as full as {load}"))?;
                Ok(Reads::Cuckoo {
                    layout,
                    reads: *reads,
                    places,
                    sealed: question.sealed,
                })
            }
        }
    }
}

impl Reads {
    /// Bytes of the table.
    #[must_use]
    pub fn table_bytes(&self) -> u128 {
        match self {
            Self::Linear { layout, .. } => layout.table_bytes(),
            Self::Cuckoo { layout, .. } => layout.table_bytes(),
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

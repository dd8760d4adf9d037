//! What a look at every slot has shown, whatever the scheme.

use crate::{BucketCounts, Occupancy, cuckoo, duo, linear, race};

/// What was seen of a table, slot by slot. Others may have written meanwhile: it is no snapshot.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Survey {
    /// Of a linear table, or a set: how its keys cluster.
    Linear(linear::Survey),
    /// Of a cuckoo table: how full its buckets are.
    Cuckoo(cuckoo::Survey),
    /// Of a CuckooDuo table: how full its buckets are, and what its growth has left to do.
    Duo(duo::Survey),
    /// Of a RACE table: how its subtables have split, and what splits and dead clients have left.
    Race(race::Survey),
    /// Of a table whose counts tell all, as a sealed one: what its builder has counted, for nothing
    /// has changed since.
    Counted(Occupancy),
}

impl Survey {
    /// Of two partitions of a table together; the second's parts follow on the first's. Both are of
    /// one scheme.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Linear(one), Self::Linear(other)) => Self::Linear(linear::Survey {
                slots: one.slots + other.slots,
                live: one.live + other.live,
                dead: one.dead + other.dead,
                parts: [one.parts, other.parts].concat(),
                clusters: added(one.clusters, &other.clusters),
                longest_cluster: one.longest_cluster.max(other.longest_cluster),
                ..linear::Survey::default()
            }),
            (Self::Cuckoo(one), Self::Cuckoo(other)) => Self::Cuckoo(cuckoo::Survey {
                counts: together(one.counts, other.counts),
                displacements: one.displacements.wrapping_add(other.displacements),
            }),
            (Self::Duo(one), Self::Duo(other)) => Self::Duo(duo::Survey {
                counts: together(one.counts, other.counts),
                stashed: one.stashed + other.stashed,
                unsplit: one.unsplit + other.unsplit,
            }),
            (Self::Race(one), Self::Race(other)) => Self::Race(race::Survey {
                slots: one.slots + other.slots,
                live: one.live + other.live,
                begun: one.begun + other.begun,
                moving: one.moving + other.moving,
                behind: one.behind + other.behind,
                depths: added(one.depths, &other.depths),
                parts: [one.parts, other.parts].concat(),
            }),
            (Self::Counted(mut one), Self::Counted(other)) => {
                one += other;
                Self::Counted(one)
            }
            (one, _) => one,
        }
    }

    /// All slots.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        match self {
            Self::Linear(survey) => survey.slots,
            Self::Cuckoo(survey) => survey.counts.slots,
            Self::Duo(survey) => survey.counts.slots,
            Self::Race(survey) => survey.slots,
            Self::Counted(built) => built.slots,
        }
    }

    /// Slots that hold a record. In a cuckoo table whose writer has died, some keys may stand twice
    /// until they are next written.
    #[must_use]
    pub const fn live(&self) -> u64 {
        match self {
            Self::Linear(survey) => survey.live,
            Self::Cuckoo(survey) => survey.counts.live,
            Self::Duo(survey) => survey.counts.live,
            Self::Race(survey) => survey.live + survey.moving,
            Self::Counted(built) => built.entries,
        }
    }

    /// Slots of keys that were removed, or never got a value: no other key can have them.
    #[must_use]
    pub const fn dead(&self) -> u64 {
        match self {
            Self::Linear(survey) => survey.dead,
            Self::Cuckoo(_) | Self::Duo(_) | Self::Race(_) | Self::Counted(_) => 0,
        }
    }

    /// Slots in use, live or dead, per slot, 0 to 1.
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        match self {
            Self::Linear(survey) => survey.load_factor(),
            Self::Cuckoo(survey) => survey.counts.load_factor(),
            Self::Duo(survey) => survey.counts.load_factor(),
            Self::Race(survey) => survey.load_factor(),
            Self::Counted(built) => built.load_factor(),
        }
    }

    /// Slots in use per slot in each of up to 64 equal parts of the table, of a table over several
    /// nodes of each partition; of a sealed table nothing.
    #[must_use]
    pub fn parts(&self) -> &[f64] {
        match self {
            Self::Linear(survey) => &survey.parts,
            Self::Cuckoo(survey) => &survey.counts.parts,
            Self::Duo(survey) => &survey.counts.parts,
            Self::Race(survey) => &survey.parts,
            Self::Counted(_) => &[],
        }
    }
}

/// The buckets of two partitions.
fn together(one: BucketCounts, other: BucketCounts) -> BucketCounts {
    BucketCounts {
        slots: one.slots + other.slots,
        live: one.live + other.live,
        parts: [one.parts, other.parts].concat(),
        by_used: added(one.by_used, &other.by_used),
    }
}

/// Counts by class, added up.
fn added(mut one: Vec<u64>, other: &[u64]) -> Vec<u64> {
    one.resize(one.len().max(other.len()), 0);
    one.iter_mut()
        .zip(other)
        .for_each(|(sum, more)| *sum += more);
    one
}

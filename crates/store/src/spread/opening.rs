//! From a table's record in a catalog to its client, for each scheme.

use crate::duo::{DuoClient, DuoOwners};
use crate::lease::Leased;
use crate::{LookupOrder, ReadPolicy, Result, Scheme, StoreError, TableRecord};
use farslot_fabric::RemoteAddr;
use farslot_index::Index;
use farslot_index::cuckoo::CuckooTable;
use farslot_index::linear::{LinearLayout, LinearTable, ReadSizes};
use farslot_index::race::RaceTable;
use farslot_index::sealed::SealedTable;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// Opens tables of one scheme.
pub(crate) trait Opener {
    /// The client of such a table.
    type Client: Index + 'static;

    /// Opens the table of that record, which lies at `at`.
    async fn open(
        &self,
        endpoint: Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<Self::Client>;

    /// Bytes of this process's memory that the client of such a table may come to take, by the
    /// sizes in its record: what these cannot make large is not counted.
    fn client_bytes(&self, _: &Scheme) -> u64 {
        0
    }
}

/// How linear tables find their read sizes: costly to compute, the same for all threads and for all
/// partitions of a table.
pub(crate) struct KnownSizes {
    policy: ReadPolicy,
    look_ahead: bool,
    known: Mutex<Vec<(LinearLayout, ReadSizes)>>,
}

impl KnownSizes {
    pub(crate) fn new(policy: ReadPolicy, look_ahead: bool) -> Self {
        Self {
            policy,
            look_ahead,
            known: Mutex::default(),
        }
    }

    fn of(&self, layout: &LinearLayout) -> Result<ReadSizes> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, sizes)) = known.iter().find(|(of, _)| of == layout) {
            return Ok(sizes.clone());
        }
        let mut sizes = ReadSizes::new(layout, self.policy)?;
        if self.look_ahead {
            sizes = sizes.looking_ahead();
        }
        known.push((layout.clone(), sizes.clone()));
        Ok(sizes)
    }
}

/// Opens linear tables.
pub(crate) struct Linear {
    pub(crate) sizes: Arc<KnownSizes>,
    /// Clusters that a client remembers.
    pub(crate) hints: usize,
    /// Keys of which a client remembers where their records lie.
    pub(crate) record_locations: usize,
}

impl Opener for Linear {
    type Client = LinearTable<Leased>;

    async fn open(
        &self,
        endpoint: Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<LinearTable<Leased>> {
        let Scheme::Linear(layout) = &record.scheme else {
            return Err(of_another_scheme(record, "linear"));
        };
        let sizes = self.sizes.of(layout)?;
        let table = LinearTable::open(endpoint, at, layout.clone(), sizes).await?;
        Ok(table
            .with_cluster_hints(self.hints)
            .with_record_locations(self.record_locations))
    }
}

/// Opens cuckoo tables.
pub(crate) struct Cuckoo {
    pub(crate) order: LookupOrder,
    /// Whether a writer keeps the cuckoo graph.
    pub(crate) predetermines: bool,
}

impl Opener for Cuckoo {
    type Client = CuckooTable<Leased>;

    async fn open(
        &self,
        endpoint: Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<CuckooTable<Leased>> {
        let Scheme::Cuckoo(layout) = &record.scheme else {
            return Err(of_another_scheme(record, "cuckoo"));
        };
        let table = CuckooTable::open(endpoint, at, layout.clone(), self.order).await?;
        Ok(match self.predetermines {
            true => table.with_predetermination()?,
            false => table,
        })
    }

    fn client_bytes(&self, scheme: &Scheme) -> u64 {
        match scheme {
            Scheme::Cuckoo(layout) if self.predetermines => layout.predetermination_bytes(),
            _ => 0,
        }
    }
}

/// Opens RACE tables.
pub(crate) struct Race;

impl Opener for Race {
    type Client = RaceTable<Leased>;

    async fn open(
        &self,
        endpoint: Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<RaceTable<Leased>> {
        let Scheme::Race(layout) = &record.scheme else {
            return Err(of_another_scheme(record, "race"));
        };
        Ok(RaceTable::open(endpoint, at, layout.clone()).await?)
    }

    fn client_bytes(&self, scheme: &Scheme) -> u64 {
        match scheme {
            Scheme::Race(layout) => layout.most_directory_bytes(),
            _ => 0,
        }
    }
}

/// Opens CuckooDuo tables.
pub(crate) struct Duo(pub(crate) Arc<DuoOwners>);

impl Opener for Duo {
    type Client = DuoClient<Leased>;

    async fn open(
        &self,
        endpoint: Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<DuoClient<Leased>> {
        let Scheme::Duo(layout) = &record.scheme else {
            return Err(of_another_scheme(record, "duo"));
        };
        Ok(DuoClient::open(endpoint, at, record.id, layout, &self.0)?)
    }

    /// The index of a reader, and of the owner that it may become.
    fn client_bytes(&self, scheme: &Scheme) -> u64 {
        match scheme {
            Scheme::Duo(layout) => layout.most_index_bytes().saturating_mul(2),
            _ => 0,
        }
    }
}

/// Opens sealed tables.
pub(crate) struct Sealed(pub(crate) ReadPolicy);

impl Opener for Sealed {
    type Client = SealedTable<Leased>;

    async fn open(
        &self,
        endpoint: Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<SealedTable<Leased>> {
        let Scheme::Sealed(layout) = &record.scheme else {
            return Err(of_another_scheme(record, "sealed"));
        };
        Ok(SealedTable::open(endpoint, at, layout.clone(), self.0).await?)
    }
}

/// Partitions of one table are of one scheme.
fn of_another_scheme(record: &TableRecord, expected: &str) -> StoreError {
    StoreError::DamagedMap {
        name: record.name.clone(),
        reason: format!(
            "a partition is {}, another {expected}",
            record.scheme.name()
        ),
    }
}

//! From a table's record in a catalog to a client of it: the one place that knows every scheme's
//! own.
//!
//! Over the client of the scheme stand calls to the owner of the memory and a cache of answers,
//! each only where the store was opened so. The cache is the client's own. So it goes when the
//! client is taken away because its node came back empty, with all that the node had; and while
//! that is not known for sure, the client does not answer from it.

use crate::cache::Cache;
use crate::calls::client::asking::CallOptions;
use crate::calls::client::calling::CallingIndex;
use crate::catalog::record::Scheme;
use crate::duo::{DuoClient, DuoOwners};
use crate::error::bad_option;
use crate::expiry::ExpiryClock;
use crate::lease::Leased;
use crate::owned::queue::OwnedQueue;
use crate::owned::table::OwnedTable;
use crate::set::table::SetTable;
use crate::{Access, ErrorKind, LookupOrder, ReadPolicy, Result, StoreError, TableRecord};
use farslot_fabric::{Endpoint, EndpointExt, FabricError, RemoteAddr, Rights, shm};
use farslot_index::AnyIndex;
use farslot_index::cache::Cached;
use farslot_index::cuckoo::CuckooTable;
use farslot_index::linear::{LinearLayout, LinearTable, ReadSizes};
use farslot_index::race::RaceTable;
use farslot_index::sealed::SealedTable;
use farslot_set::shared::ChunkSizes;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// Clients that take no more than this are not measured against what the machine has.
const LITTLE: u64 = 64 << 20;

/// How a store opens clients of its tables.
#[derive(Clone)]
pub(crate) struct ClientFactory {
    /// How many slots the READs of linear and sealed tables fetch.
    pub(crate) sizes: Arc<KnownSizes>,
    /// Clusters that a client of a linear table remembers.
    pub(crate) cluster_hints: usize,
    /// Keys of which a client of a linear table remembers where their records lie.
    pub(crate) record_locations: usize,
    /// In which order the buckets of cuckoo tables are read.
    pub(crate) lookup_order: LookupOrder,
    /// Whether the writer of a cuckoo table keeps its graph.
    pub(crate) predetermines: bool,
    /// The owners of CuckooDuo tables that the process has.
    pub(crate) duo_owners: Arc<DuoOwners>,
    /// What was asked for.
    pub(crate) access: Access,
    /// Which operations are calls; nothing for READs alone.
    pub(crate) calls: Option<CallRule>,
    /// What each client has for its answers, and for what it keeps besides.
    pub(crate) cache: Option<Cache>,
    /// Bytes that a client may take; half of what the machine has free, if nothing is said.
    pub(crate) client_memory: Option<u64>,
    /// By which records expire.
    pub(crate) clock: ExpiryClock,
}

/// Which operations are calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CallRule {
    /// Writes too, of schemes that admit any number of writers.
    pub(crate) writes: bool,
    /// Whether calls were asked for: then the owner also writes to tables of one writer, and a
    /// table is not opened where the owner answers no calls.
    pub(crate) is_forced: bool,
}

/// Whether the owner executes lookups in tables of a scheme, and whether writes.
///
/// A cuckoo table has one writer at a time. The owner is that for as long as a call lasts, so that
/// all who call write. It is asked only by those who have asked for calls: beside them a client
/// that writes by verbs, and stays the writer, keeps them out, and may find itself kept out. A
/// CuckooDuo table is read by an index of it in the reader's memory, which saves what a call would.
pub(crate) const fn executes(scheme: &Scheme) -> (bool, bool) {
    match scheme {
        Scheme::Linear(_) | Scheme::Race(_) | Scheme::Cuckoo(_) | Scheme::Set(_) => (true, true),
        Scheme::Sealed(_) => (true, false),
        Scheme::Duo(_) | Scheme::Chained(_) | Scheme::Ordered(_) | Scheme::Queue(_) => {
            (false, false)
        }
    }
}

/// Whether one client writes to tables of a scheme at a time.
pub(crate) const fn has_one_writer(scheme: &Scheme) -> bool {
    matches!(scheme, Scheme::Cuckoo(_) | Scheme::Duo(_))
}

impl ClientFactory {
    /// Opens the table of that record, which lies at `at`.
    pub(crate) async fn open(
        &self,
        endpoint: &Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<AnyIndex> {
        self.check_memory(record)?;
        let client = match self.client_of(endpoint, at, record).await {
            Ok(client) => self.with_calls(client, endpoint, at, record).await?,
            Err(error) if error.kind() == ErrorKind::AccessDenied => self
                .of_single_keys(endpoint, at, record)
                .await?
                .ok_or(error)?,
            Err(error) => return Err(error),
        };
        let cache = self.cache.filter(|cache| cache.is_for(&record.scheme));
        Ok(match cache {
            Some(cache) => Rc::new(Cached::within(client, cache.options(&record.scheme))?),
            None => client,
        })
    }

    /// The client of the scheme.
    async fn client_of(
        &self,
        endpoint: &Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<AnyIndex> {
        if record.is_told {
            // It does not know where keys are, nor may it look.
            return Err(StoreError::Fabric(FabricError::AccessDenied {
                at,
                needed: Rights::READ,
                granted: Rights::NONE,
            }));
        }
        let endpoint = Rc::clone(endpoint);
        let now = {
            let (endpoint, clock) = (Rc::clone(&endpoint), self.clock);
            move || clock.for_room(|| endpoint.now())
        };
        Ok(match &record.scheme {
            Scheme::Linear(layout) => {
                let sizes = self.sizes.of(layout)?;
                let table = LinearTable::open(endpoint, at, layout.clone(), sizes).await?;
                let table = table
                    .with_clock(now)
                    .with_cluster_hints(self.cluster_hints)
                    .with_record_locations(self.record_locations);
                Rc::new(table)
            }
            Scheme::Cuckoo(layout) => {
                let order = self.lookup_order;
                let table = CuckooTable::open(endpoint, at, layout.clone(), order).await?;
                Rc::new(match self.predetermines {
                    true => table.with_predetermination()?,
                    false => table,
                })
            }
            Scheme::Sealed(layout) => {
                let policy = self.sizes.policy;
                Rc::new(SealedTable::open(endpoint, at, layout.clone(), policy).await?)
            }
            Scheme::Race(layout) => {
                // One without a directory is opened without a READ, and so without the right to
                // any.
                if self.calls.is_some() {
                    endpoint.read(at, 8).await?;
                }
                let table = RaceTable::open(endpoint, at, layout.clone()).await?;
                Rc::new(table.with_clock(now))
            }
            Scheme::Set(layout) => {
                // It is opened without a READ otherwise.
                if self.calls.is_some() {
                    endpoint.read(at, 8).await?;
                }
                let chunks = self.sizes.chunks()?;
                Rc::new(SetTable::open(endpoint, at, layout, chunks)?)
            }
            Scheme::Duo(layout) => {
                let owners = &self.duo_owners;
                Rc::new(DuoClient::open(endpoint, at, record.id, layout, owners)?)
            }
            Scheme::Chained(_) | Scheme::Ordered(_) => {
                Rc::new(OwnedTable::open(&endpoint, self.access, at, record)?)
            }
            Scheme::Queue(layout) => {
                let queue = OwnedQueue::open(&endpoint, self.access, at, record, layout)?;
                Rc::new(queue)
            }
        })
    }

    /// The client, with the owner asked first for what the owner executes.
    async fn with_calls(
        &self,
        client: AnyIndex,
        endpoint: &Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<AnyIndex> {
        let Some((rule, options)) = self.calls_of(at, record) else {
            return Ok(client);
        };
        let calling = CallingIndex::new(client, Rc::clone(endpoint), options);
        if rule.is_forced {
            calling.check_owner().await?;
        }
        Ok(Rc::new(calling))
    }

    /// The client of a table whose memory is not opened to it, if the grant opens single keys.
    async fn of_single_keys(
        &self,
        endpoint: &Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<Option<AnyIndex>> {
        let Some((_, options)) = self.calls_of(at, record) else {
            return Ok(None);
        };
        // The owner says which writes it executes.
        let options = CallOptions {
            writes: true,
            ..options
        };
        let client = CallingIndex::of_single_keys(endpoint, options).await?;
        Ok(client.map(|client| Rc::new(client) as AnyIndex))
    }

    /// What the owner of the table is asked for, if it is asked at all.
    fn calls_of(&self, at: RemoteAddr, record: &TableRecord) -> Option<(CallRule, CallOptions)> {
        let (Some(rule), (true, writes)) = (self.calls, executes(&record.scheme)) else {
            return None;
        };
        let one_writer = has_one_writer(&record.scheme);
        let options = CallOptions {
            table: crate::catalog::at(at.node, record.offset),
            id: record.id,
            writes: writes && rule.writes && (!one_writer || rule.is_forced && !self.predetermines),
            one_writer,
            longest_value: record.scheme.stored_sizes().1.most(),
        };
        Some((rule, options))
    }

    /// Refuses a table whose client may need more memory than it is given: the sizes in the record
    /// are another's.
    fn check_memory(&self, record: &TableRecord) -> Result<()> {
        let needed = self.client_bytes(&record.scheme);
        let limit = match self.client_memory {
            Some(limit) => limit,
            None if needed <= LITTLE => return Ok(()),
            None => shm::available_memory() / 2,
        };
        if needed <= limit {
            return Ok(());
        }
        Err(StoreError::ClientMemory {
            name: record.name.clone(),
            needed,
            limit,
        })
    }

    /// Bytes of this process's memory that the client of such a table may come to take, by the
    /// sizes in its record: what these cannot make large is not counted.
    fn client_bytes(&self, scheme: &Scheme) -> u64 {
        match scheme {
            Scheme::Cuckoo(layout) if self.predetermines => layout.predetermination_bytes(),
            Scheme::Race(layout) => layout.most_directory_bytes(),
            // The index of a reader, and of the owner that it may become.
            Scheme::Duo(layout) => layout.most_index_bytes().saturating_mul(2),
            Scheme::Sealed(layout) => layout.client_bytes(),
            Scheme::Linear(_)
            | Scheme::Cuckoo(_)
            | Scheme::Set(_)
            | Scheme::Chained(_)
            | Scheme::Ordered(_)
            | Scheme::Queue(_) => 0,
        }
    }
}

/// Tables whose read sizes are kept: the latest.
const MOST_SIZES: usize = 256;

/// How linear tables and sets find their read sizes: costly to compute, the same for all threads
/// and for all partitions of a table.
pub(crate) struct KnownSizes {
    policy: ReadPolicy,
    look_ahead: bool,
    /// Of sets: the same for all of them, once one was opened.
    chunks: Mutex<Option<ChunkSizes>>,
    known: Mutex<Vec<(LinearLayout, ReadSizes)>>,
}

impl KnownSizes {
    pub(crate) fn new(policy: ReadPolicy, look_ahead: bool) -> Self {
        Self {
            policy,
            look_ahead,
            chunks: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// Those of sets: every client of a set examines the same number of buckets.
    fn chunks(&self) -> Result<ChunkSizes> {
        let mut known = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunks) = &*known {
            return Ok(chunks.clone());
        }
        let most = ChunkSizes::REACH;
        let chosen = match self.policy {
            ReadPolicy::Fixed(slots) => {
                let buckets = u64::from(slots).clamp(8, most).next_power_of_two();
                ChunkSizes::fixed(buckets as usize, (most / buckets) as usize)
            }
            ReadPolicy::Modelled {
                nic,
                objective,
                hit_ratio,
                ..
            } => ChunkSizes::chosen(nic, objective, hit_ratio),
        };
        let chosen = chosen.map_err(|error| bad_option("read policy", error, "another"))?;
        Ok(known.insert(chosen).clone())
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
        if known.len() == MOST_SIZES {
            known.remove(0);
        }
        known.push((layout.clone(), sizes.clone()));
        Ok(sizes)
    }
}

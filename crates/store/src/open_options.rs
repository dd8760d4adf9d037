//! How stores are opened.

use crate::cache::Cache;
use crate::client_metrics::ClientMetrics;
use crate::{Result, StoreError};
use farslot_fabric::tcp::{ConnectOptions, Secret, TlsClient};
use farslot_fabric::verbs::{DeviceOptions, VerbsOptions};
use farslot_fabric::{Limits, Rights};
use farslot_index::cuckoo::LookupOrder;
use farslot_index::linear::ReadPolicy;
use serde::Deserialize;
use std::time::Duration;

/// Keys of which a thread remembers where their records lie, where
/// [`OpenOptions::record_locations`] does not say: four MiB of memory for each table that it has
/// open, once that many keys were met.
pub const RECORD_LOCATIONS: usize = 1 << 18;

/// By what a table's operations are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// By one-sided verbs alone: the owner of the memory takes no part. Chained and ordered tables
    /// it writes all the same, and their lookups begin with a READ.
    Reads,
    /// By calls: the owner executes operations in its own memory, each in one round trip, many in
    /// one call. Opening a table fails where the owner answers no calls. A cuckoo table then has
    /// any number of writers, for which its owner writes. Keys and ranges of chained and ordered
    /// tables are looked up by calls, one each. Over RDMA verbs lookups are calls and writes are
    /// not: a NIC's atomics are not atomic against those of the owner's processor. CuckooDuo tables
    /// are used by verbs all the same, as is whatever the owner leaves to the client. A simulated
    /// owner's atomics are atomic against those of clients, which no NIC promises.
    Calls,
    /// By whichever is cheaper: by calls over TCP, where the other side is a processor anyway, and
    /// else by verbs.
    #[default]
    Auto,
}

impl Access {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Reads, Self::Calls, Self::Auto];

    /// Its name in commands and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Calls => "calls",
            Self::Auto => "auto",
        }
    }
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// How a store is opened, where the defaults do not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenOptions {
    /// Bytes of an `embedded` store; by default half of what the machine has free. Other addresses
    /// have what is served there, and refuse it.
    pub memory: Option<u64>,
    /// What each thread's endpoint may hold, and how long it waits.
    pub limits: Limits,
    /// How lookups in a linear table find their read size; by default for throughput, by the costs
    /// of the fabric.
    pub read_policy: Option<ReadPolicy>,
    /// Whether lookups in a linear table request the next chunk ahead (paper 002).
    pub look_ahead: bool,
    /// How many of the largest clusters of a linear table each thread remembers (paper 000, section
    /// 3.4). For keys with many records each; lookups of unique keys gain little, and each pays for
    /// it.
    pub cluster_hints: usize,
    /// For how many keys of a linear table each thread remembers where their records lie out of
    /// band, on each node that the table is on: lookups and updates of these take one round trip,
    /// of others two and three. 16 bytes a key; 0 for none; by default [`RECORD_LOCATIONS`] where
    /// the memory is behind a network, or what a quarter of [`OpenOptions::cache`] has room for.
    pub record_locations: Option<usize>,
    /// A cache of answers for each table that a thread has open; none by default.
    pub cache: Option<Cache>,
    /// Bytes of this process's memory that the client of one table (or of a partition of one) may
    /// come to take for its directory, index or graph, by what the table's record in the catalog
    /// says; by default half of what the machine has free. A table that may need more is refused
    /// with [`ClientMemory`](crate::StoreError::ClientMemory) before anything is allocated.
    pub client_memory: Option<u64>,
    /// In which order a lookup reads the buckets of a cuckoo table.
    pub lookup_order: LookupOrder,
    /// Whether the writer of a cuckoo table keeps in its memory where each record could also be,
    /// and so knows, nearly always without a round trip, which insertions have no place, and which
    /// records others move (`CuckooLayout::predetermination_bytes` for each partition; it reads the
    /// table once when it becomes the writer).
    pub predetermination: bool,
    /// By what operations are done: one-sided verbs, or calls of the owner.
    pub access: Access,
    /// What may be done to the memory.
    pub rights: Rights,
    /// The name of the grant under which a `tcp://` or `verbs://` address is used.
    pub grant: String,
    /// What a node at a `tcp://` or `verbs://` address must know, and wants to see proved, as it
    /// may at a `tcps://` address.
    pub secret: Option<Secret>,
    /// Which nodes at a `tcps://` address are trusted, and the certificate by which this client
    /// proves itself, if it has one.
    pub tls: Option<TlsClient>,
    /// How long it may take to be connected to a `tcp://` or `verbs://` address, and admitted.
    pub connect_timeout: Duration,
    /// Where what the tables do is counted and timed; nowhere by default, and then at no cost.
    pub metrics: Option<ClientMetrics>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            memory: None,
            limits: Limits::default(),
            read_policy: None,
            look_ahead: false,
            cluster_hints: 0,
            record_locations: None,
            cache: None,
            client_memory: None,
            lookup_order: LookupOrder::default(),
            predetermination: false,
            access: Access::default(),
            rights: Rights::ALL,
            grant: ConnectOptions::default().grant,
            secret: None,
            tls: None,
            connect_timeout: ConnectOptions::default().connect_timeout,
            metrics: None,
        }
    }
}

impl OpenOptions {
    pub(crate) fn connect(&self) -> ConnectOptions {
        ConnectOptions {
            grant: self.grant.clone(),
            secret: self.secret.clone(),
            rights: self.rights,
            connect_timeout: self.connect_timeout,
            limits: self.limits,
            ..ConnectOptions::default()
        }
    }

    /// As [`OpenOptions::connect`], under TLS.
    ///
    /// # Errors
    /// [`StoreError::BadAddress`] if nothing says which nodes are trusted.
    pub(crate) fn connect_under_tls(&self, address: &str) -> Result<ConnectOptions> {
        let tls = self.tls.clone().ok_or_else(|| StoreError::BadAddress {
            address: address.into(),
            reason: "nothing says which nodes are trusted: an authority or a fingerprint must"
                .into(),
        })?;
        Ok(ConnectOptions {
            tls: Some(tls),
            ..self.connect()
        })
    }

    pub(crate) fn verbs(&self, device: &DeviceOptions) -> VerbsOptions {
        VerbsOptions {
            connect: self.connect(),
            device: device.clone(),
            ..VerbsOptions::default()
        }
    }

    /// How many records a client of a table, or of a partition with a share of the cache, remembers
    /// the locations of. By default none where memory is not behind a network: a round trip costs
    /// next to nothing over shared memory, and a simulation shall measure what was asked for.
    pub(crate) fn record_locations_for(&self, networked: bool, cache: Option<Cache>) -> usize {
        self.record_locations.unwrap_or(match networked {
            true => cache.map_or(RECORD_LOCATIONS, |cache| {
                cache.record_locations().min(RECORD_LOCATIONS)
            }),
            false => 0,
        })
    }
}

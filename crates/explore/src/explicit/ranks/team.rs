//! Ranks that are processes: how they get to each other's memory.

use super::ring::{Exchange, OwnMemory, RingShape};
use super::table::{PartMemory, SharedTableMemory, TableShape};
use crate::error::{ExploreError, RankError};
use crate::mapped;
use crate::terms::Terms;
use farslot_fabric::shm::{MappedWords, Node, RegionSpec, ShmEndpoint};
use farslot_fabric::tcp::{
    Agent, AgentOptions, ConnectOptions, Grant, Secret, ServeOptions, TcpEndpoint,
};
use farslot_fabric::{AnyEndpoint, Executor, FabricError, Limits, RegionId, Rights};
use farslot_set::job::Job;
use std::io::Read;
use std::rc::Rc;
use std::time::Duration;

/// The longest that a verb waits for its answer, and a rank for another's agent: longer than a busy
/// machine keeps a thread waiting.
const PATIENCE: Duration = Duration::from_secs(30);

/// What joins the ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankFabric {
    /// Shared memory: processes of one machine.
    Shm,
    /// TCP: of any. Every rank listens at this address, `HOST:PORT`, port 0 for any.
    Tcp(String),
}

/// A process among those that explore together.
#[derive(Debug)]
pub struct Team {
    job: Job,
    exchange: Exchange,
    endpoint: Rc<AnyEndpoint>,
    /// Serves this rank's memory.
    _server: MemoryServer,
}

#[derive(Debug)]
enum MemoryServer {
    Shm(#[allow(dead_code, reason = "held so that it is served")] Node),
    Tcp(#[allow(dead_code, reason = "held so that it is served")] Agent),
}

impl Team {
    /// Lends this rank's memory to the others of a job, and gets theirs: all ranks call this, with
    /// the same `shape`, for an exploration of the same `terms`, and with a table of the same shape
    /// if they share one.
    ///
    /// # Errors
    /// [`RankError::Job`], also where a rank has other terms; [`RankError::Fabric`].
    pub fn meet(
        mut job: Job,
        over: &RankFabric,
        shape: RingShape,
        table: Option<TableShape>,
        terms: Terms,
    ) -> Result<Self, RankError> {
        let fabric = match over {
            RankFabric::Shm => "shm",
            RankFabric::Tcp(_) => "tcp",
        };
        let terms = terms.and("way", "state by state").and("fabric", fabric);
        let terms = terms.and("table", table.map_or("own".into(), TableShape::term));
        terms.agree(&mut job)?;
        let rank = job.rank() as usize;
        let failed = |error| RankError::Fabric { rank, error };
        let mut bytes = vec![shape.region_bytes()];
        if let Some(table) = table {
            let ranks = shape.ranks() as u64;
            let regions = table.regions();
            bytes.extend(regions.map_err(|_| RankError::TooManyRanks { ranks })?);
        }
        let rights = Rights::ALL;
        let regions: Vec<_> = bytes
            .into_iter()
            .map(|len| RegionSpec { len, rights })
            .collect();
        let connection = match over {
            RankFabric::Shm => over_shm(&mut job, &regions)?,
            RankFabric::Tcp(listen) => over_tcp(&mut job, &regions, listen)?,
        };
        let endpoint = Rc::new(connection.endpoint);
        let memory =
            OwnMemory::Mapped(MappedWords::of(&connection.node, RegionId(0)).map_err(failed)?);
        let mut exchange = Exchange::new(Rc::clone(&endpoint), rank, shape, memory)?;
        if let Some(table) = table {
            exchange = exchange.with_table(SharedTableMemory::new(table, connection.parts));
        }
        job.barrier()?;
        Ok(Self {
            job,
            exchange,
            endpoint,
            _server: connection.server,
        })
    }

    /// This process's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.job.rank()
    }

    /// Runs this rank's part of something, and waits at its end until all ranks have come to it:
    /// until then the others may still look at this rank's memory.
    ///
    /// # Errors
    /// As `part`; [`RankError::Job`].
    pub fn run<T>(
        mut self,
        part: impl AsyncFnOnce(&mut Exchange) -> Result<T, ExploreError>,
    ) -> Result<T, ExploreError> {
        let executor = Executor::new(self.endpoint);
        let outcome = executor.block_on(part(&mut self.exchange))?;
        self.job.barrier().map_err(RankError::Job)?;
        Ok(outcome)
    }
}

fn limits() -> Limits {
    Limits {
        verb_timeout: PATIENCE.as_nanos() as u64,
        ..Limits::default()
    }
}

/// How a rank that has met the others reaches them.
struct RankConnection {
    endpoint: AnyEndpoint,
    /// Its own memory.
    node: Node,
    /// All ranks' memory, as this one reaches it.
    parts: Vec<PartMemory>,
    server: MemoryServer,
}

fn over_shm(job: &mut Job, regions: &[RegionSpec]) -> Result<RankConnection, RankError> {
    let nodes = mapped::meet(job, regions)?;
    let node = nodes[job.rank() as usize].clone();
    Ok(RankConnection {
        parts: nodes.iter().cloned().map(PartMemory::Mapped).collect(),
        endpoint: AnyEndpoint::Shm(ShmEndpoint::new(nodes, limits())),
        node: node.clone(),
        server: MemoryServer::Shm(node),
    })
}

fn over_tcp(
    job: &mut Job,
    regions: &[RegionSpec],
    listen: &str,
) -> Result<RankConnection, RankError> {
    let rank = job.rank() as usize;
    let failed = |error| RankError::Fabric { rank, error };
    // Rank 0's secret keeps everybody out who is not of this job.
    let mut bytes = [0; 32];
    if rank == 0 {
        let random = std::fs::File::open("/dev/urandom");
        let random = random.and_then(|mut random| random.read_exact(&mut bytes));
        random.map_err(|error| {
            failed(FabricError::Os {
                call: "reading /dev/urandom",
                error: error.to_string(),
            })
        })?;
    }
    let secret = job.all_gather(&bytes)?.swap_remove(0);
    let secret = Secret::new(secret).map_err(failed)?;
    let node = Node::embedded(regions).map_err(failed)?;
    let options = AgentOptions::from(ServeOptions {
        listen: listen.into(),
        grants: vec![Grant::everything(Some(secret.clone()))],
        ..ServeOptions::default()
    });
    let agent = Agent::start(node.clone(), &options).map_err(failed)?;
    let addresses = job.all_gather(agent.address().to_string().as_bytes())?;
    let addresses = addresses.iter().enumerate();
    let addresses: Result<Vec<String>, _> = addresses
        .map(|(of, address)| mapped::text_of(of, address))
        .collect();
    let options = ConnectOptions {
        secret: Some(secret),
        connect_timeout: PATIENCE,
        limits: limits(),
        ..ConnectOptions::default()
    };
    let endpoint = TcpEndpoint::connect(&addresses?, &options).map_err(failed)?;
    let parts = (0..job.ranks() as usize).map(|of| match of == rank {
        true => PartMemory::Mapped(node.clone()),
        false => PartMemory::Remote,
    });
    Ok(RankConnection {
        parts: parts.collect(),
        endpoint: AnyEndpoint::Tcp(endpoint),
        node,
        server: MemoryServer::Tcp(agent),
    })
}

//! How an endpoint creates and connects its queue pairs.

use super::setup::Setup;
use crate::error::Carrier;
use crate::net::admission::{Admitted, Attempt};
use crate::net::dialer::Connection;
use crate::net::wire::FrameKind;
use crate::verbs::device::Device;
use crate::verbs::options::VerbsOptions;
use crate::verbs::path::{self, KeyedArea, QueuePairAddress};
use crate::verbs::resource::{
    CompletionChannel, CompletionQueue, ProtectionDomain, QueuePair, QueuePairCapacity,
};
use crate::{Backoff, FabricError, NodeInfo, Result, Rights};
use smallvec::SmallVec;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

/// What the queue pairs of an endpoint share on this machine's device.
#[derive(Clone)]
pub(super) struct NicResources {
    pub(super) device: Arc<Device>,
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) channel: Arc<CompletionChannel>,
    pub(super) completions: Arc<CompletionQueue>,
    /// Requests that may be on their way, to all nodes together and to any one of them.
    pub(super) requests: u32,
}

impl NicResources {
    /// Opens the device that has the address of the first set-up connection, or the one that was
    /// chosen.
    pub(super) fn open(options: &VerbsOptions, setup: &TcpStream) -> Result<Self> {
        let local = setup.local_addr().ok().map(|address| address.ip());
        let device = Device::open(&options.device, local)?;
        let most = |limit: i32| u32::try_from(limit).unwrap_or(u32::MAX).max(1);
        let of_device = most(device.attributes.max_qp_wr).min(most(device.attributes.max_cqe) / 2);
        let wanted = u32::try_from(options.connect.limits.send_queue_depth).unwrap_or(u32::MAX);
        // A gather takes a request for each of its pieces.
        let requests = wanted.max(LEAST_REQUESTS).min(of_device);
        let domain = ProtectionDomain::new(&device)?;
        let channel = CompletionChannel::new(&device)?;
        // Twice as many: of a queue pair that has gone there may be as many left as are on their
        // way.
        let completions = CompletionQueue::new(&device, 2 * requests, Some(Arc::clone(&channel)))?;
        Ok(Self {
            device,
            domain,
            channel,
            completions,
            requests,
        })
    }
}

/// Room for the pieces of a gather even where few verbs may be on their way.
const LEAST_REQUESTS: u32 = 64;

/// The device, once the first set-up connection has shown which.
pub(super) struct DeviceChoice {
    options: VerbsOptions,
    nic: Mutex<Option<NicResources>>,
}

impl DeviceChoice {
    pub(super) fn new(options: &VerbsOptions) -> Arc<Self> {
        Arc::new(Self {
            options: options.clone(),
            nic: Mutex::default(),
        })
    }

    /// The device by which all nodes are reached.
    fn nic(&self, setup: &TcpStream) -> Result<NicResources> {
        let mut nic = self.nic.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(nic) = &*nic {
            return Ok(nic.clone());
        }
        let opened = NicResources::open(&self.options, setup)?;
        Ok(nic.insert(opened).clone())
    }

    pub(super) fn reconnect(&self) -> Backoff {
        self.options.connect.reconnect
    }

    /// The device, if any node has been reached.
    pub(super) fn opened(&self) -> Option<NicResources> {
        let nic = self.nic.lock().unwrap_or_else(PoisonError::into_inner);
        nic.clone()
    }

    /// Connects to a node: admission, then the pairing, within the connect timeout together.
    pub(super) fn dial(&self, last_session: u64, address: &str) -> Result<PairedNode> {
        if self.options.connect.tls.is_some() {
            return Err(no_tls());
        }
        let attempt = Attempt::begin(last_session, address, &self.options.connect);
        let admitted = attempt.admit(Carrier::Rdma)?;
        let nic = self.nic(admitted.socket.tcp())?;
        pair(&attempt, admitted, &nic, &self.options)
    }
}

/// What a NIC moves is not encrypted, so neither is what sets it up.
fn no_tls() -> FabricError {
    FabricError::BadTls {
        subject: "a connection for RDMA verbs",
        reason: "a NIC does not encrypt what it moves".into(),
    }
}

/// A node with a queue pair that may carry verbs.
pub(in crate::verbs) struct PairedNode {
    pub(super) setup: Setup,
    session: u64,
    pub(super) info: NodeInfo,
    /// What may be used of each region, in order.
    pub(super) regions: Vec<KeyedAreas>,
    /// The most bytes of one request.
    pub(super) largest: usize,
    /// Nothing once the connection is broken: then the NIC uses nothing of what was posted any
    /// more.
    pub(super) queue_pair: Option<QueuePair>,
}

impl Connection for PairedNode {
    fn stream(&self) -> &TcpStream {
        self.setup.stream()
    }

    fn session(&self) -> u64 {
        self.session
    }

    fn incarnation(&self) -> u64 {
        self.info.incarnation
    }
}

/// What may be used of a region: mostly all of it.
pub(in crate::verbs) type KeyedAreas = SmallVec<[KeyedArea; 1]>;

/// Makes a queue pair and has the agent make the other, over a connection that was admitted.
fn pair(
    attempt: &Attempt<'_>,
    admitted: Admitted,
    nic: &NicResources,
    options: &VerbsOptions,
) -> Result<PairedNode> {
    let Admitted {
        mut socket,
        welcome,
    } = admitted;
    let device = &nic.device;
    let queue_pair = QueuePair::new(
        &nic.domain,
        &nic.completions,
        None,
        QueuePairCapacity {
            sends: nic.requests,
            pieces: 1,
            receives: 0,
            inline_bytes: options.inline_bytes,
        },
    )?;
    let local = QueuePairAddress::of(&queue_pair, device, device.attributes.max_qp_init_rd_atom);
    path::initialise(&queue_pair, device, Rights::NONE)?;
    attempt.write(&mut socket, &path::pair(&local))?;
    let paired = attempt.frame(&mut socket, FrameKind::Paired)?;
    let regions = welcome.node.regions.len();
    let (agent, opened) =
        path::decode_paired(&paired, regions).map_err(|reason| attempt.malformed(reason))?;
    // Nobody sends to this end: it only receives answers.
    path::receive(&queue_pair, device, &agent, 1, 1)?;
    let reads_at_once = local.reads_at_once.min(agent.reads_at_once);
    path::send(
        &queue_pair,
        &local,
        reads_at_once,
        options.connect.limits.verb_timeout,
    )?;
    let mut areas = vec![KeyedAreas::new(); regions];
    for area in opened {
        areas[usize::from(area.region.0)].push(area);
    }
    Ok(PairedNode {
        setup: Setup::new(socket.into_bare().ok_or_else(no_tls)?),
        session: welcome.session,
        info: welcome.node,
        regions: areas,
        largest: device.port.attributes.max_msg_sz as usize,
        queue_pair: Some(queue_pair),
    })
}

//! How an endpoint comes to its queue pairs.

use crate::tcp::admission::handshake::Carrier;
use crate::tcp::admission::{Admitted, Attempt};
use crate::tcp::wire::FrameKind;
use crate::verbs::VerbsOptions;
use crate::verbs::device::Device;
use crate::verbs::path::{self, End};
use crate::verbs::resource::{CompletionChannel, CompletionQueue, ProtectionDomain, QueuePair};
use crate::{NodeInfo, Result, Rights};
use std::net::TcpStream;
use std::sync::Arc;

/// What the queue pairs of an endpoint share on this machine's device.
#[derive(Clone)]
pub(super) struct Nic {
    pub(super) device: Arc<Device>,
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) channel: Arc<CompletionChannel>,
    pub(super) completions: Arc<CompletionQueue>,
    /// Requests that may be on their way, to all nodes together and to any one of them.
    pub(super) requests: u32,
}

impl Nic {
    /// Opens the device that has the address of the first set-up connection, or the one that was chosen.
    pub(super) fn open(options: &VerbsOptions, setup: &TcpStream) -> Result<Self> {
        let local = setup.local_addr().ok().map(|address| address.ip());
        let device = Device::open(&options.device, local)?;
        let most = |limit: i32| u32::try_from(limit).unwrap_or(u32::MAX).max(1);
        let of_device = most(device.attributes.max_qp_wr).min(most(device.attributes.max_cqe) / 2);
        let wanted = u32::try_from(options.limits.send_queue_depth).unwrap_or(u32::MAX);
        // A gather takes a request for each of its pieces.
        let requests = wanted.max(LEAST_REQUESTS).min(of_device);
        let domain = ProtectionDomain::new(&device)?;
        let channel = CompletionChannel::new(&device)?;
        // Twice as many: of a queue pair that has gone there may be as many left as are on their way.
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

/// A queue pair that may carry verbs.
pub(super) struct Connected {
    pub(super) setup: TcpStream,
    pub(super) info: NodeInfo,
    pub(super) regions: Vec<Region>,
    /// The most bytes of one request.
    pub(super) largest: usize,
    pub(super) queue_pair: QueuePair,
}

/// Where a region of a node is, as its NIC knows it.
#[derive(Clone, Copy)]
pub(super) struct Region {
    pub(super) address: u64,
    pub(super) key: u32,
}

/// Makes a queue pair and has the agent make the other, over a connection that was admitted.
pub(super) fn pair(
    attempt: &Attempt<'_>,
    admitted: Admitted,
    nic: &Nic,
    options: &VerbsOptions,
) -> Result<Connected> {
    let Admitted { stream, welcome } = admitted;
    let device = &nic.device;
    let queue_pair = QueuePair::new(
        &nic.domain,
        &nic.completions,
        None,
        nic.requests,
        options.inline_bytes,
    )?;
    let own = End::of(&queue_pair, device, device.attributes.max_qp_init_rd_atom);
    path::initialise(&queue_pair, device, Rights::NONE)?;
    attempt.write(&stream, &path::pair(&own))?;
    let paired = attempt.frame(&stream, FrameKind::Paired)?;
    let regions = welcome.node.regions.len();
    let (agent, addresses) =
        path::decode_paired(&paired, regions).map_err(|reason| attempt.malformed(reason))?;
    // Nobody sends to this end: it only receives answers.
    path::receive(&queue_pair, device, &agent, 1, 1)?;
    let reads_at_once = own.reads_at_once.min(agent.reads_at_once);
    path::send(
        &queue_pair,
        &own,
        reads_at_once,
        options.limits.verb_timeout,
    )?;
    let places = addresses.into_iter().zip(welcome.keys);
    Ok(Connected {
        setup: stream,
        info: welcome.node,
        regions: places
            .map(|(address, key)| Region {
                address,
                key: key as u32,
            })
            .collect(),
        largest: device.port.attributes.max_msg_sz as usize,
        queue_pair,
    })
}

/// Connects to a node: admission, then the pairing.
pub(super) fn admit(attempt: &Attempt<'_>) -> Result<Admitted> {
    attempt.admit(Carrier::Rdma)
}

//! What a client does while a fabric is measured: one kind of verb, over and over, at random
//! places.

use crate::{Keys, Result};
use farslot::fabric::{
    Endpoint, EndpointExt, FabricError, Nanos, NodeId, Reader, RegionId, RemoteAddr, window,
};
use serde::Serialize;
use std::cell::Cell;
use std::future::poll_fn;
use std::hint::black_box;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

/// A verb, and its payload in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerbProbe {
    /// A READ.
    Read(usize),
    /// A WRITE of zeros.
    Write(usize),
    /// A compare-and-swap of 0 by 0.
    CompareSwap,
    /// An addition of 0.
    FetchAdd,
}

impl VerbProbe {
    /// Bytes of payload.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Read(bytes) | Self::Write(bytes) => bytes,
            Self::CompareSwap | Self::FetchAdd => 8,
        }
    }
}

/// Memory that may be read, and overwritten by what it holds: zeros. On each of the nodes the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScratchMemory {
    pub(super) region: RegionId,
    /// The first byte, a multiple of 8.
    pub(super) first: u64,
    pub(super) bytes: u64,
    /// Nodes that have it, counted from node 0.
    pub(super) nodes: u16,
}

impl ScratchMemory {
    /// The address number `draw` for a payload: aligned to 8 bytes, as slots are, and random.
    fn address(&self, draw: u64, payload: usize) -> RemoteAddr {
        let places = self.bytes.saturating_sub(payload as u64) / 8 + 1;
        let place = (u128::from(draw) * u128::from(places)) >> 64;
        RemoteAddr {
            // Its low bits are not those that choose the place.
            node: NodeId((draw % u64::from(self.nodes)) as u16),
            region: self.region,
            offset: self.first + place as u64 * 8,
        }
    }
}

/// What a client that is kept busy shares with who measures it.
#[derive(Clone, Default)]
pub(super) struct Busy {
    /// Verbs that have completed.
    pub(super) completed: Arc<AtomicU64>,
    /// Set to end it.
    pub(super) stop: Arc<AtomicBool>,
}

impl Busy {
    fn one_more(&self) {
        // Nobody else writes it.
        let completed = self.completed.load(Ordering::Relaxed);
        self.completed.store(completed + 1, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// One client's verbs.
pub(super) struct Client<'e, E> {
    pub(super) endpoint: &'e E,
    pub(super) scratch: ScratchMemory,
    pub(super) probe: VerbProbe,
    /// What its addresses derive from.
    pub(super) seed: u64,
}

impl<E: Endpoint> Client<'_, E> {
    fn addresses(&self) -> impl Iterator<Item = RemoteAddr> {
        let (scratch, payload) = (self.scratch, self.probe.bytes());
        let keys = Keys::new(self.seed);
        (0..).map(move |number| {
            let draw = u64::from_le_bytes(keys.long(number));
            scratch.address(draw, payload)
        })
    }

    /// Does one verb at a time, in blocks of `block`; gives the mean time of each block, in ns.
    pub(super) async fn one_by_one(&self, blocks: usize, block: usize) -> Result<Vec<f64>> {
        let mut addresses = self.addresses();
        let mut times = Vec::with_capacity(blocks);
        for _ in 0..blocks {
            let since: Nanos = self.endpoint.now();
            for at in addresses.by_ref().take(block) {
                self.post(at).await?;
            }
            times.push((self.endpoint.now() - since) as f64 / block as f64);
        }
        Ok(times)
    }

    /// Keeps `width` verbs under way until told to stop, or until one fails.
    pub(super) async fn keep_busy(&self, width: usize, busy: &Busy) -> Result<()> {
        match self.probe {
            VerbProbe::Read(bytes) => self.keep_reading(bytes, width, busy).await,
            _ => self.keep_posting(width, busy).await,
        }
    }

    async fn post(&self, at: RemoteAddr) -> std::result::Result<(), FabricError> {
        let endpoint = self.endpoint;
        match self.probe {
            VerbProbe::Read(bytes) => {
                black_box(endpoint.read(at, bytes).await?);
            }
            VerbProbe::Write(bytes) => {
                let mut zeros = endpoint.core().buffers.take(bytes)?;
                zeros.fill(0);
                endpoint.write(at, zeros).await?;
            }
            VerbProbe::CompareSwap => {
                black_box(endpoint.compare_swap(at, 0, 0).await?);
            }
            VerbProbe::FetchAdd => {
                black_box(endpoint.fetch_add(at, 0).await?);
            }
        }
        Ok(())
    }

    async fn keep_posting(&self, width: usize, busy: &Busy) -> Result<()> {
        let failed = Cell::new(None);
        let mut addresses = self.addresses();
        let verbs = iter::from_fn(|| {
            let failure = failed.take();
            let goes_on = failure.is_none() && busy.goes_on();
            failed.set(failure);
            goes_on.then(|| addresses.next()).flatten()
        });
        window(
            width,
            verbs.map(|at| self.post(at)),
            |_, ended| match ended {
                Ok(()) => busy.one_more(),
                Err(error) => failed.set(Some(error)),
            },
        )
        .await;
        Ok(failed.take().map_or(Ok(()), Err)?)
    }

    /// By readers, as batches of lookups read: a READ costs a few stores then, not a future.
    async fn keep_reading(&self, bytes: usize, width: usize, busy: &Busy) -> Result<()> {
        let mut addresses = self.addresses();
        let mut readers: Vec<(Reader<'_, E>, bool)> = (0..width)
            .map(|_| (self.endpoint.reader(), false))
            .collect();
        let ended = poll_fn(|cx| {
            let mut idle = true;
            for (reader, is_reading) in &mut readers {
                loop {
                    if *is_reading {
                        let Poll::Ready(read) = reader.poll(cx) else {
                            idle = false;
                            break;
                        };
                        read?;
                        black_box(reader.words());
                        busy.one_more();
                        *is_reading = false;
                    }
                    if !busy.goes_on() {
                        break;
                    }
                    let Some(at) = addresses.next() else { break };
                    reader.read(at, bytes)?;
                    *is_reading = true;
                }
            }
            if idle {
                Poll::Ready(Ok::<_, FabricError>(()))
            } else {
                Poll::Pending
            }
        });
        Ok(ended.await?)
    }
}

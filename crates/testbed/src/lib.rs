//! Nodes on every fabric, for tests that run over all of them (tests only; nothing that is built for use
//! depends on this crate).
//!
//! A test of what a fabric must not change is written once, as a function that is generic over
//! [`TestFabric`], and [`suites!`] makes a test of it for each fabric:
//!
//! ```
//! use farslot_fabric::{EndpointExt, RegionId, RemoteAddr, Rights};
//! use farslot_testbed::{Shm, Sim, Tcp, TestFabric};
//!
//! fn a_counter_counts<F: TestFabric>() {
//!     let node = F::start(&[(4096, Rights::ALL)]);
//!     let counter = RemoteAddr { region: RegionId(0), offset: 64, ..F::node_start() };
//!     let seen = node.run_clients(3, F::limits(), async move |_, endpoint| {
//!         endpoint.fetch_add(counter, 1).await.unwrap()
//!     });
//!     assert_eq!(seen.into_iter().sum::<u64>(), 0 + 1 + 2);
//! }
//!
//! a_counter_counts::<Sim>();
//! a_counter_counts::<Shm>();
//! a_counter_counts::<Tcp>();
//! ```

mod shm;
mod sim;
mod suites;
mod tcp;
mod verbs;

pub use shm::Shm;
pub use sim::Sim;
pub use tcp::Tcp;
pub use verbs::Verbs;

use farslot_fabric::{Endpoint, Executor, Limits, Nanos, NodeId, RegionId, RemoteAddr, Rights};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How long a verb is waited for, in nanoseconds: machines that run tests have other things to do, and a
/// test that waits for so long has failed anyway.
pub const PATIENCE: Nanos = 60_000_000_000;

/// A node of this process that is served over a fabric for as long as this is held, and the way to it.
pub trait TestFabric: Sized + Send + Sync + 'static {
    /// Its endpoints.
    type Endpoint: Endpoint;

    /// What messages call it.
    const NAME: &'static str;

    /// A verb takes about this many times as long as over shared memory, the machine's own time: what a
    /// test does many times at random it does so much more seldom here.
    const SLOWNESS: u32;

    /// Whether the program alone decides when its verbs complete, and no thread beside it: so many verbs of a
    /// batch complete in one turn, and so many doorbells ring, in every run.
    const PUNCTUAL: bool;

    /// Serves a node with regions of these lengths in bytes, and these rights.
    ///
    /// # Panics
    /// If the machine has no such fabric, or no room.
    fn start(regions: &[(u64, Rights)]) -> Self;

    /// A new endpoint, connected to the node. It may be made, and then used, on any thread.
    ///
    /// # Panics
    /// If there is no connection.
    fn connect(&self, limits: Limits) -> Rc<Self::Endpoint>;

    /// What an endpoint may hold if its test does not care: the default, and patience.
    #[must_use]
    fn limits() -> Limits {
        Limits {
            verb_timeout: PATIENCE,
            ..Limits::default()
        }
    }

    /// Runs so many clients side by side and returns what they return: threads, each with an endpoint of
    /// its own, that start together; in the simulator simulated ones.
    ///
    /// # Panics
    /// If a client does.
    fn run_clients<T, C>(&self, clients: u32, limits: Limits, client: C) -> Vec<T>
    where
        T: Send + 'static,
        C: AsyncFn(u32, Rc<Self::Endpoint>) -> T + Send + Sync + 'static,
    {
        let ready = AtomicU32::new(0);
        let thread = |number| {
            let arrival = Arrival(&ready);
            let endpoint = self.connect(limits);
            let executor = Executor::new(Rc::clone(&endpoint));
            drop(arrival);
            // A barrier that sleeps would wake one thread after the other has ended.
            while ready.load(Ordering::Acquire) < clients {
                std::thread::yield_now();
            }
            executor.block_on(client(number, endpoint))
        };
        std::thread::scope(|scope| {
            let thread = &thread;
            let threads: Vec<_> = (0..clients)
                .map(|number| scope.spawn(move || thread(number)))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }

    /// How many of `full` random cases are worth their time on this fabric; at least one.
    #[must_use]
    fn cases(full: u32) -> u32 {
        full.div_ceil(Self::SLOWNESS)
    }

    /// The first byte of the node's first region.
    #[must_use]
    fn node_start() -> RemoteAddr {
        RemoteAddr {
            node: NodeId(0),
            region: RegionId(0),
            offset: 0,
        }
    }
}

/// A thread that is on its way to the start. It counts as arrived even if it panics: else the others
/// would wait for it for ever.
struct Arrival<'a>(&'a AtomicU32);

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

//! Deterministic simulation: a whole cluster in one thread, under a virtual clock.
//!
//! A [`World`] has nodes with memory, machines with a NIC each, and client threads. What hardware
//! costs is data, a [`NicProfile`]; what goes wrong is data, a [`FaultPlan`]; chance comes from one
//! seed. Same seed, same run, event for event: [`World::digest`] tells. [`World::trace_to`], and
//! the variable `FARSLOT_TRACE`, have the events told line by line.
//!
//! One client thread is an [`Executor`](crate::Executor) over a [`SimEndpoint`], as on any fabric;
//! its `block_on` advances the clock. Many of them run in a [`Simulation`].
//!
//! ```
//! use farslot_fabric::sim::{FaultPlan, NicProfile, RunEnd, Simulation, World};
//! use farslot_fabric::{EndpointExt, RegionId, RemoteAddr, Rights};
//!
//! let world = World::new(42, NicProfile::connectx5_edr());
//! let node = world.add_node(&[(1 << 20, Rights::ALL)]);
//! world.set_faults(FaultPlan::chaos(42, 0.5));
//! let counter = RemoteAddr { node, region: RegionId(0), offset: 64 };
//!
//! let mut simulation = Simulation::new(world.clone());
//! for _ in 0..8 {
//!     simulation.spawn_client(async move |endpoint| {
//!         for _ in 0..10 {
//!             endpoint.fetch_add(counter, 1).await.unwrap();
//!         }
//!     });
//! }
//! assert_eq!(simulation.run(), RunEnd::Done);
//! assert_eq!(world.node_handle(node).peek(RegionId(0), 64), 80);
//! ```
//!
//! What a world breaks on purpose, and what it keeps: reads and writes are torn at any 8-byte
//! boundary; a WRITE may stay invisible to other endpoints for a while after it completed, but not
//! to the writer's own verbs, and not past the writer's next atomic or message to that node; verbs
//! of a queue pair start in order; on one word, verbs take effect one after the other.
//!
//! What it does not cost: an atomic occupies the responder as long on a contended word as on any
//! other (30 ns, so 32 million a second on one word, where real NICs serialise those of one word
//! and do far fewer), and a WRITE occupies it as long as a READ of as many bytes. So rates of
//! contended words are too high, and those of small WRITEs are not known.

mod call_queue;
mod calls;
mod clock;
mod driver;
mod effect;
mod endpoint;
mod failure;
mod faults;
mod flow;
mod memory;
mod nic;
mod node;
mod op;
mod parts;
mod profile;
mod profile_text;
mod state;
mod trace;
mod world;

pub use clock::Picos;
pub use driver::{RunEnd, Simulation};
pub use endpoint::{SimEndpoint, SimPosted};
pub use faults::{
    Chance, ClientStop, FaultPlan, FaultTime, NodePause, NodeStop, Partition, Side, SlowNode,
};
pub use node::SimNode;
pub use op::ClientId;
pub use parts::{HostId, NodeConfig};
pub use profile::{LinearCost, NicCacheProfile, NicProfile, ProcessorProfile, UnknownProfile};
pub use profile_text::{PROFILE_FIELDS, ProfileError, ProfileField};
pub use world::World;

//! Remote procedures over the fabric's calls (paper 003, section 5.2).
//!
//! A [`Server`] is what a node's owner answers calls with: methods by number, each bytes in and
//! bytes out beside the node's memory. A [`Client`] is one thread's side: it has a *session* with a
//! server, of some *slots*, each of which carries one request at a time. The slots are the client's
//! credit, so that no server holds more than it was made for; who finds none free waits.
//!
//! Which threads run the methods is the application's choice. By default they are the fabric's own
//! at the owner, so that progress never depends on the application's polling. While the application
//! holds an [`EventLoop`](farslot_fabric::EventLoop) of the owner's agent, they are those that give
//! it its turns. Calls within a process are answered by the thread that makes them, simulated ones
//! by the one that drives the clock.
//!
//! # Executed at most once
//!
//! A request is named by its session, its slot and a number that grows with each request of the
//! slot. After an outage the client sends the same request again. The server keeps the last reply
//! of each slot until the next request there acknowledges it, and so executes a request that comes
//! twice once. A method that has no effect ([`Effect::None`]) is simply executed again, and nothing
//! is kept of it.
//!
//! ```
//! use farslot_fabric::sim::{NicProfile, World};
//! use farslot_fabric::{Executor, Limits, RegionId, Rights};
//! use farslot_rpc::{Client, ClientOptions, Effect, Request, Server, RpcServerOptions, put};
//! use std::sync::Arc;
//!
//! let world = World::new(1, NicProfile::connectx5_edr());
//! let node = world.add_node(&[(4096, Rights::ALL)]);
//! world.node_handle(node).serve_calls(|| {
//!     let mut server = Server::new(RpcServerOptions::default());
//!     // Adds the request's length to a word of the node's memory.
//!     server.register(7, Effect::Once, |request: Request<'_>, reply: &mut [u8]| {
//!         let sum = request.memory.load(64)? + request.body.len() as u64;
//!         request.memory.store(64, sum)?;
//!         put(reply, &sum.to_le_bytes())
//!     });
//!     Arc::new(server)
//! });
//!
//! let endpoint = world.endpoint(Limits::default());
//! let client = Client::new(endpoint.clone(), (node, RegionId(0)), ClientOptions::default());
//! let reply = Executor::new(endpoint).block_on(client.call(7, b"seven", 8)).unwrap();
//! assert_eq!(reply.words(), [5]);
//! ```

mod client;
mod credit;
mod error;
mod method;
mod server;
mod wire;

pub use client::{Client, ClientOptions, Reply};
pub use error::RpcError;
pub use method::{Fault, Method, Request, put};
pub use server::{Effect, RpcServerOptions, Server};

/// The result of a remote procedure.
pub type Result<T> = std::result::Result<T, RpcError>;

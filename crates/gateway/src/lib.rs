//! Redis's protocol over the tables of a store: any Redis client can use them.
//!
//! **What it is for.** Programs that speak RESP2 or RESP3 and use strings: values, counters,
//! expiries. A database (SELECT) is a table of the store, `redis-0` to `redis-15`, which other
//! programs may use at the same time: see [records](#records).
//!
//! **Promises.**
//!
//! * A command on one key takes effect in one step, whoever else writes: other connections, other
//!   gateways over the same store, other clients of the table. It reads the record, and replaces
//!   exactly that (`Operation::Replace`, `RemoveIf`), or begins again.
//! * Commands of a connection on one key take effect in their order. Those of one pipeline on
//!   *different* keys may take effect in any order, and so may the keys of MGET, MSET and DEL, as
//!   over the nodes of a Redis Cluster. A client that waits for a reply before it sends the next
//!   command has the order that it expects.
//! * The commands of a transaction (MULTI, EXEC) take effect together and in their order: no other
//!   connection of this gateway changes anything in between, or sees the middle. Other gateways and
//!   other clients of the table may. With WATCH, EXEC does nothing if a key has changed meanwhile,
//!   whoever has changed it.
//! * MSETNX sets all or nothing, but clients that do not come through this gateway may see some of
//!   it meanwhile.
//! * A key that has expired is absent at once, to every command that names it and to KEYS and SCAN;
//!   its memory is free when it is met, or swept. DBSIZE counts it until then, as Redis does.
//! * Unknown commands, and commands with arguments that cannot be meant, get Redis's own words.
//! * A connection that sends what is no request is closed, and no other. One that sends a value or
//!   a request that is too long gets an error and goes on. What all connections may take is
//!   bounded ([`GatewayOptions::buffers`]).
//!
//! **What it costs.** All commands of a tick, whoever sent them, are two batches of the store at
//! the most: the `tick` module says how. A thread of the gateway has tables of its own and blocks
//! on them: it belongs where the memory is, in the process that serves it.
//!
//! **What it has not.** Types but strings, scripts, publish and subscribe, keys that
//! are empty or longer than 64 KiB, values longer than 2,555,880 bytes, quotes on lines that a
//! person types (they are refused).
//!
//! # Records
//!
//! A database is a table whose records may have a time to live
//! ([`TableOptions::expiring`](farslot::TableOptions::expiring)): what Redis clients see, any
//! client of the store sees.
//!
//! ```
//! use farslot::Store;
//! use farslot_gateway::{Gateway, GatewayOptions};
//! use std::io::{Read, Write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::embedded_with(64 << 20, Default::default())?;
//! let gateway = Gateway::start(&store, &GatewayOptions::at("127.0.0.1:0"))?;
//! let mut client = std::net::TcpStream::connect(gateway.address())?;
//! client.write_all(b"SET sky blue\r\n")?;
//! let mut reply = [0; 5];
//! client.read_exact(&mut reply)?;
//! assert_eq!(&reply, b"+OK\r\n");
//! assert_eq!(store.table("redis-0")?.get(b"sky")?.as_deref(), Some(&b"blue"[..]));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod commands;
mod connection;
mod databases;
mod event_loop;
mod failure;
mod frame;
mod gateway;
mod gathered;
mod glob;
mod info;
mod keyspace;
mod lane;
mod metrics;
mod number;
mod record;
mod reply;
mod revocable;
mod session;
mod shared;
mod slow_log;
mod step;
mod tick;
mod transaction;
mod users;
mod watch;

pub use gateway::{Gateway, GatewayError, GatewayOptions};
pub use metrics::GatewayMetrics;

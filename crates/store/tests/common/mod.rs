//! Stores on every fabric, for tests that run over all of them.

#![allow(
    dead_code,
    reason = "every test binary has a copy, and uses its own part of it"
)]

use farslot::fabric::Limits;
use farslot::{OpenOptions, Server, ServerOptions, Store};
use farslot_testbed::{Fabric, PATIENCE};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Memory with a store in it, on one fabric, and the clients of it.
pub trait TestStore: Sized + Send + Sync + 'static {
    /// What carries the verbs.
    const FABRIC: Fabric;

    /// A new store with so many bytes of memory, for as long as this is held.
    fn start(bytes: u64) -> Self;

    /// The store, as a client has it.
    fn open(&self) -> Store;

    /// The store as a client has it that shares nothing with the others, as one of another process;
    /// nothing where all clients are of one store, whose tables write a CuckooDuo table together.
    fn stranger(&self) -> Option<Store> {
        Some(self.open())
    }

    /// How many of `full` repetitions are worth their time on this fabric; at least one.
    fn repeat(full: u32) -> u32 {
        Self::FABRIC.cases(full)
    }
}

/// One that other processes can open.
pub trait Served: TestStore {
    /// Where to serve, so that no other test serves there: any port that is free, or a name of its
    /// own.
    fn fresh_address() -> String;

    /// A server of this process with so many bytes of memory.
    fn serve(address: &str, bytes: u64) -> Server {
        let options = ServerOptions {
            spin: Duration::from_micros(10),
            ..ServerOptions::default()
        };
        Server::start_with(&[address], bytes, &options).unwrap()
    }

    /// Where it is served.
    fn address(&self) -> String;
}

/// Options for machines that have other things to do: verbs are waited for longer.
pub fn patient() -> OpenOptions {
    OpenOptions {
        limits: Limits {
            verb_timeout: PATIENCE,
            ..Limits::default()
        },
        connect_timeout: Duration::from_nanos(PATIENCE),
        ..OpenOptions::default()
    }
}

/// Opens a store as machines do that have other things to do.
pub fn open(address: &str) -> farslot::Result<Store> {
    Store::open_with(address, patient())
}

/// Memory of this process, for itself.
pub struct Embedded(Store);

impl TestStore for Embedded {
    const FABRIC: Fabric = Fabric::Shm;

    fn start(bytes: u64) -> Self {
        Self(Store::embedded_with(bytes, patient()).unwrap())
    }

    fn open(&self) -> Store {
        self.0.clone()
    }

    fn stranger(&self) -> Option<Store> {
        None
    }
}

/// A simulated node, without faults.
pub struct Sim(Store);

impl TestStore for Sim {
    const FABRIC: Fabric = Fabric::Sim;

    fn start(bytes: u64) -> Self {
        Self(Store::open(&format!("sim://cx5-edr?seed=3&memory={bytes}B")).unwrap())
    }

    fn open(&self) -> Store {
        self.0.clone()
    }

    fn stranger(&self) -> Option<Store> {
        None
    }
}

/// Memory of this process, served to all of this machine by name.
pub struct Shm(Server);

impl TestStore for Shm {
    const FABRIC: Fabric = Fabric::Shm;

    fn start(bytes: u64) -> Self {
        Self(Self::serve(&Self::fresh_address(), bytes))
    }

    fn open(&self) -> Store {
        Store::open_with(&self.address(), patient()).unwrap()
    }
}

impl Served for Shm {
    fn fresh_address() -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("shm://store-test-{}-{number}", std::process::id())
    }

    fn address(&self) -> String {
        self.0.addresses()[0].to_string()
    }
}

/// Memory of this process, behind an agent.
pub struct Tcp(Server);

impl TestStore for Tcp {
    const FABRIC: Fabric = Fabric::Tcp;

    fn start(bytes: u64) -> Self {
        Self(Self::serve(&Self::fresh_address(), bytes))
    }

    fn open(&self) -> Store {
        Store::open_with(&self.address(), patient()).unwrap()
    }
}

impl Served for Tcp {
    fn fresh_address() -> String {
        "tcp://127.0.0.1:0".into()
    }

    fn address(&self) -> String {
        self.0.addresses()[0].to_string()
    }
}

/// Memory of this process, registered with its RDMA device.
pub struct Verbs(Server);

impl TestStore for Verbs {
    const FABRIC: Fabric = Fabric::Verbs;

    fn start(bytes: u64) -> Self {
        Self(Self::serve(&Self::fresh_address(), bytes))
    }

    fn open(&self) -> Store {
        Store::open_with(&self.address(), patient()).unwrap()
    }
}

impl Served for Verbs {
    fn fresh_address() -> String {
        "verbs://127.0.0.1:0".into()
    }

    fn address(&self) -> String {
        self.0.addresses()[0].to_string()
    }
}

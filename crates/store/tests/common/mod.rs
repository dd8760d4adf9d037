//! Stores of every fabric that needs no second process.
#![allow(dead_code, reason = "no test file uses all of it")]

use farslot::fabric::Limits;
use farslot::{OpenOptions, Server, Store};
use std::cell::RefCell;

thread_local! {
    /// The servers of the test on this thread: they serve until it ends.
    static SERVERS: RefCell<Vec<Server>> = const { RefCell::new(Vec::new()) };
}

/// Options for machines that have other things to do: verbs are waited for longer.
pub fn patient() -> OpenOptions {
    OpenOptions {
        limits: Limits {
            verb_timeout: 20_000_000_000,
            ..Limits::default()
        },
        ..OpenOptions::default()
    }
}

/// A store of this process, through an agent that serves until the test ends.
pub fn over_tcp(bytes: u64) -> Store {
    let server = Server::start("tcp://127.0.0.1:0", bytes).unwrap();
    let address = server.addresses()[0].to_string();
    SERVERS.with_borrow_mut(|servers| servers.push(server));
    Store::open_with(&address, patient()).unwrap()
}

/// A store in the memory of this process, and one through an agent.
pub fn real_stores(bytes: u64) -> [Store; 2] {
    let embedded = Store::embedded_with(bytes, OpenOptions::default()).unwrap();
    [embedded, over_tcp(bytes)]
}

/// These, and a simulated one.
pub fn stores(bytes: u64, simulated: &str) -> [Store; 3] {
    let [embedded, tcp] = real_stores(bytes);
    [embedded, tcp, Store::open(simulated).unwrap()]
}

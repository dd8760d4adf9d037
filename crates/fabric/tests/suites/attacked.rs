//! An agent that is attacked: what it serves to whom, and how its clients ask.

use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::{Agent, AgentOptions, Area, ConnectOptions, Grant, ServeOptions};
use farslot_fabric::*;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of its only region.
pub const LEN: u64 = 8 << 20;

/// Answers calls with nothing.
struct Nothing;

impl Handler for Nothing {
    fn handle(&self, _: Call<'_>) -> CallAnswer {
        CallAnswer::Now(0)
    }
}

pub fn grant(name: &str, rights: Rights) -> Grant {
    Grant {
        name: name.into(),
        areas: Some(vec![Area::of_region(RegionId(0), rights)]),
        ..Grant::everything(None)
    }
}

/// Serves a region to "hostile", "reader" and "good".
pub fn serve(serve: ServeOptions) -> Agent {
    let region = RegionSpec {
        len: LEN,
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    node.serve_calls(Arc::new(Nothing));
    let options = AgentOptions::from(ServeOptions {
        grants: vec![
            grant("hostile", Rights::ALL),
            grant("reader", Rights::READ),
            grant("good", Rights::ALL),
        ],
        ..serve
    });
    Agent::start(node, &options).unwrap()
}

/// Asks for a grant, with patience: the machine is busy.
pub fn asking(grant: &str) -> ConnectOptions {
    ConnectOptions {
        grant: grant.into(),
        connect_timeout: Duration::from_secs(60),
        limits: Limits {
            verb_timeout: 120_000_000_000,
            ..Limits::default()
        },
        ..ConnectOptions::default()
    }
}

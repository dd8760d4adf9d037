//! Grants with rates: their clients are slowed, and nobody else is.

use crate::raw::RawClient;
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::wire;
use farslot_fabric::tcp::{
    Agent, AgentOptions, ConnectOptions, Grant, Rate, ServeOptions, TcpEndpoint,
};
use farslot_fabric::*;
use std::rc::Rc;
use std::time::{Duration, Instant};

fn agent(rate: Rate) -> Agent {
    let region = RegionSpec {
        len: 1 << 20,
        rights: Rights::ALL,
    };
    let slow = Grant {
        name: "slow".into(),
        rate,
        ..Grant::everything(None)
    };
    let options = AgentOptions::from(ServeOptions {
        grants: vec![Grant::everything(None), slow],
        ..ServeOptions::default()
    });
    Agent::start(Node::embedded(&[region]).unwrap(), &options).unwrap()
}

fn client(agent: &Agent, grant: &str) -> Executor<TcpEndpoint> {
    let options = ConnectOptions {
        grant: grant.into(),
        limits: Limits {
            verb_timeout: 60_000_000_000,
            ..Limits::default()
        },
        ..ConnectOptions::default()
    };
    let address = agent.address().to_string();
    Executor::new(Rc::new(TcpEndpoint::connect(&[address], &options).unwrap()))
}

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

/// Reads so often, many at once, and returns how long that took.
fn read(client: &Executor<TcpEndpoint>, times: usize, bytes: usize) -> Duration {
    let since = Instant::now();
    let endpoint = client.endpoint();
    let reads = (0..times).map(|_| async {
        assert_eq!(endpoint.read(at(0), bytes).await.unwrap().len(), bytes);
    });
    client.block_on(window(64, reads, |_, ()| ()));
    since.elapsed()
}

#[test]
fn clients_of_a_grant_together_do_not_exceed_its_operations_and_others_notice_nothing() {
    let agent = agent(Rate {
        operations: Some(500),
        bytes: None,
    });
    // Two clients share it; a tenth of a second's may come at once, and one of each may be late.
    let took = std::thread::scope(|scope| {
        let slow = || read(&client(&agent, "slow"), 250, 8);
        let since = Instant::now();
        let both = [scope.spawn(slow), scope.spawn(slow)];
        // Meanwhile another grant has far more.
        read(&client(&agent, "default"), 20_000, 8);
        for one in both {
            one.join().unwrap();
        }
        since.elapsed()
    });
    assert!(took >= Duration::from_millis(880), "{took:?}");
}

#[test]
fn bytes_are_counted_both_ways_and_one_large_verb_is_moved_in_its_time() {
    let rate = Rate {
        operations: None,
        bytes: Some(4 << 20),
    };
    let agent = agent(rate);
    let slow = client(&agent, "slow");
    // Three MiB of answers, less what may come at once, is more than half a second.
    let took = read(&slow, 3, 1 << 20);
    assert!(took >= Duration::from_millis(500), "{took:?}");
    let since = Instant::now();
    slow.block_on(async {
        for _ in 0..3 {
            let mut data = slow.endpoint().core().buffers.take(1 << 20).unwrap();
            data.words_mut().fill(7);
            slow.endpoint().write(at(0), data).await.unwrap();
        }
    });
    let took = since.elapsed();
    assert!(took >= Duration::from_millis(500), "{took:?}");
    let seen = slow.block_on(slow.endpoint().read(at(8), 8)).unwrap();
    assert_eq!(seen.words(), [7]);
}

/// What a client sends in one frame waits as well, and is answered in order.
#[test]
fn a_frame_of_many_verbs_is_executed_in_parts() {
    let agent = agent(Rate {
        operations: Some(100),
        bytes: None,
    });
    let options = ConnectOptions {
        grant: "slow".into(),
        ..ConnectOptions::default()
    };
    let mut raw = RawClient::connect(&agent, &options);
    let span = raw.span(0, 0, 8);
    let mut verbs = Vec::new();
    for _ in 0..60 {
        wire::put_fetch_add(&mut verbs, span, 1);
    }
    let since = Instant::now();
    raw.send(&crate::raw::frame(60, &verbs));
    let mut seen = Vec::new();
    while seen.len() < 60 {
        let header = wire::Header::decode(raw.words(1)[0]).unwrap();
        seen.extend(raw.words(header.words as usize - 1));
    }
    assert_eq!(seen, (0..60).collect::<Vec<_>>());
    let took = since.elapsed();
    assert!(took >= Duration::from_millis(480), "{took:?}");
}

#[test]
fn a_rate_of_nothing_is_refused() {
    let agent = agent(Rate::UNLIMITED);
    let never = Grant {
        name: "never".into(),
        rate: Rate {
            operations: None,
            bytes: Some(0),
        },
        ..Grant::everything(None)
    };
    let refused = agent.grant(&never).unwrap_err();
    assert!(matches!(refused, FabricError::BadOption { value: 0, .. }));
}

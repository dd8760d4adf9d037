//! Who may use the memory, and how far.

use crate::{at, client, client_with, patient, served, wait_until};
use farslot_fabric::tcp::admission::handshake::{Carrier, Hello, REFUSED_WORDS, decode_refused};
use farslot_fabric::tcp::{
    self, AgentOptions, Area, ConnectOptions, Grant, Refusal, Secret, TcpEndpoint, wire,
};
use farslot_fabric::verbs::{VerbsEndpoint, VerbsOptions};
use farslot_fabric::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;

fn secret(byte: u8) -> Option<Secret> {
    Some(Secret::new([byte; 32]).unwrap())
}

fn asking(grant: &str, secret: Option<Secret>) -> VerbsOptions {
    VerbsOptions::from(ConnectOptions {
        grant: grant.into(),
        secret,
        ..patient().connect
    })
}

#[test]
fn another_version_and_another_fabric_are_told_apart() {
    let (_node, agent) = served(4096);
    let mut hello = Hello {
        carrier: Carrier::Rdma,
        grant: "default".into(),
        rights: Rights::ALL,
        receiver_wait: 0,
        nonce: [0; 4],
    }
    .encode();
    hello[0] = hello[0] & (u64::MAX >> 8) | 9 << 56;
    let mut stream = TcpStream::connect(agent.address()).unwrap();
    let bytes: Vec<u8> = hello.iter().flat_map(|word| word.to_le_bytes()).collect();
    stream.write_all(&bytes).unwrap();
    let mut told = [0; 8 * REFUSED_WORDS];
    stream.read_exact(&mut told).unwrap();
    let words: Vec<u64> = told
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let version = Refusal::Version {
        client: 9,
        agent: wire::VERSION,
    };
    assert_eq!(decode_refused(&words), Some(version));

    // A client of one fabric at the agent of the other.
    let other = |client| Refusal::OtherCarrier { client };
    let address = agent.address().to_string();
    let reason = other(Carrier::Tcp);
    let by_tcp = TcpEndpoint::connect(&[&address], &ConnectOptions::default()).map(drop);
    assert_eq!(by_tcp, Err(FabricError::NotAdmitted { address, reason }));
    let node = crate::node(8, Rights::ALL);
    let tcp = tcp::Agent::start(node, &AgentOptions::default()).unwrap();
    let address = tcp.address().to_string();
    let reason = other(Carrier::Rdma);
    let by_nic = VerbsEndpoint::connect(&[&address], &patient()).map(drop);
    assert_eq!(by_nic, Err(FabricError::NotAdmitted { address, reason }));
}

#[test]
fn a_read_only_grant_reads_and_no_more() {
    let (node, agent) = served(4096);
    let limited = Grant::limited("read-only", secret(3), node.info(), Rights::READ);
    agent.grant(&limited).unwrap();
    let writer = client(&agent);
    assert_eq!(
        writer.block_on(writer.endpoint().fetch_add(at(0), 7)),
        Ok(0)
    );
    let reader = client_with(&agent, &asking("read-only", secret(3)));
    let endpoint = reader.endpoint();
    assert_eq!(
        endpoint.node(NodeId(0)).unwrap().regions[0].rights,
        Rights::READ
    );
    reader.block_on(async {
        assert_eq!(endpoint.read(at(0), 8).await.unwrap().words(), [7]);
        let data = endpoint.core().buffers.copy_of(b"x").unwrap();
        assert!(matches!(
            endpoint.write(at(0), data).await,
            Err(FabricError::AccessDenied {
                needed: Rights::WRITE,
                granted: Rights::READ,
                ..
            })
        ));
        assert!(endpoint.compare_swap(at(0), 7, 8).await.is_err());
        assert_eq!(endpoint.read(at(0), 8).await.unwrap().words(), [7]);
    });
}

#[test]
fn a_grant_of_areas_opens_these_and_nothing_between() {
    let (_node, agent) = served(1 << 16);
    let area = |bytes, rights| Area {
        region: RegionId(0),
        bytes,
        rights,
    };
    let grant = Grant {
        name: "areas".into(),
        areas: Some(vec![
            area(0..128, Rights::READ),
            area(128..256, Rights::ALL),
            // No whole page, nor at the beginning of one.
            area(5000..9000, Rights::READ.and(Rights::WRITE)),
        ]),
        ..Grant::everything(None)
    };
    agent.grant(&grant).unwrap();
    let owner = client(&agent);
    let limited = client_with(&agent, &asking("areas", None));
    let endpoint = limited.endpoint();
    owner.block_on(async {
        let endpoint = owner.endpoint();
        let mut data = endpoint.core().buffers.take(1 << 16).unwrap();
        for (number, word) in (0..).zip(data.words_mut()) {
            *word = number;
        }
        endpoint.write(at(0), data).await.unwrap();
    });
    let none = Rights::NONE;
    limited.block_on(async {
        assert_eq!(endpoint.read(at(120), 8).await.unwrap().words(), [15]);
        assert_eq!(endpoint.read(at(128), 8).await.unwrap().words(), [16]);
        assert_eq!(endpoint.read(at(8992), 8).await.unwrap().words(), [1124]);
        assert_eq!(endpoint.fetch_add(at(136), 1).await, Ok(17));
        let data = endpoint.core().buffers.copy_of(b"01234567").unwrap();
        endpoint.write(at(5000), data).await.unwrap();
        for (offset, len) in [(121, 8), (256, 1), (4999, 2), (8994, 8), (20_000, 8)] {
            let denied = FabricError::AccessDenied {
                at: at(offset),
                needed: Rights::READ,
                granted: none,
            };
            assert_eq!(endpoint.read(at(offset), len).await.map(drop), Err(denied));
        }
        let denied = |offset, granted| FabricError::AccessDenied {
            at: at(offset),
            needed: Rights::ATOMIC,
            granted,
        };
        let added = endpoint.fetch_add(at(8), 1).await;
        assert_eq!(added, Err(denied(8, Rights::READ)));
        let added = endpoint.fetch_add(at(5000), 1).await;
        assert_eq!(added, Err(denied(5000, Rights::READ.and(Rights::WRITE))));
    });
}

#[test]
fn who_had_a_grant_that_is_given_anew_comes_back_by_itself() {
    let (_node, agent) = served(4096);
    let revoked = client(&agent);
    let endpoint = revoked.endpoint();
    let node = NodeId(0);
    assert_eq!(revoked.block_on(endpoint.fetch_add(at(0), 1)), Ok(0));
    assert!(agent.revoke("default"));
    let gone = FabricError::GrantRevoked { node };
    let added = revoked.block_on(endpoint.fetch_add(at(0), 1));
    assert_eq!(added, Err(gone.clone()));
    assert_eq!(endpoint.node_state(node), Ok(NodeState::Down(gone)));
    agent.grant(&Grant::everything(None)).unwrap();
    wait_until("up again", || endpoint.is_up(node));
    assert_eq!(revoked.block_on(endpoint.fetch_add(at(0), 1)), Ok(1));
}

#[test]
fn verbs_under_way_when_a_grant_is_revoked_are_done_or_refused() {
    let (_node, agent) = served(4096);
    let executor = client(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    let mut agent = Some(agent);
    let (mut done, mut refused) = (0, 0);
    executor.block_on(async {
        let adds = (0..500).map(|_| endpoint.fetch_add(at(8), 1));
        window(200, adds, |number, added| {
            if number == 20
                && let Some(agent) = &agent
            {
                assert!(agent.revoke("default"));
            }
            match added {
                Ok(_) => done += 1,
                Err(FabricError::GrantRevoked { .. }) => refused += 1,
                Err(other) => assert!(other.may_have_taken_effect(), "{other}"),
            }
        })
        .await;
    });
    assert!(done > 0 && refused > 0, "{done} {refused}");
    agent
        .as_ref()
        .unwrap()
        .grant(&Grant::everything(None))
        .unwrap();
    wait_until("up again", || endpoint.is_up(NodeId(0)));
    let sum = executor.block_on(endpoint.fetch_add(at(8), 0)).unwrap();
    assert!(
        sum >= done && sum <= 500 - refused,
        "{done} <= {sum} <= 500 - {refused}"
    );
    drop(agent.take());
}

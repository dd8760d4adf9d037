//! Who is trusted under TLS, what the others are told, and what hostile bytes cost.

use crate::authority::{Authority, Issued};
use crate::bed::{at, wait_until};
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::{
    Agent, AgentOptions, Clients, ConnectOptions, Fingerprint, Grant, Refusal, Secret,
    ServeOptions, TcpEndpoint, TlsClient, TlsFailure, TlsServer, Trust,
};
use farslot_fabric::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

const HOST: &str = "127.0.0.1";

fn node() -> Node {
    let region = RegionSpec {
        len: 1 << 20,
        rights: Rights::ALL,
    };
    Node::embedded(&[region]).unwrap()
}

fn server(own: &Issued, client_authority: Option<&Authority>) -> TlsServer {
    TlsServer::new(own.pem(), own.key(), client_authority.map(Authority::pem)).unwrap()
}

fn serve(node: &Node, listen: &str, tls: TlsServer, grants: Vec<Grant>) -> Agent {
    let options = AgentOptions::from(ServeOptions {
        listen: listen.into(),
        grants,
        tls: Some(tls),
        handshake_timeout: Duration::from_secs(2),
        ..ServeOptions::default()
    });
    Agent::start(node.clone(), &options).unwrap()
}

fn start(tls: TlsServer, grants: Vec<Grant>) -> Agent {
    serve(&node(), "127.0.0.1:0", tls, grants)
}

fn everybody() -> Vec<Grant> {
    vec![Grant::everything(None)]
}

fn by_certificate(name: &str, clients: Clients) -> Grant {
    Grant {
        name: name.into(),
        clients: Some(clients),
        ..Grant::everything(None)
    }
}

fn trusting(authority: &Authority) -> Trust {
    Trust::Authorities(authority.pem().into())
}

/// How a client connects that has this certificate, if any.
fn asking(trust: &Trust, own: Option<&Issued>) -> ConnectOptions {
    let own = own.map(|own| (own.pem(), own.key()));
    ConnectOptions {
        tls: Some(TlsClient::new(trust, own).unwrap()),
        ..ConnectOptions::default()
    }
}

fn connect_to(address: SocketAddr, options: &ConnectOptions) -> Result<Executor<TcpEndpoint>> {
    let endpoint = TcpEndpoint::connect(&[address.to_string()], options)?;
    Ok(Executor::new(Rc::new(endpoint)))
}

fn connect(agent: &Agent, options: &ConnectOptions) -> Result<Executor<TcpEndpoint>> {
    connect_to(agent.address(), options)
}

fn add(client: &Executor<TcpEndpoint>) -> Result<u64> {
    client.block_on(client.endpoint().fetch_add(at(0), 1))
}

fn failure(connected: Result<Executor<TcpEndpoint>>) -> TlsFailure {
    match connected.map(drop) {
        Err(FabricError::Tls { failure, .. }) => failure,
        other => panic!("{other:?}"),
    }
}

fn refusal(connected: Result<Executor<TcpEndpoint>>) -> Refusal {
    match connected.map(drop) {
        Err(FabricError::NotAdmitted { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_a_node_with_a_certificate_that_is_trusted_for_its_host_is_connected_to() {
    let (authority, other) = (Authority::new(), Authority::new());
    let trust = asking(&trusting(&authority), None);
    let told = |own: &Issued, options: &ConnectOptions| {
        let agent = start(server(own, None), everybody());
        let told = failure(connect(&agent, options));
        // The agent knows that its certificate was refused.
        wait_until("refused", || agent.counters().refused == 1);
        assert_eq!(agent.counters().admitted, 0);
        told
    };
    let good = authority.issue(&[HOST]);
    let agent = start(server(&good, None), everybody());
    assert_eq!(add(&connect(&agent, &trust).unwrap()), Ok(0));

    let untrusted = asking(&trusting(&other), None);
    assert_eq!(told(&good, &untrusted), TlsFailure::UnknownAuthority);
    let expired = authority.issue_from_to(&[HOST], 2000, 2020);
    assert_eq!(told(&expired, &trust), TlsFailure::Expired);
    let early = authority.issue_from_to(&[HOST], 2199, 2200);
    assert_eq!(told(&early, &trust), TlsFailure::NotValidYet);
    let elsewhere = authority.issue(&["127.0.0.2", "elsewhere.example"]);
    assert_eq!(told(&elsewhere, &trust), TlsFailure::OtherName);

    // A fingerprint stands for a certificate, whatever that says.
    let pin = |own: &Issued| asking(&Trust::Pinned(vec![Fingerprint::of(&own.der)]), None);
    assert_eq!(told(&good, &pin(&expired)), TlsFailure::OtherFingerprint);
    let agent = start(server(&expired, None), everybody());
    assert_eq!(add(&connect(&agent, &pin(&expired)).unwrap()), Ok(0));
    let both = Trust::Pinned(vec![
        Fingerprint::of(&good.der),
        Fingerprint::of(&expired.der),
    ]);
    assert_eq!(add(&connect(&agent, &asking(&both, None)).unwrap()), Ok(1));
}

#[test]
fn a_certificate_opens_the_grants_that_admit_it_in_place_of_a_secret() {
    let (authority, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let own = server(&authority.issue(&[HOST]), Some(&clients));
    let secret = Secret::new([7; 32]).unwrap();
    let named = Clients::Named(vec!["reader.example".into(), "writer.example".into()]);
    let grants = vec![
        Grant {
            secrets: vec![secret.clone()],
            ..by_certificate("default", Clients::Named(vec!["owner.example".into()]))
        },
        by_certificate("some", named),
    ];
    let agent = start(own.clone(), grants);
    let trust = trusting(&authority);
    let ask = |grant: &str, certificate: Option<&Issued>, secret: Option<&Secret>| {
        let options = ConnectOptions {
            grant: grant.into(),
            secret: secret.cloned(),
            ..asking(&trust, certificate)
        };
        connect(&agent, &options)
    };
    let owner = clients.issue(&["owner.example"]);
    let reader = clients.issue(&["reader.example"]);
    assert!(ask("default", Some(&owner), None).is_ok());
    // A client that has both needs one.
    assert!(ask("default", Some(&owner), Some(&secret)).is_ok());
    assert!(ask("default", Some(&reader), Some(&secret)).is_ok());
    assert!(ask("default", None, Some(&secret)).is_ok());
    assert!(ask("some", Some(&reader), None).is_ok());
    for (grant, certificate) in [
        ("default", None),
        ("default", Some(&reader)),
        ("some", None),
    ] {
        assert_eq!(
            refusal(ask(grant, certificate, None)),
            Refusal::SecretNeeded
        );
    }
    for (grant, certificate) in [
        ("some", Some(&owner)),
        ("none", Some(&owner)),
        ("none", None),
    ] {
        let told = refusal(ask(grant, certificate, Some(&secret)));
        assert_eq!(told, Refusal::WrongSecret, "{grant}");
    }
    // One of another authority, or that has expired, is refused by TLS.
    for wrong in [
        others.issue(&["owner.example"]),
        clients.issue_from_to(&["owner.example"], 2000, 2020),
    ] {
        let told = failure(ask("default", Some(&wrong), None));
        assert!(matches!(told, TlsFailure::Refused { .. }), "{told:?}");
    }

    // Where there are no secrets at all, what is missing is told.
    let agent = start(own, vec![by_certificate("default", Clients::Any)]);
    assert!(connect(&agent, &asking(&trust, Some(&reader))).is_ok());
    let told = refusal(connect(&agent, &asking(&trust, None)));
    assert_eq!(told, Refusal::CertificateNeeded);
}

#[test]
fn certificates_of_clients_need_tls_and_an_authority() {
    let authority = Authority::new();
    let own = authority.issue(&[HOST]);
    let agent = start(server(&own, None), everybody());
    let refused = agent.grant(&by_certificate("some", Clients::Any));
    assert!(
        matches!(refused, Err(FabricError::NotEnforceable { .. })),
        "{refused:?}"
    );
    // Nor is a certificate taken without its key, or what is none.
    for (chain, key) in [
        (own.pem(), own.pem()),
        (own.key(), own.key()),
        (own.pem(), authority.issue(&[HOST]).key()),
        (b"nothing".as_slice(), own.key()),
    ] {
        let made = TlsServer::new(chain, key, None);
        assert!(matches!(made, Err(FabricError::BadTls { .. })), "{made:?}");
    }
    assert!(TlsClient::new(&Trust::Pinned(Vec::new()), None).is_err());
    assert!(TlsClient::new(&Trust::Authorities(b"nothing".to_vec()), None).is_err());
}

#[test]
fn a_node_knows_that_its_certificate_is_not_valid_now() {
    let authority = Authority::new();
    for (from, to, is_valid) in [(2020, 2200, true), (2020, 2021, false), (2190, 2200, false)] {
        let own = authority.issue_from_to(&[HOST], from, to);
        let told = server(&own, None).not_valid_now();
        assert_eq!(told.is_none(), is_valid, "{from} to {to}: {told:?}");
    }
}

#[test]
fn a_plain_client_and_a_plain_node_are_told_apart_from_those_under_tls() {
    let authority = Authority::new();
    let agent = start(server(&authority.issue(&[HOST]), None), everybody());
    let told = failure(connect(&agent, &ConnectOptions::default()));
    assert_eq!(told, TlsFailure::TlsNeeded);
    wait_until("refused", || agent.counters().refused == 1);

    let plain = Agent::start(node(), &AgentOptions::default()).unwrap();
    let told = connect(&plain, &asking(&trusting(&authority), None)).map(drop);
    assert!(
        matches!(&told, Err(FabricError::Connect { error, .. }) if error.contains("TLS")),
        "{told:?}"
    );
}

/// What the process uses of memory, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}

/// The head of a record of a handshake, and of a ClientHello that is said to be so long.
fn hello_of(bytes: usize) -> Vec<u8> {
    let mut hello = vec![22, 3, 1, 0x40, 0, 1];
    hello.extend(&(bytes as u32).to_be_bytes()[1..]);
    hello
}

#[test]
fn hostile_bytes_before_the_handshake_are_bounded_and_others_are_served() {
    const UNAUTHENTICATED: usize = 200;
    let authority = Authority::new();
    let agent = start(server(&authority.issue(&[HOST]), None), everybody());
    let good = connect(&agent, &asking(&trusting(&authority), None)).unwrap();
    assert_eq!(add(&good), Ok(0));
    let before = resident();
    let begun = Instant::now();
    // One says nothing, one speaks something else, one begins a hello and never ends it, one sends
    // a hello without end, in records that are whole.
    let mut endless = hello_of(0xff_ffff);
    endless.resize(5 + 0x4000, 0);
    let mut record = vec![22, 3, 3, 0x40, 0];
    record.resize(5 + 0x4000, 0);
    for _ in 0..8 {
        endless.extend(&record);
    }
    let kinds: [&[u8]; 4] = [b"", b"GET / HTTP/1.1\r\n\r\n", &hello_of(1000), &endless];
    let mut unauthenticated = Vec::new();
    for number in 0..UNAUTHENTICATED {
        let mut connection = TcpStream::connect(agent.address()).unwrap();
        connection
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        // It may be closed before all of it has gone.
        let _ = connection.write_all(kinds[number % kinds.len()]);
        unauthenticated.push(connection);
        assert!(add(&good).is_ok());
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < UNAUTHENTICATED * (96 << 10) + (8 << 20), "{grown}");
    assert!(agent.counters().held_bytes < 1 << 20);
    // All of them have to go, and know it; the client that was admitted stays.
    for mut connection in unauthenticated {
        let mut said = Vec::new();
        let _ = connection.read_to_end(&mut said);
        assert!(said.len() < 100, "{said:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(25));
    assert!(add(&good).is_ok());
    wait_until("gone", || agent.counters().connections == 1);
    assert_eq!(agent.counters().refused, UNAUTHENTICATED as u64);
}

#[test]
fn a_session_that_is_broken_ends_and_no_other() {
    let authority = Authority::new();
    let agent = start(server(&authority.issue(&[HOST]), None), everybody());
    let options = asking(&trusting(&authority), None);
    let kept = connect(&agent, &options).unwrap();
    let address = agent.address().to_string();
    for bytes in [&[23, 3, 3, 0, 32][..], &[0; 64], &[21, 3, 3, 0, 2, 2, 0]] {
        let broken = tcp::admission::connect(&address, &options).unwrap();
        let mut tcp = broken.socket.tcp();
        tcp.write_all(bytes).unwrap();
        tcp.write_all(&[7; 32]).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let _ = tcp.read_to_end(&mut Vec::new());
        assert!(add(&kept).is_ok());
    }
    drop(kept);
    wait_until("gone", || agent.counters().connections == 0);
    assert_eq!(
        agent.counters().malformed,
        0,
        "no frame of theirs was opened"
    );
}

#[test]
fn a_client_reconnects_to_a_node_that_was_gone_and_has_another_certificate() {
    let authority = Authority::new();
    let node = node();
    let first = serve(
        &node,
        "127.0.0.1:0",
        server(&authority.issue(&[HOST]), None),
        everybody(),
    );
    let address = first.address();
    let client = connect_to(address, &asking(&trusting(&authority), None)).unwrap();
    assert_eq!(add(&client), Ok(0));
    drop(first);
    wait_until("down", || add(&client).is_err());
    // One that nobody trusts is in its place for a while.
    let own = Authority::new().issue(&[HOST]);
    let rogue = serve(&node, &address.to_string(), server(&own, None), everybody());
    wait_until("refused", || {
        let state = client.endpoint().node_state(NodeId(0)).unwrap();
        let untrusted = TlsFailure::UnknownAuthority;
        matches!(state, NodeState::Down(FabricError::Tls { failure, .. }) if failure == untrusted)
    });
    assert_eq!(rogue.counters().admitted, 0);
    drop(rogue);
    let own = authority.issue(&[HOST]);
    let again = serve(&node, &address.to_string(), server(&own, None), everybody());
    wait_until("up", || client.endpoint().is_up(NodeId(0)));
    assert_eq!(add(&client), Ok(1));
    assert!(again.counters().admitted >= 1);
}

#[test]
fn a_new_certificate_is_shown_to_those_who_come_and_the_others_stay() {
    let (authority, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let first = authority.issue(&[HOST]);
    let secret = Secret::new([7; 32]).unwrap();
    let grants = vec![Grant {
        secrets: vec![secret.clone()],
        ..by_certificate("default", Clients::Any)
    }];
    let agent = start(server(&first, Some(&clients)), grants);
    let trust = trusting(&authority);
    let mine = clients.issue(&["client.example"]);
    let pinned =
        |own: &Issued| asking(&Trust::Pinned(vec![Fingerprint::of(&own.der)]), Some(&mine));
    let certified = connect(&agent, &pinned(&first)).unwrap();
    let with_secret = ConnectOptions {
        secret: Some(secret),
        ..asking(&trust, None)
    };
    let knowing = connect(&agent, &with_secret).unwrap();

    let second = authority.issue(&[HOST]);
    agent.change_tls(&server(&second, Some(&clients))).unwrap();
    assert_eq!(
        failure(connect(&agent, &pinned(&first))),
        TlsFailure::OtherFingerprint
    );
    assert!(connect(&agent, &pinned(&second)).is_ok());
    assert!(add(&certified).is_ok() && add(&knowing).is_ok());

    // Whoever came by a certificate of an authority that is trusted no more has to go.
    agent.change_tls(&server(&second, Some(&others))).unwrap();
    let node = NodeId(0);
    assert_eq!(add(&certified), Err(FabricError::GrantRevoked { node }));
    assert!(add(&knowing).is_ok());
    let told = failure(connect(&agent, &pinned(&second)));
    assert!(matches!(told, TlsFailure::Refused { .. }), "{told:?}");
    let other = others.issue(&["client.example"]);
    assert!(connect(&agent, &asking(&trust, Some(&other))).is_ok());
    wait_until("closed", || agent.counters().revoked >= 1);
    // Without an authority the grant's certificates mean nothing.
    let refused = agent.change_tls(&server(&second, None));
    assert!(
        matches!(refused, Err(FabricError::NotEnforceable { .. })),
        "{refused:?}"
    );
    assert!(add(&knowing).is_ok());
}

#[test]
fn a_certificate_that_its_authority_has_revoked_opens_nothing_and_the_others_do() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let own = authority.issue(&[HOST]);
    let grants = vec![by_certificate("default", Clients::Any)];
    let agent = start(server(&own, Some(&clients)), grants);
    let trust = trusting(&authority);
    let names = ["lost.example", "kept.example"];
    let [lost, kept] = names.map(|name| clients.issue(&[name]));
    let by = |certificate| asking(&trust, Some(certificate));
    let client = connect(&agent, &by(&lost)).unwrap();
    assert!(add(&client).is_ok());

    let revoking = clients.pem_revoking(&[&lost]);
    let tls = TlsServer::new(own.pem(), own.key(), Some(&revoking)).unwrap();
    agent.change_tls(&tls).unwrap();
    let node = NodeId(0);
    assert_eq!(add(&client), Err(FabricError::GrantRevoked { node }));
    let told = failure(connect(&agent, &by(&lost)));
    assert!(matches!(told, TlsFailure::Refused { .. }), "{told:?}");
    assert!(connect(&agent, &by(&kept)).is_ok());

    // Another authority's list says nothing of these certificates, and no list is none.
    let strange = Authority::new().pem_revoking(&[&kept]);
    let both = [clients.pem(), b"\n", &strange].concat();
    agent
        .change_tls(&TlsServer::new(own.pem(), own.key(), Some(&both)).unwrap())
        .unwrap();
    assert!(connect(&agent, &by(&kept)).is_ok());
    let list = b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
    let broken = [clients.pem(), b"\n", &list[..]].concat();
    let made = TlsServer::new(own.pem(), own.key(), Some(&broken)).map(drop);
    assert!(matches!(made, Err(FabricError::BadTls { .. })), "{made:?}");
}

/// The same without TLS: secrets are independent of it.
#[test]
fn two_secrets_are_valid_at_a_time_and_the_clients_of_one_that_goes_go_with_it() {
    let secret = |byte| Secret::new([byte; 32]).unwrap();
    let grants = vec![Grant {
        secrets: vec![secret(1)],
        ..Grant::everything(None)
    }];
    let options = AgentOptions::from(ServeOptions {
        grants,
        handshake_timeout: Duration::from_millis(500),
        ..ServeOptions::default()
    });
    let agent = Agent::start(node(), &options).unwrap();
    let knowing = |byte| ConnectOptions {
        secret: Some(secret(byte)),
        ..ConnectOptions::default()
    };
    let old = connect(&agent, &knowing(1)).unwrap();
    assert_eq!(refusal(connect(&agent, &knowing(2))), Refusal::WrongSecret);
    let both = [secret(2), secret(1)];
    assert_eq!(agent.change_proof("default", &both, None), Ok(true));
    let new = connect(&agent, &knowing(2)).unwrap();
    assert!(connect(&agent, &knowing(1)).is_ok());
    assert!(add(&old).is_ok() && add(&new).is_ok());

    assert_eq!(agent.change_proof("default", &both[..1], None), Ok(true));
    let node = NodeId(0);
    assert_eq!(add(&old), Err(FabricError::GrantRevoked { node }));
    assert_eq!(refusal(connect(&agent, &knowing(1))), Refusal::WrongSecret);
    assert!(add(&new).is_ok());
    // It is not only refused: its connection is closed.
    wait_until("closed", || agent.counters().revoked == 1);
    assert!(add(&new).is_ok());
    // A grant does not lose its last proof, and one that is not there is not made.
    let refused = agent.change_proof("default", &[], None);
    assert!(
        matches!(refused, Err(FabricError::Insecure { .. })),
        "{refused:?}"
    );
    assert_eq!(agent.change_proof("none", &both, None), Ok(false));
    assert!(add(&new).is_ok());
}

/// More than one record either way, and more than the kernel's buffers hold.
#[test]
fn large_verbs_go_through_in_both_directions() {
    let authority = Authority::new();
    let region = RegionSpec {
        len: 16 << 20,
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    let own = server(&authority.issue(&[HOST]), None);
    let agent = serve(&node, "127.0.0.1:0", own, everybody());
    let client = connect(&agent, &asking(&trusting(&authority), None)).unwrap();
    let endpoint = client.endpoint();
    client.block_on(async {
        for (round, bytes) in [4 << 20, 16384, 16376, 16392, 8, 3 << 20]
            .into_iter()
            .enumerate()
        {
            let mut data = endpoint.core().buffers.take(bytes).unwrap();
            for (place, word) in data.words_mut().iter_mut().enumerate() {
                *word = (place as u64) << 8 | round as u64;
            }
            endpoint.write(at(64), data).await.unwrap();
            let seen = endpoint.read(at(64), bytes).await.unwrap();
            let mut words = seen.words().iter().enumerate();
            assert!(words.all(|(place, word)| *word == (place as u64) << 8 | round as u64));
        }
        let reads = (0..64_u64).map(|_| endpoint.read(at(0), 256 << 10));
        window(8, reads, |_, read| {
            assert_eq!(read.unwrap().len(), 256 << 10)
        })
        .await;
    });
}

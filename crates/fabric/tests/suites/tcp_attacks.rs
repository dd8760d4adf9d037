//! Attacks on a live agent's memory, time and places: each does what once did harm.

use crate::alone::{is_alone, resident_bytes};
use crate::attacked::{LEN, asking, grant, serve};
use crate::raw::{RawClient, bytes_of, frame};
use farslot_fabric::shm::ShmEndpoint;
use farslot_fabric::tcp::admission::handshake::{self, Hello};
use farslot_fabric::tcp::wire::{self, FrameKind, Header};
use farslot_fabric::tcp::{
    Agent, AgentCounters, ConnectOptions, Grant, Refusal, Secret, ServeOptions, TcpEndpoint,
};
use farslot_fabric::*;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

fn connect(agent: &Agent, grant: &str) -> Executor<TcpEndpoint> {
    let endpoint = TcpEndpoint::connect(&[agent.address().to_string()], &asking(grant)).unwrap();
    Executor::new(Rc::new(endpoint))
}

/// The owner's own way to its memory.
fn owner(agent: &Agent) -> Executor<ShmEndpoint> {
    let endpoint = ShmEndpoint::new(vec![agent.node().clone()], Limits::default());
    Executor::new(Rc::new(endpoint))
}

fn wait_until(agent: &Agent, condition: &str, is: impl Fn(AgentCounters) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is(agent.counters()) {
        assert!(
            Instant::now() < until,
            "{condition}: {:?}",
            agent.counters()
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The first words of a frame with one verb, of which so many words are there.
fn cut_off(verb: impl FnOnce(&mut Vec<u64>), words: usize) -> Vec<u64> {
    let mut verbs = Vec::new();
    verb(&mut verbs);
    let mut whole = frame(1, &verbs);
    whole.truncate(1 + words);
    whole
}

#[test]
fn a_claimed_write_takes_no_memory_and_is_refused_before_its_payload_is_here() {
    if !is_alone(
        "tcp_attacks::a_claimed_write_takes_no_memory_and_is_refused_before_its_payload_is_here",
    ) {
        return;
    }
    const CLAIMED: u32 = 3 << 20;
    let agent = serve(ServeOptions::default());
    let payload = vec![7; CLAIMED as usize / 8];
    let mut clients: Vec<_> = (0..300)
        .map(|which| {
            let grant = if which % 2 == 0 { "reader" } else { "hostile" };
            RawClient::connect(&agent, &asking(grant))
        })
        .collect();
    let claims: Vec<_> = (clients.iter())
        .map(|client| {
            let to = client.span(0, 0, CLAIMED);
            let mut claim = cut_off(|out| wire::put_write(out, to, &payload), 5);
            claim.shrink_to_fit();
            claim
        })
        .collect();
    let before = resident_bytes();
    for (client, claim) in clients.iter_mut().zip(&claims) {
        client.send(claim);
    }
    wait_until(&agent, "the readers are refused", |seen| {
        seen.failed_verbs == 150
    });
    // Those who may write have placed two words each, and everybody holds nothing.
    let written = owner(&agent);
    let until = Instant::now() + PATIENCE;
    loop {
        let read = written.block_on(written.endpoint().read(at(0), 24));
        if read.unwrap().words() == [7, 7, 0] {
            break;
        }
        assert!(Instant::now() < until);
    }
    assert_eq!(agent.counters().held_bytes, 0);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more");

    // A reader is told at once; its payload is thrown away when it comes, and it goes on.
    let reader = &mut clients[0];
    let told = Header::decode(reader.words(1)[0]).unwrap();
    assert_eq!(told.kind, FrameKind::Failure);
    reader.words(told.words as usize - 1);
    reader.send(&payload[2..]);
    let first = reader.span(0, 0, 8);
    assert_eq!(reader.ask(|out| wire::put_read(out, first)), Ok(vec![7]));
    // A writer's comes in pieces, and is answered behind the last.
    let writer = &mut clients[1];
    for piece in payload[2..].chunks(100_000) {
        writer.send(piece);
    }
    let told = Header::decode(writer.words(1)[0]).unwrap();
    assert_eq!(
        (told.kind, told.count, told.words),
        (FrameKind::Completions, 1, 1)
    );
    let read = written.block_on(written.endpoint().read(at(0), CLAIMED as usize + 8));
    let read = read.unwrap();
    let (placed, behind) = read.words().split_at(payload.len());
    assert!(placed == payload && behind == [0]);
}

#[test]
fn a_grant_that_is_revoked_amid_a_write_or_an_answer_ends_it_there() {
    let agent = serve(ServeOptions::default());
    let mut writer = RawClient::connect(&agent, &asking("hostile"));
    let to = writer.span(0, 0, 1 << 20);
    let payload = vec![1; 1 << 17];
    writer.send(&cut_off(|out| wire::put_write(out, to, &payload), 10));
    let mut reader = RawClient::connect(&agent, &asking("hostile"));
    let mut reads = Vec::new();
    let span = reader.span(0, 0, 4 << 20);
    (0..16).for_each(|_| wire::put_read(&mut reads, span));
    reader.send(&frame(16, &reads));
    wait_until(&agent, "answers wait", |seen| seen.held_bytes > 0);
    assert!(agent.revoke("hostile"));
    writer.send(&payload[7..]);
    let told = Header::decode(writer.words(1)[0]).unwrap();
    assert_eq!(told.kind, FrameKind::Failure);
    // The rest of the answer never comes.
    let mut all = Vec::new();
    let ended = reader.tcp().read_to_end(&mut all);
    assert!(ended.is_ok() || ended.unwrap_err().kind() == ErrorKind::ConnectionReset);
    assert!(all.len() < 64 << 20, "{} bytes", all.len());
    wait_until(&agent, "nothing is held", |seen| seen.held_bytes == 0);
}

#[test]
fn clients_of_a_revoked_grant_are_let_go_of_and_nobody_else() {
    let agent = serve(ServeOptions {
        handshake_timeout: Duration::from_millis(200),
        ..ServeOptions::default()
    });
    let _idle = RawClient::connect(&agent, &asking("hostile"));
    let good = connect(&agent, "good");
    assert!(agent.revoke("hostile"));
    wait_until(&agent, "one stays", |seen| {
        (seen.connections, seen.revoked) == (1, 1)
    });
    let added = good.block_on(good.endpoint().fetch_add(at(0), 1));
    assert_eq!((added, agent.counters().accepted), (Ok(0), 2));
}

#[test]
fn verbs_that_cannot_come_in_pieces_hold_what_has_arrived_and_no_more_than_there_is_room_for() {
    const ROOM: usize = 4 << 20;
    let agent = serve(ServeOptions {
        held_bytes: ROOM,
        ..ServeOptions::default()
    });
    let request = vec![1u64; 1 << 17];
    let mut clients = Vec::new();
    for _ in 0..40 {
        let mut client = RawClient::connect(&agent, &asking("hostile"));
        let to = client.span(0, 64, 1 << 20);
        client.send(&cut_off(
            |out| wire::put_call(out, to, &request),
            3 + (1 << 15),
        ));
        clients.push(client);
    }
    wait_until(&agent, "some are cut off", |seen| seen.no_room > 0);
    let held = agent.counters().held_bytes;
    assert!(held < ROOM / 2 + 40 * (32 << 10), "{held}");
    // The others of that grant, and those of another, are served.
    let good = connect(&agent, "good");
    for round in 0..100 {
        let data = good.endpoint().core().buffers.take(200 << 10).unwrap();
        let written = good.block_on(good.endpoint().write(at(1 << 20), data));
        assert_eq!(written, Ok(()));
        let added = good.block_on(good.endpoint().fetch_add(at(0), 1));
        assert_eq!(added, Ok(round));
    }
    drop(clients);
    wait_until(&agent, "nothing is held", |seen| seen.held_bytes == 0);
}

#[test]
fn clients_that_take_no_answers_hold_what_there_is_room_for_and_get_all_of_it_in_the_end() {
    const ROOM: usize = 2 << 20;
    const CLIENTS: usize = 60;
    let agent = serve(ServeOptions {
        held_bytes: ROOM,
        ..ServeOptions::default()
    });
    let own = owner(&agent);
    let mut data = own.endpoint().core().buffers.take(2 << 20).unwrap();
    for (index, word) in data.words_mut().iter_mut().enumerate() {
        *word = index as u64;
    }
    own.block_on(own.endpoint().write(at(0), data)).unwrap();
    // READs of one piece and of several, of more than the sockets take.
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| RawClient::connect(&agent, &asking("hostile")))
        .collect();
    for client in &mut clients {
        let mut verbs = Vec::new();
        for _ in 0..6 {
            wire::put_read(&mut verbs, client.span(0, 8, 1 << 20));
            let pieces = [(80, 1000), (0, 0), (1 << 20, 500_004), (1024, 8)];
            let pieces = pieces.map(|(offset, len)| client.span(0, offset, len));
            wire::put_read_many(&mut verbs, pieces.into_iter());
        }
        client.send(&frame(12, &verbs));
    }
    wait_until(&agent, "all have begun", |seen| {
        seen.verbs >= CLIENTS as u64 && seen.held_bytes > ROOM / 4
    });
    let good = connect(&agent, "good");
    for round in 0..100 {
        let added = good.block_on(good.endpoint().fetch_add(at(6 << 20), 1));
        assert_eq!(added, Ok(round));
        let held = agent.counters().held_bytes;
        assert!(held <= ROOM / 2 + CLIENTS * (16 << 10), "{held}");
    }
    for client in &mut clients[..3] {
        for verb in 0..12 {
            let told = Header::decode(client.words(1)[0]).unwrap();
            assert_eq!((told.kind, told.count), (FrameKind::Completions, 1));
            let words = client.words(told.words as usize - 1);
            let expected: Vec<u64> = if verb % 2 == 0 {
                (1..=1 << 17).collect()
            } else {
                let last = (1 << 17) + 62_500;
                let long = (1 << 17..=last).collect::<Vec<u64>>();
                [&(10..135).collect::<Vec<u64>>()[..], &long, &[128]].concat()
            };
            assert_eq!(words.len(), expected.len(), "verb {verb}");
            // What lies behind the last byte of a piece is nobody's matter.
            let differ = words.iter().zip(&expected).filter(|(a, b)| a != b).count();
            assert!(differ <= usize::from(verb % 2 == 1), "verb {verb}");
        }
    }
    drop(clients);
    wait_until(&agent, "nothing is held", |seen| seen.held_bytes == 0);
}

#[test]
fn three_bytes_of_unauthenticated_clients_take_no_memory_and_no_places_of_others() {
    if !is_alone(
        "tcp_attacks::three_bytes_of_unauthenticated_clients_take_no_memory_and_no_places_of_others",
    ) {
        return;
    }
    let agent = serve(ServeOptions {
        unauthenticated: 100,
        unauthenticated_of_address: 80,
        handshake_timeout: PATIENCE,
        ..ServeOptions::default()
    });
    let first = connect(&agent, "good");
    let before = resident_bytes();
    let unauthenticated: Vec<_> = (0..400)
        .map(|_| {
            let mut stream = TcpStream::connect(agent.address()).unwrap();
            // The first of them are let go of meanwhile.
            let _ = stream.write_all(&[1, 2, 3]);
            stream
        })
        .collect();
    wait_until(&agent, "most are turned away", |seen| {
        seen.turned_away == 320 && seen.connections == 81
    });
    // Those who are quick come in all the same, and those who are there stay.
    for round in 0..50 {
        let good = connect(&agent, "good");
        let added = good.block_on(good.endpoint().fetch_add(at(0), 1));
        assert_eq!(added, Ok(2 * round));
        let added = first.block_on(first.endpoint().fetch_add(at(0), 1));
        assert_eq!(added, Ok(2 * round + 1));
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes more");
    drop(unauthenticated);
}

#[test]
fn an_unauthenticated_client_says_no_more_than_its_frame_before_it_is_answered() {
    let agent = serve(ServeOptions::default());
    let mut stream = TcpStream::connect(agent.address()).unwrap();
    let hello = Hello {
        carrier: handshake::Carrier::Tcp,
        grant: "good".into(),
        rights: Rights::ALL,
        receiver_wait: 0,
        nonce: [3; 4],
    };
    // The sockets take it; the agent takes a frame, and ends what is none.
    let mut said = bytes_of(&hello.encode());
    said.extend(vec![0; 1 << 20]);
    let _ = stream.write_all(&said);
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told);
    wait_until(&agent, "it is malformed", |seen| seen.malformed == 1);
    assert_eq!(agent.counters().held_bytes, 0);
}

#[test]
fn a_client_that_is_refused_again_and_again_rests_and_is_cut_off_while_others_are_served() {
    let agent = serve(ServeOptions::default());
    let (done, until) = (AtomicBool::new(false), Instant::now() + PATIENCE);
    std::thread::scope(|scope| {
        let good = scope.spawn(|| {
            let good = connect(&agent, "good");
            let mut rounds = 0;
            while !done.load(Ordering::Acquire) && Instant::now() < until {
                let added = good.block_on(good.endpoint().fetch_add(at(0), 1));
                assert_eq!(added, Ok(rounds));
                rounds += 1;
            }
            rounds
        });
        let mut client = RawClient::connect(&agent, &asking("reader"));
        let to = client.span(0, 0, 8);
        let mut verbs = Vec::new();
        (0..20_000).for_each(|_| wire::put_write(&mut verbs, to, &[0]));
        client.send(&frame(20_000, &verbs));
        let mut refused = 0;
        let reason = loop {
            let first = client.words(1)[0];
            let told = Header::decode(first).unwrap();
            let rest = client.words(told.words as usize - 1);
            match told.kind {
                FrameKind::Failure => refused += 1,
                FrameKind::Refused => {
                    break handshake::decode_refused(&[&[first][..], &rest].concat());
                }
                kind => panic!("{kind:?}"),
            }
        };
        done.store(true, Ordering::Release);
        assert!(good.join().unwrap() > 0);
        assert_eq!(reason, Some(Refusal::TooManyRefused { limit: 10_000 }));
        assert!((10_000..10_100).contains(&refused), "{refused}");
        let seen = agent.counters();
        assert_eq!((seen.cut_off, seen.failed_verbs), (1, refused));
    });
}

#[test]
fn those_who_mend_their_ways_are_not_cut_off() {
    let agent = serve(ServeOptions::default());
    let mut client = RawClient::connect(&agent, &asking("reader"));
    let span = client.span(0, 0, 8);
    let mut verbs = Vec::new();
    for _ in 0..100 {
        wire::put_write(&mut verbs, span, &[0]);
    }
    let refused = frame(100, &verbs);
    verbs.clear();
    (0..1_000).for_each(|_| wire::put_read(&mut verbs, span));
    let granted = frame(1_000, &verbs);
    for _ in 0..150 {
        client.send(&refused);
        client.words(100 * wire::FAILURE_WORDS);
        client.send(&granted);
        let mut left = 1_000;
        while left > 0 {
            let told = Header::decode(client.words(1)[0]).unwrap();
            client.words(told.words as usize - 1);
            left -= usize::from(told.count);
        }
    }
    let seen = agent.counters();
    assert_eq!((seen.failed_verbs, seen.cut_off), (15_000, 0));
}

#[test]
fn large_reads_of_some_do_not_keep_others_from_being_served() {
    let agent = serve(ServeOptions::default());
    let (done, until) = (AtomicBool::new(false), Instant::now() + PATIENCE);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let reader = connect(&agent, "reader");
                let endpoint = reader.endpoint();
                reader.block_on(async {
                    while !done.load(Ordering::Acquire) && Instant::now() < until {
                        let all = (0..4).map(|_| endpoint.read(at(0), 2 << 20));
                        window(4, all, |_, read| assert_eq!(read.unwrap().len(), 2 << 20)).await;
                    }
                });
            });
        }
        let good = connect(&agent, "good");
        for round in 0..500 {
            let added = good.block_on(good.endpoint().fetch_add(at(LEN - 8), 1));
            assert_eq!(added, Ok(round));
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(agent.counters().admitted, 5);
}

#[test]
fn the_names_of_grants_cannot_be_found_out_without_a_secret() {
    let agent = serve(ServeOptions::default());
    let secret = |byte| Some(Secret::new([byte; 32]).unwrap());
    let locked = |name: &str| Grant {
        secrets: secret(1).into_iter().collect(),
        ..grant(name, Rights::READ)
    };
    agent.grant(&locked("locked")).unwrap();
    agent.grant(&locked("gone")).unwrap();
    assert!(agent.revoke("gone"));
    let told = |name: &str, secret| {
        let options = ConnectOptions {
            secret,
            ..asking(name)
        };
        match TcpEndpoint::connect(&[agent.address().to_string()], &options).map(drop) {
            Err(FabricError::NotAdmitted { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    };
    for name in ["locked", "gone", "none"] {
        assert_eq!(told(name, None), Refusal::SecretNeeded, "{name}");
        assert_eq!(told(name, secret(2)), Refusal::WrongSecret, "{name}");
    }
    assert_eq!(told("gone", secret(1)), Refusal::GrantRevoked);
    assert_eq!(told("none", secret(1)), Refusal::WrongSecret);
}

/// Holds its callers to their rights itself.
struct Asks;

impl Handler for Asks {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        let may = call.caller.check(0..8, Rights::READ).is_ok();
        call.reply[0] = u8::from(may);
        CallAnswer::Now(1)
    }

    fn checks_callers(&self) -> bool {
        true
    }
}

#[test]
fn a_call_that_comes_in_pieces_is_held_to_the_same_rights_as_one_that_comes_whole() {
    let agent = serve(ServeOptions::default());
    let request = vec![1u64; 1 << 15];
    let call = |client: &mut RawClient| {
        let to = client.span(0, 8, 1 << 18);
        let mut verbs = Vec::new();
        wire::put_call(&mut verbs, to, &request);
        let whole = frame(1, &verbs);
        // The head alone, then the rest in pieces.
        client.send(&whole[..4]);
        std::thread::sleep(Duration::from_millis(20));
        whole[4..]
            .chunks(5_000)
            .for_each(|piece| client.send(piece));
        let told = Header::decode(client.words(1)[0]).unwrap();
        let rest = client.words(told.words as usize - 1);
        (told.kind, rest)
    };
    let mut reader = RawClient::connect(&agent, &asking("reader"));
    // The node's handler needs the right to call all of the region, which a reader does not have.
    assert_eq!(call(&mut reader).0, FrameKind::Failure);
    agent.node().serve_calls(Arc::new(Asks));
    assert_eq!(call(&mut reader), (FrameKind::Completions, vec![1, 1]));
}

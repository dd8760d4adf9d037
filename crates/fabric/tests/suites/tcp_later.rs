//! What clients over TCP do that mean harm, or leave, while their calls wait for answers.

use crate::attacked::{asking, serve};
use crate::bed::wait_until;
use crate::later::{Fate, Keeping, Postponing, seed};
use crate::proxy::Proxy;
use crate::raw::{RawClient, frame};
use farslot_fabric::shm::ShmEndpoint;
use farslot_fabric::tcp::wire::{self, FrameKind, Header};
use farslot_fabric::tcp::{Agent, ServeOptions, TcpEndpoint};
use farslot_fabric::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::io::Write;
use std::net::Shutdown;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Calls of a connection that are begun while the first has no answer.
const MOST: usize = 64;

fn keeping(options: ServeOptions) -> (Agent, Arc<Keeping>) {
    let agent = serve(options);
    let keeping = Keeping::serve(agent.node());
    (agent, keeping)
}

/// A frame of so many calls with 8 bytes that are kept, and room for so many.
fn calls(client: &RawClient, count: u16, room: u64) -> Vec<u64> {
    let mut verbs = Vec::new();
    for _ in 0..count {
        let request = [u64::from_le_bytes(*b"kept    ")];
        wire::put_call(&mut verbs, client.span(0, room, 8), &request);
    }
    frame(count, &verbs)
}

/// Answers what is kept until so many were; returns the most that were kept at once.
fn answer(keeping: &Keeping, mut left: usize) -> usize {
    let mut most = 0;
    while left > 0 {
        let count = keeping.count();
        if count == 0 {
            std::thread::yield_now();
            continue;
        }
        // Whatever else may come meanwhile.
        std::thread::sleep(Duration::from_millis(2));
        let count = keeping.count().max(count);
        most = most.max(count);
        left -= keeping.answer_all();
    }
    most
}

#[test]
fn a_client_that_is_not_read_from_is_let_go_of_when_it_leaves() {
    let (agent, keeping) = keeping(ServeOptions::default());
    for how in ["closes", "ends its side", "resets"] {
        let mut client = RawClient::connect(&agent, &asking("good"));
        let all = calls(&client, 2 * MOST as u16, 1000);
        client.send(&all);
        wait_until("kept", || keeping.count() == MOST);
        wait_until("held", || agent.counters().held_bytes >= MOST * 1008);
        match how {
            "closes" => drop(client),
            "ends its side" => {
                client.tcp().shutdown(Shutdown::Write).unwrap();
                wait_until(how, || agent.counters().connections == 0);
            }
            _ => {
                let linger = socket2::SockRef::from(client.tcp());
                linger.set_linger(Some(Duration::ZERO)).unwrap();
                drop(client);
            }
        }
        wait_until(how, || !keeping.is_any_awaited());
        wait_until(how, || agent.counters().held_bytes == 0);
        assert_eq!(keeping.answer_all(), MOST, "no other was begun");
    }
}

#[test]
fn what_makes_no_sense_behind_a_call_that_waits_ends_the_connection_alone() {
    let (agent, keeping) = keeping(ServeOptions::default());
    let mut other = RawClient::connect(&agent, &asking("good"));
    let one = calls(&other, 1, 8);
    other.send(&one);
    wait_until("kept", || keeping.count() == 1);
    let mut bad = RawClient::connect(&agent, &asking("hostile"));
    let mut all = calls(&bad, 3, 8);
    all.push(u64::MAX);
    bad.send(&all);
    wait_until("closed", || agent.counters().malformed == 1);
    let awaited = keeping.take();
    let is_awaited: Vec<bool> = awaited.iter().map(|(_, kept)| kept.is_awaited()).collect();
    assert_eq!(is_awaited, [true, false, false, false]);
    for (request, ticket) in awaited {
        ticket.answer(request);
    }
    let told = Header::decode(other.words(1)[0]).unwrap();
    assert_eq!((told.kind, told.count), (FrameKind::Completions, 1));
    assert_eq!(other.words(2), [8, u64::from_le_bytes(*b"kept    ")]);
}

#[test]
fn verbs_behind_a_call_that_waits_begin_once_it_is_answered() {
    let (agent, keeping) = keeping(ServeOptions::default());
    let own = ShmEndpoint::new(vec![agent.node().clone()], Limits::default());
    let own = Executor::new(Rc::new(own));
    let at = RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset: 64,
    };
    let mut client = RawClient::connect(&agent, &asking("good"));
    let mut verbs = calls(&client, 1, 8).split_off(1);
    let denied = client.span(0, 1 << 40, 0);
    wire::put_call(&mut verbs, denied, &[]);
    wire::put_fetch_add(&mut verbs, client.span(0, 64, 0), 5);
    wire::put_read(&mut verbs, client.span(0, 64, 8));
    client.send(&frame(4, &verbs));
    wait_until("kept", || keeping.count() == 1);
    // The call behind it has been refused by now, which is told in its turn.
    wait_until("refused", || agent.counters().failed_verbs == 1);
    assert_eq!(own.block_on(own.endpoint().fetch_add(at, 1)), Ok(0));
    keeping.answer_all();
    let word = u64::from_le_bytes(*b"kept    ");
    let head = |kind, count, words| Header { kind, count, words }.encode();
    assert_eq!(
        client.words(3),
        [head(FrameKind::Completions, 1, 3), 8, word]
    );
    let refusal = client.words(5);
    assert_eq!(Header::decode(refusal[0]).unwrap().kind, FrameKind::Failure);
    assert_eq!(client.words(3), [head(FrameKind::Completions, 2, 3), 1, 6]);
}

#[test]
fn calls_that_wait_hold_what_there_is_room_for_and_all_are_answered() {
    const HELD: usize = 4 << 20;
    const CLIENTS: usize = 30;
    const EACH: usize = 40;
    let (agent, keeping) = keeping(ServeOptions {
        held_bytes: HELD,
        ..ServeOptions::default()
    });
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| RawClient::connect(&agent, &asking("hostile")))
        .collect();
    for client in &mut clients {
        // Each may ask for the least whatever the others hold.
        let all = calls(client, EACH as u16, 4000);
        client.send(&all);
    }
    wait_until("held", || agent.counters().held_bytes > HELD / 8);
    let good = TcpEndpoint::connect(&[agent.address().to_string()], &asking("good")).unwrap();
    let good = Executor::new(Rc::new(good));
    for number in 0..100u8 {
        let request = good.endpoint().core().buffers.copy_of(&[number; 9]);
        let call = good
            .endpoint()
            .call((NodeId(0), RegionId(0)), request.unwrap(), 9);
        assert_eq!(good.block_on(call).unwrap()[..], [number; 9]);
        let held = agent.counters().held_bytes;
        assert!(held <= HELD / 2 + CLIENTS * (24 << 10), "{held}");
    }
    let most = answer(&keeping, CLIENTS * EACH);
    assert!(most < CLIENTS * MOST, "{most}");
    for client in &mut clients {
        let mut left = EACH;
        while left > 0 {
            let told = Header::decode(client.words(1)[0]).unwrap();
            assert_eq!(told.kind, FrameKind::Completions);
            let words = client.words(told.words as usize - 1);
            let reply = [8, u64::from_le_bytes(*b"kept    ")];
            assert!(words.chunks_exact(2).all(|words| words == reply));
            left -= usize::from(told.count);
        }
    }
    drop((clients, good));
    wait_until("nothing is held", || agent.counters().held_bytes == 0);
}

#[test]
fn a_connection_that_is_cut_while_calls_wait_has_a_successor_whose_answers_are_its_own() {
    let (agent, keeping) = keeping(ServeOptions::default());
    let proxy = Proxy::to(agent.address());
    let endpoint = TcpEndpoint::connect(&[proxy.address()], &asking("good")).unwrap();
    let executor = Executor::new(Rc::new(endpoint));
    let endpoint = executor.endpoint();
    let call = |first: u8, number: u8| {
        let request = endpoint.core().buffers.copy_of(&[first, number]).unwrap();
        endpoint.call((NodeId(0), RegionId(0)), request, 8)
    };
    for round in 0..10u8 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_until("kept", || keeping.count() == 3);
                proxy.cut();
            });
            executor.block_on(window(3, (0..3).map(|_| call(b'k', round)), |_, end| {
                let error = end.map(drop).unwrap_err();
                assert!(error.may_have_taken_effect(), "{error}");
            }));
        });
        let late = keeping.take();
        wait_until("up again", || endpoint.is_up(NodeId(0)));
        let reply = executor.block_on(call(b'n', 100 + round));
        assert_eq!(reply.unwrap()[..], [b'n', 100 + round]);
        // The session was ended before its successor began, and its tickets with it, or soon.
        wait_until("void", || late.iter().all(|(_, kept)| !kept.is_awaited()));
        let more = std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_until("kept", || keeping.count() == 1);
                for (request, ticket) in late {
                    ticket.answer(request);
                }
                keeping.answer_all();
            });
            executor.block_on(call(b'k', 200 + round))
        });
        assert_eq!(more.unwrap()[..], [b'k', 200 + round]);
    }
}

/// What a verb of a random client is answered with.
enum Expected {
    Refusal,
    Reply(Vec<u8>),
    Words(Vec<u64>),
}

/// Adds a random verb; returns its answer.
fn random_verb(
    client: &RawClient,
    (seed, number): (u64, u64),
    random: &mut ChaCha8Rng,
    verbs: &mut Vec<u64>,
) -> Expected {
    match random.random_range(0..12) {
        0 => {
            let start = random.random_range(0..1000u64);
            let words = random.random_range(0..200u64);
            let from = client.span(0, start * 8, words as u32 * 8);
            wire::put_read(verbs, from);
            Expected::Words((start..start + words).collect())
        }
        1 => {
            let mut to = client.span(0, 100, 8);
            to.key ^= 1;
            wire::put_call(verbs, to, &[number]);
            Expected::Refusal
        }
        _ => {
            let room = [100, 8, 50_000, 0][random.random_range(0..4)];
            wire::put_call(verbs, client.span(0, room, 8), &[number]);
            let mut reply = Fate::of(seed, &number.to_le_bytes()).reply;
            reply.truncate(room as usize);
            Expected::Reply(reply)
        }
    }
}

#[test]
fn answers_come_in_the_order_of_the_verbs_whatever_these_are_and_however_late() {
    const CLIENTS: u64 = 6;
    const VERBS: u64 = 400;
    let seed = seed();
    let agent = serve(ServeOptions::default());
    let _handler = Postponing::serve(agent.node(), seed);
    let own = ShmEndpoint::new(vec![agent.node().clone()], Limits::default());
    let own = Executor::new(Rc::new(own));
    let mut data = own.endpoint().core().buffers.take(1200 * 8).unwrap();
    for (number, word) in data.words_mut().iter_mut().enumerate() {
        *word = number as u64;
    }
    let start = RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset: 0,
    };
    own.block_on(own.endpoint().write(start, data)).unwrap();
    let run = |number: u64| {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ number);
        let mut client = RawClient::connect(&agent, &asking("good"));
        let (mut sent, mut expected) = (Vec::new(), Vec::new());
        while expected.len() < VERBS as usize {
            let count = random.random_range(1..20);
            let mut verbs = Vec::new();
            for _ in 0..count {
                let of = (seed, number << 32 | expected.len() as u64);
                expected.push(random_verb(&client, of, &mut random, &mut verbs));
            }
            sent.extend(frame(count, &verbs));
        }
        let mut tcp = client.tcp().try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let bytes: Vec<u8> = sent.iter().flat_map(|word| word.to_le_bytes()).collect();
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let piece = random.random_range(1..5000).min(rest.len());
                    tcp.write_all(&rest[..piece]).unwrap();
                    rest = &rest[piece..];
                }
            });
            let mut left = 0;
            for (at, expected) in expected.into_iter().enumerate() {
                if left == 0 {
                    let head = Header::decode(client.words(1)[0]).unwrap();
                    let is_refusal = matches!(expected, Expected::Refusal);
                    assert_eq!(head.kind == FrameKind::Failure, is_refusal, "verb {at}");
                    left = head.count;
                }
                left -= 1;
                match expected {
                    Expected::Refusal => drop(client.words(4)),
                    Expected::Words(words) => assert_eq!(client.words(words.len()), words),
                    Expected::Reply(reply) => {
                        assert_eq!(client.words(1), [reply.len() as u64], "verb {at}");
                        let words = client.words(reply.len().div_ceil(8));
                        let bytes: Vec<u8> =
                            words.iter().flat_map(|word| word.to_le_bytes()).collect();
                        assert!(bytes[..reply.len()] == reply, "verb {at}");
                        // Of others' replies nothing goes along.
                        assert!(bytes[reply.len()..].iter().all(|byte| *byte == 0));
                    }
                }
            }
            assert_eq!(left, 0);
        });
    };
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let run = &run;
            scope.spawn(move || run(number));
        }
    });
    wait_until("nothing is held", || agent.counters().held_bytes == 0);
}

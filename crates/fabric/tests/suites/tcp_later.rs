//! What clients over TCP do that mean harm, or leave, while their calls wait for answers.

use crate::attacked::{asking, serve};
use crate::bed::wait_until;
use crate::later::Keeping;
use crate::raw::{RawClient, frame};
use farslot_fabric::shm::ShmEndpoint;
use farslot_fabric::tcp::wire::{self, FrameKind, Header};
use farslot_fabric::tcp::{Agent, ServeOptions, TcpEndpoint};
use farslot_fabric::*;
use std::net::Shutdown;
use std::rc::Rc;
use std::sync::Arc;

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
        std::thread::sleep(std::time::Duration::from_millis(2));
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
                linger.set_linger(Some(std::time::Duration::ZERO)).unwrap();
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

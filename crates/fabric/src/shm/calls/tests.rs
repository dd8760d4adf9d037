use super::channel::{BYTES, RingConsumer, RingDirection, RingProducer, ShmChannel};
use crate::held_answers::MOST_HELD;
use crate::memory::{Mapping, Node};
use crate::shm::{RegionSpec, ShmEndpoint, attach, fd_passing};
use crate::{
    Call, CallAnswer, Endpoint, EndpointExt, Executor, FabricError, Handler, Limits, NodeId,
    RegionId, Rights, Ticket, window,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const REGION: (NodeId, RegionId) = (NodeId(0), RegionId(0));
/// Enough for a machine that has other things to do.
const PATIENT: Duration = Duration::from_secs(30);

/// Replies the request, as often as there is room, and counts.
#[derive(Default)]
struct Echo {
    calls: AtomicU64,
    /// Who holds it keeps the handler from answering.
    gate: Mutex<()>,
}

impl Handler for Echo {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        self.calls.fetch_add(1, SeqCst);
        let _open = self.gate.lock().unwrap();
        for (to, from) in call.reply.iter_mut().zip(call.request.iter().cycle()) {
            *to = *from;
        }
        CallAnswer::Now(call.reply.len().min(call.request.len() * 3))
    }
}

fn serve(name: &str, rights: Rights) -> (Node, String, Arc<Echo>) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Relaxed));
    let name = format!("calls-{name}-{process}-{count}");
    let node = Node::serve(&name, &[RegionSpec { len: 4096, rights }]).unwrap();
    let echo = Arc::new(Echo::default());
    node.serve_calls(Arc::<Echo>::clone(&echo));
    (node, name, echo)
}

fn client(name: &str, timeout: Duration) -> Executor<ShmEndpoint> {
    let limits = Limits {
        verb_timeout: timeout.as_nanos() as u64,
        ..Limits::default()
    };
    let node = attach(name, Rights::ALL).unwrap();
    Executor::new(Rc::new(ShmEndpoint::new(vec![node], limits)))
}

fn call(client: &Executor<ShmEndpoint>, request: &[u8], room: usize) -> crate::Result<Vec<u8>> {
    let endpoint = client.endpoint();
    let request = endpoint.core().buffers.copy_of(request)?;
    let reply = client.block_on(endpoint.call(REGION, request, room))?;
    Ok(reply.to_vec())
}

fn wait_until(condition: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENT;
    while !is_so() {
        assert!(Instant::now() < until, "never {condition}");
        std::thread::yield_now();
    }
}

/// A client's end that writes what it likes.
fn raw(name: &str) -> ShmChannel {
    let (file, stream) = fd_passing::connect_for_calls(name, Rights::ALL).unwrap();
    ShmChannel::new(Mapping::of_file(file.as_fd(), true, 4096).unwrap(), stream)
}

#[test]
fn a_ring_gives_what_was_put_over_many_laps() {
    let (_node, name, _) = serve("ring", Rights::ALL);
    let channel = raw(&name);
    let words = channel.words();
    // Of the replies' ring the owner uses nothing while nothing is asked.
    let (mut put, mut take) = (
        RingProducer::new(RingDirection::Replies),
        RingConsumer::new(RingDirection::Replies),
    );
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let (mut next, mut seen) = (0, 0);
    while seen < 100_000 {
        let some: Vec<u64> = (next..next + random.random_range(0..9000)).collect();
        let room = put.room(words, some.len()).unwrap();
        put.put(words, &some[..room]);
        next += room as u64;
        put.publish(words);
        let available = take.available(words, random.random_range(0..9000)).unwrap();
        let mut taken = Vec::new();
        if random.random_bool(0.5) {
            take.append(words, available, &mut taken);
        } else {
            taken.resize(available, 0);
            take.take(words, &mut taken);
        }
        take.release(words);
        assert!(taken.iter().copied().eq(seen..seen + available as u64));
        seen += available as u64;
    }
}

#[test]
fn calls_longer_than_a_ring_go_in_pieces() {
    let (_node, name, _) = serve("long", Rights::ALL);
    let client = client(&name, PATIENT);
    for (bytes, room) in [(0, 0), (1, 300_000), (200_001, 9), (1 << 20, 3 << 20)] {
        let request: Vec<u8> = (0..bytes).map(|byte| (byte % 251) as u8).collect();
        let reply = call(&client, &request, room).unwrap();
        assert_eq!(reply.len(), room.min(bytes * 3));
        assert!(reply.iter().eq(request.iter().cycle().take(reply.len())));
    }
    let limits = client.endpoint().core().limits;
    assert!(limits.largest_buffer <= super::channel::LONGEST);
    // Many at once are more than both rings have room for.
    let calls = (0..64u8).map(|number| {
        let request = client.endpoint().core().buffers.copy_of(&[number; 9000]);
        client.endpoint().call(REGION, request.unwrap(), 27_000)
    });
    let mut answered = 0;
    client.block_on(window(64, calls, |number, reply| {
        assert_eq!(&*reply.unwrap(), &[number as u8; 27_000]);
        answered += 1;
    }));
    assert_eq!(answered, 64);
}

#[test]
fn a_client_needs_the_right_to_call() {
    let (_node, name, echo) = serve("rights", Rights::ALL);
    let reader = attach(&name, Rights::READ).unwrap();
    let endpoint = ShmEndpoint::new(vec![reader], Limits::default());
    let client = Executor::new(Rc::new(endpoint));
    assert!(matches!(
        call(&client, b"x", 8).unwrap_err(),
        FabricError::AccessDenied {
            needed: Rights::CALL,
            ..
        }
    ));
    assert_eq!(echo.calls.load(SeqCst), 0);
}

#[test]
fn what_is_not_answered_in_time_fails_and_what_is_behind_it_never_begins() {
    let (_node, name, echo) = serve("late", Rights::ALL);
    let client = client(&name, Duration::from_millis(50));
    // The channel is open before the handler is held up.
    while let Err(error) = call(&client, b"first", 15) {
        assert!(matches!(error, FabricError::TimedOut { .. }), "{error}");
    }
    let before = echo.calls.load(SeqCst);
    let held = echo.gate.lock().unwrap();
    let calls = (0..5).map(|_| {
        let request = client.endpoint().core().buffers.copy_of(b"late").unwrap();
        client.endpoint().call(REGION, request, 12)
    });
    let mut ends = Vec::new();
    client.block_on(window(5, calls, |_, end| ends.push(end.unwrap_err())));
    assert!(matches!(ends[0], FabricError::TimedOut { .. }));
    let stopped = FabricError::NodeStopped {
        node: NodeId(0),
        sent: true,
    };
    assert_eq!(ends[1..], vec![stopped; 4]);
    drop(held);
    // A new channel; the owner's thread comes to it when it is through with the old one.
    let mut again = 1;
    while call(&client, b"again", 15).is_err() {
        again += 1;
    }
    let began = echo.calls.load(SeqCst) - before;
    // The one that was held up, if it had begun, and those of the new channel.
    assert!(began <= 1 + again, "{began} began");
}

#[test]
fn an_owner_sleeps_when_nobody_calls_and_wakes_when_somebody_does() {
    let (_node, name, _) = serve("sleep", Rights::ALL);
    let (client, idle) = (client(&name, PATIENT), raw(&name));
    for round in 0..20u8 {
        wait_until("asleep", || idle.words().word(256).load(SeqCst) == 1);
        assert_eq!(call(&client, &[round], 1).unwrap(), [round]);
    }
}

/// Keeps the tickets of all calls.
#[derive(Default)]
struct Keeping(Mutex<Vec<Ticket>>);

impl Handler for Keeping {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        let (ticket, later) = call.later();
        self.0.lock().unwrap().push(ticket);
        CallAnswer::Later(later)
    }
}

#[test]
fn an_owner_sleeps_while_calls_wait_for_answers_and_more_are_there() {
    const CALLS: usize = 300;
    let (node, name, _) = serve("waits", Rights::ALL);
    let keeping = Arc::new(Keeping::default());
    node.serve_calls(Arc::<Keeping>::clone(&keeping));
    let kept = || keeping.0.lock().unwrap().len();
    let idle = raw(&name);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let client = client(&name, PATIENT);
            let endpoint = client.endpoint();
            let calls = (0..CALLS).map(|_| {
                let request = endpoint.core().buffers.take(100).unwrap();
                endpoint.call(REGION, request, 100)
            });
            client.block_on(window(CALLS, calls, |_, reply| {
                assert_eq!(&*reply.unwrap(), b"later");
            }));
        });
        let mut left = CALLS;
        while left > 0 {
            let begun = left.min(MOST_HELD);
            wait_until("begun", || kept() == begun);
            let asleep = || idle.words().word(256).load(SeqCst) == 1;
            wait_until("asleep", asleep);
            for _ in 0..30 {
                std::thread::sleep(Duration::from_millis(1));
                assert!(asleep(), "nothing has woken it");
            }
            assert_eq!(kept(), begun);
            let tickets = std::mem::take(&mut *keeping.0.lock().unwrap());
            for ticket in tickets {
                ticket.answer(b"later".to_vec());
            }
            left -= begun;
        }
    });
}

#[test]
fn calls_that_wait_for_answers_end_with_their_node() {
    let (node, name, _) = serve("ends", Rights::ALL);
    let keeping = Arc::new(Keeping::default());
    node.serve_calls(Arc::<Keeping>::clone(&keeping));
    std::thread::scope(|scope| {
        let kept = Arc::clone(&keeping);
        scope.spawn(move || {
            wait_until("begun", || !kept.0.lock().unwrap().is_empty());
            drop(node);
        });
        let stopped = call(&client(&name, PATIENT), b"x", 3).unwrap_err();
        assert!(matches!(stopped, FabricError::NodeStopped { .. }));
    });
    for ticket in std::mem::take(&mut *keeping.0.lock().unwrap()) {
        assert!(!ticket.is_awaited());
        ticket.answer(vec![1; 3]);
    }
}

#[test]
fn the_application_may_answer_in_the_owners_place() {
    let (node, name, echo) = serve("lent", Rights::ALL);
    // Before there is a thread, and beside it.
    for round in 1..=10 {
        let mut event_loop = node.event_loop().unwrap().unwrap();
        assert!(node.event_loop().unwrap().is_none());
        let client = client(&name, PATIENT);
        let endpoint = Rc::clone(client.endpoint());
        let request = endpoint.core().buffers.copy_of(b"x").unwrap();
        let answered = client.spawn(async move { endpoint.call(REGION, request, 3).await });
        // It is posted, and nobody answers but this thread.
        client.turn();
        let reply = loop {
            event_loop.turn(Duration::from_millis(1)).unwrap();
            client.turn();
            if let Some(reply) = answered.try_take() {
                break reply.unwrap();
            }
        };
        assert_eq!(&*reply, b"xxx");
        drop(event_loop);
        assert_eq!(call(&client, b"y", 3).unwrap(), b"yyy");
        assert_eq!(echo.calls.load(SeqCst), 2 * round);
    }
    let (embedded, _) = (Node::embedded(&[]).unwrap(), node);
    assert!(embedded.event_loop().unwrap().is_none());
}

#[test]
fn channels_of_clients_that_are_gone_are_given_up() {
    let (_node, name, _) = serve("many", Rights::ALL);
    // More than there may be at a time.
    for round in 0..3 * super::MOST_CHANNELS as u32 {
        let client = client(&name, PATIENT);
        let request = round.to_le_bytes();
        wait_until("admitted", || match call(&client, &request, 4) {
            Ok(reply) => reply == request,
            // The owner has not seen yet that the others are gone.
            Err(error) => {
                assert!(error.to_string().contains("refused"), "{error}");
                false
            }
        });
    }
}

/// Whatever a client writes into its channel, the owner answers the others, and sleeps at last.
#[test]
fn damaged_channels_harm_nobody_else() {
    let seed = std::env::var("FARSLOT_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("FARSLOT_SEED={seed}");
    let (_node, name, _) = serve("damage", Rights::ALL);
    let client = client(&name, PATIENT);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for round in 0..300u32 {
        let bad = raw(&name);
        let words = bad.words();
        for _ in 0..random.random_range(1..40) {
            let at = match random.random_range(0..4) {
                // Positions, and flags.
                0 => random.random_range(0..7u64) * 64,
                // The heads of the first requests.
                1 => 4096 + random.random_range(0..8u64) * 8,
                _ => random.random_range(0..BYTES / 8) * 8,
            };
            let value = match random.random_range(0..4) {
                0 => random.random(),
                1 => random.random_range(0..9000),
                2 => random.random_range(0..64u64) | random.random_range(0..64u64) << 32,
                _ => u64::MAX - random.random_range(0..9),
            };
            words.word(at).store(value, SeqCst);
            bad.wake(super::channel::ChannelSide::Owner);
        }
        let request = round.to_le_bytes();
        assert_eq!(call(&client, &request, 4).unwrap(), request);
        if random.random_bool(0.3) {
            // It stays, and so does what it has written.
            std::mem::forget(bad);
        }
    }
    let idle = raw(&name);
    wait_until("asleep", || idle.words().word(256).load(SeqCst) == 1);
}

#[test]
fn a_node_that_nobody_holds_ends_its_thread_and_frees_its_name() {
    let (node, name, _) = serve("end", Rights::ALL);
    let client = client(&name, PATIENT);
    assert_eq!(call(&client, b"x", 3).unwrap(), b"xxx");
    drop(node);
    let stopped = call(&client, b"x", 3).unwrap_err();
    assert!(matches!(
        stopped,
        FabricError::NodeStopped {
            node: NodeId(0),
            ..
        }
    ));
    let spec = RegionSpec {
        len: 64,
        rights: Rights::ALL,
    };
    Node::serve(&name, &[spec]).unwrap();
}

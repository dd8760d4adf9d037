//! Calls that are answered later, from another thread, over every fabric that carries calls.

use crate::bed::{Asking, Fabric, Network, PATIENT, at, client_as, wait_until};
use farslot_fabric::shm::Node;
use farslot_fabric::tcp::{Grant, ServeOptions};
use farslot_fabric::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const REGION: (NodeId, RegionId) = (NodeId(0), RegionId(0));
/// Calls of a connection that are begun while the first has no answer.
const MOST: usize = 64;

fn limits(verb_timeout: Nanos) -> Limits {
    Limits {
        verb_timeout,
        ..Limits::default()
    }
}

pub fn seed() -> u64 {
    let seed =
        std::env::var("FARSLOT_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("FARSLOT_SEED={seed}");
    seed
}

/// What becomes of a call, by its seed and its request.
pub struct Fate {
    random: ChaCha8Rng,
    pub reply: Vec<u8>,
}

impl Fate {
    pub fn of(seed: u64, request: &[u8]) -> Self {
        let number = request.iter().fold(seed, |all, byte| {
            all.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte)
        });
        let mut random = ChaCha8Rng::seed_from_u64(number);
        let len = match random.random_range(0..10) {
            0 => random.random_range(0..50_000),
            _ => random.random_range(0..100),
        };
        let reply = request.iter().copied().cycle().take(len).collect();
        Self { random, reply }
    }
}

/// By when they are due, and a number of their own.
type DueAnswers = BTreeMap<(Instant, u64), (Ticket, Vec<u8>)>;

/// Answers by what their fates are: at once, before the handler returns, or after up to 50 ms.
pub struct Postponing {
    seed: u64,
    due: Arc<Mutex<DueAnswers>>,
    is_over: Arc<AtomicBool>,
}

impl Postponing {
    /// Serves calls, and starts the thread that answers them.
    pub fn serve(owner: &Node, seed: u64) -> Arc<Self> {
        let handler = Arc::new(Self {
            seed,
            due: Arc::default(),
            is_over: Arc::default(),
        });
        let (due, is_over) = (Arc::clone(&handler.due), Arc::clone(&handler.is_over));
        std::thread::spawn(move || {
            while !is_over.load(SeqCst) {
                let mut due = due.lock().unwrap();
                let later = due.split_off(&(Instant::now(), 0));
                let now = std::mem::replace(&mut *due, later);
                drop(due);
                for (ticket, reply) in now.into_values() {
                    ticket.answer(reply);
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        owner.serve_calls(Arc::<Self>::clone(&handler));
        handler
    }
}

impl Drop for Postponing {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
    }
}

impl Handler for Postponing {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        let Fate { mut random, reply } = Fate::of(self.seed, call.request);
        match random.random_range(0..8) {
            0 | 1 => {
                let bytes = reply.len().min(call.reply.len());
                call.reply[..bytes].copy_from_slice(&reply[..bytes]);
                CallAnswer::Now(bytes)
            }
            2 => {
                let (ticket, later) = call.later();
                ticket.answer(reply);
                CallAnswer::Later(later)
            }
            _ => {
                let (ticket, later) = call.later();
                let after = Duration::from_micros(random.random_range(0..50_000));
                let due = (Instant::now() + after, random.random());
                self.due.lock().unwrap().insert(due, (ticket, reply));
                CallAnswer::Later(later)
            }
        }
    }
}

pub fn answers_that_come_later_reach_their_own_callers<F: Fabric>() {
    const EACH: u32 = 80;
    let seed = seed();
    let owner = F::node(1 << 16, Rights::ALL);
    let _handler = Postponing::serve(&owner, seed);
    std::thread::scope(|scope| {
        for client in 0..3u32 {
            let owner = &owner;
            scope.spawn(move || {
                let executor = F::executor(&[owner], limits(PATIENT));
                let endpoint = executor.endpoint();
                let verbs = (0..EACH).map(async |number| {
                    let request = [client, number].map(u32::to_le_bytes).concat();
                    let data = endpoint.core().buffers.copy_of(&request).unwrap();
                    if number % 5 == 4 {
                        let own = at(8 * u64::from(client * EACH + number));
                        endpoint.write(own, data).await.unwrap();
                        assert_eq!(endpoint.read(own, 8).await.unwrap()[..], request[..]);
                        return;
                    }
                    let room = 40_000;
                    let reply = endpoint.call(REGION, data, room).await.unwrap();
                    let expected = Fate::of(seed, &request).reply;
                    assert!(
                        reply[..] == expected[..expected.len().min(room)],
                        "{number}"
                    );
                });
                executor.block_on(window(1 + 16 * client as usize, verbs, |_, ()| ()));
            });
        }
    });
}

/// Keeps the tickets of calls that begin with `k`, lets go of those that begin with `d`, and
/// answers the others with themselves.
#[derive(Default)]
pub struct Keeping {
    kept: Mutex<Vec<(Vec<u8>, Ticket)>>,
}

impl Keeping {
    pub fn serve(owner: &Node) -> Arc<Self> {
        let keeping = Arc::<Self>::default();
        owner.serve_calls(Arc::<Self>::clone(&keeping));
        keeping
    }

    pub fn count(&self) -> usize {
        self.kept.lock().unwrap().len()
    }

    pub fn take(&self) -> Vec<(Vec<u8>, Ticket)> {
        std::mem::take(&mut *self.kept.lock().unwrap())
    }

    pub fn is_any_awaited(&self) -> bool {
        let kept = self.kept.lock().unwrap();
        kept.iter().any(|(_, ticket)| ticket.is_awaited())
    }

    /// Answers all that are kept with their requests, the latest first; returns how many.
    pub fn answer_all(&self) -> usize {
        let kept = self.take();
        let count = kept.len();
        for (request, ticket) in kept.into_iter().rev() {
            ticket.answer(request);
        }
        count
    }
}

impl Handler for Keeping {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        match call.request.first() {
            Some(b'k') => {
                let (ticket, later) = call.later();
                let mut kept = self.kept.lock().unwrap();
                kept.push((call.request.to_vec(), ticket));
                CallAnswer::Later(later)
            }
            Some(b'd') => CallAnswer::Later(call.later().1),
            _ => {
                let bytes = call.request.len().min(call.reply.len());
                call.reply[..bytes].copy_from_slice(&call.request[..bytes]);
                CallAnswer::Now(bytes)
            }
        }
    }
}

fn call_with<'e, E: Endpoint>(
    endpoint: &'e E,
    request: &[u8],
) -> impl Future<Output = Result<Buffer>> + use<'e, E> {
    let request = endpoint.core().buffers.copy_of(request).unwrap();
    endpoint.call(REGION, request, 64)
}

pub fn a_ticket_that_is_dropped_fails_its_call_and_no_other<F: Fabric>() {
    let owner = F::node(4096, Rights::ALL);
    let keeping = Keeping::serve(&owner);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                // The number behind the letter says which are dropped here.
                for (request, ticket) in keeping.take() {
                    match request[1] % 4 {
                        0 => drop(ticket),
                        _ => ticket.answer(request),
                    }
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let executor = F::executor(&[&owner], limits(PATIENT));
        let endpoint = executor.endpoint();
        let calls = (0..200u8).map(async |number| {
            let request = [b"kdn"[usize::from(number % 3)], number / 3];
            let answer = call_with(&**endpoint, &request).await;
            let is_dropped = match request[0] {
                b'k' => request[1].is_multiple_of(4),
                first => first == b'd',
            };
            if is_dropped {
                let (node, region) = REGION;
                let error = answer.map(drop).unwrap_err();
                assert_eq!(error, FabricError::Unanswered { node, region });
                assert!(error.may_have_taken_effect());
            } else {
                assert_eq!(answer.unwrap()[..], request);
            }
        });
        executor.block_on(window(20, calls, |_, ()| ()));
        is_over.store(true, SeqCst);
    });
}

pub fn an_answer_that_is_to_come_holds_back_its_own_connection_alone<F: Fabric>() {
    let owner = F::node(4096, Rights::ALL);
    let keeping = Keeping::serve(&owner);
    let is_answered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let executor = F::executor(&[&owner], limits(PATIENT));
            let endpoint = executor.endpoint();
            let calls = (0..30u8).map(|number| {
                let first = if number % 10 == 0 { b'k' } else { b'n' };
                call_with(&**endpoint, &[first, number])
            });
            let mut seen = Vec::new();
            executor.block_on(window(30, calls, |number, reply| {
                assert_eq!(reply.unwrap()[1], number as u8);
                if number == 0 {
                    assert!(is_answered.load(SeqCst));
                }
                seen.push(number);
            }));
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..30));
        });
        wait_until("kept", || keeping.count() == 3);
        let executor = F::executor(&[&owner], limits(PATIENT));
        let endpoint = executor.endpoint();
        executor.block_on(async {
            for number in 0..100 {
                let reply = call_with(&**endpoint, &[b'n', number]).await.unwrap();
                assert_eq!(reply[..], [b'n', number]);
                endpoint.fetch_add(at(8), 1).await.unwrap();
            }
        });
        assert!(keeping.is_any_awaited());
        is_answered.store(true, SeqCst);
        keeping.answer_all();
    });
}

pub fn a_client_that_leaves_frees_what_its_calls_hold<F: Fabric>() {
    let owner = F::node(4096, Rights::ALL);
    let keeping = Keeping::serve(&owner);
    // More than a connection may have begun.
    for calls in [1, 5, 3 * MOST] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // An endpoint that is dropped may wait for its calls.
                let executor = F::executor(&[&owner], limits(2_000_000_000));
                let endpoint = executor.endpoint();
                let calls = (0..calls).map(|_| {
                    let call = call_with(&**endpoint, b"kept");
                    endpoint.timeout(200_000_000, call)
                });
                executor.block_on(window(3 * MOST, calls, |_, end| assert!(end.is_err())));
            });
        });
        assert!(keeping.count() > 0);
        wait_until("given up", || !keeping.is_any_awaited());
        keeping.answer_all();
        let executor = F::executor(&[&owner], limits(PATIENT));
        let reply = executor.block_on(call_with(&**executor.endpoint(), b"next"));
        assert_eq!(reply.unwrap()[..], *b"next");
    }
}

pub fn more_calls_than_may_wait_are_not_taken_and_none_is_lost<F: Fabric>() {
    const ALL: u32 = 500;
    let owner = F::node(4096, Rights::ALL);
    let keeping = Keeping::serve(&owner);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let executor = F::executor(&[&owner], limits(PATIENT));
            let endpoint = executor.endpoint();
            let numbers = RefCell::new(Vec::new());
            let calls = (0..ALL).map(async |number| {
                let request = [&b"k"[..], &number.to_le_bytes()].concat();
                let reply = call_with(&**endpoint, &request).await.unwrap();
                assert_eq!(reply[..], request);
                numbers.borrow_mut().push(number);
            });
            executor.block_on(window(ALL as usize, calls, |_, ()| ()));
            let mut numbers = numbers.into_inner();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..ALL));
        });
        wait_until("as many as may wait", || keeping.count() >= MOST);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(keeping.count(), MOST);
        let mut left = ALL as usize;
        while left > 0 {
            left -= keeping.answer_all();
            std::thread::yield_now();
        }
    });
}

pub fn an_agent_that_ends_leaves_calls_in_doubt_and_tickets_void<N: Network>() {
    let node = N::node(4096, Rights::ALL);
    let keeping = Keeping::serve(&node);
    for calls in [1, 2 * MOST] {
        let serve = ServeOptions {
            grants: vec![Grant::everything(None)],
            ..ServeOptions::default()
        };
        let agent = N::serve_with(&node, serve);
        let executor = client_as::<N>(&agent, &Asking::default());
        let endpoint = executor.endpoint();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_until("begun", || keeping.count() >= calls.min(MOST));
                drop(agent);
                assert!(!keeping.is_any_awaited());
            });
            let calls = (0..calls).map(|_| call_with(&**endpoint, b"kept"));
            executor.block_on(window(2 * MOST, calls, |_, end| {
                let error = end.map(drop).unwrap_err();
                assert!(matches!(error, FabricError::NodeStopped { .. }), "{error}");
            }));
        });
        // Late, and for nobody.
        keeping.answer_all();
    }
}

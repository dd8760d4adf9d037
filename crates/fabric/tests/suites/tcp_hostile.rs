//! Clients that mean harm: frames mutated from valid ones, and clients that take no answers.

use crate::alone::{is_alone, resident_bytes};
use crate::raw::{RawClient, bytes_of, frame};
use farslot_fabric::endpoint::Inbox;
use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::tcp::admission::handshake::{self, Hello};
use farslot_fabric::tcp::wire;
use farslot_fabric::tcp::{
    Agent, AgentOptions, Area, ConnectOptions, Grant, ServeOptions, TcpEndpoint,
};
use farslot_fabric::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const LEN: u64 = 64 << 10;
/// The hostile client may do all to region 0 and read region 1; the others are not its own.
const READABLE: RegionId = RegionId(1);
const HIDDEN: RegionId = RegionId(2);
const GOOD: RegionId = RegionId(3);
const SENTINEL: u64 = 0x5eed_5eed_5eed_5eed;

fn at(region: RegionId, offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region,
        offset,
    }
}

/// Four regions; the middle ones full of sentinels.
fn guarded() -> Node {
    let region = RegionSpec {
        len: LEN,
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region; 4]).unwrap();
    let owner = owner(&node);
    let endpoint = owner.endpoint();
    for region in [READABLE, HIDDEN] {
        let mut data = endpoint.core().buffers.take(LEN as usize).unwrap();
        data.words_mut().fill(SENTINEL);
        owner.block_on(endpoint.write(at(region, 0), data)).unwrap();
    }
    node
}

fn owner(node: &Node) -> Executor<ShmEndpoint> {
    let endpoint = ShmEndpoint::new(vec![node.clone()], Limits::default());
    Executor::new(Rc::new(endpoint))
}

fn serve(node: &Node, serve: ServeOptions) -> Agent {
    let hostile = Grant {
        name: "hostile".into(),
        areas: Some(vec![
            Area::of_region(RegionId(0), Rights::ALL),
            Area::of_region(READABLE, Rights::READ),
        ]),
        ..Grant::everything(None)
    };
    let good = Grant {
        name: "good".into(),
        areas: Some(vec![Area::of_region(GOOD, Rights::ALL)]),
        ..Grant::everything(None)
    };
    let options = AgentOptions::from(ServeOptions {
        grants: vec![hostile, good],
        ..serve
    });
    Agent::start(node.clone(), &options).unwrap()
}

/// How long anybody waits for an answer, or the agent for a client.
fn patience() -> Duration {
    let seconds = std::env::var("FARSLOT_PATIENCE").map(|seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds.unwrap_or(20))
}

fn asking(grant: &str) -> ConnectOptions {
    ConnectOptions {
        grant: grant.into(),
        connect_timeout: patience(),
        peer_timeout: patience(),
        limits: Limits {
            verb_timeout: patience().as_nanos() as u64,
            ..Limits::default()
        },
        ..ConnectOptions::default()
    }
}

/// A client that goes on working while others attack; returns how many rounds it made.
/// It rests so long after each.
fn work(agent: &Agent, node: &Node, done: &AtomicBool, rests: Duration) -> u64 {
    let endpoint = TcpEndpoint::connect(&[agent.address().to_string()], &asking("good")).unwrap();
    let executor = Executor::new(Rc::new(endpoint));
    let endpoint = executor.endpoint();
    executor.block_on(async {
        let mut rounds = 0;
        while !done.load(Ordering::Acquire) {
            let place = at(GOOD, 64 + rounds % 100 * 8);
            let data = endpoint.core().buffers.copy_of(&rounds.to_le_bytes());
            endpoint.write(place, data.unwrap()).await.unwrap();
            assert_eq!(endpoint.read(place, 8).await.unwrap().words(), [rounds]);
            assert_eq!(endpoint.fetch_add(at(GOOD, 0), 1).await, Ok(rounds));
            while node.take_message().is_some() {}
            rounds += 1;
            std::thread::sleep(rests);
        }
        rounds
    })
}

/// A verb that goes where it may, or, three times out of four, where it may not: another region,
/// past the end, without alignment, with another key, for longer than there is.
fn verb(client: &RawClient, random: &mut impl Rng, out: &mut Vec<u64>) {
    let len = random.random_range(0..64);
    let offset = random.random_range(0..LEN - 64);
    let mut span = client.span(0, offset, len);
    let mut readable = client.span(READABLE.0, offset, len);
    let mut word = client.span(0, offset / 8 * 8, 0);
    for span in [&mut span, &mut readable, &mut word] {
        match random.random_range(0..8) {
            0 => span.region = random.random_range(0..6),
            1 => span.offset = u64::MAX - random.random_range(0..64),
            2 => span.offset = LEN - u64::from(random.random_range(0..64u32)),
            3 => span.offset ^= 1 << random.random_range(0..64),
            4 => span.key ^= 1 << random.random_range(0..64),
            5 => *span = client.span(READABLE.0, span.offset, span.len),
            _ => {}
        }
    }
    if random.random_range(0..8) == 0 {
        readable.len = random.random_range(0..2 * LEN as u32);
    }
    let payload = [random.random(); 8];
    match random.random_range(0..7) {
        0 => wire::put_read(out, readable),
        1 => wire::put_read_many(out, [span, readable].into_iter()),
        2 => wire::put_write(out, span, &payload),
        3 => wire::put_compare_swap(out, word, random.random(), random.random()),
        4 => wire::put_fetch_add(out, word, random.random()),
        5 => wire::put_call(out, span, &payload),
        _ => wire::put_write_imm(out, span, random.random(), &payload),
    }
}

/// Changes a frame: single bits, whole words, its length, or where its verbs go.
fn mutate(frame: &mut Vec<u64>, random: &mut impl Rng) {
    for _ in 0..random.random_range(1..4) {
        let index = random.random_range(0..frame.len());
        match random.random_range(0..8) {
            0 => frame[index] ^= 1 << random.random_range(0..64),
            1 => frame[index] = random.random(),
            2 => frame[index] = [0, u64::MAX, 1 << 63, 1 << 32][random.random_range(0..4)],
            3 => frame.truncate(index + 1),
            4 => frame.insert(index, random.random()),
            5 => frame[0] ^= 1 << random.random_range(0..48),
            // Region and length of what may be a verb.
            6 => frame[index] ^= 1 << random.random_range(0..36),
            _ => frame[index] = frame[index].wrapping_add(random.random_range(0..2 * LEN)),
        }
    }
}

/// Sends frames, and reads until the agent has closed; returns how many were sent.
fn attack(client: &mut RawClient, frames: &[Vec<u64>]) -> usize {
    let mut stream = client.tcp();
    stream.set_nonblocking(true).unwrap();
    let mut sink = vec![0; 64 << 10];
    let mut sent = 0;
    'frames: for frame in frames {
        let bytes = bytes_of(frame);
        let mut rest = &bytes[..];
        sent += 1;
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    drop(stream.read(&mut sink));
                }
                Err(_) => break 'frames,
            }
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return sent,
            Ok(_) => {}
            Err(error) => {
                let waited = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!waited, "the agent neither answers nor closes");
                return sent;
            }
        }
    }
}

/// A connection whose handshake is fuzzed: its HELLO, or its PROOF. Returns how many frames that
/// were.
fn attack_handshake(agent: &Agent, random: &mut impl Rng) -> usize {
    let mut stream = TcpStream::connect(agent.address()).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    let hello = Hello {
        carrier: handshake::Carrier::Tcp,
        grant: "hostile".into(),
        rights: Rights::ALL,
        receiver_wait: random.random(),
        nonce: random.random(),
    };
    let hello = hello.encode();
    let mut frame = if random.random() {
        hello.to_vec()
    } else {
        stream.write_all(&bytes_of(&hello)).unwrap();
        let mut challenge = vec![0; 8 * handshake::CHALLENGE_WORDS];
        stream.read_exact(&mut challenge).unwrap();
        let challenge: Vec<u64> = challenge
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let proof = handshake::prove(
            None,
            handshake::HandshakeSide::Client,
            &[&hello, &challenge, &[0]],
        );
        handshake::proof(proof, 0).to_vec()
    };
    mutate(&mut frame, random);
    // What must follow is something else; here it is only more of the same.
    frame.extend_from_within(..);
    // It may be closed already: that is what is expected.
    drop(stream.write_all(&bytes_of(&frame)));
    drop(stream.shutdown(Shutdown::Write));
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    1
}

/// A connection that is admitted, and sends frames of verbs that go where they may not. The last is
/// broken in its form as well: nothing is looked at behind such a one. Returns how many frames that
/// were.
fn attack_verbs(agent: &Agent, random: &mut impl Rng) -> usize {
    let mut client = RawClient::connect(agent, &asking("hostile"));
    let number = random.random_range(1..24);
    let frames: Vec<_> = (1..=number)
        .map(|which| {
            let count = random.random_range(1..4);
            let mut verbs = Vec::new();
            (0..count).for_each(|_| verb(&client, random, &mut verbs));
            let mut frame = frame(count, &verbs);
            if which == number {
                mutate(&mut frame, random);
            }
            frame
        })
        .collect();
    attack(&mut client, &frames)
}

/// One hostile connection: a function of its number, but for the keys and nonces, which are drawn
/// anew.
fn attack_by_number(agent: &Agent, number: u64) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let attacked = catch_unwind(AssertUnwindSafe(|| match random.random_range(0..4) {
        0 => attack_handshake(agent, &mut random),
        _ => attack_verbs(agent, &mut random),
    }));
    attacked.unwrap_or_else(|panic| {
        eprintln!(
            "hostile connection {number} failed; this replays it:\n\
             FARSLOT_SEED={number} cargo test -p farslot-fabric --test suites hundred_thousand"
        );
        resume_unwind(panic)
    })
}

/// Says nothing: the hostile client may call its own region.
struct Silent;

impl Handler for Silent {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        call.reply.fill(0);
        CallAnswer::Now(call.reply.len())
    }
}

/// How an agent is attacked: with so many frames by so many clients at once, all of them within
/// about so long.
struct Attack {
    frames: usize,
    clients: usize,
    lasts: Duration,
}

impl Attack {
    /// Attacks an agent beside a client that works on, and checks what is left.
    fn run(&self) {
        let node = guarded();
        node.serve_calls(Arc::new(Silent));
        let options = ServeOptions {
            receiver_wait: Duration::ZERO,
            handshake_timeout: patience(),
            ..ServeOptions::default()
        };
        let agent = serve(&node, options);
        if let Ok(only) = std::env::var("FARSLOT_SEED") {
            let number = only.parse().expect("FARSLOT_SEED is a number");
            println!("{} frames", attack_by_number(&agent, number));
            return check_sentinels(&node);
        }
        let done = AtomicBool::new(false);
        let (sent, connections) = (AtomicUsize::new(0), AtomicU64::new(0));
        let early = AtomicU64::new(0);
        let since = Instant::now();
        let attack = || {
            // Whatever happens, the others must be told to end.
            let attacked = catch_unwind(AssertUnwindSafe(|| {
                let mut now = 0;
                while now < self.frames && !done.load(Ordering::Acquire) {
                    let number = connections.fetch_add(1, Ordering::Relaxed);
                    let more = attack_by_number(&agent, number);
                    let before = sent.fetch_add(more, Ordering::Relaxed);
                    now = before + more;
                    if before <= self.frames / 10 && now > self.frames / 10 {
                        early.store(resident_bytes(), Ordering::Relaxed);
                    }
                    if number % 1_000 == 999 {
                        check_sentinels(&node);
                    }
                    if before / 100_000 != now / 100_000 {
                        println!("{now} frames after {:?}", since.elapsed());
                    }
                    let due = self.lasts.mul_f64(now as f64 / self.frames as f64);
                    std::thread::sleep(due.saturating_sub(since.elapsed()));
                }
            }));
            done.store(true, Ordering::Release);
            attacked
        };
        let rounds = std::thread::scope(|scope| {
            let good = scope.spawn(|| work(&agent, &node, &done, self.lasts / 1_000_000));
            let hostile: Vec<_> = (0..self.clients).map(|_| scope.spawn(attack)).collect();
            for client in hostile {
                let attacked = client.join().unwrap();
                attacked.unwrap_or_else(|panic| resume_unwind(panic));
            }
            good.join().unwrap()
        });
        let (sent, connections) = (sent.into_inner(), connections.into_inner());
        let counters = agent.counters();
        let grown = resident_bytes().saturating_sub(early.into_inner());
        println!(
            "{sent} frames over the connections 0..{connections} in {:?}, beside {rounds} rounds \
             of three verbs; {grown} bytes more than after a tenth of them; {counters:?}",
            since.elapsed()
        );
        assert!(rounds > 100, "it was served all the while");
        assert!(grown < 32 << 20, "{grown} bytes more than at first");
        assert!(counters.malformed > 1000, "{counters:?}");
        assert!(counters.refused > 100, "{counters:?}");
        assert!(counters.failed_verbs > 1000, "{counters:?}");
        check_sentinels(&node);
        // It serves newcomers as before.
        let endpoint =
            TcpEndpoint::connect(&[agent.address().to_string()], &asking("good")).unwrap();
        let executor = Executor::new(Rc::new(endpoint));
        let read = executor.block_on(executor.endpoint().read(at(GOOD, 64), 8));
        assert_eq!(read.map(|read| read.len()), Ok(8));
    }
}

#[test]
fn a_hundred_thousand_hostile_frames_harm_nobody() {
    if !is_alone("tcp_hostile::a_hundred_thousand_hostile_frames_harm_nobody") {
        return;
    }
    let attack = Attack {
        frames: 100_000,
        clients: 1,
        lasts: Duration::ZERO,
    };
    attack.run();
}

/// It leaves most of a machine to others. With `FARSLOT_PATIENCE=600` it may be stopped for
/// minutes.
#[test]
#[ignore = "takes an hour"]
fn ten_million_hostile_frames_over_an_hour_harm_nobody() {
    let attack = Attack {
        frames: 10_000_000,
        clients: 4,
        lasts: Duration::from_secs(3_600),
    };
    attack.run();
}

fn check_sentinels(node: &Node) {
    let owner = owner(node);
    let endpoint = owner.endpoint();
    for region in [READABLE, HIDDEN] {
        let read = owner.block_on(endpoint.read(at(region, 0), LEN as usize));
        let read = read.unwrap();
        assert!(read.words().iter().all(|word| *word == SENTINEL));
    }
    // The good client's words, and zeros where it wrote none.
    let read = owner.block_on(endpoint.read(at(GOOD, 0), LEN as usize));
    let read = read.unwrap();
    assert!(read.words()[108..].iter().all(|word| *word == 0));
}

#[test]
fn a_client_that_takes_no_answers_is_not_read_from_and_holds_up_nobody() {
    if !is_alone("tcp_hostile::a_client_that_takes_no_answers_is_not_read_from_and_holds_up_nobody")
    {
        return;
    }
    let node = guarded();
    // It takes its answers in the end, however long a busy machine lets it wait before.
    let patient = ServeOptions {
        peer_timeout: Duration::from_secs(600),
        ..ServeOptions::default()
    };
    let agent = serve(&node, patient);
    let mut client = RawClient::connect(&agent, &asking("hostile"));
    let before = resident_bytes();
    // As many READs of the whole region as the sockets take.
    let span = client.span(READABLE.0, 0, LEN as u32);
    let mut verbs = Vec::new();
    (0..100).for_each(|_| wire::put_read(&mut verbs, span));
    let batch = frame(100, &verbs);
    let bytes = bytes_of(&batch);
    let mut stream = client.tcp();
    stream.set_nonblocking(true).unwrap();
    let (mut sent, mut blocked_since) = (0usize, Instant::now());
    while blocked_since.elapsed() < Duration::from_millis(500) {
        match stream.write(&bytes[sent % bytes.len()..]) {
            Ok(count) => {
                sent += count;
                blocked_since = Instant::now();
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    let executed = agent.counters().verbs;
    let asked = (sent / bytes.len() * 100) as u64;
    assert!(executed < asked / 2, "{executed} of {asked}");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more");

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let good = scope.spawn(|| work(&agent, &node, &done, Duration::ZERO));
        std::thread::sleep(Duration::from_millis(300));
        done.store(true, Ordering::Release);
        assert!(good.join().unwrap() > 10);
    });
    let until = Instant::now() + Duration::from_secs(10);
    while agent.counters().connections != 1 {
        assert!(
            Instant::now() < until,
            "only the one that takes nothing stays"
        );
        std::thread::sleep(Duration::from_millis(1));
    }

    // Whoever takes its answers after all gets every one of them.
    let stream = client.tcp();
    stream.set_nonblocking(false).unwrap();
    let mut expected = sent / bytes.len() * 100;
    while expected > 0 {
        let header = wire::Header::decode(client.words(1)[0]).unwrap();
        assert_eq!(header.kind, wire::FrameKind::Completions);
        for _ in 0..header.count {
            let words = client.words(LEN as usize / 8);
            assert!(words.iter().all(|word| *word == SENTINEL));
        }
        expected = expected.saturating_sub(header.count.into());
    }
}

//! How much the two lanes of a thread do before others have their turn, counted: their rounds are
//! run one by one.

use super::*;
use crate::gateway::{GatewayOptions, shared};
use crate::tick::STEPS_A_TICK;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::ioctl_fionread;
use std::io::Read;

const MIB: usize = 1 << 20;

/// Both lanes of a thread, and its clients.
struct Thread {
    lanes: [EventLoop; 2],
    address: SocketAddr,
    events: Vec<epoll::Event>,
    clients: Vec<TcpStream>,
}

impl Thread {
    fn start() -> Self {
        let store = Store::embedded_with(256 << 20, farslot::OpenOptions::default()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let options = GatewayOptions::at("127.0.0.1:0");
        let shared = Arc::new(shared(&store, &options, address).unwrap());
        let end = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let mut listener = Some(listener);
        let lanes = Lanes::new().unwrap().map(|lanes| {
            let (shared, listener) = (Arc::clone(&shared), listener.take());
            EventLoop::new(shared, lanes, listener, &end, store.clone()).unwrap()
        });
        Self {
            lanes,
            address,
            events: Vec::with_capacity(EVENTS),
            clients: Vec::new(),
        }
    }

    /// Connects a client, and has it be accepted; returns its number.
    fn connect(&mut self) -> usize {
        self.clients.push(TcpStream::connect(self.address).unwrap());
        self.round(0);
        self.clients.len() - 1
    }

    /// A round of a lane.
    fn round(&mut self, lane: usize) {
        assert!(self.lanes[lane].round(Duration::ZERO, &mut self.events));
    }

    fn send(&mut self, client: usize, bytes: &[u8]) {
        self.clients[client].write_all(bytes).unwrap();
    }

    /// Bytes that have arrived at a client, which takes none.
    fn arrived_at(&self, client: usize) -> u64 {
        ioctl_fionread(&self.clients[client]).unwrap()
    }

    /// Runs a round of a lane; returns the bytes of the replies that it has made.
    fn replied_in_round(&mut self, lane: usize) -> usize {
        let before = self.lanes[lane].replied;
        self.round(lane);
        self.lanes[lane].replied - before
    }

    /// Sends a request, and takes its reply, which has so many bytes.
    fn ask(&mut self, client: usize, request: &[u8], bytes: usize) -> Vec<u8> {
        // The socket has no room for long requests at once.
        let mut left = request;
        self.clients[client].set_nonblocking(true).unwrap();
        while !left.is_empty() || self.arrived_at(client) < bytes as u64 {
            match self.clients[client].write(left) {
                Ok(sent) => left = &left[sent..],
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            (0..2).for_each(|lane| self.round(lane));
        }
        self.clients[client].set_nonblocking(false).unwrap();
        let mut reply = vec![0; bytes];
        self.clients[client].read_exact(&mut reply).unwrap();
        reply
    }

    /// Puts values of so many bytes.
    fn put(&mut self, count: usize, bytes: usize) {
        let client = self.connect();
        for number in 0..count {
            let value = "v".repeat(bytes);
            let key = format!("k{number}");
            let set = format!(
                "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${bytes}\r\n{value}\r\n",
                key.len()
            );
            assert_eq!(self.ask(client, set.as_bytes(), 5), b"+OK\r\n");
        }
    }
}

/// A hundred connections ask for 3.1 GiB at once and take none of it. A lane moves a few records of
/// that before it looks at its sockets again. What is short waits for no more than one look at what
/// each of the others asks for, then for nothing of theirs.
#[test]
fn long_replies_to_all_together_are_few_in_a_round() {
    let mut thread = Thread::start();
    thread.put(32, MIB);
    let asked: String = (0..32).map(|key| format!("GET k{key}\r\n")).collect();
    let deaf: Vec<usize> = (0..100).map(|_| thread.connect()).collect();
    let good = thread.connect();
    for client in deaf {
        thread.send(client, asked.as_bytes());
    }
    let looks = (100 * 32_usize).div_ceil(STEPS_A_TICK);
    let (mut all, mut answered) = (0, 0);
    thread.send(good, b"PING\r\n");
    for round in 1..100 {
        let short = thread.replied_in_round(0);
        assert!(
            short <= 7,
            "round {round}: {short} bytes where requests are short"
        );
        if thread.arrived_at(good) > 7 * answered {
            answered += 1;
            thread.send(good, b"PING\r\n");
        }
        assert!(
            answered as usize + looks >= round,
            "round {round}: {answered}"
        );
        let long = thread.replied_in_round(1);
        // One record and its reply, with what stands around it.
        assert!(long <= A_TICK[1] + 64, "round {round}: {long} bytes");
        all += long;
    }
    assert!(all > 30 * MIB, "{all} bytes: they are served");
}

/// The same of replies that are short, each by itself.
#[test]
fn short_replies_to_all_together_are_bounded_in_a_round() {
    let mut thread = Thread::start();
    let bytes = 30 << 10;
    thread.put(2, bytes);
    let asking: Vec<usize> = (0..300).map(|_| thread.connect()).collect();
    for client in asking {
        thread.send(client, b"GET k0\r\nGET k1\r\n");
    }
    let (mut all, mut rounds) = (0, 0);
    while all < 300 * 2 * bytes {
        let replied = thread.replied_in_round(0);
        assert!(replied <= A_TICK[0], "round {rounds}: {replied} bytes");
        (all, rounds) = (all + replied + thread.replied_in_round(1), rounds + 1);
        assert!(rounds < 1_000, "{all} bytes");
    }
}

//! Redis clients: hostile ones that know the secret, those that guess it, and quiet ones.

use super::bed::{Bed, REDIS_SECRET, run_when_idle};
use super::unauthenticated::connect_from;
use super::{Field, REDIS};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Kinds of hostile clients.
pub const KINDS: usize = 7;
/// The one that guesses.
const GUESSES: usize = 5;
/// Values of 1 MiB, from key `large-0` on.
pub const LARGE: usize = 32;
const AT_ONCE: usize = 64 << 10;
/// A gateway closes connections whose secret has not come for longer.
const STAYS: Duration = Duration::from_secs(2);
/// How long after it came one comes again at the earliest.
const COMES_AGAIN: Duration = Duration::from_secs(1);

/// The bytes of a request.
pub fn request<T: AsRef<[u8]>>(arguments: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// What hostile clients say.
struct Attack {
    said: Arc<Vec<u8>>,
    /// Whether it is said again and again.
    repeats: bool,
    takes: bool,
}

fn attack_of(kind: usize, number: usize) -> Attack {
    let attack = |said: Vec<u8>, repeats, takes| Attack {
        said: Arc::new(said),
        repeats,
        takes,
    };
    match kind {
        0 => {
            let names = ["get"; 60_000];
            let said = request(&[&["COMMAND", "INFO"], &names[..]].concat());
            attack(said, true, number.is_multiple_of(2))
        }
        1 => {
            let gets = (0..LARGE).flat_map(|key| request(&["GET", &format!("large-{key}")]));
            attack(gets.collect(), false, false)
        }
        2 => {
            let long = vec![b'v'; 3_000_000];
            attack(request(&[b"SET", &b"k"[..], &long]), true, true)
        }
        3 => {
            let said = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3000000\r\n";
            attack(said.to_vec(), false, true)
        }
        4 => attack(vec![b'a'; AT_ONCE], true, true),
        GUESSES => attack(request(&["AUTH", "a guess of a secret"]), true, true),
        _ => {
            let some = request(&["MGET"; 100]);
            let said = [&b"*60000\r\n"[..], &some[b"*100\r\n".len()..]].concat();
            attack(said, false, true)
        }
    }
}

struct Client {
    stream: TcpStream,
    at: usize,
    since: Instant,
}

impl Client {
    /// Guesses come from an address of their own.
    fn arrive(bed: &Bed, field: &Field, guesses: bool) -> Option<Self> {
        let from = if guesses { 40 } else { 41 };
        let mut stream = connect_from(from, bed.redis).ok()?;
        if !guesses {
            // What it is told is thrown away with the first replies.
            stream.write_all(&request(&["AUTH", REDIS_SECRET])).ok()?;
        }
        field.has_made(REDIS);
        Some(Self {
            stream,
            at: 0,
            since: Instant::now(),
        })
    }

    fn go_on(
        &mut self,
        field: &Field,
        kind: usize,
        attack: &Attack,
        sink: &mut [u8],
    ) -> std::io::Result<()> {
        let left = &attack.said[self.at..];
        if !left.is_empty() {
            match self.stream.write(&left[..left.len().min(AT_ONCE)]) {
                Ok(bytes) => self.at += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.at == attack.said.len() {
                field.has_sent(REDIS, kind);
                if attack.repeats {
                    self.at = 0;
                }
            }
        } else if self.since.elapsed() > STAYS {
            // It comes again, for there is nothing more to say.
            return Err(ErrorKind::TimedOut.into());
        }
        if attack.takes {
            match self.stream.read(sink) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Attacks until it is over; one that was cut off comes again.
pub fn attack(bed: &Bed, field: &Field, in_idle: bool) {
    if in_idle {
        run_when_idle();
    }
    let attacks: Vec<Vec<Attack>> = (0..KINDS)
        .map(|kind| (0..2).map(|number| attack_of(kind, number)).collect())
        .collect();
    let mut all: Vec<(Option<Client>, Instant)> = (0..bed.size.redis * KINDS)
        .map(|_| (None, Instant::now()))
        .collect();
    let mut sink = vec![0; AT_ONCE];
    while !field.has_ended() {
        for (number, (place, comes)) in all.iter_mut().enumerate() {
            if field.has_ended() {
                return;
            }
            let kind = number % KINDS;
            match place {
                // What fills the kernel's queue of connections keeps everybody out, of any server.
                None if *comes > Instant::now() => {}
                None => {
                    *place = Client::arrive(bed, field, kind == GUESSES);
                    *comes = Instant::now() + COMES_AGAIN;
                }
                Some(client) => {
                    let attack = &attacks[kind][number / KINDS % 2];
                    if client.go_on(field, kind, attack, &mut sink).is_err() {
                        if (1..attack.said.len()).contains(&client.at) {
                            field.has_been_cut(REDIS, kind);
                        }
                        *place = None;
                    }
                }
            }
        }
        // More than the node takes would only keep it from the processors.
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// As many clients that get a small value now and then: so many in a second, all together.
pub fn behave(bed: &Bed, field: &Field, rate: f64) {
    run_when_idle();
    let all = (0..bed.size.redis * KINDS).map(|_| {
        let client = Client::arrive(bed, field, false);
        client.expect("the gateway takes quiet clients")
    });
    let mut all: Vec<Client> = all.collect();
    let mut sink = vec![0; AT_ONCE];
    let attack = Attack {
        said: Arc::new(request(&["GET", "quiet"])),
        repeats: true,
        takes: true,
    };
    field.take_turns(&mut all, rate, |client| {
        let done = client.go_on(field, 0, &attack, &mut sink);
        done.expect("the gateway is there");
    });
}

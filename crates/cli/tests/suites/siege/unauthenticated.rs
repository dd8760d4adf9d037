//! Connections to the agent that are never admitted.

use super::bed::{Bed, run_when_idle};
use super::{Field, UNAUTHENTICATED};
use farslot::fabric::Rights;
use farslot::fabric::tcp::admission::handshake::{Carrier, Hello};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const KINDS: usize = 5;

/// A connection from an address of this machine by its last byte.
pub fn connect_from(last: u8, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0));
    socket.bind(&from.into())?;
    socket.connect_timeout(&to.into(), Duration::from_secs(60))?;
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Those of several addresses: of one there are fewer places.
fn arrive(bed: &Bed, field: &Field, number: usize) -> Option<TcpStream> {
    let stream = connect_from(10 + (number % 20) as u8, bed.agent.parse().unwrap()).ok()?;
    field.has_made(UNAUTHENTICATED);
    Some(stream)
}

/// What one says at first, and what a byte at a time.
fn said_by(kind: usize, random: &mut ChaCha8Rng) -> (Vec<u8>, Vec<u8>) {
    let hello = Hello {
        carrier: Carrier::Tcp,
        grant: "good".into(),
        rights: Rights::ALL,
        receiver_wait: 0,
        nonce: [1, 2, 3, 4],
    };
    let hello: Vec<u8> = { hello.encode() }
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect();
    match kind {
        0 => Default::default(),
        // Half of a handshake: of its frame, or of its frames.
        1 => {
            let bytes = [hello.len() / 2, hello.len()][random.next_u32() as usize % 2];
            (hello[..bytes].to_vec(), Vec::new())
        }
        2 => (Vec::new(), hello),
        3 => {
            let mut garbage = vec![0; 200];
            random.fill_bytes(&mut garbage);
            (garbage, Vec::new())
        }
        _ => (
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_vec(),
            Vec::new(),
        ),
    }
}

/// Comes, and comes again wherever the agent has closed, until it is over.
pub fn flock(bed: &Bed, field: &Field, in_idle: bool) {
    if in_idle {
        run_when_idle();
    }
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut all: Vec<Option<(TcpStream, Vec<u8>)>> =
        (0..bed.size.unauthenticated).map(|_| None).collect();
    while !field.has_ended() {
        for (number, place) in all.iter_mut().enumerate() {
            if field.has_ended() {
                return;
            }
            match place {
                None => {
                    if let Some(mut stream) = arrive(bed, field, number) {
                        let (at_once, slowly) = said_by(number % KINDS, &mut random);
                        let _ = stream.write_all(&at_once);
                        *place = Some((stream, slowly));
                    }
                    // Four thousand within seconds, and then so many in each.
                    std::thread::sleep(Duration::from_micros(500));
                }
                Some((stream, slowly)) => {
                    let next = slowly.drain(..1.min(slowly.len())).next();
                    let sent = next.map_or(Ok(0), |byte| stream.write(&[byte]));
                    if is_over(&sent) || is_over(&stream.read(&mut [0; 256]).and_then(some)) {
                        *place = None;
                    }
                }
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn some(bytes: usize) -> std::io::Result<usize> {
    match bytes {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        bytes => Ok(bytes),
    }
}

fn is_over(done: &std::io::Result<usize>) -> bool {
    let error = done.as_ref().err();
    error.is_some_and(|error| error.kind() != ErrorKind::WouldBlock)
}

/// As many that say nothing; those that the agent has closed stay away.
pub fn idle(bed: &Bed, field: &Field) {
    let mut all = Vec::new();
    for number in 0..bed.size.unauthenticated {
        all.push(arrive(bed, field, number));
        std::thread::sleep(Duration::from_micros(500));
    }
    while !field.has_ended() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

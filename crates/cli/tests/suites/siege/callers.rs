//! Clients of the agent that were admitted: hostile ones, and quiet ones in their place.

use super::bed::{Bed, KEYS, Target, key, request, run_when_idle};
use super::{CALLERS, Field};
use crate::raw::{RawClient, bytes_of, frame};
use farslot::Operation;
use farslot::calls::request::MOST_OPERATIONS;
use farslot::fabric::tcp::{ConnectOptions, wire};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

/// Kinds of hostile clients.
pub const KINDS: usize = 6;
/// The grants that they have: calls alone to the keys with a prefix, or a table with its memory.
const GRANTS: [&str; KINDS] = ["lone", "race", "linear", "tenant", "filler", "race"];
/// The most that one moves at once: a processor that is at a system call of an attacker's runs
/// nothing else meanwhile.
const AT_ONCE: usize = 16 << 10;

/// One of them, and what it has to say.
struct Caller {
    client: RawClient,
    said: Vec<u8>,
    at: usize,
    random: ChaCha8Rng,
}

impl Caller {
    fn admitted(bed: &Bed, field: &Field, options: &ConnectOptions, seed: u64) -> Option<Self> {
        let client = RawClient(bed.admitted(options)?);
        client.tcp().set_nonblocking(true).unwrap();
        field.has_made(CALLERS);
        Some(Self {
            client,
            said: Vec::new(),
            at: 0,
            random: ChaCha8Rng::seed_from_u64(seed),
        })
    }

    fn hostile(bed: &Bed, field: &Field, kind: usize, seed: u64) -> Option<Self> {
        let mut caller = Self::admitted(bed, field, &Bed::hostile(GRANTS[kind]), seed)?;
        caller.said = caller.attack(kind, bed);
        Some(caller)
    }

    /// What it says next.
    fn attack(&mut self, kind: usize, bed: &Bed) -> Vec<u8> {
        let targets = &bed.targets;
        match kind {
            // Absent keys, whose probes are as long as the table.
            0 => {
                let first = self.random.next_u64() >> 32;
                let keys: Vec<_> = (first..first + MOST_OPERATIONS as u64).map(key).collect();
                let gets: Vec<_> = keys.iter().map(|key| Operation::Get(key)).collect();
                self.call(&request(targets.filled.id, &gets), 64 << 10)
            }
            1 => self.damage(&targets.race),
            2 => self.damage(&targets.linear),
            3 => self.mutated(&targets.linear),
            // It takes no answers.
            4 => {
                let mut verbs = Vec::new();
                let len = (targets.filled.extent.end - targets.filled.extent.start).min(1 << 20);
                let span = self.client.span(0, targets.filled.extent.start, len as u32);
                (0..100).for_each(|_| wire::put_read(&mut verbs, span));
                bytes_of(&frame(100, &verbs))
            }
            // Nor does this one, of its calls.
            _ => {
                let keys: Vec<_> = (0..256).map(|number| key(number % KEYS)).collect();
                let asked: Vec<_> = keys.iter().map(|key| Operation::GetAll(key)).collect();
                self.call(&request(targets.race.id, &asked), 256 << 10)
                    .repeat(16)
            }
        }
    }

    /// A frame of one call.
    fn call(&self, request: &[u8], room: u64) -> Vec<u8> {
        let mut verbs = Vec::new();
        let span = self.client.span(0, room, request.len() as u32);
        wire::put_call(&mut verbs, span, &words(request));
        bytes_of(&frame(1, &verbs))
    }

    /// Writes noise somewhere into the table, and has the owner work in it.
    fn damage(&mut self, target: &Target) -> Vec<u8> {
        let mut verbs = Vec::new();
        let bytes = target.extent.end - target.extent.start;
        for _ in 0..8 {
            // Words of any kind, or such as point somewhere near.
            let shift = self.random.next_u32() % 64;
            let noise: Vec<u64> = (0..1 + self.random.next_u32() % 32)
                .map(|_| self.random.next_u64() >> shift)
                .collect();
            let place = match self.random.next_u32() % 2 {
                // Where the table's head is.
                0 => self.random.next_u64() % 8_192.min(bytes),
                _ => self.random.next_u64() % bytes,
            };
            let len = (noise.len() as u64 * 8).min(bytes - place / 8 * 8);
            let to = target.extent.start + place / 8 * 8;
            let span = self.client.span(0, to, len as u32);
            wire::put_write(&mut verbs, span, &noise);
        }
        let keys: Vec<_> = (0..64)
            .map(|_| key(self.random.next_u64() % (2 * KEYS)))
            .collect();
        let value = [9; 1_000];
        let asked: Vec<_> = (0..)
            .zip(&keys)
            .map(|(number, key)| match number % 3 {
                0 => Operation::Put(key, &value),
                1 => Operation::Get(key),
                _ => Operation::GetAll(key),
            })
            .collect();
        let request = request(target.id, &asked);
        let span = self.client.span(0, 256 << 10, request.len() as u32);
        wire::put_call(&mut verbs, span, &words(&request));
        bytes_of(&frame(9, &verbs))
    }

    /// A request that makes sense, but for some bytes: mostly of the call, else of the frame, which
    /// ends the connection.
    fn mutated(&mut self, target: &Target) -> Vec<u8> {
        let keys: Vec<_> = (0..20_u8).map(|n| [b"tenant", &[n][..]].concat()).collect();
        let asked: Vec<_> = (0..)
            .zip(&keys)
            .map(|(number, key)| match number % 3 {
                0 => Operation::Put(key, key),
                1 => Operation::FindOrPut(key, key),
                _ => Operation::Get(key),
            })
            .collect();
        let mut said = self.call(&request(target.id, &asked), 16 << 10);
        let first = match self.random.next_u32() % 16 {
            0 => 0,
            // Behind the frame's head and the call's.
            _ => 32,
        };
        for _ in 0..1 + self.random.next_u32() % 4 {
            let at = first + self.random.next_u32() as usize % (said.len() - first);
            said[at] = self.random.next_u32() as u8;
        }
        said
    }

    /// Says some more; true if all of it was said. Fails if it was cut off.
    fn say(&mut self) -> std::io::Result<bool> {
        let left = &self.said[self.at..];
        match self.client.tcp().write(&left[..left.len().min(AT_ONCE)]) {
            Ok(0) if !left.is_empty() => return Err(ErrorKind::WriteZero.into()),
            Ok(bytes) => self.at += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(self.at == self.said.len())
    }

    /// Throws away what it hears; fails if it was cut off.
    fn hear(&mut self, sink: &mut [u8]) -> std::io::Result<usize> {
        match self.client.tcp().read(sink) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            heard => heard,
        }
    }

    fn go_on(
        &mut self,
        bed: &Bed,
        field: &Field,
        kind: usize,
        sink: &mut [u8],
    ) -> std::io::Result<()> {
        if self.say()? {
            field.has_sent(CALLERS, kind);
            self.said = self.attack(kind, bed);
            self.at = 0;
        }
        if kind < 4 {
            self.hear(sink)?;
        }
        Ok(())
    }
}

/// Words that have these bytes.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    let whole = bytes.chunks(8).map(|part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    });
    whole.collect()
}

/// Attacks until it is over; one that was cut off comes again.
pub fn attack(bed: &Bed, field: &Field, in_idle: bool) {
    if in_idle {
        run_when_idle();
    }
    let mut seed = 0;
    let mut all: Vec<Option<Caller>> = (0..bed.size.callers).map(|_| None).collect();
    let mut sink = vec![0; AT_ONCE];
    while !field.has_ended() {
        for (number, place) in all.iter_mut().enumerate() {
            if field.has_ended() {
                return;
            }
            let kind = number % KINDS;
            seed += 1;
            match place {
                None => *place = Caller::hostile(bed, field, kind, seed),
                Some(caller) => {
                    if caller.go_on(bed, field, kind, &mut sink).is_err() {
                        if (1..caller.said.len()).contains(&caller.at) {
                            field.has_been_cut(CALLERS, kind);
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

/// As many clients that get a key of a table now and then: so many in a second, all together.
pub fn behave(bed: &Bed, field: &Field, rate: f64) {
    run_when_idle();
    let options = Bed::calm();
    let all = (0..bed.size.callers).map(|number| {
        let caller = Caller::admitted(bed, field, &options, number as u64);
        caller.expect("the node admits quiet clients")
    });
    let mut all: Vec<Caller> = all.collect();
    let mut sink = vec![0; AT_ONCE];
    field.take_turns(&mut all, rate, |caller| {
        caller.hear(&mut sink).expect("the node is there");
        if caller.at == caller.said.len() {
            let asked = request(bed.targets.good.id, &[Operation::Get(b"quiet")]);
            (caller.said, caller.at) = (caller.call(&asked, 4 << 10), 0);
        }
        if caller.say().expect("the node is there") {
            field.has_sent(CALLERS, 0);
        }
    });
}

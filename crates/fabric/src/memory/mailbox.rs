//! The receive queue of a node: a ring of 8-byte entries that many senders and receivers share.
//!
//! ```text
//! 4096  head   position of the next message to take
//! 4104  tail   position of the next message to put
//! 4160  entries, 1024 of one word each:
//!       | lap, 8 bits | full, 1 bit | length, 23 bits | imm, 32 bits |
//! ```
//! An entry changes hands by one compare-and-swap: an empty one of the right lap becomes a message,
//! a message becomes an empty one of the next lap. Head and tail only follow, moved by whoever
//! notices that they lag: a sender that dies between its two steps leaves nothing stuck. The lap
//! keeps a sender that slept through a whole turn of the ring from using an entry out of order.

use crate::Message;
use crate::words::SharedWords;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const HEAD_AT: u64 = 4096;
const TAIL_AT: u64 = 4104;
const ENTRIES_AT: u64 = 4160;
/// Messages that wait at most.
pub(crate) const CAPACITY: u64 = 1024;
/// The first byte behind the mailbox.
pub(crate) const END: u64 = ENTRIES_AT + CAPACITY * 8;
/// The most bytes that a message can announce.
pub(crate) const LONGEST: usize = (1 << 23) - 1;

const FULL: u64 = 1 << 55;

const fn empty(position: u64) -> u64 {
    (position / CAPACITY) << 56
}

const fn full(position: u64, message: Message) -> u64 {
    empty(position) | FULL | (message.len as u64) << 32 | message.imm as u64
}

const fn entry_at(position: u64) -> u64 {
    ENTRIES_AT + position % CAPACITY * 8
}

/// Steps after which a loop ends: none over sound words takes so many, but for threads that
/// overtake each other all the while.
const MOST_STEPS: u64 = 4 * CAPACITY;

/// Puts a message into the ring; false if it is full, or was damaged: then it is empty again.
pub(crate) fn put(memory: SharedWords<'_>, message: Message) -> bool {
    let tail = memory.word(TAIL_AT);
    for _ in 0..MOST_STEPS {
        let position = tail.load(Acquire);
        let entry = memory.word(entry_at(position));
        let seen =
            entry.compare_exchange(empty(position), full(position, message), AcqRel, Acquire);
        let placed = match seen {
            Ok(_) => true,
            // Of the lap before, and not taken yet: the ring is full, unless the tail has moved on.
            Err(seen) if seen >> 55 == full(position.wrapping_sub(CAPACITY), message) >> 55 => {
                if tail.load(Acquire) == position {
                    return false;
                }
                continue;
            }
            // Another sender was faster, and maybe a receiver too; the tail may lag.
            Err(seen) if is_of_next(seen, position) || tail.load(Acquire) != position => false,
            Err(_) => break,
        };
        let _ = tail.compare_exchange(position, position.wrapping_add(1), AcqRel, Relaxed);
        if placed {
            return true;
        }
    }
    reset_if_damaged(memory);
    false
}

/// Whether an entry has what comes after an empty place at this position.
fn is_of_next(seen: u64, position: u64) -> bool {
    let next = position.wrapping_add(CAPACITY);
    let none = Message { imm: 0, len: 0 };
    seen == empty(next)
        || [position, next]
            .iter()
            .any(|of| seen >> 55 == full(*of, none) >> 55)
}

/// Empties the ring if its words are such as no senders and receivers leave them. What waited in it
/// is lost. Whoever uses it meanwhile may put a message in vain, or find it damaged once more.
#[cold]
fn reset_if_damaged(memory: SharedWords<'_>) {
    if !is_damaged(memory) {
        return;
    }
    log::error!(
        "the mailbox of a node is damaged: it is emptied, and the messages that waited are lost"
    );
    let (head, tail) = (memory.word(HEAD_AT), memory.word(TAIL_AT));
    // The next lap's first place, so that most that was seen before is seen to be old.
    let start = (tail.load(Acquire) / CAPACITY).wrapping_add(1);
    let start = start.wrapping_mul(CAPACITY);
    for position in (0..CAPACITY).map(|place| start.wrapping_add(place)) {
        memory
            .word(entry_at(position))
            .store(empty(position), Release);
    }
    tail.store(start, Release);
    head.store(start, Release);
}

/// Whether head, tail and entries do not fit each other, while nobody moves them.
fn is_damaged(memory: SharedWords<'_>) -> bool {
    let ends = || [HEAD_AT, TAIL_AT].map(|at| memory.word(at).load(Acquire));
    let before @ [head, tail] = ends();
    // They lag behind by less than a lap, whatever they do.
    let fits = tail.wrapping_sub(head).wrapping_add(CAPACITY) <= 3 * CAPACITY;
    let fit = (0..CAPACITY).all(|place| {
        let position = head.wrapping_add(place);
        let seen = memory.word(entry_at(position)).load(Acquire);
        seen == empty(position) || is_of_next(seen, position)
    });
    !(fits && fit) && ends() == before
}

/// How many messages wait, while nobody puts or takes any.
pub(crate) fn waiting(memory: SharedWords<'_>) -> u64 {
    let (head, tail) = (memory.word(HEAD_AT), memory.word(TAIL_AT));
    tail.load(Acquire).wrapping_sub(head.load(Acquire))
}

/// Takes the oldest message out of the ring; nothing if there is none, or it was damaged: then it
/// is empty again.
pub(crate) fn take(memory: SharedWords<'_>) -> Option<Message> {
    let head = memory.word(HEAD_AT);
    for _ in 0..MOST_STEPS {
        let position = head.load(Acquire);
        let entry = memory.word(entry_at(position));
        let seen = entry.load(Acquire);
        if seen == empty(position) {
            // Nothing at the head, unless that was an old one.
            if head.load(Acquire) == position {
                return None;
            }
            continue;
        }
        if !is_of_next(seen, position) && head.load(Acquire) == position {
            break;
        }
        let of_this_lap = seen >> 55 == empty(position) >> 55 | 1;
        let next_lap = empty(position.wrapping_add(CAPACITY));
        let taken = of_this_lap
            && entry
                .compare_exchange(seen, next_lap, AcqRel, Relaxed)
                .is_ok();
        let _ = head.compare_exchange(position, position.wrapping_add(1), AcqRel, Relaxed);
        if taken {
            return Some(Message {
                imm: seen as u32,
                len: (seen >> 32) as u32 & LONGEST as u32,
            });
        }
    }
    reset_if_damaged(memory);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::atomic::AtomicU64;

    fn memory() -> Vec<AtomicU64> {
        (0..END / 8).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn first_in_first_out_until_full_over_many_laps() {
        let words = memory();
        let memory = SharedWords::new(&words);
        let message = |imm| Message { imm, len: imm % 7 };
        for lap in 0..600u32 {
            for index in 0..CAPACITY as u32 {
                assert!(put(memory, message(lap * 1024 + index)));
            }
            assert!(!put(memory, message(0)));
            assert_eq!(waiting(memory), CAPACITY);
            for index in 0..CAPACITY as u32 {
                assert_eq!(take(memory), Some(message(lap * 1024 + index)));
            }
            assert_eq!(take(memory), None);
        }
    }

    #[test]
    fn a_sender_that_died_before_it_moved_the_tail_blocks_nobody() {
        let words = memory();
        let memory = SharedWords::new(&words);
        let dead = Message { imm: 1, len: 1 };
        memory.word(entry_at(0)).store(full(0, dead), Relaxed);
        assert!(put(memory, Message { imm: 2, len: 2 }));
        assert_eq!(take(memory), Some(dead));
        assert_eq!(take(memory).map(|message| message.imm), Some(2));
    }

    /// A sound ring with messages in it, damaged by a seed in one of several ways.
    fn damaged(seed: u64) -> Vec<AtomicU64> {
        use rand::{Rng, RngExt, SeedableRng};
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let words = memory();
        let memory = SharedWords::new(&words);
        for imm in 0..random.random_range(0..3000) {
            if !put(memory, Message { imm, len: 8 }) || random.random_range(0..3) == 0 {
                take(memory);
            }
        }
        let entries = (ENTRIES_AT / 8) as usize..(END / 8) as usize;
        let garbage = |random: &mut rand_chacha::ChaCha8Rng| match random.random_range(0..4) {
            0 => random.next_u64(),
            // Not full, and not empty either.
            1 => random.random_range(0..1u64 << 55) | random.random::<u64>() << 56,
            2 => FULL | random.random::<u64>() << 56,
            _ => u64::from(random.random::<u8>()) << 56,
        };
        match random.random_range(0..4) {
            0 => entries.for_each(|at| words[at].store(garbage(&mut random), Relaxed)),
            1 => {
                let at = random.random_range(entries);
                words[at].store(garbage(&mut random), Relaxed);
            }
            2 => words[(HEAD_AT / 8) as usize].store(random.random(), Relaxed),
            _ => words[(TAIL_AT / 8) as usize].store(random.random(), Relaxed),
        }
        words
    }

    #[test]
    fn a_damaged_ring_hangs_nobody_and_works_again() {
        for seed in 0..2_000 {
            let words = damaged(seed);
            let memory = SharedWords::new(&words);
            // It is emptied, and emptied by those who look for messages; some may be of the damage.
            for _ in 0..4 * CAPACITY {
                let _ = (put(memory, Message { imm: 1, len: 0 }), take(memory));
            }
            for _ in 0..4 * CAPACITY {
                let _ = take(memory);
            }
            assert_eq!(take(memory), None, "seed {seed}");
            for imm in 0..3_000 {
                let message = Message { imm, len: 9 };
                assert!(put(memory, message), "seed {seed}, message {imm}");
                assert_eq!(take(memory), Some(message), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_sound_ring_is_never_taken_for_damaged() {
        let words = memory();
        let memory = SharedWords::new(&words);
        for step in 0..5_000u32 {
            let _ = put(memory, Message { imm: step, len: 1 });
            if step % 3 == 0 {
                take(memory);
            }
            assert!(!is_damaged(memory), "step {step}");
        }
    }

    #[test]
    fn every_message_arrives_once_between_threads() {
        let words = memory();
        let memory = SharedWords::new(&words);
        const EACH: u32 = 20_000;
        let taken = std::thread::scope(|scope| {
            for sender in 0..2u32 {
                scope.spawn(move || {
                    for index in 0..EACH {
                        let imm = sender * EACH + index;
                        while !put(memory, Message { imm, len: 0 }) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let receivers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(move || {
                        let mut taken = Vec::new();
                        while taken.len() < EACH as usize {
                            match take(memory) {
                                Some(message) => taken.push(message.imm),
                                None => std::thread::yield_now(),
                            }
                        }
                        taken
                    })
                })
                .collect();
            receivers
                .into_iter()
                .flat_map(|receiver| receiver.join().unwrap())
                .collect::<Vec<_>>()
        });
        assert_eq!(taken.len(), 2 * EACH as usize);
        assert_eq!(
            taken.into_iter().collect::<HashSet<_>>().len(),
            2 * EACH as usize
        );
    }
}

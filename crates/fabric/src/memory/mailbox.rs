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
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

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

/// Puts a message into the ring; false if it is full.
pub(crate) fn put(memory: SharedWords<'_>, message: Message) -> bool {
    let tail = memory.word(TAIL_AT);
    loop {
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
            // Another sender was faster; its tail may lag.
            Err(_) => false,
        };
        let _ = tail.compare_exchange(position, position.wrapping_add(1), AcqRel, Relaxed);
        if placed {
            return true;
        }
    }
}

/// How many messages wait, while nobody puts or takes any.
pub(crate) fn waiting(memory: SharedWords<'_>) -> u64 {
    let (head, tail) = (memory.word(HEAD_AT), memory.word(TAIL_AT));
    tail.load(Acquire).wrapping_sub(head.load(Acquire))
}

/// Takes the oldest message out of the ring.
pub(crate) fn take(memory: SharedWords<'_>) -> Option<Message> {
    let head = memory.word(HEAD_AT);
    loop {
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

//! Writers of a cuckoo table that were taken for dead, and who takes over from them.

use crate::common::chaos::limits;
use crate::common::cuckoo::{SIGNATURES, open, options, ways, world};
use crate::common::{HEAP, INLINE, WORD};
use farslot_fabric::Executor;
use farslot_index::cuckoo::LookupOrder;
use farslot_index::{Index, IndexError, IndexExt};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};

#[test]
fn a_writer_that_was_taken_for_dead_notices() {
    for slot in [WORD, INLINE, HEAP, SIGNATURES] {
        let layout = options(slot, 64, ways(3, 4), 7).layout().unwrap();
        let world = world(1, &layout);
        let client = || {
            let executor = Executor::new(world.endpoint(limits()));
            let endpoint = Rc::clone(executor.endpoint());
            let table = executor.block_on(open(endpoint, &layout, LookupOrder::Parallel));
            (executor, table)
        };
        let ((executor, first), (successor, second)) = (client(), client());
        let value = |number| slot.value(number);
        for key in 0..8 {
            let (key, value) = (slot.key(key), value(key));
            assert!(executor.block_on(first.put(&key, &value)).unwrap());
        }
        successor.block_on(second.take_over()).unwrap();
        // The first has read the slot when the second changes it.
        let (key, own) = (slot.key(5), value(50));
        let mut late = pin!(first.put(&key, &own));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(late.as_mut().poll(&mut cx).is_pending());
        executor.turn();
        world.advance_to(world.now() + 10_000);
        successor.block_on(second.put(&key, &value(60))).unwrap();
        let lost = executor.block_on(late).unwrap_err();
        assert!(matches!(lost, IndexError::WriterLost { .. }), "{lost}");
        assert!(lost.may_have_taken_effect());
        let refused = executor.block_on(first.put(&slot.key(20), &own));
        assert_eq!(refused, Err(IndexError::WriterBusy { writer: 2 }));
        assert!(successor.block_on(second.put(&slot.key(20), &own)).unwrap());
        let got = executor.block_on(first.get(&key)).unwrap();
        if slot == SIGNATURES {
            // Both have written into the same free position: a deposed writer that lives can do
            // harm.
            assert!(got.is_some_and(|got| *got == own[..] || *got == value(60)[..]));
            continue;
        }
        assert_eq!(got.as_deref(), Some(&value(60)[..]));
    }
}

/// Nothing that the dead has under way takes effect behind a write of its successor.
#[test]
fn who_takes_over_waits_for_the_verbs_of_the_dead() {
    let layout = options(WORD, 64, ways(3, 4), 7).layout().unwrap();
    let world = world(1, &layout);
    let executor = Executor::new(world.endpoint(limits()));
    let endpoint = Rc::clone(executor.endpoint());
    let table = executor.block_on(open(endpoint, &layout, LookupOrder::Parallel));
    // From nobody, or from itself, there is nothing to wait for.
    for _ in 0..2 {
        let before = world.now();
        executor.block_on(table.take_over()).unwrap();
        assert!(world.now() - before < limits().verb_timeout);
    }
    let next = Executor::new(world.endpoint(limits()));
    let endpoint = Rc::clone(next.endpoint());
    let table = next.block_on(open(endpoint, &layout, LookupOrder::Parallel));
    let before = world.now();
    next.block_on(table.take_over()).unwrap();
    assert!(world.now() - before >= limits().verb_timeout);
}

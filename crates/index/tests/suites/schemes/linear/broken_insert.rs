//! The linearizability check notices a wrong insertion: over an endpoint that claims slots by a
//! plain WRITE in place of the compare-and-swap.

use crate::common::chaos::{ClientKind, run_over};
use crate::common::{SLOTS, TABLE};
use farslot_check::CheckError;
use farslot_fabric::sim::SimEndpoint;
use farslot_fabric::{
    Completion, Endpoint, EndpointCore, Nanos, NodeId, NodeInfo, NodeState, PostError, Result, Verb,
};
use farslot_index::linear::LinearLayout;
use std::ops::Range;
use std::panic::catch_unwind;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Seeds within which a violation must show.
const SEEDS: u64 = 100;

/// An endpoint that overwrites empty slots: whatever has come into one since it was read is lost.
struct Overwriting {
    inner: Rc<SimEndpoint>,
    /// The slots' bytes in the table's region.
    slots: Range<u64>,
}

impl Overwriting {
    fn of(inner: Rc<SimEndpoint>, layout: &LinearLayout) -> Rc<Self> {
        let end = TABLE.offset + layout.table_bytes() as u64 - layout.heap_bytes;
        let slot_bytes = layout.slots * layout.slot_bytes() as u64;
        let slots = end - slot_bytes.next_multiple_of(64)..end;
        Rc::new(Self { inner, slots })
    }
}

/// A verb, and whether it stands for a compare-and-swap from 0.
struct Posted {
    inner: <SimEndpoint as Endpoint>::Posted,
    is_swap: bool,
}

impl Endpoint for Overwriting {
    type Posted = Posted;

    fn core(&self) -> &EndpointCore {
        self.inner.core()
    }

    fn node_count(&self) -> usize {
        self.inner.node_count()
    }

    fn node(&self, node: NodeId) -> Result<NodeInfo> {
        self.inner.node(node)
    }

    fn node_state(&self, node: NodeId) -> Result<NodeState> {
        self.inner.node_state(node)
    }

    fn adopt(&self, node: NodeId) -> Result<NodeInfo> {
        self.inner.adopt(node)
    }

    fn post(&self, verb: Verb) -> std::result::Result<Posted, PostError> {
        let (verb, is_swap) = match verb {
            Verb::CompareSwap {
                at,
                expected: 0,
                new,
            } if self.slots.contains(&at.offset) => {
                let data = self.core().buffers.copy_of(&new.to_le_bytes());
                let data = data.map_err(PostError::Rejected)?;
                (Verb::Write { to: at, data }, true)
            }
            verb => (verb, false),
        };
        let inner = self.inner.post(verb)?;
        Ok(Posted { inner, is_swap })
    }

    fn poll_posted(&self, posted: &mut Posted, cx: &mut Context<'_>) -> Poll<Result<Completion>> {
        let completed = self.inner.poll_posted(&mut posted.inner, cx);
        completed.map_ok(|completion| match posted.is_swap {
            true => Completion::Word(0),
            false => completion,
        })
    }

    fn ring_doorbell(&self) {
        self.inner.ring_doorbell();
    }

    fn poll_completions(&self) -> usize {
        self.inner.poll_completions()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn wait(&self, deadline: Option<Nanos>, idle_turns: u32) {
        self.inner.wait(deadline, idle_turns);
    }
}

#[test]
fn a_write_in_place_of_the_compare_and_swap_is_noticed() {
    let first_violations = SLOTS.map(|slot| {
        let run = |seed| run_over(slot, seed, ClientKind::default(), Overwriting::of);
        // A run may also come to something that no run comes to, and panic: that does not count
        // here.
        let violates = |seed: &u64| match catch_unwind(|| run(*seed)) {
            Ok(Err(failure)) => matches!(failure.error, CheckError::NotLinearizable(_)),
            _ => false,
        };
        (slot.name, (0..SEEDS).find(violates))
    });
    println!("first violations: {first_violations:?}");
    for (slot, seed) in first_violations {
        assert!(seed.is_some(), "{slot}: nothing noticed in {SEEDS} seeds");
    }
}

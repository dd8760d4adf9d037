//! A queue of a node that is killed while clients push and pop.

use super::Keep;
use farslot::{Queue, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a call to a queue has done: something, nothing, or nobody knows.
fn done<T>(call: farslot::Result<T>) -> Result<T, bool> {
    call.map_err(|error| {
        let in_doubt = error.may_have_taken_effect();
        let is_down = error.kind() == farslot::ErrorKind::NodeDown;
        assert!(in_doubt || is_down, "{error}");
        std::thread::sleep(Duration::from_millis(1));
        in_doubt
    })
}

/// Pushes numbers until told to end; those that are certainly there, and those that may be.
fn push(queue: &Queue, done_so_far: &AtomicU64, ends: &AtomicBool) -> BTreeMap<u64, bool> {
    let mut pushed = BTreeMap::new();
    for number in 0_u64.. {
        if ends.load(Ordering::Acquire) {
            break;
        }
        match done(queue.push(&number.to_le_bytes())) {
            Ok(_) => {
                pushed.insert(number, true);
                done_so_far.fetch_add(1, Ordering::AcqRel);
            }
            Err(true) => drop(pushed.insert(number, false)),
            Err(false) => {}
        }
    }
    pushed
}

fn number_of(item: &[u8]) -> u64 {
    u64::from_le_bytes(item.try_into().unwrap())
}

#[test]
fn items_that_were_pushed_come_out_once_and_in_their_order_over_kills() {
    let keep = Keep::new();
    let mut node = keep.start();
    let create = ["create", "jobs", "--scheme", "queue", "--max-value", "8"];
    node.ok(create.iter().chain(&["--capacity", "200000"]));
    let (count, ends) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let pusher = {
        let (address, count, ends) = (
            keep.addresses[1].clone(),
            Arc::clone(&count),
            Arc::clone(&ends),
        );
        std::thread::spawn(move || {
            let store = Store::open(&address).unwrap();
            push(&store.queue("jobs").unwrap(), &count, &ends)
        })
    };
    let store = Store::open(&keep.addresses[0]).unwrap();
    let queue = store.queue("jobs").unwrap();
    let (mut popped, mut pops_in_doubt) = (Vec::new(), 0);
    for _ in 0..12 {
        let goal = count.load(Ordering::Acquire) + 40;
        let until = Instant::now() + Duration::from_secs(60);
        while count.load(Ordering::Acquire) < goal {
            assert!(Instant::now() < until, "nothing is pushed");
            match done(queue.pop()) {
                Ok(item) => popped.extend(item.map(|item| number_of(&item))),
                Err(in_doubt) => pops_in_doubt += usize::from(in_doubt),
            }
        }
        node.kill();
        node = keep.start();
    }
    ends.store(true, Ordering::Release);
    let pushed = pusher.join().unwrap();
    loop {
        match done(queue.pop()) {
            Ok(Some(item)) => popped.push(number_of(&item)),
            Ok(None) => break,
            Err(in_doubt) => pops_in_doubt += usize::from(in_doubt),
        }
    }
    assert!(popped.is_sorted_by(|a, b| a < b), "out of order, or twice");
    assert!(popped.iter().all(|number| pushed.contains_key(number)));
    let certain = pushed.iter().filter(|(_, is_certain)| **is_certain);
    let lost = certain.filter(|(number, _)| popped.binary_search(number).is_err());
    let lost = lost.count();
    println!(
        "{} pushed, {lost} taken by {pops_in_doubt} pops in doubt",
        pushed.len()
    );
    assert!(lost <= pops_in_doubt, "{lost} are lost");
}

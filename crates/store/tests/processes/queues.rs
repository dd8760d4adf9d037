//! Those who push and pop are killed at any moment.

use crate::common::{Served, patient};
use crate::roles::{Other, value_of};
use farslot::{ErrorKind, FieldSize, Queue, Store, TableOptions};

/// Items after which one that pops is killed.
const POPPED: usize = 200;

fn open(address: &str, name: &str) -> Queue {
    let store = Store::open_with(address, patient()).unwrap();
    store.queue(name).unwrap()
}

/// Pushes numbers, and says each that is in the queue.
pub fn push_for_ever(address: &str, name: &str) {
    let queue = open(address, name);
    for number in 0_u64.. {
        while let Err(error) = queue.push(&value_of(number)) {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            std::thread::yield_now();
        }
        println!("pushed {number}");
    }
}

/// Pops, and says what it has popped.
pub fn pop_for_ever(address: &str, name: &str) {
    let queue = open(address, name);
    loop {
        match queue.pop().unwrap() {
            Some(item) => println!("popped {}", number_of(&item)),
            None => std::thread::yield_now(),
        }
    }
}

fn number_of(item: &[u8]) -> u64 {
    let number = u64::from_le_bytes(item[..8].try_into().unwrap());
    assert_eq!(item, value_of(number), "it is not whole");
    number
}

pub fn who_is_killed_takes_one_item_along_at_the_most<S: Served>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let options = TableOptions::new(50).values(FieldSize::Fixed(48)).queue();
    for round in 0..S::repeat(6) {
        let name = format!("q{round}");
        store.create(&name, &options).unwrap();
        let mut pusher = Other::start("pusher", &node.address(), &name);
        let mut popper = Other::start("popper", &node.address(), &name);
        let mut popped = Vec::new();
        while popped.len() < POPPED {
            popped.push(popper.wait_for("popped "));
        }
        popper.kill();
        popped.extend(popper.rest("popped "));
        let mut popped: Vec<u64> = popped
            .iter()
            .map(|number| number.parse().unwrap())
            .collect();
        // Until it is full, or not even that.
        let pushed = pusher.wait_for("pushed ");
        pusher.kill();
        let pushed = pusher.rest("pushed ").pop().unwrap_or(pushed);
        let pushed: u64 = pushed.parse().unwrap();
        let queue = store.queue(&name).unwrap();
        while let Some(item) = queue.pop().unwrap() {
            popped.push(number_of(&item));
        }
        assert!(popped.is_sorted_by(|one, other| one < other), "{popped:?}");
        let last = *popped.last().unwrap();
        // One may be in the queue whose push was not answered any more.
        assert!((pushed..=pushed + 1).contains(&last), "{last} of {pushed}");
        let missing = last + 1 - popped.len() as u64;
        assert!(missing <= 1, "{missing} are missing");
        queue.push(&value_of(0)).unwrap();
    }
}

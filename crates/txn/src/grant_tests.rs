//! Clients of several grants: none speaks for a transaction of another's.

use crate::books::{MOST_NOTED, Owner, OwnerOptions};
use crate::kept::{Asked, CHANGES, Kept, Tables};
use crate::turn::RequestTurn;
use crate::wire::{LockHolder, OwnerStatus, Reader, TransactionHome, Write, put_limit, put_write};
use farslot_fabric::{
    Caller, FabricError, NodeId, OwnerMemory, RegionId, RemoteAddr, Result, Rights,
};
use farslot_remote::chained::{Shape, Table};
use farslot_remote::{DENIED, Lock, ObjectId};
use farslot_rpc::{Fault, Request};
use farslot_testbed::PlainMemory;
use std::ops::Range;
use std::sync::Arc;

const SHAPE: Shape = Shape {
    at: 0,
    key_bytes: 1_000,
    value_bytes: 8,
    slots: 8,
    buckets: 1_024,
    most_buckets: 1_024,
    overflow: 64,
    split_after: 0,
    seed: 7,
};
/// The tables that "own" and "other" may change, and both may read.
const TABLES: [ObjectId; 2] = [ObjectId(5), ObjectId(6)];

/// The client of a grant, to which some bytes are open.
struct Client(&'static str, Range<u64>);

impl Caller for Client {
    fn check(&self, bytes: Range<u64>, needed: Rights) -> Result<()> {
        if self.1.start <= bytes.start && bytes.end <= self.1.end {
            return Ok(());
        }
        Err(FabricError::AccessDenied {
            at: RemoteAddr {
                node: NodeId(0),
                region: RegionId(0),
                offset: bytes.start,
            },
            needed,
            granted: Rights::NONE,
        })
    }

    fn grant(&self) -> Option<&str> {
        Some(self.0)
    }
}

/// Two tables, one behind the other.
struct Two;

fn shape(table: usize) -> Shape {
    let at = table as u64 * SHAPE.bytes();
    Shape { at, ..SHAPE }
}

impl Tables for Two {
    fn find(&self, object: ObjectId, asked: Asked<'_>) -> std::result::Result<Option<Kept>, Fault> {
        let Some(table) = TABLES.iter().position(|id| *id == object) else {
            return Ok(None);
        };
        let shape = shape(table);
        let bytes = shape.at..shape.at + shape.bytes();
        let is_open = asked.needed == Rights::NONE || asked.needed == Rights::READ;
        if !is_open && asked.caller.check(bytes, asked.needed).is_err() {
            return Err(Fault::Refused(DENIED));
        }
        Ok(Some(Kept::Keyed(
            Table::new(shape).expect("a shape").into(),
        )))
    }
}

/// Memory whose owner has room for so many bytes of notes, if it is kept.
struct NotingMemory {
    words: PlainMemory,
    room: Option<usize>,
}

impl OwnerMemory for NotingMemory {
    fn bytes(&self) -> u64 {
        self.words.bytes()
    }
    fn load(&self, offset: u64) -> Result<u64> {
        self.words.load(offset)
    }
    fn store(&mut self, offset: u64, value: u64) -> Result<()> {
        self.words.store(offset, value)
    }
    fn compare_swap(&mut self, offset: u64, expected: u64, new: u64) -> Result<u64> {
        self.words.compare_swap(offset, expected, new)
    }
    fn copy_out(&self, offset: u64, into: &mut [u64]) -> Result<()> {
        self.words.copy_out(offset, into)
    }
    fn copy_in(&mut self, offset: u64, words: &[u64]) -> Result<()> {
        self.words.copy_in(offset, words)
    }
    fn room_for_notes(&self) -> Option<usize> {
        self.room
    }
}

struct Node {
    owner: Owner,
    memory: NotingMemory,
    now: u64,
}

impl Node {
    fn new() -> Self {
        Self {
            owner: Owner::new(Arc::new(Two), OwnerOptions::default()),
            memory: NotingMemory {
                words: PlainMemory::of(2 * SHAPE.bytes()),
                room: None,
            },
            now: 1_000,
        }
    }

    fn turn<T>(&mut self, client: &Client, run: impl FnOnce(RequestTurn<'_>) -> T) -> T {
        let mut request = Request {
            body: &[],
            region: RegionId(0),
            memory: &mut self.memory,
            now: self.now,
            session: 1,
            caller: client,
        };
        run(RequestTurn::new(&self.owner, &mut request, CHANGES))
    }

    /// Opens a transaction with its home here, and locks a key of a table.
    fn lock(&mut self, client: &Client, table: ObjectId, key: &[u8]) -> Lock {
        let opened = self.turn(client, |mut turn| turn.open(0)).expect("names");
        let lock = Reader(&opened[1..]).lock().expect("a name");
        let locked = self.lock_as(client, lock, table, key).expect("a lock");
        assert_eq!(locked[0], OwnerStatus::Done as u8);
        lock
    }

    fn lock_as(
        &mut self,
        client: &Client,
        lock: Lock,
        table: ObjectId,
        key: &[u8],
    ) -> std::result::Result<Vec<u8>, Fault> {
        self.turn(client, |mut turn| {
            let may_open = turn.may_begin(lock, true);
            turn.lock(
                (lock, TransactionHome::default()),
                may_open,
                (table.0, key),
                64,
            )
        })
    }
}

fn clients() -> [Client; 3] {
    let bytes = SHAPE.bytes();
    [
        Client("own", 0..bytes),
        Client("other", bytes..2 * bytes),
        Client("operator", 0..2 * bytes),
    ]
}

fn is_denied<T>(end: &std::result::Result<T, Fault>) -> bool {
    matches!(end, Err(Fault::Refused(DENIED)))
}

#[test]
fn a_client_of_another_grant_ends_no_transaction_and_learns_nothing_of_it() {
    let [holder, other, operator] = clients();
    let mut node = Node::new();
    let lock = node.lock(&holder, TABLES[0], b"key");
    let mut part = Vec::new();
    let write = Write {
        object: TABLES[0].0,
        key: b"key",
        value: Some(b"mine"),
    };
    put_write(&mut part, write);
    let forged = [(1, &part[..])];
    assert!(is_denied(&node.turn(&other, |mut turn| turn.decide(
        lock,
        &[],
        &forged
    ))));
    assert!(is_denied(
        &node.turn(&other, |mut turn| turn.finish(lock, &[]))
    ));
    assert!(is_denied(&node.turn(&other, |mut turn| turn.abort(lock))));
    // Nor does one hold anything in its name, or commit under it.
    assert!(is_denied(&node.lock_as(&other, lock, TABLES[1], b"key")));
    let mut own_part = Vec::new();
    put_write(
        &mut own_part,
        Write {
            object: TABLES[1].0,
            ..write
        },
    );
    let end = node.turn(&other, |mut turn| turn.commit(lock, &[], &own_part));
    assert!(end.is_err());
    // Its client commits it.
    let end = node.turn(&holder, |mut turn| turn.decide(lock, &part, &forged));
    assert_eq!(end, Ok(OwnerStatus::Done));
    // What is left to do elsewhere is told to those who may do anything, and to its own grant.
    let resolved = |node: &mut Node, client: &Client| {
        let resolved = node.turn(client, |mut turn| turn.resolve(lock, 1, 1_000));
        resolved.expect("an answer")
    };
    assert_eq!(resolved(&mut node, &other), [OwnerStatus::Running as u8]);
    node.turn(&other, |mut turn| turn.forget(lock, Some(1)));
    node.now += 1_000_000_000;
    assert_eq!(node.turn(&other, |turn| turn.unfinished(100)).len(), 1);
    for client in [&holder, &operator] {
        assert_eq!(resolved(&mut node, client)[1..], part);
        assert!(node.turn(client, |turn| turn.unfinished(100)).len() > 1);
    }
    node.turn(&holder, |mut turn| turn.forget(lock, Some(1)));
    assert_eq!(resolved(&mut node, &holder), [OwnerStatus::Aborted as u8]);
}

#[test]
fn a_commit_needs_the_right_to_read_what_it_reads_and_to_change_what_it_changes() {
    let [holder, ..] = clients();
    let mut node = Node::new();
    let lock = node.lock(&holder, TABLES[0], b"key");
    assert_eq!(node.turn(&holder, |mut turn| turn.abort(lock)), Ok(()));
    let opened = node.turn(&holder, |mut turn| turn.open(0)).expect("names");
    let name = Reader(&opened[1..]).lock().expect("a name");
    let commit = |node: &mut Node, to: ObjectId| {
        let (mut part, key) = (Vec::new(), &b"key"[..]);
        let value = Some(&b"1"[..]);
        put_write(
            &mut part,
            Write {
                object: to.0,
                key,
                value,
            },
        );
        let seen = crate::wire::KeyVersion {
            object: TABLES[1].0,
            key,
            version: None,
        };
        node.turn(&holder, |mut turn| turn.commit(name, &[seen], &part))
    };
    assert_eq!(
        commit(&mut node, TABLES[0]),
        Ok(vec![OwnerStatus::Done as u8])
    );
    assert!(is_denied(&commit(&mut node, TABLES[1])));
}

#[test]
fn decisions_have_a_bound_in_bytes_of_which_a_grant_has_half() {
    let [holder, other, _] = clients();
    let mut node = Node::new();
    node.owner = Owner::new(
        Arc::new(Two),
        OwnerOptions {
            decision_bytes: 1_000,
            ..OwnerOptions::default()
        },
    );
    let part = [0; 400];
    let other_parts = [(1, &part[..])];
    for (client, table, ends) in [
        (&holder, TABLES[0], [OwnerStatus::Done, OwnerStatus::Full]),
        (&other, TABLES[1], [OwnerStatus::Done, OwnerStatus::Full]),
    ] {
        for (number, expected) in ends.into_iter().enumerate() {
            let lock = node.lock(client, table, &[number as u8]);
            let end = node.turn(client, |mut turn| turn.decide(lock, &[], &other_parts));
            assert_eq!(end, Ok(expected));
        }
    }
}

#[test]
fn books_are_crowded_no_longer_than_there_is_too_much() {
    let [holder, other, _] = clients();
    let mut node = Node::new();
    node.memory.room = Some(usize::MAX);
    let crowded = |node: &mut Node, lock: Lock| {
        let mut books = node.owner.books(&mut node.memory, node.now);
        // Of a table that is gone.
        let begin = || unreachable!("it holds something");
        assert!(books.hold(lock.word(), (7, &[0; MOST_NOTED]), 0, begin));
    };
    // Whoever holds much gives it back.
    let lock = node.lock(&holder, TABLES[0], b"key");
    crowded(&mut node, lock);
    let opened = node.turn(&other, |mut turn| turn.open(0)).expect("names");
    let name = Reader(&opened[1..]).lock().expect("a name");
    let status = |node: &mut Node| node.lock_as(&other, name, TABLES[1], b"key").unwrap()[0];
    assert_eq!(status(&mut node), OwnerStatus::Crowded as u8);
    assert_eq!(node.turn(&holder, |mut turn| turn.abort(lock)), Ok(()));
    assert_eq!(status(&mut node), OwnerStatus::Done as u8);
    // Or is gone, and nobody wants its keys.
    let lock = node.lock(&holder, TABLES[0], b"key");
    crowded(&mut node, lock);
    node.now += 2 * node.owner.options.lease;
    node.lock(&other, TABLES[1], b"another");
    let books = node.owner.books(&mut node.memory, node.now);
    assert_eq!(books.held.len(), 1, "what is over is given up");
}

#[test]
fn what_is_noted_of_locks_has_a_bound_of_which_a_grant_has_half() {
    let [holder, other, _] = clients();
    let mut node = Node::new();
    node.memory.room = Some(usize::MAX);
    let lock = node.lock(&holder, TABLES[0], b"key");
    let mut keys = (0..3_000_u16).map(|number| [&number.to_le_bytes()[..], &[7; 998]].concat());
    let refused = keys.find_map(|key| {
        let reply = node.lock_as(&holder, lock, TABLES[0], &key).unwrap();
        (reply[0] != OwnerStatus::Done as u8).then_some(reply)
    });
    // It is all of one transaction, which is never to be had.
    let reply = refused.unwrap();
    let limit = MOST_NOTED / 2;
    let words = [1, 9].map(|at| u64::from_le_bytes(reply[at..at + 8].try_into().unwrap()) as usize);
    assert_eq!((reply[0], words[1]), (OwnerStatus::TooLarge as u8, limit));
    assert!((limit..limit + 2_000).contains(&words[0]), "{words:?}");
    // Another of the same grant may be tried again.
    let next = Lock {
        epoch: lock.epoch + 1,
        ..lock
    };
    let reply = node.lock_as(&holder, next, TABLES[0], b"another");
    let crowded = put_limit(OwnerStatus::Crowded, words[0], limit);
    assert_eq!(reply, Ok(crowded));
    // All is noted anew.
    node.memory.room = Some(0);
    node.lock(&other, TABLES[1], b"key");
}

#[test]
fn parts_without_bytes_count_in_that_bound() {
    let [holder, ..] = clients();
    let mut node = Node::new();
    let decision_bytes = 64 << 10;
    node.owner = Owner::new(
        Arc::new(Two),
        OwnerOptions {
            decision_bytes,
            ..OwnerOptions::default()
        },
    );
    let nothing: Vec<(u8, &[u8])> = (1..=255).map(|node| (node, &[][..])).collect();
    let part = size_of::<(u8, Box<[u8]>)>();
    let most = decision_bytes / (nothing.len() * part);
    let ends = (0..=most as u8).map(|number| {
        let lock = node.lock(&holder, TABLES[0], &[number]);
        node.turn(&holder, |mut turn| turn.decide(lock, &[], &nothing))
    });
    assert!(ends.collect::<Vec<_>>().contains(&Ok(OwnerStatus::Full)));
}

#[test]
fn who_meets_a_lock_is_told_of_its_home() {
    let [holder, _, operator] = clients();
    let mut node = Node::new();
    let opened = node.turn(&holder, |mut turn| turn.open(0)).expect("names");
    let lock = Reader(&opened[1..]).lock().expect("a name");
    let home = TransactionHome {
        incarnation: 99,
        nodes: 3,
        at: 2,
    };
    let locked = node.turn(&holder, |mut turn| {
        turn.lock((lock, home), true, (TABLES[0].0, b"key"), 64)
    });
    locked.expect("a lock");
    let met = Lock {
        epoch: lock.epoch + 1,
        ..lock
    };
    let answer = node.turn(&operator, |mut turn| {
        turn.lock((met, home), true, (TABLES[0].0, b"key"), 64)
    });
    let answer = answer.expect("an answer");
    assert_eq!(answer[0], OwnerStatus::Locked as u8);
    let holder = Reader(&answer[1..]).holder();
    let expected = LockHolder {
        lock,
        is_over: false,
        home,
    };
    assert_eq!(holder, Some(expected));
}

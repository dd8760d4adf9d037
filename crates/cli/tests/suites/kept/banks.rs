//! Transactions over two nodes that are killed and go on.

use super::Keep;
use farslot::{ErrorKind, Store, StoreError};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ACCOUNTS: u64 = 40;
const FIRST: i64 = 100;

fn account(number: u64) -> Vec<u8> {
    format!("account-{number}").into_bytes()
}

fn cents(value: Option<Vec<u8>>) -> i64 {
    value.map_or(0, |value| i64::from_le_bytes(value.try_into().unwrap()))
}

/// Moves of a client, by their entries in the ledger.
#[derive(Default)]
struct Moves {
    acknowledged: Vec<(Vec<u8>, [u8; 2])>,
    in_doubt: Vec<(Vec<u8>, [u8; 2])>,
}

/// Moves cents, and writes each move into the ledger, until told to end.
fn move_cents(address: &str, client: u64, moved: &AtomicU64, ends: &AtomicBool) -> Moves {
    let store = Store::open(address).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(client);
    let mut moves = Moves::default();
    for step in 0_u64.. {
        if ends.load(Ordering::Acquire) {
            break;
        }
        let from = random.next_u64() % ACCOUNTS;
        let to = (from + 1 + random.next_u64() % (ACCOUNTS - 1)) % ACCOUNTS;
        let entry = format!("{client}-{step:08}").into_bytes();
        let both = [from as u8, to as u8];
        let done = store.transaction(|t| {
            let left = cents(t.get("accounts", &account(from))?) - 1;
            let more = cents(t.get("accounts", &account(to))?) + 1;
            t.put("accounts", &account(from), &left.to_le_bytes())?;
            t.put("accounts", &account(to), &more.to_le_bytes())?;
            t.put("ledger", &entry, &both)
        });
        match done {
            Ok(()) => {
                moves.acknowledged.push((entry, both));
                moved.fetch_add(1, Ordering::AcqRel);
            }
            Err(error) => {
                check_passing(&error);
                if error.may_have_taken_effect() {
                    moves.in_doubt.push((entry, both));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    moves
}

fn check_passing(error: &StoreError) {
    let passing = [ErrorKind::NodeDown, ErrorKind::Contended];
    let is_passing = passing.contains(&error.kind()) || error.may_have_taken_effect();
    assert!(is_passing, "{error}");
}

/// Does something once all nodes are there and nobody holds anything.
fn patiently<T>(mut attempt: impl FnMut() -> farslot::Result<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => {
                check_passing(&error);
                assert!(Instant::now() < until, "{error}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn moves_over_nodes_that_are_killed(kills: u32, seed: u64) {
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let keeps = [Keep::new(), Keep::new()];
    let mut nodes = keeps.each_ref().map(Keep::start);
    let [first, second] = keeps.each_ref().map(|keep| keep.addresses[1].clone());
    let address = format!("{first},{}", second.strip_prefix("tcp://").unwrap());
    for (name, scheme) in [("accounts", "chained"), ("ledger", "ordered")] {
        let mut create = crate::common::farslot(["-a", &address, "create", name]);
        create.args(["--scheme", scheme, "--capacity", "100000"]);
        let made = create
            .args(["--max-key", "24", "--max-value", "8"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", crate::common::error_of(&made));
    }
    let store = Store::open(&address).unwrap();
    let accounts = store.table("accounts").unwrap();
    for number in 0..ACCOUNTS {
        accounts
            .put(&account(number), &FIRST.to_le_bytes())
            .unwrap();
    }
    let (moved, ends) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let clients = (0..3).map(|client| {
        let (address, moved, ends) = (address.clone(), Arc::clone(&moved), Arc::clone(&ends));
        std::thread::spawn(move || move_cents(&address, client, &moved, &ends))
    });
    let clients: Vec<_> = clients.collect();
    for _ in 0..kills {
        let goal = moved.load(Ordering::Acquire) + 20;
        let until = Instant::now() + Duration::from_secs(60);
        while moved.load(Ordering::Acquire) < goal {
            assert!(Instant::now() < until, "no client goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(random.next_u64() % 20));
        let one = (random.next_u64() % 2) as usize;
        nodes[one].kill();
        nodes[one] = keeps[one].start();
    }
    ends.store(true, Ordering::Release);
    let moves: Vec<_> = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .collect();
    // What was decided and is not finished is finished by whoever meets it, a lease later.
    let (has, ledger) = patiently(|| {
        store.transaction(|t| {
            let numbers = 0..ACCOUNTS;
            let has = numbers.map(|number| Ok(cents(t.get("accounts", &account(number))?)));
            let has = has.collect::<farslot::Result<Vec<_>>>()?;
            Ok((has, t.scan("ledger", b"", usize::MAX)?))
        })
    });
    let ledger: BTreeMap<_, _> = ledger.into_iter().collect();
    let mut expected = vec![FIRST; ACCOUNTS as usize];
    for both in ledger.values() {
        expected[usize::from(both[0])] -= 1;
        expected[usize::from(both[1])] += 1;
    }
    assert_eq!(has, expected, "the ledger and the accounts differ");
    let mut known = 0;
    for Moves {
        acknowledged,
        in_doubt,
    } in &moves
    {
        for (entry, both) in acknowledged {
            let name = String::from_utf8_lossy(entry);
            assert_eq!(
                ledger.get(entry).map(|both| &both[..]),
                Some(&both[..]),
                "{name}"
            );
            known += 1;
        }
        known += in_doubt
            .iter()
            .filter(|(entry, _)| ledger.contains_key(entry))
            .count();
    }
    assert_eq!(known, ledger.len(), "what nobody moved is in the ledger");
    println!(
        "{kills} kills, {} moves, of which {} were in doubt",
        ledger.len(),
        moves
            .iter()
            .map(|moves| moves.in_doubt.len())
            .sum::<usize>()
    );
    drop(nodes);
}

#[test]
fn transactions_over_nodes_that_are_killed_are_done_as_a_whole() {
    moves_over_nodes_that_are_killed(12, 1);
}

/// `cargo test --release -p farslot-cli --test suites -- --ignored --nocapture three_hundred`
#[test]
#[ignore = "a minute or two"]
fn transactions_over_nodes_that_are_killed_three_hundred_times_are_done_as_a_whole() {
    moves_over_nodes_that_are_killed(300, 2);
}

//! Transactions over tables of three nodes, by real processes that are killed at any moment.

use crate::common::open;
use crate::roles::Other;
use farslot::{ErrorKind, FieldSize, Result, Store, TableOptions, Transaction};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const ACCOUNTS: u8 = 12;
const CENTS: u64 = 1_000;
/// The client that is not killed before the end. It leaves room for others.
const LASTING: u32 = 0;
/// After this everything is done that a client that was killed has left.
const LONG: Duration = Duration::from_secs(30);

fn small() -> TableOptions {
    TableOptions::new(100_000)
        .keys(FieldSize::UpTo(8))
        .values(FieldSize::UpTo(16))
}

fn cents(t: &mut Transaction, account: u8) -> Result<u64> {
    let value = t.get("accounts", &[account])?.expect("it is there");
    Ok(u64::from_le_bytes(value.try_into().expect("8 bytes")))
}

/// Moves cents, and writes that down in the ledger, in the same transaction.
fn transfer(store: &Store, [from, to]: [u8; 2], entry: [u8; 8]) -> Result<()> {
    store.transaction(|t| {
        let (has, others) = (cents(t, from)?, cents(t, to)?);
        let some = has.min(1 + u64::from(entry[7]) % 9);
        t.put("accounts", &[from], &(has - some).to_le_bytes())?;
        t.put("accounts", &[to], &(others + some).to_le_bytes())?;
        t.put("ledger", &entry, &[from, to, some as u8])
    })
}

/// What a client does that is to be killed.
pub fn transfer_for_ever(store: &Store, client: u32) {
    let mut rng = ChaCha8Rng::seed_from_u64(client.into());
    for number in 0_u32.. {
        let first = rng.random_range(0..ACCOUNTS);
        let other = (first + rng.random_range(1..ACCOUNTS)) % ACCOUNTS;
        let mut entry = [0; 8];
        entry[..4].copy_from_slice(&client.to_be_bytes());
        entry[4..].copy_from_slice(&number.to_be_bytes());
        match transfer(store, [first, other], entry) {
            Ok(()) => {}
            // Others were in the way for too long: nothing was moved.
            Err(error) if error.kind() == ErrorKind::Contended => {}
            Err(error) => panic!("client {client}: {error}"),
        }
        if number == 0 {
            println!("under way");
        }
        if client == LASTING {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// What all accounts have, at one moment, is what the ledger says at the same.
fn check(store: &Store) -> Result<usize> {
    let (accounts, ledger) = store.transaction(|t| {
        let accounts = (0..ACCOUNTS).map(|account| cents(t, account));
        let accounts = accounts.collect::<Result<Vec<_>>>()?;
        Ok((accounts, t.scan("ledger", b"", usize::MAX)?))
    })?;
    let begun = (0..ACCOUNTS).map(|account| (account, CENTS));
    let mut expected: BTreeMap<u8, u64> = begun.collect();
    let mut moves = BTreeMap::new();
    for (_, entry) in &ledger {
        let [from, to, some] = entry[..] else {
            panic!("an entry of {} bytes", entry.len());
        };
        *moves.entry(from).or_insert(0) -= i64::from(some);
        *moves.entry(to).or_insert(0) += i64::from(some);
    }
    for (account, moved) in moves {
        let has = expected.get_mut(&account).expect("an account");
        *has = has
            .checked_add_signed(moved)
            .expect("no account is overdrawn");
    }
    assert!(
        accounts.iter().eq(expected.values()),
        "{accounts:?}, {expected:?}"
    );
    Ok(ledger.len())
}

/// Clients at these nodes move cents and are killed, so many of them.
fn kill_clients([one, two, three]: [&str; 3], kills: u32) {
    let owners = [one, two, three].map(Other::owner);
    let addresses = owners.each_ref().map(|(_, address)| address.as_str());
    let scheme = addresses[0].split_once("://").expect("a scheme").0;
    let all = addresses.join(",").replace(&format!(",{scheme}://"), ",");
    let store = open(&all).unwrap();
    store.create("accounts", &small().chained()).unwrap();
    store.create("ledger", &small().ordered()).unwrap();
    let table = store.table("accounts").unwrap();
    for account in 0..ACCOUNTS {
        table.put(&[account], &CENTS.to_le_bytes()).unwrap();
    }
    // One goes on while the others are killed.
    let mut lasting = Other::start("banker", &all, &LASTING.to_string());
    lasting.wait_for("under way");
    let mut looks = 0;
    for client in 1..=kills {
        let mut banker = Other::start("banker", &all, &client.to_string());
        banker.wait_for("under way");
        std::thread::sleep(Duration::from_micros(u64::from(client) * 7_919 % 20_000));
        banker.kill();
        // A look beside one that writes all the time may fail, but is never wrong.
        match check(&store) {
            Ok(_) => looks += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Contended, "{error}"),
        }
    }
    lasting.kill();
    let begun = Instant::now();
    let entries = loop {
        match check(&store) {
            Ok(entries) => break entries,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Contended, "{error}"),
        }
        assert!(begun.elapsed() < LONG, "keys stay locked");
    };
    println!("{kills} kills, {entries} transfers, {looks} looks meanwhile");
    assert!(entries > kills as usize);
    // Nobody is in the way of one who writes all keys, without a transaction.
    for account in 0..ACCOUNTS {
        assert!(table.update(&[account], &CENTS.to_le_bytes()).unwrap());
    }
}

const BY_TCP: [&str; 3] = ["tcp://127.0.0.1:0"; 3];

#[test]
fn killed_clients_over_tcp_move_all_or_nothing() {
    kill_clients(BY_TCP, 12);
}

#[test]
fn killed_clients_in_shared_memory_move_all_or_nothing() {
    let names = [1, 2, 3].map(|node| format!("shm://banks-{}-{node}", std::process::id()));
    kill_clients(names.each_ref().map(String::as_str), 8);
}

#[test]
#[ignore = "some minutes"]
fn two_hundred_killed_clients_move_all_or_nothing() {
    kill_clients(BY_TCP, 200);
}

//! Tables that are made, filled, cleared and dropped for a long time, by many threads at once.

use farslot::{Server, Store, Table, TableOptions};
use std::thread;

const MEMORY: u64 = 128 << 20;
/// Tables that are there all along and are cleared now and then, as Redis's databases are.
const DATABASES: u64 = 16;
/// Names of those that come and go.
const NAMES: u64 = 100;
const THREADS: u64 = 8;
const PUTS: u64 = 125;
/// A database is cleared after so many rounds.
const EMPTIED_AFTER: u64 = 4;
const SIZES: [usize; 7] = [10, 100, 1_000, 30, 5_000, 60_000, 300];

fn value(round: u64, number: u64) -> Vec<u8> {
    let len = SIZES[((round + number) % SIZES.len() as u64) as usize];
    vec![(round * 31 + number) as u8; len]
}

fn fill(table: &Table, round: u64) {
    for number in 0..PUTS {
        table
            .put(&number.to_le_bytes(), &value(round, number))
            .unwrap();
    }
}

fn check(table: &Table, round: u64) {
    for number in 0..PUTS {
        let found = table.get(&number.to_le_bytes()).unwrap();
        assert_eq!(found, Some(value(round, number)), "{number} of {round}");
    }
}

/// What one thread does in a round.
fn work(store: &Store, thread: u64, round: u64) {
    let name = format!("t{}", (round * THREADS + thread) % NAMES);
    store.create(&name, &TableOptions::default()).unwrap();
    let table = store.table(&name).unwrap();
    fill(&table, round);
    for database in (thread..DATABASES).step_by(THREADS as usize) {
        let name = format!("db{database}");
        if (round + database).is_multiple_of(EMPTIED_AFTER) {
            store.clear(&name).unwrap();
        }
        let table = store.table(&name).unwrap();
        fill(&table, round);
        check(&table, round);
        table.close().unwrap();
    }
    check(&table, round);
    table.close().unwrap();
    store.drop_table(&name).unwrap();
}

/// What is free at the end is what was free at the beginning.
fn rounds_leave_nothing(address: &str) {
    let rounds = std::env::var("FARSLOT_ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    let server = Server::start(address, MEMORY).unwrap();
    let address = server.addresses()[0].to_string();
    let store = Store::open(&address).unwrap();
    let before = store.memory().unwrap();
    for database in 0..DATABASES {
        let name = format!("db{database}");
        store.create(&name, &TableOptions::default()).unwrap();
    }
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let address = &address;
            scope.spawn(move || {
                let store = Store::open(address).unwrap();
                for round in 0..rounds {
                    work(&store, thread, round);
                }
            });
        }
    });
    for database in 0..DATABASES {
        store.drop_table(&format!("db{database}")).unwrap();
    }
    let puts = rounds * THREADS * PUTS * (1 + DATABASES / THREADS);
    println!(
        "{rounds} rounds, {puts} puts: {:?}",
        store.memory().unwrap()
    );
    assert_eq!(store.memory().unwrap(), before);
}

#[test]
#[ignore = "takes minutes"]
fn rounds_leave_nothing_in_shared_memory() {
    rounds_leave_nothing(&format!("shm://farslot-rounds-{}", std::process::id()));
}

#[test]
#[ignore = "takes minutes"]
fn rounds_leave_nothing_over_tcp() {
    rounds_leave_nothing("tcp://127.0.0.1:0");
}

//! What the other processes of these tests do: a test that needs one starts this binary again with
//! a role.

use farslot::index::IndexError;
use farslot::{
    Access, ErrorKind, FieldSize, OpenOptions, Server, Store, StoreError, Table, TableOptions,
};
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

const ROLE: &str = "FARSLOT_TEST_ROLE";
const ADDRESS: &str = "FARSLOT_TEST_ADDRESS";
const TABLE: &str = "FARSLOT_TEST_TABLE";

/// Another process at work. It is killed when this is dropped.
pub struct Other {
    pub process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Starts one with a role, at a store's address, for a table.
    pub fn start(role: &str, address: &str, table: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "other_process", "--nocapture"])
            .envs([(ROLE, role), (ADDRESS, address), (TABLE, table)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// Starts one that lends memory at an address; returns it, and the address with its port.
    pub fn owner(address: &str) -> (Self, String) {
        let mut owner = Self::start("owner", address, "");
        let address = owner.wait_for("serving at ");
        (owner, address)
    }

    /// Waits until it says a line with this; returns what follows.
    pub fn wait_for(&mut self, word: &str) -> String {
        let line = self.lines.find_map(|line| {
            let line = line.unwrap();
            line.split_once(word).map(|(_, rest)| rest.to_owned())
        });
        line.unwrap_or_else(|| panic!("it never said {word:?}"))
    }

    /// What follows this in each line that it has said and was not waited for, once it has ended.
    pub fn rest(&mut self, word: &str) -> Vec<String> {
        let lines = self.lines.by_ref().map_while(std::io::Result::ok);
        let rest = lines.filter_map(|line| Some(line.split_once(word)?.1.to_owned()));
        rest.collect()
    }

    /// Gives it a line on its standard input.
    pub fn go_on(&mut self) {
        writeln!(self.process.stdin.as_mut().unwrap()).unwrap();
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Closes its standard input and waits for its end.
    pub fn end(&mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Plays the role that this process was started with, if it was.
pub fn play() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let [address, name] = [ADDRESS, TABLE].map(|variable| std::env::var(variable).unwrap());
    // By verbs alone, beside the tests themselves, who call the owner where they can.
    let options = || OpenOptions {
        access: Access::Reads,
        ..crate::common::patient()
    };
    let store = || Store::open_with(&address, options()).unwrap();
    let table = || store().table(&name).unwrap();
    match role.as_str() {
        "owner" => {
            let server = Server::start(&address, 64 << 20).unwrap();
            println!("serving at {}", server.addresses()[0]);
            wait_for_the_end();
        }
        "writer" => write_for_ever(&table()),
        "writer in two parts" => write_in_two_parts(&table()),
        "writer of batches" => crate::nodes::put_for_ever(&table()),
        "pusher" => crate::queues::push_for_ever(&address, &name),
        "popper" => crate::queues::pop_for_ever(&address, &name),
        "putter" => crate::sets::put_all(&address, &name),
        "reader" => read_the_lasting(&table()),
        "builder" => build_numbers(&store(), &name),
        "churner" => churn_for_ever(&table()),
        "clean writer" => {
            table().put(&[7; 8], &value_of(7)).unwrap();
            // Dropped, not closed.
        }
        "writer by calls" => {
            let store = Store::open_with(&address, crate::common::patient()).unwrap();
            write_for_ever(&store.table(&name).unwrap());
        }
        "one of many" if name.parse::<u64>().is_ok_and(|number| number % 2 == 1) => {
            let store = Store::open_with(&address, crate::common::patient()).unwrap();
            crate::together::one_of_many(&store, name.parse().unwrap());
        }
        "one of many" => crate::together::one_of_many(&store(), name.parse().unwrap()),
        "banker" => {
            let store = Store::open_with(&address, crate::common::patient()).unwrap();
            crate::banks::transfer_for_ever(&store, name.parse().unwrap());
        }
        other => panic!("no role {other:?}"),
    }
}

/// How often a writer that was deposed tries to write.
pub const REFUSALS: u64 = 6_000;

/// Writes, waits to be told to go on, tries to write as one that was deposed, waits again, and
/// writes as a new writer.
fn write_in_two_parts(table: &Table) {
    // A third of the keys, so that half of what follows is insertions and half is not.
    for number in (0..2_000u64).filter(|number| number % 3 == 0) {
        let key = number.to_le_bytes();
        table.put(&key, &value_of(number)).unwrap();
        table.put(&key, &value_of(number + 1)).unwrap();
    }
    // What it holds of the heap afterwards.
    for number in (0..2_000u64).filter(|number| number % 9 == 0) {
        assert!(table.remove(&number.to_le_bytes()).unwrap());
    }
    println!("under way");
    wait_for_the_end();
    for number in 0..REFUSALS {
        let key = (number % 4_000).to_le_bytes();
        let refused = match number % 7 {
            6 => table.remove(&key).map(drop),
            5 => table.update(&key, &value_of(number)).map(drop),
            _ => table.put(&key, &value_of(number)).map(drop),
        };
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::WriterBusy);
    }
    println!("{REFUSALS} refused");
    wait_for_the_end();
    for number in (0..2_000u64).filter(|number| number % 2 == 0) {
        assert!(table.put(&number.to_le_bytes(), &value_of(number)).unwrap());
    }
    println!("written again");
    wait_for_the_end();
}

/// Until standard input closes, or has a line.
fn wait_for_the_end() {
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Keys that churners put and remove.
pub const CHURNED: std::ops::Range<u64> = 0..200;

/// Puts and removes records of up to 1,000 bytes.
fn churn_for_ever(table: &Table) {
    let mut random = u64::from(std::process::id());
    for turn in 0u64.. {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let key = ((random >> 33) % CHURNED.end).to_le_bytes();
        if random >> 63 == 0 {
            table.remove(&key).unwrap();
        } else {
            let value = vec![turn as u8; (random >> 40) as usize % 1_001];
            match table.put(&key, &value) {
                Ok(_) => {}
                Err(StoreError::NoRoom(no_room)) => {
                    assert!(matches!(no_room.cause, IndexError::HeapFull { .. }));
                }
                Err(error) => panic!("{error}"),
            }
        }
        if turn == 50 {
            println!("under way");
        }
    }
}

/// Keys that are never removed while others come and go.
pub const LASTING: std::ops::Range<u64> = 1_000_000..1_001_000;

/// Looks the lasting keys up until standard input closes: each must be there, whole.
fn read_the_lasting(table: &Table) {
    let (closed, is_closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        wait_for_the_end();
        closed.send(()).unwrap();
    });
    println!("under way");
    let mut rounds = 0;
    while is_closed.try_recv().is_err() {
        for number in LASTING {
            let value = table.get(&number.to_le_bytes()).unwrap();
            assert_eq!(
                value.as_deref(),
                Some(&value_of(number)[..]),
                "key {number}"
            );
        }
        rounds += 1;
    }
    println!("looked {rounds} times");
}

/// How far a writer is when it says that it is under way.
const UNDER_WAY: u64 = 5_000;

fn write_for_ever(table: &Table) {
    for number in 0u64.. {
        let key = (number % 2_000).to_le_bytes();
        match number % 7 {
            6 => drop(table.remove(&key).unwrap()),
            _ => drop(table.put(&key, &value_of(number)).unwrap()),
        }
        if number == UNDER_WAY {
            println!("under way");
        }
    }
}

/// A value that shows whether it is whole: 48 bytes of one number.
pub fn value_of(number: u64) -> [u8; 48] {
    let mut value = [0; 48];
    value
        .chunks_exact_mut(8)
        .for_each(|word| word.copy_from_slice(&number.to_le_bytes()));
    value
}

pub fn is_whole(value: &[u8]) -> bool {
    value.len() == 48 && value.chunks_exact(8).all(|word| word == &value[..8])
}

/// Records of a table that a builder builds.
pub const BUILT: u64 = 100_000;

/// Builds a sealed table of numbered records.
fn build_numbers(store: &Store, table: &str) {
    let records: Vec<_> = (0..BUILT)
        .map(|number| (number.to_le_bytes(), value_of(number)))
        .collect();
    let records: Vec<(&[u8], &[u8])> = records
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    let options = TableOptions::new(1)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(48))
        .sealed();
    assert_eq!(store.build(table, &options, &records), Ok(BUILT));
}

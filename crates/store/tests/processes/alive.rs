//! Writers that are taken over from while their process is alive: running, stopped, and dying.

use crate::common::Served;
use crate::killed::{cuckoo, duo, impatient};
use crate::roles::{Other, REFUSALS, value_of};
use farslot::index::IndexError;
use farslot::{ErrorKind, SlotKind, Store, StoreError, Table, TableOptions};
use farslot_testbed::Fabric;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Keys that the writers put, and as many more.
const KEYS: std::ops::Range<u64> = 0..4_000;

fn pid_of(other: &Other) -> Pid {
    Pid::from_raw(other.process.id().cast_signed()).unwrap()
}

/// Stops a process, and waits until it is stopped.
fn stop(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
    waitid(WaitId::Pid(process), WaitIdOptions::STOPPED).unwrap();
}

/// A table whose writer is another process, which waits to be told to go on.
fn written_by_another<S: Served>(node: &S, options: &TableOptions) -> (Store, Table, Other) {
    let store = Store::open_with(&node.address(), impatient()).unwrap();
    store.create("t", options).unwrap();
    let mut writer = Other::start("writer in two parts", &node.address(), "t");
    writer.wait_for("under way");
    let table = store.table("t").unwrap();
    (store, table, writer)
}

/// Takes over without force, where that is refused.
fn is_refused(table: &Table, pid: u32) {
    let refused = table.take_over().unwrap_err();
    let writer = table.writer().unwrap().unwrap();
    let alive = IndexError::WriterAlive { writer, pid };
    assert_eq!(refused, StoreError::Index(alive));
    assert_eq!(refused.kind(), ErrorKind::WriterBusy);
    assert!(!refused.may_have_taken_effect());
    assert!(refused.to_string().contains(&format!("process {pid}")));
}

pub fn a_writer_that_is_alive_is_replaced_by_force_alone<S: Served>() {
    for options in [
        cuckoo(SlotKind::Inline),
        cuckoo(SlotKind::Heap),
        cuckoo(SlotKind::Signatures),
        duo(SlotKind::Inline),
        duo(SlotKind::Heap),
    ] {
        let node = S::start(64 << 20);
        let (_store, table, mut writer) = written_by_another(&node, &options);
        let (pid, process) = (writer.process.id(), pid_of(&writer));
        // Over a network nobody but the caller knows.
        if S::FABRIC == Fabric::Shm {
            is_refused(&table, pid);
        }
        stop(process);
        if S::FABRIC == Fabric::Shm {
            is_refused(&table, pid);
        }
        table.force_take_over().unwrap();
        let mine = |number: u64| value_of(number + 1_000_000);
        for number in KEYS {
            table.put(&number.to_le_bytes(), &mine(number)).unwrap();
        }
        writer.go_on();
        kill_process(process, Signal::CONT).unwrap();
        writer.wait_for(&format!("{REFUSALS} refused"));
        for number in KEYS {
            let value = table.get(&number.to_le_bytes()).unwrap();
            assert_eq!(value.as_deref(), Some(&mine(number)[..]), "{number}");
        }
        assert_eq!(table.survey().unwrap().live(), KEYS.end);
        // It may be the writer again once this one is not. What it held of the heap as the writer
        // it was, it does not use.
        for number in KEYS.step_by(2) {
            assert!(table.remove(&number.to_le_bytes()).unwrap());
        }
        table.resign().unwrap();
        writer.go_on();
        writer.wait_for("written again");
        for number in KEYS.skip(1).step_by(2) {
            let value = table.get(&number.to_le_bytes()).unwrap();
            assert_eq!(value.as_deref(), Some(&mine(number)[..]), "{number}");
        }
        writer.end();
    }
}

pub fn a_writer_that_was_killed_is_replaced_though_nobody_has_waited_for_it<S: Served>() {
    for options in [cuckoo(SlotKind::Inline), duo(SlotKind::Inline)] {
        let node = S::start(64 << 20);
        let (_store, table, mut writer) = written_by_another(&node, &options);
        writer.process.kill().unwrap();
        // Waits for its end, and leaves it a zombie.
        let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid_of(&writer)), end).unwrap();
        table.take_over().unwrap();
        assert!(table.put(&[9; 8], &value_of(9)).unwrap());
    }
}

//! Tests that count what their process has of the machine: each runs in a process of its own.

use std::process::Command;

/// Whether this process runs one test only, so that what is counted is that test's. If not, the
/// test is run in one that does.
pub fn is_alone(test: &str) -> bool {
    const ALONE: &str = "FARSLOT_TEST_ALONE";
    if std::env::var(ALONE).is_ok() {
        return true;
    }
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let told = alone.args(["--exact", test]).env(ALONE, "").output();
    let told = told.unwrap();
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    false
}

/// Bytes of memory that this process has.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

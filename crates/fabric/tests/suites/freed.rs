//! Freed memory goes back to the system.

use crate::alone::{is_alone, resident_bytes};
use farslot_fabric::give_back_freed;

const MIB: u64 = 1 << 20;
const KEPT: usize = 32 << 20;

#[test]
fn memory_that_a_flood_has_freed_is_given_back() {
    if !is_alone("freed::memory_that_a_flood_has_freed_is_given_back") {
        return;
    }
    let before = resident_bytes();
    let mut flood: Vec<Vec<u8>> = (0..8192).map(|_| vec![1; 32 << 10]).collect();
    // The allocator by itself gives back what lies behind this, and nothing else.
    let last = flood.pop();
    drop(flood);
    let freed = resident_bytes();
    assert!(freed > before + 128 * MIB, "{before} before, {freed} freed");
    assert_eq!(give_back_freed(KEPT), 0);
    let after = resident_bytes();
    assert!(after < before + 32 * MIB, "{before} before, {after} after");
    // There is nothing more to give back.
    assert!(give_back_freed(0) < KEPT);
    drop(last);
}

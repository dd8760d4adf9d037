//! A whole connection to an agent, in memory.
#![no_main]

#[path = "../../crates/fabric/tests/common/fuzz.rs"]
#[allow(dead_code, reason = "each target has one of the bodies")]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::connection(data));

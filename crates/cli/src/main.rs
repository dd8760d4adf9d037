//! The `farslot` program.
fn main() {}

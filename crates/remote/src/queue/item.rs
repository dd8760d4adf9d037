//! What is in a queue.

/// The first item of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Front {
    /// Its position: how many items were added before it.
    pub position: u64,
    /// Its bytes.
    pub value: Vec<u8>,
}

//! What a document may have. The contest's largest nets are below all of these.

/// Bytes of a document.
pub const BYTES: u64 = 256 << 20;
/// Depth of nested elements.
pub const DEPTH: usize = 64;
/// Places, reference places included.
pub const PLACES: usize = 250_000;
/// Transitions, reference transitions included.
pub const TRANSITIONS: usize = 1_000_000;
/// Arcs.
pub const ARCS: usize = 8_000_000;
/// Bytes of an id, a number, or the attributes of an element.
pub const TEXT: usize = 16 << 10;

//! The client's side of calls.

pub(crate) mod asking;
pub(crate) mod calling;
mod single_keys;

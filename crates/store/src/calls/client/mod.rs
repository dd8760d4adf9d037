//! The client's side of calls.

pub(crate) mod asking;
pub(crate) mod calling;
mod retries;
mod single_keys;

//! The owner's side of calls.

mod kept;
pub(crate) mod later;
mod opened;
pub(crate) mod registry;
pub(crate) mod service;
mod telling;

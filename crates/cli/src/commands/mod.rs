//! One module a command: its options, and what it does.

pub(crate) mod accept_loss;
pub(crate) mod advise;
pub(crate) mod atomic;
pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod copy;
pub(crate) mod count;
pub(crate) mod create;
pub(crate) mod del;
pub(crate) mod demo;
pub(crate) mod dump;
pub(crate) mod explore;
pub(crate) mod get;
pub(crate) mod keep;
mod keys;
pub(crate) mod load;
pub(crate) mod manual;
pub(crate) mod nodes;
pub(crate) mod put;
pub(crate) mod queue;
pub(crate) mod repair;
pub(crate) mod repro;
pub(crate) mod restore;
pub(crate) mod scan;
pub(crate) mod serve;
pub(crate) mod slowlog;
pub(crate) mod snapshot;
pub(crate) mod stat;
pub(crate) mod table_args;
pub(crate) mod tables;
pub(crate) mod take_over;
#[cfg(feature = "top")]
pub(crate) mod top;

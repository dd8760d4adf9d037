//! The commands: their names, what their arguments mean, and which of them are keys.

mod expiry;
mod find;
mod request;
mod server;
mod strings;
mod transactions;

pub(crate) use find::{all, find, named};
pub(crate) use request::{
    Command, DatabaseCommand, Moment, ReplyJoin, Request, Session, Transaction,
};

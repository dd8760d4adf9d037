//! An HTTP server for a few pages: one thread, bounded against its clients.
//!
//! At most 64 connections are open; another takes the place of the oldest.
//! A connection has 8 KiB and 5 s for its request, with the handshake where it is under TLS, gets
//! one answer, and has 10 s to take it. So a client that sends or takes slowly holds a place for
//! 15 s at most, and less if others come.

mod answer;
mod connection;
mod event_loop;
mod options;
mod page;
mod request;

pub use options::PageOptions;
pub use page::{Page, PageError};

//! A FIFO queue (paper 003, section 5.5: queues, whose heads clients remember).
//!
//! ```text
//! header   | head, 64 bits | tail, 64 bits |
//! slots    | check | position | length | value, padded |
//! ```
//! Items are numbered by their positions; that of position `p` lies in slot `p mod slots`. A slot's
//! check is over its words and its place, and is 0 once the item is taken. Items are added and
//! taken by calls, several by one if need be.
//!
//! The front is looked at by one READ: a client remembers a position at which the head was. The
//! head only grows, and takes every item in turn; so if the item of that position is still there,
//! it is the front. If not, the owner tells the front, and where it is.
//!
//! Memory of zeros is an empty queue.

mod client;
mod layout;
mod structure;
mod wire;

pub use client::Fifo;
pub use layout::QueueShape;
pub use structure::{FrontHint, Queue};
pub use wire::{MOST_BYTES, MOST_ITEMS, QueueItem};

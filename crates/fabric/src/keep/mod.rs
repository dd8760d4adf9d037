//! Memory that outlives the process whose node it is.
//!
//! A node's memory is a sealed file without a name, which goes with the last process that has it
//! open. So another process keeps it open: systemd's descriptor store, or a *keeper*, which does
//! nothing else. The node's next process takes the file from there, maps it, and is the same node,
//! of the same incarnation, with all that was in the memory.
//!
//! A keeper listens on a Unix socket in a directory that is this user's alone, and has at most one
//! memory. Its clients send a byte, and get one:
//!
//! ```text
//! TAKE           KEPT with the file, or NOTHING
//! HOLD, a file   DONE; IN_USE while it keeps the memory of a node that runs
//! DROP           DONE; IN_USE likewise
//! ```
//! A node stays connected, and so is told when its keeper ends. A keeper ends once it keeps nothing
//! and nobody is connected.
//!
//! **Who may come.** The directory's mode keeps other users out, and the keeper closes connections
//! of processes of other users than its own. Whoever asks believes no keeper of another user.
//!
//! **One node at a time.** The node's process has the file locked, so its memory is handed out
//! while it runs, but to nobody who could claim it ([`NodeMemory`](crate::memory::NodeMemory)).

mod client;
mod place;
mod server;

pub use client::{Keeper, Taken};
pub use place::Place;
pub use server::serve;

const TAKE: u8 = b'T';
const HOLD: u8 = b'H';
const DROP: u8 = b'D';
const KEPT: u8 = b'K';
const NOTHING: u8 = b'N';
const DONE: u8 = b'O';
const IN_USE: u8 = b'U';

//! Operations by call: the owner of a node executes them in its own memory, by the scheme's own
//! protocol (paper 003, section 5.3: "one-two-sided" operations).
//!
//! `CallingIndex` is a client that asks the owner where that is cheaper,
//! over the client of any scheme, which does whatever the owner does not. What travels is an
//! [`Operation`](farslot_index::Operation) and its [`Outcome`](farslot_index::Outcome); a call
//! carries many. The owner runs a client of the same scheme in its own memory, so that its
//! operations and those of clients who read and swap meet as those of any two clients do.
//!
//! **Promises.** An operation that the owner was asked for is executed at most once: a call is
//! never repeated. One whose answer is lost fails as a lost verb does, and may have taken effect.
//! Whatever the owner refuses, or cannot say in the room that it has, it has not done: the client
//! does that itself, and so fails with the scheme's own errors, and with its own rights.
//!
//! **Turns.** An owner never waits within a call, and works for [`CALL_TURN`]. What it has not
//! come to by then it keeps, goes on with beside other calls, and answers later: within the time
//! that the request says, which is less than the client's
//! [`verb_timeout`](farslot_fabric::Limits::verb_timeout). What is not done then
//! [is said](reply::Answered::Unfinished), and fails with
//! [`IndexError::TurnOver`](farslot_index::IndexError::TurnOver) where the client cannot do it by
//! verbs. What would have to wait is left to clients that can.
//!
//! ```text
//! request | version, 8 | question, 8 | ms to wait, 16 | operations, 32 | table's id, 64 |
//! then    | kind, 8 | key bytes, 24 | value bytes, 32 | key | value |        each operation
//! values  | bytes expected, 32 | expected | value |          in place of a replacement's value
//!
//! reply   | status, 8 | 0, 24 | outcomes, 32 |
//! then    | kind, 8 | operation's number, 24 | bytes, 32 | bytes |           each outcome
//! values  | values, 32 | bytes of each, 32 | their bytes |     the bytes of a get-all's outcome
//! ```
//! All of it is little-endian, and nothing is aligned. Outcomes come in any order.
//!
//! **Tables.** A client that may not read the catalog asks for it by calls
//! (`ask_of_tables`). The layers above know what the answers'
//! values mean.

use farslot_fabric::Nanos;

pub(crate) mod client;
pub(crate) mod owner;
pub mod reply;
pub mod request;

/// How long an owner works on a call at a time, in nanoseconds of its clock: no operation of the
/// call begins later, and one that is under way then ends at its next step. Clients of other tables
/// wait meanwhile. An owner never waits within a call.
///
/// It is about what four hundred short operations take. What a call did not come to has further
/// turns beside other calls, so that a limit that ends a turn early costs a change of threads.
pub const CALL_TURN: Nanos = 40_000;

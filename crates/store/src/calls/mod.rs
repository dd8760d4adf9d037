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
//! **Turns.** An owner never waits within a call, and works for [`CALL_TURN`]. What it has not come
//! to by then the client asks for [again](reply::Answered::Later): at once if the owner has done
//! anything of the call, else after ever longer pauses, until the endpoint's
//! [`verb_timeout`](farslot_fabric::Limits::verb_timeout) has passed without progress. Then it
//! fails with [`IndexError::TurnOver`](farslot_index::IndexError::TurnOver). What would have to
//! wait, or is not done in three turns, is left to clients that can do it by verbs.
//!
//! ```text
//! request | version, 8 | question, 8 | 0, 16 | operations, 32 | table's id, 64 |
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

/// How long an owner works on a call, in nanoseconds of its clock: no operation of the call begins
/// later, and one that is under way then ends at its next step. Clients of other tables wait
/// meanwhile. An owner never waits within a call.
///
/// It is about what four hundred short operations take. What a call did not come to the client asks
/// for again, so that a limit that ends a call early costs a round trip.
pub const CALL_TURN: Nanos = 40_000;

//! Who may use the memory, and how far: grants, their secrets, and the handshake that stands before any
//! verb.
//!
//! A [`Grant`] has a name, what it opens of the regions with the rights to each part, and perhaps a [`Secret`]. A
//! connection is admitted under one grant, and each region of a grant has a random key that every verb
//! must carry: a key of another grant is refused, and so is every verb once the grant is
//! [revoked](crate::tcp::Agent::revoke).
//!
//! Both sides prove that they know the secret, over nonces that both drew for this connection, and the
//! agent's proof covers what it grants. The secret never travels; but whoever can pose as a node, or listen,
//! can try guesses against a proof at leisure, so a secret must be long and random: 32 bytes from
//! `/dev/urandom` are. The handshake says who speaks at its beginning, no more: see [`tcp`](crate::tcp).

mod connect;
mod grant;
pub mod handshake;
mod secret;

pub use crate::error::Refusal;
pub use connect::{Admitted, connect};
pub(crate) use connect::{Attempt, connect_after};
pub use grant::{Area, Grant};
pub(crate) use grant::{Grants, Issued};
pub use secret::Secret;

//! Admission: grants, their secrets and certificates, and the handshake that precedes any verb.
//!
//! A [`Grant`] has a name, the areas of memory that it opens with the rights to each, and
//! [`Secret`]s or [certificates](crate::net::tls::Clients) that open it. A client is admitted under
//! one grant, by one of them. Each region of a grant has a
//! random key, which every verb must carry, so the agent refuses a key of another grant, and every
//! verb after the grant is [revoked](crate::tcp::Agent::revoke).
//!
//! Client and agent each prove that they know the secret, over nonces that both chose for this
//! connection. The agent's proof also covers what it grants. The secret is never sent, but anyone
//! who poses as a node or listens can test guesses offline. A secret must therefore be long and
//! random, such as 32 bytes from `/dev/urandom`. The handshake authenticates the start of a
//! connection only; see [`tcp`](crate::tcp).

mod connect;
mod grant;
pub mod handshake;
mod secret;

pub use crate::error::Refusal;
pub use connect::{Admitted, connect};
pub(crate) use connect::{Attempt, connect_after};
pub use grant::{Area, Grant, PrefixArea, TaggedBlocks};
pub(crate) use grant::{Credential, GrantRegistry, Issued, credentials};
pub use secret::Secret;

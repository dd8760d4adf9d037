//! What can go wrong below an index: failed verbs, refused clients, malformed frames.

mod fabric_error;
mod malformed;
mod refusal;
mod tls_failure;
mod verb_failure;

pub(crate) use fabric_error::os;
pub use fabric_error::{FabricError, Result};
pub use malformed::Malformed;
pub use refusal::{Carrier, Refusal};
pub use tls_failure::TlsFailure;
pub use verb_failure::VerbFailure;

//! What `farslot-local` and the laboratory borrow. Not part of the interface: it may change in any
//! version.

pub use crate::client::locks;
pub use crate::closed_sets::ClosedSets;

//! State-space exploration over find-or-put.
#![forbid(unsafe_code)]

mod error;
pub mod explicit;
pub mod formula;
pub mod model;
pub mod models;
pub mod net;
pub mod order;
pub mod packed;
pub mod pnml;
pub mod symbolic;

pub use error::ExploreError;

//! State-space exploration over find-or-put.
#![forbid(unsafe_code)]

pub mod net;
pub mod pnml;

//! CuckooDuo.
pub mod placement;

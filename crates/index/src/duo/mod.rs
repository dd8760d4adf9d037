//! CuckooDuo.

mod batch;
mod client;
mod doubts;
mod facade;
mod insert;
mod journal;
mod layout;
mod lookup;
mod owner;
pub mod placement;
mod rebuild;
mod remove;
mod scan;
mod update;

pub use client::{DuoTable, Work};
pub use layout::{DuoLayout, DuoOptions};

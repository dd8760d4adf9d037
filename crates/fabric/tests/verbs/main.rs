//! The verbs over an RDMA device.

#[path = "../common/mod.rs"]
mod common;
mod one_process;

//! Workloads, limits and the tables of the papers, over the public API.

//! Deterministic simulation.

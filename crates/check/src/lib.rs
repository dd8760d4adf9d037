//! Recorded histories and the linearizability check that judges them.

//! Cuckoo tables with one writer: histories under faults, writers that stop and resign,
//! displacements, load factors and signatures. What no fabric may change about them is in the tests
//! `suites`.

mod linearizable;
mod load;
mod moves;
mod predetermination;
mod resign;
mod signatures;
mod stopped_writer;
mod writers;

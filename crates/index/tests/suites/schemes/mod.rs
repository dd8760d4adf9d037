//! Each scheme under the simulator's faults, at sizes that take a while, and by its round trips.
//! What no fabric may change about them is beside this room.

mod cuckoo;
mod duo;
mod evictions;
mod heap_cleaning;
mod in_place;
mod insert_many;
mod linear;
mod moved;
mod race;
mod readers_beside_batches;
mod relocations;
mod sealed;

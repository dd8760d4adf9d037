//! CuckooIndex: which slot of the vault a key is in, as far as fingerprints tell. Local memory
//! only.
//!
//! Two arrays of buckets of slots, numbered in pairs: bucket b of the first array is 2b, that of
//! the second 2b + 1, so that numbers stay what they are when the table grows. Each slot is one of
//! the vault's. It holds a fingerprint of f bits, or 0. A key's bucket in the first array is its
//! hash modulo the buckets; its primary fingerprint leads from there to its bucket in the second
//! array and back, so that a record can be moved without reading its key. A slot of the first array
//! may instead hold a *backup* fingerprint, which leads nowhere: such a record stays where it is.
//!
//! **Which slots are backup slots.** The paper sets d2 of d slots of each bucket of the first array
//! aside for backup fingerprints. Then a quarter of that array cannot be moved, and either those
//! slots are filled first, which reads the bucket's keys for almost every insertion, or last, and
//! the table is full at 0.945. Here *any* slot of the first array may hold either fingerprint, and
//! a bit says which: half a bit a slot. A backup fingerprint is used only where a primary one
//! collides, for some 2d/2^f of the keys. So nearly all records can be moved, which fills the
//! table, and nearly no insertion reads keys. Of a key's two buckets the roomier is taken: then
//! both are full only when the table nearly is, and the path search begins late. The rule that
//! backup fingerprints go before primary ones, and the adjustments, are the paper's.
//!
//! Counted with f = 16, L = 3, s = 32 and d = 8: see the crate's test `duo_counts`.
//!
//! **Which fingerprints are ambiguous.** Of the keys with the same primary fingerprint and bucket
//! (and so both buckets), at most one stands by it, wherever it is: this is seen without reading.
//! The others stand by their backup fingerprints in their bucket of the first array, or in the
//! stash. A backup fingerprint must be no other key's of that bucket, of those that are in it: they
//! are read for that, with the colliding key. It may be that of a key of the same first bucket that
//! is in its second bucket, which cannot be told without reading; such a key costs a lookup a
//! second READ, as would any other ambiguity: a lookup goes on until it has read its key or no
//! match is left. No answer depends on fingerprints being unambiguous.

pub mod counting;
mod growing;
mod hashes;
mod index;
mod packed;
mod parts;
mod path;
mod search;
mod shape;
mod splitting;
mod stash;
mod usual;

pub use super::bytes::{MOST_BUCKET_SLOTS, SlotNumber};
pub use hashes::{Candidates, Primary};
pub use index::{BucketMatch, Entry, Matches, Placement};
pub use path::Path;
pub use shape::Shape;

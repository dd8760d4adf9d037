//! An ordered map: a B+ tree whose upper levels clients remember (paper 003, section 5.5), with
//! range scans.
//!
//! ```text
//! header   | root | nodes used | pairs | nodes promised | 0 ..      64 bytes
//! node     | check | level, 16 bits; entries, 16 | next | lock | version
//!          | low key | high key | entries ..
//! key      | length, in a word | bytes, padded |
//! entry    | key | value length | value, padded |      of a leaf, level 0
//!          | key | child |                             of an inner node
//! ```
//! A node holds the keys from its low key on, to below its high key, where `next` goes on; the last
//! of a level has no high key. A node's check is over all of its words and its place: a READ is the
//! node as it was at one moment, or is noticed not to be. So a leaf that covers a key proves by one
//! READ what the key has, or that it is absent.
//!
//! Only the owner writes, by calls. A node that is full is split: its upper half goes to a new
//! node, then the node itself is cut, then the parent learns of it (as in a B-link tree). A client
//! that goes by what it remembers may find a leaf that does not reach to its key any more; it then
//! calls. Nodes are never merged or freed: a place that is remembered is always a node's, and of
//! the same level and low key. Leaves that are emptied fill again with keys of their range only.
//!
//! A leaf has a lock, for transactions: whoever holds it holds all keys of its range, those that
//! are not there as well. So a leaf that is unlocked and has the same version was not changed, and
//! nothing has come into its range ([`Leaf`]). What is changed under a lock needs room that nobody
//! else may take: nodes are promised with the lock.
//!
//! A client remembers the inner nodes right above the leaves, each with all of its children's
//! places: a reply to a lookup by call brings the one above the key's leaf.
//!
//! A scan reads leaf after leaf. Upward, a leaf's high key is the first of the next one. Downward,
//! the last key that could lie below its low key is the last of the one before: keys have a most
//! length, so there is such a key, and leaves need not name the one before them ([`KeyRange`]).
//!
//! Memory of zeros is an empty map.

mod client;
mod held;
mod layout;
mod leaf;
mod node;
mod owner;
mod range;
mod structure;

pub use client::OrderedMap;
pub use held::Hold;
pub use layout::TreeShape;
pub use leaf::{Leaf, Pair};
pub use range::KeyRange;
pub use structure::{LeafDirectory, Tree};

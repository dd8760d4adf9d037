//! Readers beside the owner: on other machines, in other threads.
//!
//! A reader has a copy of the published index, and so finds a key with one READ, as the owner does.
//! The owner knows nothing of it: the copy is looked after by the reader. It may be old, as much as
//! it likes: that costs READs, and never an answer.
//!
//! **A key that is found** was there during the lookup: at the moment at which the second word of
//! the slot was loaded. It is the word that publishes the record (`bytes/slot.rs`), and its check
//! is the record's. A READ may see the words of a slot in any order and last over a removal of the
//! key and its next insertion into the same slot, as may a copy by a thread that is descheduled.
//! Such a READ or copy joins words of different uses of the slot, but never a record that was not
//! there. Only the key is taken from the head. A split leaves a record where it was until its new
//! bucket has it, and nobody changes it meanwhile.
//!
//! **A key that is not found** where the copy has it, or that the copy does not have, is looked for
//! in the published index: one READ fetches the key's two pages and the stash. If they are as in
//! the copy, they were so from before the lookup began until they were read, for versions only
//! grow; then at one moment of the lookup no entry named the key, so that it was absent. If they
//! are not, the copy takes them in, and the search begins anew. A slot that an entry names, and
//! that is dead, may be about to live: the search saw that it did not yet. Of two such slots a
//! record may just be moved from one to the other, so that then the search is done twice.
//!
//! **A table that grows.** With the stash the same READ fetches how often the table has grown; and
//! while a growth is under way, a word of bits for each of the key's buckets that the copy does not
//! know to be split. Only if these too are as in the copy are the two pages all that there is of
//! the key. If not, the copy learns of it: of a growth by its entry in the header, and of a split,
//! whose new buckets it knows nothing of, by their pages. So the copy follows whatever the table
//! does, lookup by lookup or by [`DuoReader::refresh`], and nobody has to tell it.
//!
//! | lookup | round trips |
//! |---|---|
//! | found, where the copy has it | 1 |
//! | found elsewhere, or not in the copy | 2 to 3 |
//! | found in another bucket, as the copy knew of the growth but not of the split | 3 to 4 |
//! | found there, the copy knew of neither | 4 to 6 |
//! | absent | 1; 2 with a share of 2d/2^f, or if the entry of a removed key is still there |
//! | absent, [`ReaderPromise::BoundedStaleness`] | 0, unless the key's segment changed of late |
//!
//! **An update that is under way** leaves the slot torn for a moment; or for long, if its owner has
//! died. A reader that meets a torn slot again and again looks into the journal: a record there is
//! the key's last one if the slot is torn still afterwards, for then its update had begun.
//!
//! Source: none. Paper 001 has one client process.

mod client;
mod copy;
mod fast_path;
mod lookup;
mod refresh;
mod scan;

pub use client::{DuoReader, ReaderPromise};

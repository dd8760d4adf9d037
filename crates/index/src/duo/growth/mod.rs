//! Growth by a whole ratio r, while everything else goes on (paper 001, section III-D, and beyond).
//!
//! **What it does.** A table of m buckets an array grows to rm at once: memory for the new buckets
//! is taken, a word of the table's header says so, and no key has moved. From then on buckets are
//! *split* one by one: a bucket is read, each of the r-1 new buckets that its keys may belong to is
//! written, with the keys that are its own, and the bucket again without them. A bucket is split
//! before the first insertion into it (*lazily*), or when somebody asks for it
//! ([`DuoTable::sweep`], *actively*). [`placement`](super::placement) says why a bucket's keys can
//! go nowhere else.
//!
//! **Which side a key is written to.** Until its bucket is split, a key of that array is in the
//! bucket that it had before; from the moment that the split is acknowledged, in its own one of the
//! r. Each of both arrays decides for itself. Who splits a bucket holds it, as any operation that
//! changes it does.
//!
//! **What it costs.** Starting takes 4 round trips, whatever the table's size. Splitting takes 2,
//! and for every run of buckets that lie side by side a READ, an atomic, and WRITEs of what has to
//! be written (`images.rs`): the slots that go to new buckets, the heads of those that have gone,
//! and what lies in between if it is little. So large records cross the wire about one and a half
//! times, small ones up to r + 1 times, as there a message costs more than the bytes that it would
//! save. A run is one bucket lazily, up to 8 KiB in a sweep, which has up to six such pieces under
//! way: enough for the network to be busy, and no piece waits for long. With readers there are a
//! message and three atomics more. An insertion does, besides its own, one piece of this work at
//! most. Lookups, updates and removals do none, and wait only where one of their buckets is being
//! split.
//!
//! **Bytes.** Where the table started, its header, stash and journal stay. Each growth adds an
//! *extent*:
//!
//! ```text
//! header   3200  extents there are | 3264  for each: ratio | region | offset
//!          (the count is in the published index, where there is one)
//! extent   which buckets of those before it are split: a bit each, bucket b of the first array
//!          2b, of the second 2b + 1; to a multiple of 64 bytes
//!          what is published of these buckets, where the index is; to a multiple of 64 bytes
//!          first array: buckets m to rm | second array: buckets m to rm
//! ```
//! A growth begins when all buckets of the one before are split.
//!
//! **Readers** beside the owner go by the same count and the same bits, and see by themselves that
//! they have changed (see [`DuoReader`](super::DuoReader)). For them a split writes the new
//! buckets' pages of the published index before the bit, and the old bucket's behind it, in the
//! same batch: no round trip more.
//!
//! **When things fail.** The three steps of a split are one batch: the new buckets, the bit, the
//! bucket itself. If the bit is not set, the new buckets are not in use, and whatever is in them is
//! written over by the next attempt. If it is set, they are whole; and what the bucket still has of
//! theirs is recognised, for the head of each slot has its key's hash, and *a slot that its key
//! cannot be in is dead*. That is hereditary: buckets after a growth only ever take keys from those
//! that they come from. So a record which was left behind is never taken for one at any later time,
//! whoever rebuilds the index, and however often the table has grown meanwhile. An owner makes such
//! slots dead before it changes anything, so that no reader with an old copy takes one for its
//! key's.
//!
//! **Why not as in the paper**, which copies the vault whole, r times, in the memory node, and then
//! drops fingerprints, at once or at the first access to a bucket. (a) Its copies look alive in the
//! vault: whoever reads that (a new owner, a reader with an old index) could take them for what
//! they were. (b) Until the copy is there, nothing may be inserted; here a growth can begin when
//! the table is full. (c) Its lazy cleaning reads each of the rm buckets once, in whose place the
//! splits read each of m. (d) An insertion makes a slot live by a swap from 0, by which an owner
//! sees that it has lost the table: so copies of other keys' heads would have to be written over
//! all the same. What a copy in the memory node would save is the way of the records over the wire,
//! if the node left out what is not a bucket's own, for which it would have to know slots and
//! hashes; for that, `split_runs` is the one place to change. The node would have to return which
//! of the r is each slot's, a byte or less, for the owner's index. An owner in the process that
//! lends the memory copies there already.
//!
//! **Where extents are.** In memory that the table shares with others ([`GrowthMemory`]), or in
//! memory of its own behind it ([`most_capacity`](super::DuoOptions::most_capacity)), one after the
//! other in the order of the header's entries: there nothing has to be taken, for what no entry
//! that is counted names has not been touched.
//!
//! **Limits.** Extents are on the table's node. 34 growths, each of a ratio of 2 to 4096. The stash
//! keeps its size, and a heap its own. A new owner of a table that has grown lets readers read most
//! of the index anew. `scan` may meet a key twice if its bucket is split between two pieces.

mod extend;
mod grow;
mod images;
mod publish;
mod split;

#[cfg(test)]
pub(super) use grow::GROWTH_LOCK;

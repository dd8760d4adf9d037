//! Records with a time to live.
//!
//! ```text
//! value as it is stored | moment: 6 bytes | mark: 2 bytes | value |
//! ```
//! The moment is in milliseconds since 1970, little-endian, and 0 for never. The mark is 0, but for
//! a record that is about to live longer.
//!
//! Of a table that is [expiring](crate::TableOptions::expiring), every value begins with the moment
//! at which its record expires. From that moment on the key is absent, whoever asks: clients
//! compare the moment with their own clock (`session`). So the clocks of machines that share such a
//! table should agree as well as its times to live are to be exact: a client whose clock is ahead
//! also removes others' records early, where it needs room.
//!
//! A record that has expired takes memory until it is removed: by a client that puts another in its
//! place, by one that needs room (`farslot_index`'s heaps keep records together that live for about
//! as long), or by a [`Sweeper`] (`sweeper`). Whoever removes one names all of its bytes, the
//! moment included, or the block that has them: a record that was put meanwhile stays.
//!
//! # Why operations are linearizable
//!
//! All times are of one clock. What is promised: a record ends at its moment `e`; or, if the call
//! that gives it that end takes longer, at an instant before that call returns. Let `w` be when the
//! swap comes that gives the end. Then the record ends at `max(e, w)`, and every operation takes
//! effect at one instant of its call:
//!
//! 1. **Lookups.** Let `c` be what the clock said before the lookup read the record at `t`. It
//!    answers "absent" if `e <= c`: so it was at `t`, for `max(e, w) <= t`. Else it answers with
//!    the value, and takes effect at `max(c, w)`: the record was there, and had not ended, or only
//!    just. Both lie within the call, also where a record is put anew faster than an answer comes.
//!    A clock that is read *after* the record says nothing of one that has ended by then. It may
//!    say that one lives, for then it lived at `t`. So a single `get` reads the clock only after a
//!    record that has an end, and once more reads what is there if it has ended: that clock was
//!    read before.
//! 2. **Updates, replacements and removals** that keep the end look as a lookup does, and then swap
//!    what they have seen, all bytes compared. If the swap comes at `s < e`, that is their instant.
//!    Else it is one just before the end, behind all lookups that saw what they replaced: those had
//!    `c < e`. Nobody has seen a difference, for what they have written has ended too.
//! 3. **A shorter life** is such a replacement: it ends when it comes, if not later.
//! 4. **A longer life** is not: its swap may come after the end, when others have found the key
//!    absent, and would bring the record back. It takes two swaps (`marking`). The first adds a
//!    mark to the moment. If the clock then says `c < e`, the mark was there before the end, and
//!    the second swap puts the record with the new end in place of the marked one. Whoever finds
//!    that a *marked* record has ended removes it by a swap, all bytes compared, before it says
//!    "absent". So if the second swap finds the mark, nobody has said that since the end, and the
//!    operation takes effect when it comes, or just before the old end if that is earlier. If it
//!    does not, it has no effect. A client that died between the two has left a record that ends
//!    when it would have.
//! 5. **A mark that comes back.** The second swap must not find the mark of another, which came
//!    after the end: by a first swap that was late, on a record with the same key, value and
//!    moment, put while the first mark's owner was between its two. A mark is drawn from 65,535, so
//!    that such a coincidence must also meet with the same mark.
//! 6. **A record in place of one that has ended** (`find_or_put`) is put after that one is removed,
//!    as any new one.
//!
//! A lookup of a record that lives costs one READ, one of a record that has ended two, and a longer
//! life one swap more than another replacement. Scans (`for_each`, the sweeper) do not cancel
//! marks: what they leave out is no promise.
//!
//! The histories (`histories`, in tests) find each step that is left out (`broken`).
//!
//! The index knows of this only which values begin with a moment, and a clock by which it has
//! passed (`ExpiryClock::for_room`). Its record of a value that lives for a while is a longer
//! value.

mod broken;
mod ending;
#[cfg(test)]
pub(crate) mod histories;
mod marking;
mod moment;
mod session;
mod sweeper;
mod thread;

pub(crate) use ending::Ending;
pub(crate) use marking::Marking;
pub use moment::Expiry;
pub(crate) use moment::ExpiryClock;
pub(crate) use session::Expiring;
pub use thread::Sweeper;

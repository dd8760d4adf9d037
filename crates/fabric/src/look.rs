//! READs whose bytes are looked at where they are.
//!
//! A protocol says which pieces it reads, and a closure that looks at them. Where the memory is
//! mapped the closure has the memory itself, within one poll: nothing is posted and nothing is
//! copied. Elsewhere verbs read the pieces, and it has what they have brought. Both are counted
//! alike: as READs side by side.
//!
//! Of several that run beside each other, as the jobs of a [`window`](crate::window::window) do,
//! each has the processor fetch its pieces first, and looks when the others have done so.
//!
//! A [`Change`] is what leaves by itself, or before READs, with one doorbell: a WRITE, a
//! compare-and-swap, or one behind the other.

use crate::window::{both, chain, in_order, is_one_of_many, let_others_run, set_chain, window};
use crate::{
    Buffer, BufferPool, Endpoint, InPlace, Piece, Pieces, RemoteAddr, Result, Rights, Verb,
    VerbFuture, VerbKind,
};
use smallvec::SmallVec;
use std::fmt;

/// Bytes of a piece that the processor is told to fetch: behind these it goes on by itself.
const FETCHED: usize = 256;

/// Pieces that were read, for one look at them. They are numbered from 0 on.
pub struct Fetched<'m>(Source<'m>);

enum Source<'m> {
    /// In memory that is mapped: a word may be another each time that it is loaded.
    Mapped {
        view: InPlace<'m>,
        pieces: &'m [Piece],
        /// Where each begins.
        starts: Starts,
        pool: &'m BufferPool,
    },
    Read(SmallVec<[Option<Buffer>; 2]>),
}

impl fmt::Debug for Fetched<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Mapped { .. } => "Fetched(mapped)",
            Source::Read(_) => "Fetched(read)",
        })
    }
}

impl Fetched<'_> {
    /// The bytes of a piece.
    ///
    /// # Panics
    /// If there is no such piece, or it was [taken](Fetched::take).
    #[inline]
    #[must_use]
    pub fn bytes(&self, piece: usize) -> usize {
        match &self.0 {
            Source::Mapped { pieces, .. } => pieces[piece].len,
            Source::Read(buffers) => buffers[piece]
                .as_ref()
                .expect("a piece is taken last")
                .len(),
        }
    }

    /// A word of a piece.
    ///
    /// # Panics
    /// If the piece has none of this number, or it was [taken](Fetched::take).
    #[inline]
    #[must_use]
    pub fn word(&self, piece: usize, number: usize) -> u64 {
        match &self.0 {
            Source::Mapped { view, starts, .. } => view.words(starts[piece])(number),
            Source::Read(buffers) => buffers[piece]
                .as_ref()
                .expect("a piece is taken last")
                .words()[number],
        }
    }

    /// The first `len` bytes of a piece, to be kept: a copy, or the buffer that they were read
    /// into.
    ///
    /// # Errors
    /// Where there is no buffer of that size.
    ///
    /// # Panics
    /// If the piece is shorter, or was taken before.
    #[inline]
    pub fn take(&mut self, piece: usize, len: usize) -> Result<Buffer> {
        match &mut self.0 {
            Source::Mapped {
                view, starts, pool, ..
            } => {
                let mut copy = pool.take(len)?;
                view.copy_out(starts[piece], len, copy.words_mut());
                Ok(copy)
            }
            Source::Read(buffers) => {
                let mut buffer = buffers[piece].take().expect("a piece is taken once");
                buffer.truncate(len);
                Ok(buffer)
            }
        }
    }
}

/// Verbs that change memory, in their order.
#[derive(Debug, Default)]
pub struct Change {
    /// Bytes, and where they are written.
    pub write: Option<(RemoteAddr, Buffer)>,
    /// A word at a multiple of 8, what it must be, and what it becomes.
    pub swap: Option<(RemoteAddr, u64, u64)>,
}

impl Change {
    /// Nothing but a compare-and-swap: of a word, from what it must be to what it becomes.
    #[inline]
    #[must_use]
    pub const fn swap(swap: (RemoteAddr, u64, u64)) -> Self {
        Self {
            write: None,
            swap: Some(swap),
        }
    }
}

/// [`EndpointExt::change`](crate::EndpointExt::change).
#[inline(always)]
pub(crate) async fn change<E: Endpoint>(endpoint: &E, change: Change) -> Result<u64> {
    let before = chain();
    match change_in_place(endpoint, &change) {
        Some(seen) => {
            // It was waited for.
            set_chain(before + 1);
            Ok(seen)
        }
        // Boxed: where memory is mapped, every change would be as large.
        None => Ok(Box::pin(post(endpoint, change, &[])).await?.0),
    }
}

/// Where pieces begin in memory that is mapped.
type Starts = SmallVec<[u64; 2]>;

/// The memory, and where in it all pieces begin, where they are in it.
#[inline]
fn view_of<'e, E: Endpoint>(endpoint: &'e E, pieces: &[Piece]) -> Option<(InPlace<'e>, Starts)> {
    let view = endpoint.in_place(pieces.first()?.from, Rights::READ)?;
    let mut starts = Starts::with_capacity(pieces.len());
    for piece in pieces {
        let start = view.offset_of(*piece)?;
        starts.push(start.is_multiple_of(8).then_some(start)?);
    }
    Some((view, starts))
}

/// [`EndpointExt::look`](crate::EndpointExt::look).
#[inline(always)]
pub(crate) async fn look<E: Endpoint, T>(
    endpoint: &E,
    pieces: Pieces,
    look: impl FnOnce(&mut Fetched<'_>) -> T,
) -> Result<T> {
    let core = endpoint.core();
    if (is_one_of_many() || core.is_turn_over())
        && let Some((view, starts)) = view_of(endpoint, &pieces)
    {
        for (start, Piece { len, .. }) in starts.iter().zip(&pieces) {
            view.prefetch(*start, FETCHED.min(*len));
        }
        let_others_run().await;
    }
    if let Some((view, starts)) = view_of(endpoint, &pieces) {
        let bytes = pieces.iter().map(|piece| piece.len as u64).sum();
        let count = pieces.len() as u32;
        core.counters
            .done_side_by_side(VerbKind::Read, count, bytes);
        let looked = look(&mut Fetched(Source::Mapped {
            view,
            pieces: &pieces,
            starts,
            pool: &core.buffers,
        }));
        view.acquire();
        return Ok(looked);
    }
    // Boxed: where memory is mapped, every look would be as large.
    let (_, read) = Box::pin(post(endpoint, Change::default(), &pieces)).await?;
    Ok(look(&mut Fetched(Source::Read(read?))))
}

/// [`EndpointExt::change_and_read`](crate::EndpointExt::change_and_read).
pub(crate) async fn change_and_read<E: Endpoint>(
    endpoint: &E,
    change: Change,
    pieces: Pieces,
) -> Result<(u64, Result<Vec<Buffer>>)> {
    let (seen, read) = post(endpoint, change, &pieces).await?;
    Ok((seen, read.map(|all| all.into_iter().flatten().collect())))
}

/// Makes a change in memory that is mapped, if that has all that it reaches; returns what the word
/// was. It is as long a chain as what leaves with it.
#[inline]
fn change_in_place<E: Endpoint>(endpoint: &E, change: &Change) -> Option<u64> {
    let (first, needed) = match (&change.write, change.swap) {
        (Some((to, _)), None) => (*to, Rights::WRITE),
        (Some((to, _)), Some(_)) => (*to, Rights::WRITE.and(Rights::ATOMIC)),
        (None, Some((at, ..))) => (at, Rights::ATOMIC),
        (None, None) => return Some(0),
    };
    // Beside others, those that are done at once would seem to lead to what the others do.
    if is_one_of_many() {
        return None;
    }
    let view = endpoint.in_place(first, needed)?;
    let place = |from: RemoteAddr, len: usize| view.offset_of(Piece { from, len });
    let bytes = match &change.write {
        Some((to, data)) => Some((place(*to, data.len())?, data)),
        None => None,
    };
    let word = match change.swap {
        Some((at, ..)) => place(at, 8).filter(|offset| offset.is_multiple_of(8)),
        None => Some(0),
    }?;
    let (counters, before) = (&endpoint.core().counters, chain());
    if let Some((offset, data)) = bytes {
        view.write(offset, data.len(), data.words());
        counters.done_side_by_side(VerbKind::Write, 1, data.len() as u64);
    }
    let mut seen = 0;
    if let Some((_, expected, new)) = change.swap {
        seen = view.compare_swap(word, expected, new);
        set_chain(before);
        counters.done_side_by_side(VerbKind::CompareSwap, 1, 8);
    }
    set_chain(before);
    Some(seen)
}

/// What was read of each piece.
type AllRead = SmallVec<[Option<Buffer>; 2]>;

/// Posts a change, and READs with it; returns what the word was, and what was read. All are waited
/// for. The error is the change's.
async fn post<E: Endpoint>(
    endpoint: &E,
    Change { write, swap }: Change,
    pieces: &[Piece],
) -> Result<(u64, Result<AllRead>)> {
    let write = async {
        match write {
            Some((to, data)) => VerbFuture::new(endpoint, Ok(Verb::Write { to, data })).await,
            None => Ok(()),
        }
    };
    let swap = async {
        match swap {
            Some((at, expected, new)) => {
                let swap = Verb::CompareSwap { at, expected, new };
                VerbFuture::new(endpoint, Ok(swap)).await
            }
            None => Ok(0),
        }
    };
    let read = async {
        let (mut all, mut outcome) = (AllRead::new(), Ok(()));
        all.resize_with(pieces.len(), || None);
        let reads = pieces.iter().map(|piece| {
            let into = endpoint.core().buffers.take(piece.len);
            let from = piece.from;
            VerbFuture::new(endpoint, into.map(|into| Verb::Read { from, into }))
        });
        window(pieces.len(), reads, |number, read| match read {
            Ok(buffer) => all[number] = Some(buffer),
            Err(error) => outcome = Err(error),
        })
        .await;
        outcome.map(|()| all)
    };
    // A swap that makes a word name what is written takes no effect unless that has.
    let (swapped, read) = in_order(write, both(swap, read)).await?;
    Ok((swapped?, read))
}

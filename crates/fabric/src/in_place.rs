//! A region's memory as this thread's own loads see it.
//!
//! Where a node's memory is mapped into the process, a READ can be a load, and a compare-and-swap
//! the processor's own: nothing is posted, completed or buffered. What the verbs promise still
//! holds, and no more: a word is loaded whole, several words may be torn.
//! [`Endpoint::in_place`](crate::Endpoint::in_place) checks node, region and rights once for as
//! many loads as follow; each piece is checked against the region's bounds
//! ([`InPlace::offset_of`]).

use crate::words::SharedWords;
use crate::{Piece, RemoteAddr, Rights, Segments};

/// One region of a node whose memory is mapped, with the rights that were asked for.
///
/// To be held for a short while only: whether the node is still there is known when the view is
/// made.
#[derive(Clone, Copy)]
pub struct InPlace<'m> {
    /// The region's words and no others.
    words: SharedWords<'m>,
    /// The first byte that there is.
    start: RemoteAddr,
    /// Bytes from there on.
    len: u64,
    /// What was asked for.
    rights: Rights,
    /// The region whose addresses it goes by, if that is another.
    segments: Option<Segments>,
}

impl<'m> InPlace<'m> {
    /// A view of `len` bytes from `start` on, in a region that has these words and grants these
    /// rights.
    #[inline]
    pub(crate) fn new(words: SharedWords<'m>, start: RemoteAddr, len: u64, rights: Rights) -> Self {
        Self {
            words,
            start,
            len,
            rights,
            segments: None,
        }
    }

    /// The same view by the addresses of a region that is made of segments of this one; nothing if
    /// the list of its segments does not lie here.
    #[inline]
    #[must_use]
    pub fn of_segments(self, segments: Segments) -> Option<Self> {
        debug_assert!(segments.list.offset.is_multiple_of(8));
        let list = Piece {
            from: segments.list,
            len: (segments.count() * 8) as usize,
        };
        self.offset_of(list).map(|_| Self {
            segments: Some(segments),
            ..self
        })
    }

    /// The byte of the memory at which a piece starts; nothing if any of it lies elsewhere, or not
    /// all of it in one place.
    #[inline(always)]
    #[must_use]
    pub fn offset_of(&self, piece: Piece) -> Option<u64> {
        let Piece { from, len } = piece;
        let (is_here, offset) = match &self.segments {
            None => {
                let is_here = from.node == self.start.node && from.region == self.start.region;
                (is_here, from.offset)
            }
            Some(segments) => (true, segments.find(piece, self.words)?),
        };
        // What lies before the start wraps to more than there is. No region is so long that the
        // rest overflows: the sum is compared only if neither part is longer.
        let at = offset.wrapping_sub(self.start.offset);
        let is_within = len as u64 <= self.len && at <= self.len - len as u64;
        (is_here && is_within).then_some(offset)
    }

    /// Loads words of a piece that was checked and starts at byte `offset`, a multiple of 8: each
    /// by its number, when it is asked for.
    ///
    /// # Panics
    /// Behind the region's end.
    #[inline(always)]
    pub fn words(&self, offset: u64) -> impl Fn(usize) -> u64 + use<'m> {
        let words = self.words.from(offset);
        move |number| words.load(number)
    }

    /// Gives so many words from byte `offset`, a multiple of 8, on in a piece that was checked to
    /// `each`, in their order, each loaded once.
    ///
    /// # Panics
    /// Behind the region's end.
    #[inline(always)]
    pub fn each_word(&self, offset: u64, count: usize, mut each: impl FnMut(u64)) {
        self.words
            .slots::<1>(offset, count)
            .for_each(|word| each(word(0)));
    }

    /// Loads words of consecutive slots of so many words each, in a piece that was checked: `count`
    /// slots, the first of which starts at byte `offset`, a multiple of 8. Each word of a slot by
    /// its number, when it is asked for: whoever looks through many checks the region's end once.
    ///
    /// # Panics
    /// Where any of the slots lies behind the region's end.
    #[inline(always)]
    pub fn slots<const WORDS: usize>(
        &self,
        offset: u64,
        count: usize,
    ) -> impl Iterator<Item = impl Fn(usize) -> u64 + use<'m, WORDS>> + use<'m, WORDS> {
        self.words.slots::<WORDS>(offset, count)
    }

    /// The same of one slot.
    ///
    /// # Panics
    /// Behind the region's end.
    #[inline(always)]
    pub fn slot<const WORDS: usize>(&self, offset: u64) -> impl Fn(usize) -> u64 + use<'m, WORDS> {
        let slot = self.slots::<WORDS>(offset, 1).next();
        slot.expect("there is one, or it has panicked")
    }

    /// Asks for the cache lines of a span within a piece that was checked.
    #[inline(always)]
    pub fn prefetch(&self, offset: u64, len: usize) {
        self.words.prefetch(offset, len);
    }

    /// Copies `len` bytes from `offset` on to where `to` begins; the last word may receive more.
    ///
    /// # Panics
    /// Behind the region's end, or where `to` is shorter.
    #[inline]
    pub fn copy_out(&self, offset: u64, len: usize, to: &mut [u64]) {
        self.words.copy_out(offset, len, to);
    }

    /// Whether bytes from `offset`, a multiple of 8, on in a piece that was checked are these. They
    /// may have been loaded at different moments.
    ///
    /// # Panics
    /// Behind the region's end.
    #[inline]
    #[must_use]
    pub fn has_bytes(&self, offset: u64, bytes: &[u8]) -> bool {
        self.words.has_bytes(offset, bytes)
    }

    /// The verb WRITE, of `len` bytes, into a piece that was checked. Whoever sees a later
    /// [`InPlace::compare_swap`] of this thread sees these bytes.
    ///
    /// # Panics
    /// Behind the region's end, and if the view was asked for without [`Rights::WRITE`].
    #[inline]
    pub fn write(&self, offset: u64, len: usize, from: &[u64]) {
        assert!(
            self.rights.allow(Rights::WRITE),
            "a view for {} writes nothing",
            self.rights
        );
        self.words.copy_in(offset, len, from);
    }

    /// What was published before a word that has been loaded is seen by later loads.
    #[inline(always)]
    pub fn acquire(&self) {
        SharedWords::acquire();
    }

    /// The verb of the same name, on a word of a piece that was checked: its byte `offset` is a
    /// multiple of 8.
    ///
    /// # Panics
    /// Behind the region's end, and if the view was asked for without [`Rights::ATOMIC`].
    #[inline(always)]
    pub fn compare_swap(&self, offset: u64, expected: u64, new: u64) -> u64 {
        assert!(
            self.rights.allow(Rights::ATOMIC),
            "a view for {} swaps nothing",
            self.rights
        );
        self.words.compare_swap(offset, expected, new)
    }

    /// The verb of the same name, on a word of a piece that was checked: its byte `offset` is a
    /// multiple of 8.
    ///
    /// # Panics
    /// Behind the region's end, and if the view was asked for without [`Rights::ATOMIC`].
    #[inline]
    pub fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        assert!(
            self.rights.allow(Rights::ATOMIC),
            "a view for {} adds nothing",
            self.rights
        );
        self.words.fetch_add(offset, add)
    }
}

impl std::fmt::Debug for InPlace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InPlace({}, {} bytes)", self.start, self.len)
    }
}

#[cfg(test)]
mod tests {
    use crate::shm::{Node, RegionSpec, ShmEndpoint};
    use crate::{Endpoint, Limits, NodeId, Piece, RegionId, RemoteAddr, Rights};

    const fn at(node: u16, region: u16, offset: u64) -> RemoteAddr {
        RemoteAddr {
            node: NodeId(node),
            region: RegionId(region),
            offset,
        }
    }

    fn endpoint() -> ShmEndpoint {
        let regions = [(64, Rights::ALL), (32, Rights::WRITE)];
        let regions = regions.map(|(len, rights)| RegionSpec { len, rights });
        ShmEndpoint::new(vec![Node::embedded(&regions).unwrap()], Limits::default())
    }

    #[test]
    fn only_what_the_region_has_is_in_place() {
        let endpoint = endpoint();
        let view = endpoint.in_place(at(0, 0, 8), Rights::READ).unwrap();
        let piece = |from, len| Piece { from, len };
        assert_eq!(view.offset_of(piece(at(0, 0, 56), 8)), Some(56));
        assert_eq!(view.offset_of(piece(at(0, 0, 64), 0)), Some(64));
        let elsewhere = [
            piece(at(0, 0, 57), 8),
            piece(at(0, 0, u64::MAX), 8),
            piece(at(0, 0, 0), usize::MAX),
            piece(at(0, 1, 0), 8),
            piece(at(1, 0, 0), 8),
        ];
        for piece in elsewhere {
            assert_eq!(view.offset_of(piece), None, "{piece:?}");
        }
    }

    #[test]
    fn words_are_swapped_and_added_to_as_by_verbs() {
        let endpoint = endpoint();
        let needed = Rights::READ.and(Rights::ATOMIC);
        assert!(endpoint.in_place(at(0, 1, 0), needed).is_none());
        let view = endpoint.in_place(at(0, 0, 0), needed).unwrap();
        assert_eq!(view.compare_swap(8, 0, 7), 0);
        assert_eq!(view.compare_swap(8, 0, 8), 7);
        assert_eq!(view.fetch_add(8, 2), 7);
        assert_eq!([0, 1, 2].map(view.words(0)), [0, 9, 0]);
    }

    #[test]
    fn bytes_are_written_as_by_verbs() {
        let endpoint = endpoint();
        let needed = Rights::READ.and(Rights::WRITE);
        let view = endpoint.in_place(at(0, 0, 0), needed).unwrap();
        view.write(8, 12, &[u64::MAX, u64::MAX]);
        let mut copy = [0; 3];
        view.copy_out(8, 20, &mut copy);
        assert_eq!(copy, [u64::MAX, 0xffff_ffff, 0]);
    }

    #[test]
    fn bytes_are_compared_where_they_are() {
        let endpoint = endpoint();
        let needed = Rights::READ.and(Rights::WRITE);
        let view = endpoint.in_place(at(0, 0, 0), needed).unwrap();
        let bytes: Vec<u8> = (1..=24).collect();
        let words = bytes.as_chunks::<8>().0.iter();
        let words: Vec<u64> = words.map(|word| u64::from_le_bytes(*word)).collect();
        view.write(8, 24, &words);
        for len in 0..=24 {
            assert!(view.has_bytes(8, &bytes[..len]), "{len}");
            for other in 0..len {
                let mut bytes = bytes[..len].to_vec();
                bytes[other] ^= 0x80;
                assert!(!view.has_bytes(8, &bytes), "{other} of {len}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "a view for read writes nothing")]
    fn what_was_asked_for_to_be_read_is_not_written() {
        let endpoint = endpoint();
        let view = endpoint.in_place(at(0, 0, 0), Rights::READ).unwrap();
        view.write(8, 8, &[1]);
    }

    #[test]
    #[should_panic(expected = "a view for read swaps nothing")]
    fn what_was_asked_for_to_be_read_is_not_swapped() {
        let endpoint = endpoint();
        let view = endpoint.in_place(at(0, 0, 0), Rights::READ).unwrap();
        view.compare_swap(0, 0, 1);
    }

    #[test]
    fn rights_nodes_and_regions_are_those_of_verbs() {
        let endpoint = endpoint();
        assert!(endpoint.in_place(at(0, 1, 0), Rights::WRITE).is_some());
        assert!(endpoint.in_place(at(0, 1, 0), Rights::READ).is_none());
        assert!(endpoint.in_place(at(0, 2, 0), Rights::READ).is_none());
        assert!(endpoint.in_place(at(1, 0, 0), Rights::READ).is_none());
    }
}

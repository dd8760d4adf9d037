//! MapEmbed's growth by two (paper 001, section III-D): by copying, into other memory.
//!
//! Bucket i of a page of n becomes buckets i and i + n of a page of 2n. A key belongs to one of the
//! two; the copy in the other is removed at once, or when anything is first written to either.
//!
//! Invariant of what is not cleaned yet: each copy that does not belong where it is has its key
//! elsewhere in the table. A key is removed, changed or moved only after both buckets that may have
//! a copy were cleaned, and a bucket is cleaned before anything is written to it. So no copy is
//! ever taken for a record, whatever the cells become.
//!
//! The client copies: READs of pieces of the old buckets, and two WRITEs of each. It has all the
//! bytes in its hands then, so that cleaning at once costs it no verb more: to clean later pays
//! only where the memory's owner copies.

use super::counts::Counts;
use super::homes::BucketWindow;
use super::layout::BaselineLayout;
use super::map_embed::{MapEmbed, MapEmbedTable, PAGES};
use super::slots::{HEADER, Slot};
use super::waiting::side_by_side;
use farslot::fabric::{Buffer, Endpoint, EndpointExt, RemoteAddr, both};
use farslot::index::{BATCH_WIDTH, Result, UPKEEP};
use std::rc::Rc;

/// When copies that do not belong where they are are removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CleaningMode {
    /// While they are copied: the papers' active mode.
    Active,
    /// From each bucket before anything is first written to it: the papers' lazy mode.
    Lazy,
}

/// How much of the copying is under way at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyPace {
    /// Bytes that one READ of the old buckets fetches, at most, if a bucket is not longer.
    pub piece: usize,
    /// Pieces that are under way at once, at least 1.
    pub width: usize,
}

impl CopyPace {
    /// A bucket is read, its two copies are written, and then comes the next: the active mode as
    /// paper 001 has it, sections III-D and V-C.
    pub const BUCKET_BY_BUCKET: Self = Self { piece: 0, width: 1 };
    /// As much as keeps a NIC busy. Nothing else goes on meanwhile that would have to wait.
    pub const SIDE_BY_SIDE: Self = Self {
        piece: 64 << 10,
        width: 8,
    };
}

/// Neighbouring buckets of one page.
#[derive(Clone, Copy)]
struct Piece {
    page: u64,
    /// The first bucket, counted from the page's start.
    from: u64,
    count: u64,
}

impl<E: Endpoint> MapEmbedTable<E> {
    /// Doubles the table: it lies at `to` from then on, whose memory must be all zeros and not be
    /// the table's own. [`MapEmbedTable::grown_bytes`] says how much it takes. Nothing else is done
    /// meanwhile. If this fails, the table is where and as it was.
    ///
    /// # Errors
    /// [`Unreadable`](farslot::index::IndexError::Unreadable), or what the fabric says.
    pub async fn grow(&self, to: RemoteAddr, cleaning: CleaningMode, pace: CopyPace) -> Result<()> {
        self.endpoint
            .operation(UPKEEP, self.double(to, cleaning, pace))
            .await
    }

    /// Bytes of remote memory that the table takes once it has grown.
    #[must_use]
    pub fn grown_bytes(&self) -> u128 {
        doubled(self.layout()).table_bytes()
    }

    async fn double(&self, to: RemoteAddr, cleaning: CleaningMode, pace: CopyPace) -> Result<()> {
        let alone = self.hold_alone().await?;
        // Of the growth before. So a bucket never has more than one other copy.
        let all: Vec<u64> = (0..self.layout().buckets).collect();
        for buckets in all.chunks(BATCH_WIDTH) {
            let mut unclean = buckets.to_vec();
            unclean.retain(|bucket| self.placing.is_unclean(*bucket));
            self.clean_alone(&alone, &unclean).await?;
        }
        self.report().await?;
        let counted = Rc::clone(&self.counts.borrow());
        let counted = counted.occupancy(&*self.endpoint).await?;
        let pieces = self.pieces(pace.piece);
        let copies = pieces.map(|piece| self.copy(piece, to, cleaning));
        side_by_side(pace.width.max(1), copies, |_, ()| {}).await?;
        let counts = Counts::new(to, doubled(self.layout()).slots());
        let entries = counted.entries as i64;
        counts.change(entries);
        self.counts.replace(Rc::new(counts));
        self.changed();
        self.placing.double(cleaning);
        self.layout.set(doubled(self.layout()));
        self.place.set(to);
        drop(alone);
        self.entries_changed(0).await;
        Ok(())
    }

    /// All buckets, in pieces of so many bytes at most, or of a bucket.
    fn pieces(&self, bytes: usize) -> impl Iterator<Item = Piece> + use<E> {
        let page = self.placing.page.get();
        let most = (bytes / self.layout().bucket_bytes()).max(1);
        (0..PAGES).flat_map(move |number| {
            (0..page).step_by(most).map(move |from| Piece {
                page: number,
                from,
                count: (page - from).min(most as u64),
            })
        })
    }

    /// Copies a piece to where both halves of its page go.
    async fn copy(&self, piece: Piece, to: RemoteAddr, cleaning: CleaningMode) -> Result<()> {
        let (layout, old_page) = (self.layout(), self.placing.page.get());
        let window = BucketWindow {
            first: piece.page * old_page + piece.from,
            count: piece.count,
        };
        let bytes = self.read_window(window).await?;
        let half = async |upper: bool| {
            let mut copy = self.endpoint.core().buffers.copy_of(&bytes)?;
            if cleaning == CleaningMode::Active {
                self.keep_half(&mut copy, piece, upper);
            }
            let half = if upper { old_page } else { 0 };
            let first = piece.page * 2 * old_page + half + piece.from;
            let at = layout.bucket_at(to, first);
            Ok(self.endpoint.write(at, copy).await?)
        };
        let (lower, upper): (Result<()>, Result<()>) = both(half(false), half(true)).await;
        lower.and(upper)
    }

    /// Makes those slots of a copied piece free whose keys go to the other half.
    fn keep_half(&self, copy: &mut Buffer, piece: Piece, upper: bool) {
        let layout = self.layout();
        for slot in copy.chunks_exact_mut(layout.slot_bytes()) {
            let stays = match layout.format.decode(slot) {
                Slot::Record(record) => {
                    let hash = layout.hasher.hash(record.key);
                    self.placing.goes_to_upper_half(hash, piece.page) == upper
                }
                Slot::Free | Slot::Torn => true,
            };
            if !stays {
                slot[..HEADER].fill(0);
            }
        }
    }
}

fn doubled(layout: BaselineLayout) -> BaselineLayout {
    BaselineLayout {
        buckets: 2 * layout.buckets,
        ..layout
    }
}

impl MapEmbed {
    fn double(&self, cleaning: CleaningMode) {
        let buckets = PAGES * self.page.get();
        let unclean = match cleaning {
            CleaningMode::Active => Vec::new(),
            CleaningMode::Lazy => vec![true; buckets as usize],
        };
        self.unclean.replace(unclean);
        self.page.set(2 * self.page.get());
    }
}

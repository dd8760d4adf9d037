//! The moment at which a record expires, and the clock that it is compared with.

use super::broken::{self, ExpiryBreach};
use farslot_fabric::Nanos;
use farslot_index::FieldSize;
use std::num::NonZero;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The moment at which a record expires: the first 8 bytes of a value as it is stored, in a table
/// whose records may have a time to live ([`Store::stored_table`](crate::Store::stored_table)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Expiry(u64);

/// The bits of the 8 bytes that are the moment. The others are a mark, of a record that is about to
/// live longer (`marking`).
const MOMENT_BITS: u32 = 48;

impl Expiry {
    /// Bytes that it takes.
    pub const BYTES: usize = 8;
    /// Of a record that does not expire.
    pub const NEVER: Self = Self(0);
    /// The last moment that there is, in the year 10889.
    pub const LATEST: Self = Self((1 << MOMENT_BITS) - 1);
    /// The longest time to live: 100,000 days.
    pub const LONGEST: Duration = Duration::from_secs(100_000 * 86_400);

    /// So many milliseconds after the beginning of 1970; 0 for never, and [`Expiry::LATEST`] for
    /// any that is later.
    #[must_use]
    pub const fn at_millis(millis: u64) -> Self {
        match millis > Self::LATEST.0 {
            true => Self::LATEST,
            false => Self(millis),
        }
    }

    /// Milliseconds since 1970; 0 for never.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// So long after now: at least as long, but no later than [`Expiry::LATEST`], and never
    /// [`Expiry::NEVER`].
    #[must_use]
    pub fn after(time_to_live: Duration, now: u64) -> Self {
        let millis = time_to_live.as_nanos().div_ceil(1_000_000);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        Self::at_millis(now.saturating_add(millis).max(1))
    }

    /// Whether a record with it counts as absent at a moment, in milliseconds since 1970.
    #[must_use]
    pub const fn is_past(self, now: u64) -> bool {
        self.0 != 0 && self.0 <= now
    }

    /// How long a record with it still lives; nothing if it does not expire.
    #[must_use]
    pub fn left(self, now: u64) -> Option<Duration> {
        (self.0 != 0).then(|| Duration::from_millis(self.0.saturating_sub(now)))
    }

    /// Takes a value apart as it is stored; nothing of one that is too short, which no client has
    /// written.
    #[must_use]
    pub fn split(stored: &[u8]) -> Option<(Self, &[u8])> {
        let (head, value) = stored.split_first_chunk()?;
        Some((Self(u64::from_le_bytes(*head) & Self::LATEST.0), value))
    }

    /// Whether the moment of a value as it is stored has a mark: its record is about to live
    /// longer.
    pub(crate) fn is_marked(stored: &[u8]) -> bool {
        let head = stored.first_chunk().map(|head| u64::from_le_bytes(*head));
        head.is_some_and(|head| head >> MOMENT_BITS != 0)
    }

    /// A value as it is stored, with this mark at its moment.
    pub(crate) fn marked(stored: &[u8], mark: NonZero<u16>) -> Vec<u8> {
        let mut marked = stored.to_vec();
        if let Some(bits) = marked.get_mut(MOMENT_BITS as usize / 8..Self::BYTES) {
            bits.copy_from_slice(&mark.get().to_le_bytes());
        }
        marked
    }

    /// Whether a record with it ends later than one with another does.
    pub(crate) const fn outlives(self, other: Self) -> bool {
        other.0 != 0 && (self.0 == 0 || self.0 > other.0)
    }

    /// What a stored value means at a moment: nothing if its record has expired, or it is too
    /// short.
    #[must_use]
    pub fn living(stored: &[u8], now: u64) -> Option<(Self, &[u8])> {
        Self::split(stored).filter(|(expiry, _)| !expiry.is_past(now))
    }

    /// The value as it is stored.
    #[must_use]
    pub fn stored(self, value: &[u8]) -> Vec<u8> {
        [&self.to_bytes()[..], value].concat()
    }

    /// Its bytes before a value.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0.to_le_bytes()
    }

    /// Milliseconds since 1970, by this machine's clock.
    #[must_use]
    pub fn now() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    }

    /// The size of a value as it is stored.
    pub(crate) const fn with(value: FieldSize) -> FieldSize {
        match value {
            FieldSize::Fixed(bytes) => FieldSize::Fixed(bytes.saturating_add(Self::BYTES as u32)),
            FieldSize::UpTo(bytes) => FieldSize::UpTo(bytes.saturating_add(Self::BYTES as u32)),
        }
    }

    /// The size of a value that is stored with that size.
    pub(crate) const fn without(stored: FieldSize) -> FieldSize {
        match stored {
            FieldSize::Fixed(bytes) => FieldSize::Fixed(bytes.saturating_sub(Self::BYTES as u32)),
            FieldSize::UpTo(bytes) => FieldSize::UpTo(bytes.saturating_sub(Self::BYTES as u32)),
        }
    }
}

/// The clock that moments are compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExpiryClock {
    /// This machine's.
    Wall,
    /// The endpoint's, in a simulation: so that what a seed gives does not depend on the time of
    /// day.
    Virtual,
}

impl ExpiryClock {
    /// Milliseconds since 1970, or since a simulation began.
    pub(crate) fn now(self, of_endpoint: impl FnOnce() -> Nanos) -> u64 {
        match self {
            Self::Wall => Expiry::now(),
            // 0 is no moment.
            Self::Virtual => of_endpoint() / 1_000_000 + 1,
        }
    }

    /// The same for whoever removes what has ended because room is needed.
    pub(crate) fn for_room(self, of_endpoint: impl FnOnce() -> Nanos) -> u64 {
        let early = if broken::is(ExpiryBreach::EarlyRoom) {
            1_000
        } else {
            0
        };
        self.now(of_endpoint) + early
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_apart_as_they_were_put_together() {
        let expiry = Expiry::after(Duration::from_micros(1_500), 1_000);
        assert_eq!(expiry, Expiry::at_millis(1_002));
        let stored = expiry.stored(b"value");
        assert_eq!(Expiry::split(&stored), Some((expiry, &b"value"[..])));
        assert_eq!(
            Expiry::living(&stored, 1_001),
            Some((expiry, &b"value"[..]))
        );
        assert_eq!(Expiry::living(&stored, 1_002), None);
        assert_eq!(expiry.left(1_000), Some(Duration::from_millis(2)));
        let for_ever = Expiry::NEVER.stored(b"");
        assert_eq!(
            Expiry::living(&for_ever, u64::MAX),
            Some((Expiry::NEVER, &b""[..]))
        );
        assert_eq!(Expiry::NEVER.left(7), None);
        assert_eq!(Expiry::split(&for_ever[1..]), None);
        assert_eq!(Expiry::after(Duration::ZERO, 0), Expiry::at_millis(1));
        assert_eq!(Expiry::after(Duration::MAX, 9), Expiry::LATEST);
        assert_eq!(Expiry::at_millis(u64::MAX), Expiry::LATEST);
        for size in [FieldSize::Fixed(5), FieldSize::UpTo(0)] {
            assert_eq!(Expiry::without(Expiry::with(size)), size);
        }
    }

    #[test]
    fn a_mark_changes_nothing_but_the_bytes() {
        let expiry = Expiry::LATEST;
        let stored = expiry.stored(b"value");
        let marked = Expiry::marked(&stored, NonZero::<u16>::MAX);
        assert!(Expiry::is_marked(&marked) && !Expiry::is_marked(&stored));
        assert_eq!(Expiry::split(&marked), Some((expiry, &b"value"[..])));
        assert_ne!(marked, Expiry::marked(&stored, NonZero::<u16>::MIN));
        assert!(!Expiry::is_marked(&stored[..7]));
    }

    #[test]
    fn what_ends_later_outlives_the_other() {
        let [never, early, late] = [0, 5, 6].map(Expiry::at_millis);
        assert!(late.outlives(early) && never.outlives(late));
        assert!(!early.outlives(late) && !early.outlives(early));
        assert!(!never.outlives(never) && !late.outlives(never));
    }
}

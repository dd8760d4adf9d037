//! Times to live that are broken on purpose: the histories must notice each. Nothing is broken but
//! in tests.

/// What is left out, or done in the wrong order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests break anything"))]
pub(super) enum ExpiryBreach {
    /// A single operation reads the clock after the record.
    LateClock,
    /// A record is made to live longer by one swap, whenever that comes.
    NoMark,
    /// The second swap comes without another look at the clock.
    NoSecondLook,
    /// A mark is left alone by those who find that its record has ended.
    NoCancel,
    /// Where room is needed, records go a second before they end.
    EarlyRoom,
}

#[cfg(test)]
thread_local! {
    static BREACH: std::cell::Cell<Option<ExpiryBreach>> = const { std::cell::Cell::new(None) };
}

/// Breaks what this thread does from now on so, or no more.
#[cfg(test)]
pub(super) fn set(breach: Option<ExpiryBreach>) {
    BREACH.set(breach);
}

#[cfg(test)]
pub(super) fn is(breach: ExpiryBreach) -> bool {
    BREACH.get() == Some(breach)
}

#[cfg(not(test))]
#[inline(always)]
pub(super) const fn is(_: ExpiryBreach) -> bool {
    false
}

/// What the clock says for a record: what it said before, unless that is broken.
#[inline(always)]
pub(super) fn late_clock(before: u64, after: impl FnOnce() -> u64) -> u64 {
    match is(ExpiryBreach::LateClock) {
        true => after(),
        false => before,
    }
}

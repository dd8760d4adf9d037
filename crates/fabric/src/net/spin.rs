//! Decides whether a thread polls for the next event or sleeps until the kernel reports it.
//!
//! Polling finds an answer some microseconds sooner and saves both sides a wake-up, but it occupies
//! a whole core. It pays only while answers arrive soon and nobody else needs that core; the peer
//! might, if both share it. So each wait that was polled in vain makes the following ones begin
//! with sleep, in growing number, and each that was polled with success resets that.

use crate::Nanos;
use std::time::Duration;

/// How long agents and clients look unless they are told otherwise: longer than a batch of 32
/// records of 1,000 bytes takes there and back over loopback, 60 to 70 us, which would be slept for
/// else, and take longer for it every time.
pub(crate) const DEFAULT: Duration = Duration::from_micros(100);

/// Decides, from how the last waits went.
#[derive(Debug)]
pub(crate) struct SpinPolicy {
    /// The longest that a wait is looked through.
    longest: Nanos,
    /// How long the waits took that were looked through to their ends: the mean, later ones
    /// weighing more.
    usual: Nanos,
    /// Waits that shall begin with sleep.
    sleeps: u32,
    /// How many will, when the next one was looked through in vain.
    penalty: u32,
    wait: Option<Wait>,
}

/// What has not come yet.
#[derive(Debug)]
struct Wait {
    began: Nanos,
    /// When it was looked for last.
    looked: Nanos,
    /// Until when to look.
    until: Nanos,
}

/// Between two looks passes a microsecond or two. Where it was more than this, another thread has
/// had the processor, and will have it again.
const TAKEN: Nanos = 100_000;
/// Waits that begin with sleep after the first one that was in vain.
const FIRST_PENALTY: u32 = 4;
/// The most that do: what is waited for often comes seldom for a while only.
const LONGEST_PENALTY: u32 = 1024;
/// What is waited for may take this many times as long as usual.
const PATIENCE: Nanos = 4;
/// No wait is longer than two years; times of this size can be added and multiplied.
const FOR_EVER: Nanos = 1 << 56;
/// A wait is looked through for this long at least, if it is at all.
const SHORTEST: Nanos = 10_000;

impl SpinPolicy {
    /// Looks through waits of up to `longest`; 0 is to sleep always.
    pub(crate) fn new(longest: Nanos) -> Self {
        let longest = longest.min(FOR_EVER);
        Self {
            longest,
            usual: longest,
            sleeps: 0,
            penalty: FIRST_PENALTY,
            wait: None,
        }
    }

    /// To be asked when a look was fruitless: whether to look again now, or to sleep.
    #[inline]
    pub(crate) fn goes_on(&mut self, now: Nanos) -> bool {
        let Some(wait) = &mut self.wait else {
            let spins = self.longest > 0 && self.sleeps == 0;
            self.sleeps = self.sleeps.saturating_sub(1);
            let span = (self.usual * PATIENCE).clamp(SHORTEST, self.longest.max(SHORTEST));
            let span = if spins { span.min(self.longest) } else { 0 };
            self.wait = Some(Wait {
                began: now,
                looked: now,
                until: now + span,
            });
            return spins;
        };
        if wait.until <= wait.began {
            return false;
        }
        let taken = now.saturating_sub(wait.looked) > TAKEN;
        wait.looked = now;
        if now < wait.until && !taken {
            return true;
        }
        // In vain.
        wait.until = wait.began;
        self.sleeps = self.penalty;
        self.penalty = (self.penalty * 2).min(LONGEST_PENALTY);
        false
    }

    /// To be told when what was waited for has come.
    #[inline]
    pub(crate) fn has_come(&mut self, now: Nanos) {
        let Some(wait) = self.wait.take() else {
            return;
        };
        if wait.until > wait.began {
            let took = now.saturating_sub(wait.began).min(self.longest);
            self.usual = (self.usual * 7 + took) / 8;
            self.penalty = (self.penalty / 2).max(FIRST_PENALTY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Nanos = 50_000;

    /// Looks every microsecond until what is waited for comes, after so long, or until it is to
    /// sleep; returns how often it looked.
    fn wait(spin: &mut SpinPolicy, now: &mut Nanos, after: Nanos) -> u64 {
        let (began, mut looks) = (*now, 0);
        while *now < began + after && spin.goes_on(*now) {
            looks += 1;
            *now += 1_000;
        }
        *now = (*now).max(began + after);
        spin.has_come(*now);
        looks
    }

    #[test]
    fn what_comes_soon_is_looked_for_until_it_comes() {
        let (mut spin, mut now) = (SpinPolicy::new(LONGEST), 0);
        for _ in 0..1000 {
            assert_eq!(wait(&mut spin, &mut now, 20_000), 20);
        }
        // What takes much longer than usual is not worth it even within the longest span.
        for _ in 0..100 {
            wait(&mut spin, &mut now, 2_000);
        }
        assert!(wait(&mut spin, &mut now, 40_000) <= 11);
    }

    #[test]
    fn what_never_comes_soon_is_mostly_slept_for_and_tried_now_and_then() {
        let (mut spin, mut now) = (SpinPolicy::new(LONGEST), 0);
        let waits = 10_000;
        let spun = (0..waits)
            .filter(|_| wait(&mut spin, &mut now, 500_000) > 0)
            .count();
        assert!((5..30).contains(&spun), "{spun} of {waits}");
        // Once it does again, that is found out, and stays so.
        for _ in 0..LONGEST_PENALTY {
            wait(&mut spin, &mut now, 10_000);
        }
        for _ in 0..100 {
            assert_eq!(wait(&mut spin, &mut now, 10_000), 10);
        }
    }

    #[test]
    fn whose_processor_is_taken_sleeps() {
        let (mut spin, mut now) = (SpinPolicy::new(LONGEST), 0);
        assert!(spin.goes_on(now));
        now += 4_000_000;
        assert!(!spin.goes_on(now) && !spin.goes_on(now + 1));
        spin.has_come(now);
        for _ in 0..FIRST_PENALTY {
            assert_eq!(wait(&mut spin, &mut now, 1_000), 0);
        }
        assert_eq!(wait(&mut spin, &mut now, 1_000), 1);
    }

    #[test]
    fn who_may_look_for_ever_does() {
        let (mut spin, mut now) = (SpinPolicy::new(Nanos::MAX), 0);
        assert_eq!(wait(&mut spin, &mut now, 100_000_000), 100_000);
    }

    #[test]
    fn who_may_not_look_sleeps_always() {
        let (mut spin, mut now) = (SpinPolicy::new(0), 0);
        for _ in 0..100 {
            assert_eq!(wait(&mut spin, &mut now, 1_000), 0);
        }
    }
}

//! What the connections of an agent may hold together.
//!
//! The bytes that a connection keeps between its turns are counted: what has arrived of a verb that
//! is not whole, and answers that its client has not taken. Nobody has a fixed share. Each may hold
//! a part of what is left, so that a few may hold much and many hold little each, and the sum stays
//! below the limit; what everybody may hold besides is [`LEAST`] either way.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What every connection may hold of either kind, however much the others hold.
pub(crate) const LEAST: usize = 4 << 10;

/// Bytes that are held, of those that may be.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    limit: usize,
    held: AtomicUsize,
}

impl ByteBudget {
    /// Empty, of so many bytes.
    pub(crate) const fn new(limit: usize) -> Self {
        Self {
            limit,
            held: AtomicUsize::new(0),
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn left(&self) -> usize {
        self.limit.saturating_sub(self.held())
    }

    /// Notes that a connection which held `before` bytes now holds others.
    pub(crate) fn change(&self, before: usize, now: usize) {
        // Wrapping, so that less is more of a negative number.
        self.held
            .fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    /// What one connection may hold more than it does, at most `most`: of all that is left, and of
    /// what is left to its grant.
    pub(crate) fn share(&self, of_grant: Option<&Self>, most: usize) -> usize {
        let left = of_grant.map_or(usize::MAX, Self::left).min(self.left());
        (left / 4).min(most).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_shrink_and_never_go_past_the_limit_but_for_the_least() {
        let (all, grant) = (ByteBudget::new(1 << 20), ByteBudget::new(1 << 18));
        let mut shares = Vec::new();
        for _ in 0..100 {
            let share = all.share(Some(&grant), 1 << 17);
            all.change(0, share);
            grant.change(0, share);
            shares.push(share);
        }
        assert_eq!(shares[0], 1 << 16);
        assert!(shares.is_sorted_by(|a, b| a >= b));
        let large = shares.iter().filter(|share| **share > LEAST);
        assert!(large.sum::<usize>() <= 1 << 18);
        assert_eq!(shares.last(), Some(&LEAST));
        // Others have what is left of all.
        assert!(all.share(None, 1 << 30) > 1 << 16);
        for share in shares {
            all.change(share, 0);
            grant.change(share, 0);
        }
        assert_eq!((all.held(), grant.held()), (0, 0));
    }
}

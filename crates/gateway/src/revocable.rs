//! What clients are admitted by, which may be revoked while they are connected.

use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};

/// Something that clients are admitted by, until it is revoked.
#[derive(Debug)]
pub(crate) struct Revocable<T> {
    of: T,
    is_revoked: AtomicBool,
}

impl<T> Revocable<T> {
    fn new(of: T) -> Arc<Self> {
        let is_revoked = AtomicBool::new(false);
        Arc::new(Self { of, is_revoked })
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.is_revoked.load(Relaxed)
    }
}

impl<T> Deref for Revocable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.of
    }
}

/// All that are in force.
#[derive(Debug)]
pub(crate) struct InForce<T>(RwLock<Vec<Arc<Revocable<T>>>>);

impl<T: PartialEq> InForce<T> {
    pub(crate) fn new(all: impl IntoIterator<Item = T>) -> Self {
        let all = all.into_iter().map(Revocable::new);
        Self(RwLock::new(all.collect()))
    }

    /// Puts others in force. What was in force and is not among them is revoked.
    pub(crate) fn change(&self, new: impl IntoIterator<Item = T>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *all);
        for of in new {
            let same = before.iter().position(|known| known.of == of);
            all.push(match same {
                Some(same) => before.swap_remove(same),
                None => Revocable::new(of),
            });
        }
        for known in before {
            known.is_revoked.store(true, Relaxed);
        }
    }

    pub(crate) fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<Arc<Revocable<T>>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|known| is_it(known)).cloned()
    }
}

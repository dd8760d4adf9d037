//! Records that have no place in the buckets (Kirsch, Mitzenmacher and Wieder, "More robust
//! hashing: cuckoo hashing with a stash", 2009).

/// A record in the stash, with its key's hash: a search compares that first, and to bring the
/// record back needs no code of the user's.
#[derive(Clone, Debug)]
pub(super) struct Stashed<K, V> {
    pub(super) hash: u64,
    pub(super) record: (K, V),
}

/// The place of the record that `is_it` accepts.
#[inline]
pub(super) fn find<K, V>(
    stash: &[Stashed<K, V>],
    hash: u64,
    mut is_it: impl FnMut(&K) -> bool,
) -> Option<usize> {
    let mut stash = stash.iter();
    stash.position(|stashed| stashed.hash == hash && is_it(&stashed.record.0))
}

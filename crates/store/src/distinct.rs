//! Records for tables that are built whole.

use crate::KeyRule;
use std::borrow::Cow;
use std::collections::HashSet;

/// A key and its value.
pub(crate) type Pair<'r> = (&'r [u8], &'r [u8]);

/// The records that stay, in their order: where keys are unique, the last of each key, as if one were
/// put after the other.
pub(crate) fn staying<'s, 'r>(keys: KeyRule, records: &'s [Pair<'r>]) -> Cow<'s, [Pair<'r>]> {
    if keys == KeyRule::Multi {
        return Cow::Borrowed(records);
    }
    let mut seen = HashSet::with_capacity(records.len());
    let newest_first = records.iter().rev();
    let mut staying: Vec<_> = newest_first
        .filter(|(key, _)| seen.insert(*key))
        .copied()
        .collect();
    staying.reverse();
    Cow::Owned(staying)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_record_of_a_key_stays_where_it_was() {
        let records: [Pair<'_>; 4] = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4")];
        let unique = staying(KeyRule::Unique, &records);
        assert_eq!(*unique, records[1..]);
        assert_eq!(*staying(KeyRule::Multi, &records), records);
    }
}

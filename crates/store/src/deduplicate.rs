//! The records of a table that is built from all of them at once.

use farslot_index::KeyRule;
use farslot_index::Record;
use std::borrow::Cow;
use std::collections::HashSet;

/// The records that stay, in their order: where keys are unique, the last of each key, as if one
/// were put after the other.
pub(crate) fn last_of_each_key<'s, 'r>(
    keys: KeyRule,
    records: &'s [Record<'r>],
) -> Cow<'s, [Record<'r>]> {
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
        let records: [Record<'_>; 4] = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4")];
        let unique = last_of_each_key(KeyRule::Unique, &records);
        assert_eq!(*unique, records[1..]);
        assert_eq!(*last_of_each_key(KeyRule::Multi, &records), records);
    }
}

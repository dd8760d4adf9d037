//! What an owner runs in histories.

use crate::{Local, Procedures, Steps, TableId};

pub(super) const APPEND: u16 = 1;

/// Bytes of a step: object, key, and the value to be appended, or 0.
const STEP: usize = 17;

/// Reads keys, and appends to some of them. Its reply is what each had: a count, and the values.
pub(super) fn procedures() -> Procedures {
    let mut procedures = Procedures::default();
    procedures.register(APPEND, async |open: &mut Local<'_>, input: &[u8]| {
        let mut reply = Vec::new();
        for step in input.as_chunks::<STEP>().0 {
            let (table, rest) = step.split_first_chunk().expect("a step");
            let (key, value) = ([rest[0]; 3], &rest[1..]);
            let table = TableId(u64::from_le_bytes(*table));
            let mut list = open.read(table, &key).await?.unwrap_or_default();
            reply.push((list.len() / 8) as u8);
            reply.extend_from_slice(&list);
            if value != [0; 8] {
                list.extend_from_slice(value);
                open.write(table, &key, &list).await?;
            }
        }
        Ok(reply)
    });
    procedures
}

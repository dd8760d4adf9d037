//! Transactions of histories that an owner runs.

use super::clients::Record;
use super::world::{KEYS, Key, MAP, MAP_KEYS, NODES, OBJECT};
use crate::{Database, Local, Procedures, Steps, TableId, TxnError};
use farslot_check::serial::ListOp;
use farslot_fabric::sim::SimEndpoint;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

const APPEND: u16 = 1;

/// Bytes of a step: object, key, and the value to be appended, or 0.
const STEP: usize = 11;

/// Reads keys, and appends to some of them. Its reply is what each had: a count, and the values.
pub(super) fn procedures() -> Procedures {
    let mut procedures = Procedures::default();
    procedures.register(APPEND, async |open: &mut Local<'_>, input: &[u8]| {
        let mut reply = Vec::new();
        for step in input.as_chunks::<STEP>().0 {
            let [a, b, key, value @ ..] = *step;
            let (table, key) = (TableId(u16::from_le_bytes([a, b])), [key; 3]);
            let mut list = open.read(table, &key).await?.unwrap_or_default();
            reply.push((list.len() / 8) as u8);
            reply.extend_from_slice(&list);
            if value != [0; 8] {
                list.extend_from_slice(&value);
                open.write(table, &key, &list).await?;
            }
        }
        Ok(reply)
    });
    procedures
}

/// Has an owner run some reads and appends.
pub(super) async fn run(
    database: &Database<SimEndpoint>,
    rng: &mut ChaCha8Rng,
    record: &Record,
    (at, scans): (usize, bool),
) -> Result<(), TxnError> {
    let node = rng.random_range(0..NODES);
    let mut input = Vec::new();
    let mut steps: Vec<(Key, u64)> = Vec::new();
    for _ in 0..rng.random_range(1..=4) {
        let in_map = scans && rng.random_bool(0.7);
        let (key, object): (Key, _) = match in_map {
            true => ((node + NODES, rng.random_range(0..MAP_KEYS)), MAP),
            false => ((node, rng.random_range(0..KEYS)), OBJECT),
        };
        let value = match rng.random_bool(0.6) {
            true => record.value(),
            false => 0,
        };
        if value > 0 {
            // Before it is asked for: it may be there whatever comes of this.
            record.note(at, ListOp::Append(key, value));
        }
        input.extend_from_slice(&object.0.to_le_bytes());
        input.push(key.1);
        input.extend_from_slice(&value.to_le_bytes());
        steps.push((key, value));
    }
    let reply = database.execute(node as u8, APPEND, &input, 4096).await?;
    let mut ops = Vec::new();
    let mut rest = &reply[..];
    for (key, value) in steps {
        let (count, lists) = rest.split_first().expect("a count");
        let (list, after) = lists.split_at(usize::from(*count) * 8);
        rest = after;
        let list = list.as_chunks::<8>().0.iter();
        let list = list.map(|word| u64::from_le_bytes(*word)).collect();
        ops.push(ListOp::Read(key, list));
        if value > 0 {
            ops.push(ListOp::Append(key, value));
        }
    }
    assert!(rest.is_empty(), "a reply of more than was asked for");
    record.replace(at, ops);
    Ok(())
}

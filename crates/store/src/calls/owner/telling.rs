//! Telling callers of tables, as far as they are opened to them: those may not read the catalog
//! whose grants open single keys.

use super::opened::opened_to;
use crate::TableRecord;
use crate::calls::CALL_TURN;
use crate::calls::reply::{ReplyWriter, Status};
use crate::catalog::pool::own_bytes;
use crate::catalog::{LONGEST_TOLD, map_of, tables_from};
use farslot_fabric::{Caller, Nanos, OwnerMemory, Rights};

/// Answers who asks for tables by such a word; returns the bytes of the reply.
pub(super) fn tables(
    asked: u64,
    memory: &dyn OwnerMemory,
    now: Nanos,
    caller: &dyn Caller,
    reply: &mut [u8],
) -> Result<usize, Status> {
    let room = reply.len();
    let fits = |bytes, values| ReplyWriter::bytes(values + 1, bytes + LONGEST_TOLD) <= room;
    if !fits(0, 1) {
        return Err(Status::Malformed);
    }
    let until = now.saturating_add(CALL_TURN);
    let may_go_on =
        |bytes, values| fits(bytes, values) && memory.now().is_none_or(|now| now < until);
    let is_open = |record: &TableRecord| is_open(record, caller, memory);
    let entries = tables_from(memory, asked, is_open, may_go_on);
    let entries = entries.map_err(|_| Status::NotServed)?;
    let mut writer = ReplyWriter::new(reply, entries.len()).ok_or(Status::Malformed)?;
    for (number, value) in &entries {
        writer.put_value(*number, Some(value));
    }
    Ok(writer.finish())
}

/// Answers who asks for the map of a table over several nodes; returns the bytes of the reply.
pub(super) fn map(
    id: u64,
    memory: &dyn OwnerMemory,
    caller: &dyn Caller,
    reply: &mut [u8],
) -> Result<usize, Status> {
    let found = map_of(memory, id).map_err(|_| Status::NotServed)?;
    let (record, map) = found.ok_or(Status::NoTable)?;
    if !is_open(&record, caller, memory) {
        return Err(Status::Denied);
    }
    let mut writer = ReplyWriter::new(reply, 1).ok_or(Status::Malformed)?;
    writer.put_value(0, Some(&map));
    Ok(writer.finish())
}

/// Whether a table, or keys of it, are opened to a caller.
fn is_open(record: &TableRecord, caller: &dyn Caller, memory: &dyn OwnerMemory) -> bool {
    let bytes = own_bytes(record, memory).map(|table_bytes| (table_bytes, record.scheme_bytes()));
    bytes.is_ok_and(|bytes| opened_to(caller, bytes, Rights::READ).is_ok())
}

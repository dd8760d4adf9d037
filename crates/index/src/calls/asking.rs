//! Asking an owner what there is to know of its tables, for clients that may not read its catalog.

use super::reply::{Answered, ReplyWriter, Status, outcomes, reason_of, status_of};
use super::request::{Question, RequestWriter};
use crate::{IndexError, Outcome, Result, UPKEEP, Value};
use farslot_fabric::{Endpoint, EndpointExt, NodeId, RegionId};

/// Asks the owner of a region one of the questions about tables; `number` stands in place of a
/// table's id. Returns the values of its answer with their numbers, in the order in which they
/// came. The reply has room for `values` of them, which take `bytes` together: that bounds what a
/// hostile owner can answer. What the values say is not looked at.
///
/// # Errors
/// What the fabric says; [`IndexError::AtOwner`] if the owner refuses, or its answer makes no
/// sense.
pub async fn ask_of_tables<E: Endpoint>(
    endpoint: &E,
    to: (NodeId, RegionId),
    (question, number): (Question, u64),
    (values, bytes): (usize, usize),
) -> Result<Vec<(usize, Value)>> {
    let mut request = endpoint.core().buffers.take(RequestWriter::bytes(0))?;
    RequestWriter::new(&mut request, question, number, 0);
    let asking = endpoint.call(to, request, ReplyWriter::bytes(values, bytes));
    let reply = endpoint.operation(UPKEEP, asking).await?;
    let head = status_of(&reply);
    let mut told = Vec::new();
    outcomes(reply, |number, answered, _| {
        if let Answered::Done(Outcome::Value(Some(value))) = answered {
            told.push((number, value));
        }
    });
    match head {
        Some((Status::Done, count)) if count as usize == told.len() => Ok(told),
        head => Err(IndexError::AtOwner {
            reason: reason_of(head.map(|(status, _)| status)).into(),
        }),
    }
}

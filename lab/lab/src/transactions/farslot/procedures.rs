//! What each kind of transaction reads and writes, at a client or at the owner.

use crate::transactions::workload::{Call, MOST_NUMBERS, Outcome, Workload};
use crate::transactions::{smallbank, tatp, ycsb};
use farslot::fabric::AnyEndpoint;
use farslot_txn::{Local, Procedures, Steps, TableId, Transaction, TxnError};

/// The workload's procedure at an owner.
pub(super) const RUN: u16 = 1;

/// Whether a workload's transactions can run at the owner of their rows.
pub(super) fn has_procedures(workload: &str) -> bool {
    matches!(workload, "tatp" | "smallbank")
}

/// What an owner that has all rows of a transaction runs.
pub(super) fn procedures(workload: &str) -> Procedures {
    let mut procedures = Procedures::default();
    let here = |table: usize, _| TableId(table as u64);
    match workload {
        "tatp" => procedures.register(RUN, async move |open: &mut Local<'_>, input: &[u8]| {
            Ok(encode(tatp(open, &here, &decode(input)).await?))
        }),
        "smallbank" => procedures.register(RUN, async move |open: &mut Local<'_>, input: &[u8]| {
            Ok(encode(smallbank(open, &here, &decode(input)).await?))
        }),
        _ => {}
    }
    procedures
}

/// The bytes of a transaction's call.
pub(super) fn input(call: &Call, numbers: usize) -> Vec<u8> {
    let mut input = vec![call.kind as u8];
    let numbers = call.numbers[..numbers].iter();
    input.extend(numbers.flat_map(|number| number.to_le_bytes()));
    input
}

fn decode(input: &[u8]) -> Call {
    let (kind, numbers) = input.split_first().unwrap_or((&0, &[]));
    let numbers = numbers.as_chunks::<8>().0.iter().take(MOST_NUMBERS);
    let numbers: Vec<_> = numbers.map(|number| i64::from_le_bytes(*number)).collect();
    Call::new((*kind).into(), &numbers)
}

fn encode(outcome: Outcome) -> Vec<u8> {
    outcome.map_or(Vec::new(), |number| number.to_le_bytes().to_vec())
}

/// What a procedure's reply says.
pub(super) fn outcome(reply: &[u8]) -> Outcome {
    Some(i64::from_le_bytes(reply.try_into().ok()?))
}

pub(super) async fn tatp<S: Steps>(
    open: &mut S,
    table: &impl Fn(usize, i64) -> TableId,
    call: &Call,
) -> std::result::Result<Outcome, TxnError> {
    use tatp::{ACCESS, FACILITY, FORWARDING, NUMBER, SUBSCRIBER};
    use tatp::{forwarding_key, subscriber_key, text_of, typed_key};
    let [number, a, b, c, d, ..] = call.numbers;
    let of = |place| table(place, number);
    let by_number = async |open: &mut S| {
        let found = open.read(of(NUMBER), &text_of(number)).await?;
        let id = found.and_then(|key| <[u8; 4]>::try_from(&*key).ok());
        Ok::<_, TxnError>(id.map_or(0, |id| u32::from_le_bytes(id).into()))
    };
    match call.kind {
        tatp::GET_SUBSCRIBER_DATA => {
            let row = open.read(of(SUBSCRIBER), &subscriber_key(number)).await?;
            Ok(row.and_then(|row| tatp::number_of(row.get(..15)?)))
        }
        tatp::GET_NEW_DESTINATION => {
            let (kind, start, end) = (a, b, c);
            let facility = typed_key(number, kind);
            let keys = [0, 8, 16].map(|start| forwarding_key(number, kind, start));
            let mut wanted = vec![(of(FACILITY), &facility[..])];
            let forwardings = keys.iter().take(start as usize / 8 + 1);
            wanted.extend(forwardings.map(|key| (of(FORWARDING), &key[..])));
            let rows = open.read_many(&wanted).await?;
            let is_active = rows[0].as_ref().is_some_and(|row| row.first() == Some(&1));
            let found = rows[1..].iter().flatten();
            let mut found = found.filter(|row| is_active && i64::from(row[0]) > end);
            Ok(found.next().and_then(|row| tatp::number_of(&row[1..])))
        }
        tatp::GET_ACCESS_DATA => {
            let row = open.read(of(ACCESS), &typed_key(number, a)).await?;
            Ok(row.and_then(|row| row.first().map(|data1| (*data1).into())))
        }
        tatp::UPDATE_SUBSCRIBER_DATA => {
            let (bit, kind, data) = (a, b, c);
            let (own, facility) = (subscriber_key(number), typed_key(number, kind));
            let both = [(of(FACILITY), &facility[..]), (of(SUBSCRIBER), &own[..])];
            let rows = open.read_for_update(&both).await?;
            let [Some(mut row), Some(mut subscriber)] =
                <[_; 2]>::try_from(rows).unwrap_or_default()
            else {
                return Ok(None);
            };
            row[2] = data as u8;
            subscriber[tatp::BITS_AT] = subscriber[tatp::BITS_AT] & !1 | bit as u8;
            open.write(of(FACILITY), &facility, &row).await?;
            open.write(of(SUBSCRIBER), &own, &subscriber).await?;
            Ok(Some(1))
        }
        tatp::UPDATE_LOCATION => {
            let key = subscriber_key(by_number(open).await?);
            let mut rows = open.read_for_update(&[(of(SUBSCRIBER), &key)]).await?;
            let Some(Some(mut row)) = rows.pop() else {
                return Ok(None);
            };
            row[tatp::VLR_AT..].copy_from_slice(&(a as i32).to_le_bytes());
            open.write(of(SUBSCRIBER), &key, &row).await?;
            Ok(Some(1))
        }
        tatp::INSERT_CALL_FORWARDING => {
            let (kind, start, end, forward) = (a, b, c, d);
            let id = by_number(open).await?;
            let keys = [1, 2, 3, 4].map(|kind| typed_key(id, kind));
            let facilities = keys.each_ref().map(|key| (of(FACILITY), &key[..]));
            let rows = open.read_many(&facilities).await?;
            if rows[kind as usize - 1].is_none() {
                return Ok(None);
            }
            let row = [&[end as u8][..], &text_of(forward)].concat();
            let key = forwarding_key(id, kind, start);
            let is_new = open.insert(of(FORWARDING), &key, &row).await?;
            Ok(is_new.then_some(1))
        }
        _ => {
            let key = forwarding_key(by_number(open).await?, a, b);
            let was_there = open.remove(of(FORWARDING), &key).await?;
            Ok(was_there.then_some(1))
        }
    }
}

pub(super) async fn smallbank<S: Steps>(
    open: &mut S,
    table: &impl Fn(usize, i64) -> TableId,
    call: &Call,
) -> std::result::Result<Outcome, TxnError> {
    use smallbank::{CHECKING, PENALTY, SAVINGS};
    let [one, b, c, ..] = call.numbers;
    let own = (one as u32).to_le_bytes();
    let (savings, checking) = (table(SAVINGS, one), table(CHECKING, one));
    let other = (b as u32).to_le_bytes();
    let to = table(CHECKING, b);
    let cents = |row: &Option<Vec<u8>>| {
        let bytes = row
            .as_ref()
            .and_then(|row| <[u8; 8]>::try_from(&**row).ok());
        bytes.map_or(0, i64::from_le_bytes)
    };
    match call.kind {
        smallbank::AMALGAMATE => {
            let keys = [(savings, &own[..]), (checking, &own), (to, &other)];
            let rows = open.read_for_update(&keys).await?;
            let all = rows.iter().map(cents).sum::<i64>();
            open.write(savings, &own, &0i64.to_le_bytes()).await?;
            open.write(checking, &own, &0i64.to_le_bytes()).await?;
            open.write(to, &other, &all.to_le_bytes()).await?;
            Ok(Some(0))
        }
        smallbank::BALANCE => {
            let rows = open.read_many(&[(savings, &own), (checking, &own)]).await?;
            Ok(Some(rows.iter().map(cents).sum()))
        }
        smallbank::DEPOSIT_CHECKING => {
            let rows = open.read_for_update(&[(checking, &own)]).await?;
            let new = cents(&rows[0]) + b;
            open.write(checking, &own, &new.to_le_bytes()).await?;
            Ok(Some(0))
        }
        smallbank::SEND_PAYMENT => {
            let keys = [(checking, &own[..]), (to, &other)];
            let rows = open.read_for_update(&keys).await?;
            let (from, into) = (cents(&rows[0]) - c, cents(&rows[1]) + c);
            if from < 0 {
                return Ok(None);
            }
            open.write(checking, &own, &from.to_le_bytes()).await?;
            open.write(to, &other, &into.to_le_bytes()).await?;
            Ok(Some(0))
        }
        smallbank::TRANSACT_SAVINGS => {
            let rows = open.read_for_update(&[(savings, &own)]).await?;
            let new = cents(&rows[0]) + b;
            if new < 0 {
                return Ok(None);
            }
            open.write(savings, &own, &new.to_le_bytes()).await?;
            Ok(Some(0))
        }
        _ => {
            let rows = open.read_for_update(&[(checking, &own)]).await?;
            let saved = open.read(savings, &own).await?;
            let has = cents(&rows[0]);
            let taken = if has + cents(&saved) < b {
                b + PENALTY
            } else {
                b
            };
            open.write(checking, &own, &(has - taken).to_le_bytes())
                .await?;
            Ok(Some(taken))
        }
    }
}

/// Reads are side by side, then the rest goes by in order.
pub(super) async fn ycsb(
    open: &mut Transaction<'_, AnyEndpoint>,
    table: &impl Fn(usize, i64) -> TableId,
    (workload, call): (&dyn Workload, &Call),
) -> std::result::Result<Outcome, TxnError> {
    use ycsb::{Operation, RECORDS, VALUE_BYTES};
    let keyed: Vec<_> = ycsb::operations(call)
        .map(|operation| {
            let record = operation.record();
            (
                operation,
                table(RECORDS, record as i64),
                ycsb::key_of(record),
            )
        })
        .collect();
    let of = |is_meant: fn(&Operation) -> bool| -> Vec<_> {
        let meant = keyed.iter().filter(|(operation, ..)| is_meant(operation));
        meant.map(|(_, table, key)| (*table, &key[..])).collect()
    };
    let reads = of(|operation| matches!(operation, Operation::Read(_)));
    let mut reads = open.read_many(&reads).await?.into_iter();
    let rewrites = of(|operation| matches!(operation, Operation::Rewrite(_)));
    let mut rewrites = open.read_for_update(&rewrites).await?.into_iter();
    let values = workload.values(call).unwrap_or_default();
    let mut values = values.chunks_exact(VALUE_BYTES);
    let mut read = Vec::new();
    for (operation, table, key) in &keyed {
        match operation {
            Operation::Read(_) => read.extend(reads.next().flatten().unwrap_or_default()),
            Operation::Rewrite(_) => {
                read.extend(rewrites.next().flatten().unwrap_or_default());
                open.write(*table, key, values.next().unwrap_or_default())
                    .await?;
            }
            Operation::Update(_) => {
                open.write(*table, key, values.next().unwrap_or_default())
                    .await?;
            }
            Operation::Insert(_) => {
                let value = values.next().unwrap_or_default();
                if !open.insert(*table, key, value).await? {
                    return Ok(None);
                }
            }
            Operation::Scan(_, length) => {
                let pairs = open.scan(*table, &key[..], *length as usize).await?;
                pairs.iter().for_each(|(_, value)| read.extend(value));
            }
        }
    }
    Ok(workload.outcome_of(call, &read))
}

//! The workloads of YCSB's core in transactions of 1 to 8 keys, each number as probable as any.
//!
//! Every key of a transaction is an operation of the workload's mix, on records that YCSB's
//! distributions draw; no record comes twice in a transaction. A record is one value of 1000 bytes,
//! which an update replaces whole. Scans (workload E) go over an ordered map, whose transactions
//! see all of a range at one moment; PostgreSQL scans its index, and Redis, whose hash has no
//! order, reads consecutive numbers.
//!
//! A client inserts numbers of its own, and no more than would double the records; after that it
//! reads instead. What it reads of the latest records (workload D) may be its own inserts that are
//! still under way: those may be absent, all that was loaded may not.
//!
//! ```text
//! a value:   | checksum of the rest, 16 hexadecimal digits
//!            | record, 20 digits | version, 20 | letters .. |
//! ```

use super::workload::{
    Call, InsertedRow, Kind, MOST_NUMBERS, Outcome, Redis, TableOf, Total, Workload,
    WorkloadClient, draw_kind, mixed,
};
use crate::Result;
use crate::ycsb::{LONGEST_SCAN, SKEW, Workload as Letter, scatter};
use farslot_bench::simulated::Zipf;
use rand::RngExt;
use std::rc::Rc;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a value: YCSB's ten fields of 100.
pub(super) const VALUE_BYTES: usize = 1000;
/// Bytes of the checksum, and of the numbers behind it.
const CHECKSUM: usize = 16;
const DIGITS: usize = 20;
/// The only table's place.
pub(super) const RECORDS: usize = 0;

/// The records and their mix.
#[derive(Clone, Debug)]
pub(super) struct Ycsb {
    letter: Letter,
    popularity: Zipf,
}

/// One key of a transaction: a number of the call, which has the record from bit 10 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Read(u64),
    Update(u64),
    Insert(u64),
    /// The record that it begins with, and how many it is of.
    Scan(u64, u64),
    /// A read and an update.
    Rewrite(u64),
}

impl Operation {
    pub(super) const fn record(self) -> u64 {
        match self {
            Self::Read(record)
            | Self::Update(record)
            | Self::Insert(record)
            | Self::Scan(record, _)
            | Self::Rewrite(record) => record,
        }
    }

    /// Whether it gives the record a value.
    const fn writes(self) -> bool {
        matches!(self, Self::Update(_) | Self::Insert(_) | Self::Rewrite(_))
    }

    fn number(self) -> i64 {
        let (kind, length) = match self {
            Self::Read(_) => (0, 0),
            Self::Update(_) => (1, 0),
            Self::Insert(_) => (2, 0),
            Self::Scan(_, length) => (3, length),
            Self::Rewrite(_) => (4, 0),
        };
        (self.record() << 10 | length << 3 | kind) as i64
    }

    fn of(number: i64) -> Self {
        let record = number.unsigned_abs() >> 10;
        match number & 7 {
            0 => Self::Read(record),
            1 => Self::Update(record),
            2 => Self::Insert(record),
            3 => Self::Scan(record, number.unsigned_abs() >> 3 & 127),
            _ => Self::Rewrite(record),
        }
    }
}

/// The keys of a transaction.
pub(super) fn operations(call: &Call) -> impl Iterator<Item = Operation> + '_ {
    let numbers = &call.numbers[..=call.kind];
    numbers.iter().map(|number| Operation::of(*number))
}

/// The key of a record: in the order of the numbers.
pub(super) const fn key_of(record: u64) -> [u8; 8] {
    record.to_be_bytes()
}

const SCRIPT: &str = "
local values, at, out = ARGV[#ARGV], 1, {}
for i = 1, #ARGV - 1 do
  local number = tonumber(ARGV[i])
  local kind, length, record = number % 8, math.floor(number / 8) % 128, math.floor(number / 1024)
  if kind == 3 then
    local keys = {}
    for k = 1, length do keys[k] = 'r:' .. (record + k - 1) end
    for _, row in ipairs(redis.call('MGET', unpack(keys))) do
      if row then out[#out + 1] = row end
    end
  else
    local key = 'r:' .. record
    if kind == 0 or kind == 4 then
      local row = redis.call('GET', key)
      if row then out[#out + 1] = row end
    end
    if kind ~= 0 then
      redis.call('SET', key, values:sub(at, at + 999))
      at = at + 1000
    end
  end
end
return table.concat(out)";

macro_rules! kind {
    ($name:literal, $share:literal, $keys:literal, $numbers:literal, $values:literal) => {
        Kind {
            name: $name,
            share: $share,
            numbers: $keys,
            succeeds: Some(100.0),
            redis: Redis::Script(SCRIPT),
            postgres: concat!(
                "SELECT ycsb(ARRAY[",
                $numbers,
                "]::bigint[], ",
                $values,
                "::text)"
            ),
        }
    };
}

/// By the number of keys, less 1.
const KINDS: [Kind; MOST_NUMBERS] = [
    kind!("1 key", 13, 1, "$1", "$2"),
    kind!("2 keys", 13, 2, "$1,$2", "$3"),
    kind!("3 keys", 13, 3, "$1,$2,$3", "$4"),
    kind!("4 keys", 13, 4, "$1,$2,$3,$4", "$5"),
    kind!("5 keys", 12, 5, "$1,$2,$3,$4,$5", "$6"),
    kind!("6 keys", 12, 6, "$1,$2,$3,$4,$5,$6", "$7"),
    kind!("7 keys", 12, 7, "$1,$2,$3,$4,$5,$6,$7", "$8"),
    kind!("8 keys", 12, 8, "$1,$2,$3,$4,$5,$6,$7,$8", "$9"),
];

const fn table(rows: f64, ordered: bool) -> [TableOf; 1] {
    [TableOf {
        name: "records",
        key_bytes: 8,
        value_bytes: VALUE_BYTES as u16,
        rows,
        ordered,
    }]
}

/// Where nothing is inserted, where up to as many as were loaded are, and where there are scans.
const CONSTANT: [TableOf; 1] = table(1.0, false);
const GROWING: [TableOf; 1] = table(2.0, false);
const SCANNED: [TableOf; 1] = table(2.0, true);

const SCHEMA: &str = "
CREATE TABLE records (id bigint PRIMARY KEY, value text NOT NULL);
CREATE FUNCTION ycsb(numbers bigint[], given text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE number bigint; record bigint; kind int; length int; at int := 1; taken text; result text := '';
BEGIN
  FOREACH number IN ARRAY numbers LOOP
    kind := number & 7; length := (number >> 3) & 127; record := number >> 10;
    IF kind = 0 OR kind = 4 THEN
      SELECT r.value INTO taken FROM records r WHERE r.id = record;
      IF FOUND THEN result := result || taken; END IF;
    END IF;
    IF kind = 3 THEN
      SELECT coalesce(string_agg(s.value, '' ORDER BY s.id), '') INTO taken
      FROM (SELECT r.id, r.value FROM records r WHERE r.id >= record ORDER BY r.id LIMIT length) s;
      result := result || taken;
    ELSIF kind = 2 THEN
      INSERT INTO records VALUES (record, substr(given, at, 1000));
      at := at + 1000;
    ELSIF kind <> 0 THEN
      UPDATE records SET value = substr(given, at, 1000) WHERE id = record;
      at := at + 1000;
    END IF;
  END LOOP;
  RETURN result;
END $$;
";

impl Ycsb {
    /// The workload of a letter on so many records.
    pub(super) fn new(letter: Letter, records: u64) -> Self {
        Self {
            letter,
            popularity: Zipf::new(records.min(u32::MAX.into()) as u32, SKEW),
        }
    }

    fn records(&self) -> u64 {
        self.popularity.count().into()
    }

    /// Draws a key of a transaction that has some already.
    fn operation(&self, client: &mut WorkloadClient, earlier: &[i64]) -> Operation {
        let mix = self.letter.mix();
        let mut drawn: f64 = client.random.random();
        let mut is = |part: f64| {
            drawn -= part;
            (-part..0.0).contains(&drawn)
        };
        let (updates, inserts) = (is(mix.update), is(mix.insert));
        let (scans, rewrites) = (is(mix.scan), is(mix.read_modify_write));
        if inserts && client.inserted < self.records() / client.threads {
            client.inserted += 1;
            return Operation::Insert(self.inserted_by(client, client.inserted - 1));
        }
        let mut record = self.record(client);
        // There are more records than keys of a transaction.
        while earlier
            .iter()
            .any(|number| Operation::of(*number).record() == record)
        {
            record = (record + 1) % self.records();
        }
        if scans {
            return Operation::Scan(record, client.random.random_range(1..=LONGEST_SCAN));
        }
        match (updates, rewrites) {
            (true, _) => Operation::Update(record),
            (_, true) => Operation::Rewrite(record),
            _ => Operation::Read(record),
        }
    }

    /// A record that an operation is on.
    fn record(&self, client: &mut WorkloadClient) -> u64 {
        let rank = u64::from(self.popularity.draw(&mut client.random));
        if self.letter != Letter::D {
            return scatter(rank) % self.records();
        }
        // The latest first: those that this client has inserted, then those that were loaded.
        match client.inserted.checked_sub(rank + 1) {
            Some(own) => self.inserted_by(client, own),
            None => self.records() + client.inserted - 1 - rank,
        }
    }

    /// The number of a record that a client has inserted.
    fn inserted_by(&self, client: &WorkloadClient, own: u64) -> u64 {
        self.records() + own * client.threads + client.thread
    }

    /// How many rows of a scan are there, if they are as they must be: those that were loaded, and
    /// then others in order.
    fn scanned<'r>(&self, first: u64, length: u64, rows: &mut ReplyRows<'r>) -> Option<i64> {
        let loaded = self.records().saturating_sub(first).min(length);
        for record in first..first + loaded {
            rows.take(|found| found == record)?;
        }
        let (mut count, mut last) = (loaded, first + loaded);
        while count < length
            && let Some(found) = rows.take(|found| found >= last)
        {
            (count, last) = (count + 1, found + 1);
        }
        Some(count as i64)
    }
}

/// Values that were read, one behind the other.
struct ReplyRows<'r>(&'r [u8]);

impl ReplyRows<'_> {
    /// Takes the next value if it is whole and of a record that is meant; returns the record.
    fn take(&mut self, is_meant: impl Fn(u64) -> bool) -> Option<u64> {
        let (value, rest) = self.0.split_at_checked(VALUE_BYTES)?;
        let record = record_of(value).filter(|record| is_meant(*record))?;
        self.0 = rest;
        Some(record)
    }
}

/// The value of a record's version.
fn value_of(record: u64, version: u64) -> Vec<u8> {
    let mut value = format!("{:0CHECKSUM$}{record:0DIGITS$}{version:0DIGITS$}", 0).into_bytes();
    let mut word = mixed([record, version, 0, 0]) | 1;
    while value.len() < VALUE_BYTES {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        value.extend(word.to_le_bytes().map(|byte| b'a' + byte % 16));
    }
    value.truncate(VALUE_BYTES);
    let checksum = format!("{:0CHECKSUM$x}", xxh3_64(&value[CHECKSUM..]));
    value[..CHECKSUM].copy_from_slice(checksum.as_bytes());
    value
}

/// The record that a whole value is of.
fn record_of(value: &[u8]) -> Option<u64> {
    let (checksum, rest) = value.split_at_checked(CHECKSUM)?;
    let checksum = u64::from_str_radix(std::str::from_utf8(checksum).ok()?, 16).ok()?;
    let record = std::str::from_utf8(rest.get(..DIGITS)?)
        .ok()?
        .parse()
        .ok()?;
    (checksum == xxh3_64(rest)).then_some(record)
}

impl Workload for Ycsb {
    fn name(&self) -> &'static str {
        match self.letter {
            Letter::A => "ycsb-a",
            Letter::B => "ycsb-b",
            Letter::C => "ycsb-c",
            Letter::D => "ycsb-d",
            Letter::E => "ycsb-e",
            Letter::F => "ycsb-f",
        }
    }

    fn shared(&self) -> Rc<dyn Workload> {
        Rc::new(self.clone())
    }

    fn size(&self) -> u64 {
        self.records()
    }

    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn tables(&self) -> &'static [TableOf] {
        match self.letter {
            Letter::E => &SCANNED,
            letter if letter.inserts() => &GROWING,
            _ => &CONSTANT,
        }
    }

    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn schema_after_load(&self) -> &'static str {
        "ANALYZE"
    }

    fn load(&self, put: &mut dyn FnMut(InsertedRow) -> Result<()>) -> Result<()> {
        (0..self.records()).try_for_each(|record| {
            let value = value_of(record, 0);
            let text = String::from_utf8_lossy(&value);
            put(InsertedRow {
                table: RECORDS,
                part: record as i64,
                key: key_of(record).into(),
                columns: format!("{record}\t{text}"),
                redis: (format!("r:{record}"), value.clone()),
                value,
            })
        })
    }

    fn draw(&self, client: &mut WorkloadClient) -> Call {
        let kind = draw_kind(&KINDS, &mut client.random);
        let mut numbers = [0; MOST_NUMBERS];
        for at in 0..=kind {
            numbers[at] = self.operation(client, &numbers[..at]).number();
        }
        Call { kind, numbers }
    }

    fn values(&self, call: &Call) -> Option<Vec<u8>> {
        let [a, b, c, d, ..] = call.numbers.map(i64::unsigned_abs);
        let version = mixed([a, b, c, d]);
        let written = operations(call).filter(|operation| operation.writes());
        let values = written.map(|operation| value_of(operation.record(), version));
        Some(values.collect::<Vec<_>>().concat())
    }

    /// How many records were read, all of which are whole and those that were asked for.
    fn outcome_of(&self, call: &Call, read: &[u8]) -> Outcome {
        let (mut rows, mut count) = (ReplyRows(read), 0);
        for operation in operations(call) {
            match operation {
                Operation::Read(record) | Operation::Rewrite(record) => {
                    let found = rows.take(|found| found == record);
                    count += i64::from(found.is_some());
                    // Only what is inserted meanwhile may be absent.
                    if found.is_none() && record < self.records() {
                        return None;
                    }
                }
                Operation::Scan(first, length) => {
                    count += self.scanned(first, length, &mut rows)?
                }
                Operation::Update(_) | Operation::Insert(_) => {}
            }
        }
        rows.0.is_empty().then_some(count)
    }

    fn is_right(&self, _: &Call, outcome: Outcome) -> bool {
        outcome.is_some()
    }

    fn change(&self, _: &Call, _: Outcome) -> i64 {
        0
    }

    fn total(&self) -> Option<Total> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn rows(records: &[u64]) -> Vec<u8> {
        let values = records.iter().map(|record| value_of(*record, 7));
        values.collect::<Vec<_>>().concat()
    }

    #[test]
    fn transactions_have_one_to_eight_keys_of_the_mix_and_none_twice() {
        for letter in Letter::ALL {
            let ycsb = Ycsb::new(letter, 1000);
            let mut client = WorkloadClient::new(3, 1, 2);
            let mut counts = [0_u32; 5];
            let mut inserted = HashSet::new();
            let mut kinds = [0_u32; MOST_NUMBERS];
            for _ in 0..2000 {
                let call = ycsb.draw(&mut client);
                kinds[call.kind] += 1;
                let mut records = HashSet::new();
                for operation in operations(&call) {
                    let record = operation.record();
                    assert!(records.insert(record), "{letter}: {record} twice");
                    assert_eq!(Operation::of(operation.number()), operation);
                    let at = operation.number() & 7;
                    counts[at as usize] += 1;
                    match operation {
                        Operation::Insert(_) => {
                            assert!(record >= 1000 && record % 2 == 1, "{record}");
                            assert!(inserted.insert(record), "{record} inserted twice");
                        }
                        Operation::Scan(_, length) => assert!((1..=100).contains(&length)),
                        _ => assert!(record < 1000 || inserted.contains(&record), "{record}"),
                    }
                }
                let written = operations(&call)
                    .filter(|operation| operation.writes())
                    .count();
                assert_eq!(ycsb.values(&call).unwrap().len(), written * VALUE_BYTES);
            }
            assert!(
                kinds.iter().all(|count| (150..350).contains(count)),
                "{kinds:?}"
            );
            // The first 500 inserts are all that a client of two may do.
            let mix = letter.mix();
            let all = f64::from(counts.iter().sum::<u32>());
            let parts = [mix.update, mix.scan, mix.read_modify_write];
            for (part, count) in parts.into_iter().zip([counts[1], counts[3], counts[4]]) {
                assert!(
                    (f64::from(count) / all - part).abs() < 0.02,
                    "{letter}: {counts:?}"
                );
            }
            assert_eq!(counts[2] > 300, letter.inserts(), "{letter}: {counts:?}");
            assert!(counts[2] <= 500);
        }
    }

    #[test]
    fn only_the_values_that_were_asked_for_are_right() {
        let ycsb = Ycsb::new(Letter::D, 100);
        let call = |all: &[Operation]| {
            let numbers: Vec<i64> = all.iter().map(|operation| operation.number()).collect();
            Call::new(numbers.len() - 1, &numbers)
        };
        let reads = call(&[
            Operation::Read(5),
            Operation::Update(6),
            Operation::Rewrite(107),
        ]);
        assert_eq!(ycsb.outcome_of(&reads, &rows(&[5, 107])), Some(2));
        assert_eq!(
            ycsb.outcome_of(&reads, &rows(&[5])),
            Some(1),
            "107 is not loaded"
        );
        for wrong in [&[][..], &[107], &[107, 5], &[6, 107], &[5, 107, 8]] {
            assert_eq!(ycsb.outcome_of(&reads, &rows(wrong)), None, "{wrong:?}");
        }
        let scan = call(&[Operation::Scan(97, 6), Operation::Read(1)]);
        for (right, count) in [
            (&[97, 98, 99, 1][..], 4),
            (&[97, 98, 99, 100, 104, 1], 6),
            (&[97, 98, 99, 100, 101, 102, 1], 7),
        ] {
            assert_eq!(
                ycsb.outcome_of(&scan, &rows(right)),
                Some(count),
                "{right:?}"
            );
        }
        for wrong in [
            &[97, 98, 1][..],
            &[97, 98, 99, 101, 100, 1],
            &[98, 97, 99, 1],
        ] {
            assert_eq!(ycsb.outcome_of(&scan, &rows(wrong)), None, "{wrong:?}");
        }
        let mut torn = rows(&[5, 107]);
        torn[VALUE_BYTES - 1] = b'z';
        assert_eq!(ycsb.outcome_of(&reads, &torn), None);
    }
}

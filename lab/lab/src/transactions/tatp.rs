//! TATP (*Telecommunication Application Transaction Processing Benchmark Description*, IBM, 2009):
//! the home location register of a mobile network.
//!
//! Each subscriber has 1 to 4 access rows and 1 to 4 facilities of types from 1 to 4, each number
//! as probable as any; a facility is active with a probability of 0.85 and has 0 to 3 forwardings,
//! of start times 0, 8, 16. Subscribers are drawn by the description's own uneven distribution.
//!
//! What follows for the transactions: a type from 1 to 4 is there with a probability of 2.5 / 4 =
//! 62.5 %, a forwarding with 62.5 % * 1.5 / 3 = 31.25 %. GET_NEW_DESTINATION needs an active
//! facility (53.125 %), and one of its forwardings at the time: 27.84 % by a count of all cases
//! ([`a_test`](tests) does it), and so 14.79 % together.

use super::workload::{
    Call, InsertedRow, Kind, Outcome, Redis, TableOf, Total, Workload, WorkloadClient, draw_kind,
    mixed,
};
use crate::Result;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

/// The tables' places.
pub(super) const SUBSCRIBER: usize = 0;
pub(super) const NUMBER: usize = 1;
pub(super) const ACCESS: usize = 2;
pub(super) const FACILITY: usize = 3;
pub(super) const FORWARDING: usize = 4;

/// The kinds' places.
pub(super) const GET_SUBSCRIBER_DATA: usize = 0;
pub(super) const GET_NEW_DESTINATION: usize = 1;
pub(super) const GET_ACCESS_DATA: usize = 2;
pub(super) const UPDATE_SUBSCRIBER_DATA: usize = 3;
pub(super) const UPDATE_LOCATION: usize = 4;
pub(super) const INSERT_CALL_FORWARDING: usize = 5;
pub(super) const DELETE_CALL_FORWARDING: usize = 6;

/// Where a subscriber's bits, and its visitor location, are in its value.
pub(super) const BITS_AT: usize = 15;
pub(super) const VLR_AT: usize = 36;
/// Bytes of a subscriber's value.
const SUBSCRIBER_BYTES: usize = 40;

/// The register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tatp {
    pub subscribers: u64,
    pub seed: u64,
    /// Whether subscribers are drawn evenly, and not as the description has it.
    pub evenly: bool,
}

/// In scripts: the subscriber of a number.
macro_rules! by_number {
    ($rest:literal) => {
        concat!(
            "local id = redis.call('GET', string.format('n:%015d', ARGV[1]))\n",
            $rest
        )
    };
}

const KINDS: [Kind; 7] = [
    Kind {
        name: "get-subscriber-data",
        share: 35,
        numbers: 1,
        succeeds: Some(100.0),
        redis: Redis::Command(&["GET", "s:{0}"], |reply| digits(reply, 0..15)),
        postgres: "SELECT * FROM subscriber WHERE s_id = $1",
    },
    Kind {
        name: "get-new-destination",
        share: 10,
        numbers: 4,
        succeeds: Some(14.79),
        redis: Redis::Script(
            "local of = ARGV[1] .. ':' .. ARGV[2]
             local facility = redis.call('GET', 'f:' .. of)
             if not facility or facility:byte(1) == 0 then return false end
             for start = 0, tonumber(ARGV[3]), 8 do
               local row = redis.call('GET', 'c:' .. of .. ':' .. start)
               if row and row:byte(1) > tonumber(ARGV[4]) then return tonumber(row:sub(2)) end
             end
             return false",
        ),
        postgres: "SELECT cf.numberx FROM special_facility sf, call_forwarding cf
                   WHERE sf.s_id = $1 AND sf.sf_type = $2 AND sf.is_active = 1 AND cf.s_id = sf.s_id
                   AND cf.sf_type = sf.sf_type AND cf.start_time <= $3 AND $4 < cf.end_time",
    },
    Kind {
        name: "get-access-data",
        share: 35,
        numbers: 2,
        succeeds: Some(62.5),
        redis: Redis::Command(&["GET", "a:{0}:{1}"], |reply| match reply {
            redis::Value::BulkString(row) => row.first().map(|data1| (*data1).into()),
            _ => None,
        }),
        postgres: "SELECT data1, data2, data3, data4 FROM access_info WHERE s_id = $1 AND ai_type = $2",
    },
    Kind {
        name: "update-subscriber-data",
        share: 2,
        numbers: 4,
        succeeds: Some(62.5),
        redis: Redis::Script(
            "local f = 'f:' .. ARGV[1] .. ':' .. ARGV[3]
             if redis.call('EXISTS', f) == 0 then return false end
             redis.call('SETRANGE', f, 2, string.char(ARGV[4]))
             local s = 's:' .. ARGV[1]
             local bits = redis.call('GETRANGE', s, 15, 15):byte(1)
             bits = bits - bits % 2 + tonumber(ARGV[2])
             redis.call('SETRANGE', s, 15, string.char(bits))
             return 1",
        ),
        postgres: "SELECT update_subscriber_data($1::int, $2::int, $3::int, $4::int)",
    },
    Kind {
        name: "update-location",
        share: 14,
        numbers: 2,
        succeeds: Some(100.0),
        redis: Redis::Script(by_number!(
            "redis.call('SETRANGE', 's:' .. id, 36, struct.pack('<I4', ARGV[2])) return 1"
        )),
        postgres: "UPDATE subscriber SET vlr_location = $2 WHERE sub_nbr = lpad($1, 15, '0') RETURNING 1",
    },
    Kind {
        name: "insert-call-forwarding",
        share: 2,
        numbers: 5,
        succeeds: Some(31.25),
        redis: Redis::Script(by_number!(
            "local found = false
             for kind = 1, 4 do
               local is = redis.call('EXISTS', 'f:' .. id .. ':' .. kind) == 1
               found = found or (is and kind == tonumber(ARGV[2]))
             end
             if not found then return false end
             local row = string.char(ARGV[4]) .. string.format('%015d', ARGV[5])
             local name = 'c:' .. id .. ':' .. ARGV[2] .. ':' .. ARGV[3]
             if redis.call('SETNX', name, row) == 0 then return false end
             return 1"
        )),
        postgres: "SELECT insert_call_forwarding($1::text, $2::int, $3::int, $4::int, $5::text)",
    },
    Kind {
        name: "delete-call-forwarding",
        share: 2,
        numbers: 3,
        succeeds: Some(31.25),
        redis: Redis::Script(by_number!(
            "if redis.call('DEL', 'c:' .. id .. ':' .. ARGV[2] .. ':' .. ARGV[3]) == 0 then return false end
             return 1"
        )),
        postgres: "DELETE FROM call_forwarding WHERE s_id = (SELECT s_id FROM subscriber WHERE sub_nbr = lpad($1, 15, '0'))
                   AND sf_type = $2 AND start_time = $3 RETURNING 1",
    },
];

const TABLES: [TableOf; 5] = [
    TableOf {
        name: "subscriber",
        key_bytes: 4,
        value_bytes: SUBSCRIBER_BYTES as u16,
        rows: 1.0,
        ordered: false,
    },
    TableOf {
        // Of PostgreSQL an index.
        name: "number",
        key_bytes: 15,
        value_bytes: 4,
        rows: 1.0,
        ordered: false,
    },
    TableOf {
        name: "access_info",
        key_bytes: 5,
        value_bytes: 10,
        rows: 2.5,
        ordered: false,
    },
    TableOf {
        name: "special_facility",
        key_bytes: 5,
        value_bytes: 8,
        rows: 2.5,
        ordered: false,
    },
    TableOf {
        name: "call_forwarding",
        key_bytes: 6,
        value_bytes: 16,
        rows: 4.0,
        ordered: false,
    },
];

const SCHEMA: &str = include_str!("tatp.sql");

const AFTER_LOAD: &str = "
ALTER TABLE access_info ADD FOREIGN KEY (s_id) REFERENCES subscriber;
ALTER TABLE special_facility ADD FOREIGN KEY (s_id) REFERENCES subscriber;
ALTER TABLE call_forwarding ADD FOREIGN KEY (s_id, sf_type) REFERENCES special_facility;
ANALYZE";

/// The number in some bytes of a reply.
fn digits(reply: &redis::Value, at: std::ops::Range<usize>) -> Outcome {
    match reply {
        redis::Value::BulkString(row) => number_of(row.get(at)?),
        _ => None,
    }
}

/// The number that some digits are.
pub(super) fn number_of(digits: &[u8]) -> Outcome {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A subscriber's number as its text.
pub(super) fn text_of(number: i64) -> [u8; 15] {
    let mut text = [b'0'; 15];
    let mut rest = number.unsigned_abs();
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text
}

/// The key of a subscriber.
pub(super) fn subscriber_key(subscriber: i64) -> [u8; 4] {
    (subscriber as u32).to_le_bytes()
}

/// The key of a subscriber's access row or facility.
pub(super) fn typed_key(subscriber: i64, kind: i64) -> [u8; 5] {
    let [a, b, c, d] = subscriber_key(subscriber);
    [a, b, c, d, kind as u8]
}

/// The key of a forwarding.
pub(super) fn forwarding_key(subscriber: i64, kind: i64, start: i64) -> [u8; 6] {
    let [a, b, c, d, e] = typed_key(subscriber, kind);
    [a, b, c, d, e, start as u8]
}

/// Where a forwarding leads: a number that says whose it is.
fn destination(subscriber: i64, kind: i64) -> i64 {
    subscriber * 10 + kind
}

/// What is in the first column of an access row.
fn data1(subscriber: i64, kind: i64) -> i64 {
    (subscriber * 7 + kind) % 256
}

/// Which start times a mask of three bits stands for.
fn starts(mask: u64) -> impl Iterator<Item = i64> {
    (0..3)
        .filter(move |bit| mask >> bit & 1 == 1)
        .map(|bit| bit * 8)
}

/// The sets of so many of three.
const SETS: [&[u64]; 4] = [&[0], &[1, 2, 4], &[3, 5, 6], &[7]];
/// The sets of so many of four.
const TYPES: [&[u64]; 4] = [
    &[1, 2, 4, 8],
    &[3, 5, 6, 9, 10, 12],
    &[7, 11, 13, 14],
    &[15],
];

/// One of the sets of a number of members that is drawn before: each number is as probable as any.
fn draw_set(sets: &[&[u64]; 4], drawn: u64) -> u64 {
    let sets = sets[(drawn % 4) as usize];
    sets[(drawn / 4 % sets.len() as u64) as usize]
}

impl Tatp {
    fn drawn(&self, purpose: u64, subscriber: i64, more: i64) -> u64 {
        mixed([self.seed, purpose, subscriber as u64, more as u64])
    }

    fn types(&self, purpose: u64, subscriber: i64) -> impl Iterator<Item = i64> {
        let set = draw_set(&TYPES, self.drawn(purpose, subscriber, 0));
        (0..4)
            .filter(move |bit| set >> bit & 1 == 1)
            .map(|bit| bit + 1)
    }

    fn is_active(&self, subscriber: i64, kind: i64) -> bool {
        self.drawn(4, subscriber, kind) % 100 < 85
    }

    pub(super) fn load_subscriber(
        &self,
        subscriber: i64,
        put: &mut dyn FnMut(InsertedRow) -> Result<()>,
    ) -> Result<()> {
        let row = |table, key: &[u8], value: &[u8], name, columns| InsertedRow {
            table,
            part: subscriber,
            key: key.into(),
            value: value.into(),
            redis: (name, value.into()),
            columns,
        };
        let number = text_of(subscriber);
        let text = String::from_utf8_lossy(&number).into_owned();
        let drawn = [1, 2, 3].map(|which| self.drawn(1, subscriber, which).to_le_bytes());
        let mut value = number.to_vec();
        value.extend_from_slice(&drawn.concat()[..SUBSCRIBER_BYTES - BITS_AT - 3]);
        value.resize(SUBSCRIBER_BYTES, 7);
        let nibbles = (0..10).map(|nibble| value[17 + nibble / 2] >> (nibble % 2 * 4) & 15);
        let bits = (0..10).map(|bit| value[BITS_AT + bit / 8] >> (bit % 8) & 1);
        let bytes = value[22..32].iter().copied();
        let small: Vec<String> = bits
            .chain(nibbles)
            .chain(bytes)
            .map(|x| x.to_string())
            .collect();
        let msc = i32::from_le_bytes([value[32], value[33], value[34], value[35]]);
        let vlr = i32::from_le_bytes([value[36], value[37], value[38], value[39]]);
        let columns = format!("{subscriber}\t{text}\t{}\t{msc}\t{vlr}", small.join("\t"));
        let key = subscriber_key(subscriber);
        put(row(
            SUBSCRIBER,
            &key,
            &value,
            format!("s:{subscriber}"),
            columns,
        ))?;
        let mut names = row(NUMBER, &number, &key, format!("n:{text}"), String::new());
        // Redis' scripts make names of what they find.
        names.redis.1 = subscriber.to_string().into();
        put(names)?;
        for kind in self.types(2, subscriber) {
            let data1 = data1(subscriber, kind);
            let value = [&[data1 as u8, 9][..], b"abcdefgh"].concat();
            let columns = format!("{subscriber}\t{kind}\t{data1}\t9\tabc\tdefgh");
            let name = format!("a:{subscriber}:{kind}");
            put(row(
                ACCESS,
                &typed_key(subscriber, kind),
                &value,
                name,
                columns,
            ))?;
        }
        for kind in self.types(3, subscriber) {
            let active = u8::from(self.is_active(subscriber, kind));
            let value = [&[active, 1, 2][..], b"abcde"].concat();
            let columns = format!("{subscriber}\t{kind}\t{active}\t1\t2\tabcde");
            let name = format!("f:{subscriber}:{kind}");
            put(row(
                FACILITY,
                &typed_key(subscriber, kind),
                &value,
                name,
                columns,
            ))?;
            let set = draw_set(&SETS, self.drawn(5, subscriber, kind));
            for start in starts(set) {
                let end = start + 1 + (self.drawn(6, subscriber, kind * 100 + start) % 8) as i64;
                let number = text_of(destination(subscriber, kind));
                let text = String::from_utf8_lossy(&number);
                let value = [&[end as u8][..], &number].concat();
                let columns = format!("{subscriber}\t{kind}\t{start}\t{end}\t{text}");
                let name = format!("c:{subscriber}:{kind}:{start}");
                let key = forwarding_key(subscriber, kind, start);
                put(row(FORWARDING, &key, &value, name, columns))?;
            }
        }
        Ok(())
    }

    /// A subscriber, by the description's uneven distribution unless they are drawn evenly.
    fn subscriber(&self, random: &mut ChaCha8Rng) -> i64 {
        if self.evenly {
            return random.random_range(0..self.subscribers) as i64;
        }
        let a: u64 = match self.subscribers {
            0..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        };
        let drawn = random.random_range(0..=a) | random.random_range(1..=self.subscribers);
        (drawn % self.subscribers) as i64
    }
}

impl Workload for Tatp {
    fn name(&self) -> &'static str {
        "tatp"
    }

    fn shared(&self) -> Rc<dyn Workload> {
        Rc::new(*self)
    }

    fn size(&self) -> u64 {
        self.subscribers
    }

    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn tables(&self) -> &'static [TableOf] {
        &TABLES
    }

    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn schema_after_load(&self) -> &'static str {
        AFTER_LOAD
    }

    fn load(&self, put: &mut dyn FnMut(InsertedRow) -> Result<()>) -> Result<()> {
        (0..self.subscribers as i64).try_for_each(|number| self.load_subscriber(number, put))
    }

    fn draw(&self, client: &mut WorkloadClient) -> Call {
        let random = &mut client.random;
        let kind = draw_kind(&KINDS, random);
        let subscriber = self.subscriber(random);
        let of = random.random_range(1..=4);
        let start = random.random_range(0..3) * 8;
        match kind {
            GET_NEW_DESTINATION => {
                let end = random.random_range(1..=24);
                Call::new(kind, &[subscriber, of, start, end])
            }
            GET_ACCESS_DATA => Call::new(kind, &[subscriber, of]),
            UPDATE_SUBSCRIBER_DATA => {
                let (bit, data) = (random.random_range(0..2), random.random_range(0..256));
                Call::new(kind, &[subscriber, bit, of, data])
            }
            UPDATE_LOCATION => {
                Call::new(kind, &[subscriber, random.random_range(0..i32::MAX).into()])
            }
            INSERT_CALL_FORWARDING => {
                let end = start + random.random_range(1..=8);
                let number = destination(subscriber, of);
                Call::new(kind, &[subscriber, of, start, end, number])
            }
            DELETE_CALL_FORWARDING => Call::new(kind, &[subscriber, of, start]),
            kind => Call::new(kind, &[subscriber]),
        }
    }

    fn is_right(&self, call: &Call, outcome: Outcome) -> bool {
        let [subscriber, of, ..] = call.numbers;
        match (call.kind, outcome) {
            (GET_SUBSCRIBER_DATA, outcome) => outcome == Some(subscriber),
            (UPDATE_LOCATION, outcome) => outcome == Some(1),
            (_, None) => true,
            (GET_NEW_DESTINATION, Some(number)) => number == destination(subscriber, of),
            (GET_ACCESS_DATA, Some(data)) => data == data1(subscriber, of),
            (_, Some(changed)) => changed == 1,
        }
    }

    fn change(&self, _: &Call, _: Outcome) -> i64 {
        0
    }

    fn total(&self) -> Option<Total> {
        None
    }
}

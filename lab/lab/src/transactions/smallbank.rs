//! SmallBank (Alomari et al., *The Cost of Serializability on Platforms That Use Snapshot
//! Isolation*, ICDE 2008), in whole cents, with the mix and the hot accounts of H-Store's.

use super::workload::{
    Call, InsertedRow, Kind, Outcome, Redis, TableOf, Total, Workload, WorkloadClient, draw_kind,
    mixed,
};
use crate::Result;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::rc::Rc;

/// The tables' places.
pub(super) const SAVINGS: usize = 0;
pub(super) const CHECKING: usize = 1;

/// The kinds' places.
pub(super) const AMALGAMATE: usize = 0;
pub(super) const BALANCE: usize = 1;
pub(super) const DEPOSIT_CHECKING: usize = 2;
pub(super) const SEND_PAYMENT: usize = 3;
pub(super) const TRANSACT_SAVINGS: usize = 4;
pub(super) const WRITE_CHECK: usize = 5;

/// What an overdrawn check costs, in cents.
pub(super) const PENALTY: i64 = 100;

/// The bank.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallBank {
    pub accounts: u64,
    /// Accounts that 90 of 100 transactions are on.
    pub hot: u64,
    pub seed: u64,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "amalgamate",
        share: 15,
        numbers: 2,
        succeeds: Some(100.0),
        redis: Redis::Script(
            "local s, c = 's:' .. ARGV[1], 'c:' .. ARGV[1]
             local all = redis.call('GET', s) + redis.call('GET', c)
             redis.call('SET', s, 0) redis.call('SET', c, 0)
             redis.call('INCRBY', 'c:' .. ARGV[2], all)
             return 0",
        ),
        postgres: "SELECT amalgamate($1::int, $2::int)",
    },
    Kind {
        name: "balance",
        share: 15,
        numbers: 1,
        succeeds: Some(100.0),
        redis: Redis::Command(&["MGET", "s:{0}", "c:{0}"], |reply| match reply {
            redis::Value::Array(both) => both.iter().map(number).sum(),
            _ => None,
        }),
        postgres: "SELECT s.cents + c.cents FROM savings s, checking c WHERE s.id = $1 AND c.id = s.id",
    },
    Kind {
        name: "deposit-checking",
        share: 15,
        numbers: 2,
        succeeds: Some(100.0),
        redis: Redis::Command(&["INCRBY", "c:{0}", "{1}"], |_| Some(0)),
        postgres: "UPDATE checking SET cents = cents + $2 WHERE id = $1 RETURNING 0",
    },
    Kind {
        name: "send-payment",
        share: 25,
        numbers: 3,
        succeeds: None,
        redis: Redis::Script(
            "local c = 'c:' .. ARGV[1]
             if tonumber(redis.call('GET', c)) < tonumber(ARGV[3]) then return false end
             redis.call('DECRBY', c, ARGV[3]) redis.call('INCRBY', 'c:' .. ARGV[2], ARGV[3])
             return 0",
        ),
        postgres: "SELECT send_payment($1::int, $2::int, $3::bigint)",
    },
    Kind {
        name: "transact-savings",
        share: 15,
        numbers: 2,
        succeeds: None,
        redis: Redis::Script(
            "local s = 's:' .. ARGV[1]
             if redis.call('GET', s) + ARGV[2] < 0 then return false end
             redis.call('INCRBY', s, ARGV[2])
             return 0",
        ),
        postgres: "UPDATE savings SET cents = cents + $2 WHERE id = $1 AND cents + $2 >= 0 RETURNING 0",
    },
    Kind {
        name: "write-check",
        share: 15,
        numbers: 2,
        succeeds: Some(100.0),
        redis: Redis::Script(
            "local c = 'c:' .. ARGV[1]
             local taken = tonumber(ARGV[2])
             if redis.call('GET', 's:' .. ARGV[1]) + redis.call('GET', c) < taken then taken = taken + 100 end
             redis.call('DECRBY', c, taken)
             return taken",
        ),
        postgres: "SELECT write_check($1::int, $2::bigint)",
    },
];

const TABLES: [TableOf; 2] = [
    TableOf {
        name: "savings",
        key_bytes: 4,
        value_bytes: 8,
        rows: 1.0,
        ordered: false,
    },
    TableOf {
        name: "checking",
        key_bytes: 4,
        value_bytes: 8,
        rows: 1.0,
        ordered: false,
    },
];

const SCHEMA: &str = "
CREATE TABLE savings (id int PRIMARY KEY, cents bigint NOT NULL);
CREATE TABLE checking (id int PRIMARY KEY, cents bigint NOT NULL);
CREATE FUNCTION amalgamate(a int, b int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE s bigint; c bigint;
BEGIN
  SELECT cents INTO s FROM savings WHERE id = a;
  SELECT cents INTO c FROM checking WHERE id = a;
  UPDATE savings SET cents = 0 WHERE id = a;
  UPDATE checking SET cents = 0 WHERE id = a;
  UPDATE checking SET cents = cents + s + c WHERE id = b;
  RETURN 0;
END $$;
CREATE FUNCTION send_payment(a int, b int, v bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  UPDATE checking SET cents = cents - v WHERE id = a AND cents >= v;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE checking SET cents = cents + v WHERE id = b;
  RETURN 0;
END $$;
CREATE FUNCTION write_check(a int, v bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE s bigint; c bigint; taken bigint := v;
BEGIN
  SELECT cents INTO s FROM savings WHERE id = a;
  SELECT cents INTO c FROM checking WHERE id = a;
  IF s + c < v THEN taken := v + 100; END IF;
  UPDATE checking SET cents = cents - taken WHERE id = a;
  RETURN taken;
END $$;
";

/// The number in a reply of Redis.
fn number(reply: &redis::Value) -> Outcome {
    match reply {
        redis::Value::Int(number) => Some(*number),
        redis::Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

impl SmallBank {
    /// Cents on an account to begin with: from 10,000 to 50,000 dollars.
    fn cents(&self, table: usize, account: u64) -> i64 {
        let drawn = mixed([self.seed, 1, table as u64, account]);
        1_000_000 + (drawn % 4_000_001) as i64
    }

    fn account(&self, random: &mut ChaCha8Rng, is_hot: bool) -> i64 {
        let hot = self.hot.min(self.accounts);
        let drawn = if is_hot || hot == self.accounts {
            random.random_range(0..hot)
        } else {
            random.random_range(hot..self.accounts)
        };
        drawn as i64
    }
}

impl Workload for SmallBank {
    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn shared(&self) -> Rc<dyn Workload> {
        Rc::new(*self)
    }

    fn size(&self) -> u64 {
        self.accounts
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
        "ANALYZE"
    }

    fn load(&self, put: &mut dyn FnMut(InsertedRow) -> Result<()>) -> Result<()> {
        for (table, letter) in [(SAVINGS, 's'), (CHECKING, 'c')] {
            for account in 0..self.accounts {
                let cents = self.cents(table, account);
                put(InsertedRow {
                    table,
                    part: account as i64,
                    key: (account as u32).to_le_bytes().into(),
                    value: cents.to_le_bytes().into(),
                    redis: (format!("{letter}:{account}"), cents.to_string().into()),
                    columns: format!("{account}\t{cents}"),
                })?;
            }
        }
        Ok(())
    }

    fn draw(&self, client: &mut WorkloadClient) -> Call {
        let random = &mut client.random;
        let kind = draw_kind(&KINDS, random);
        let is_hot = random.random_bool(0.9);
        let one = self.account(random, is_hot);
        let other = loop {
            let other = self.account(random, is_hot);
            if other != one {
                break other;
            }
        };
        match kind {
            AMALGAMATE => Call::new(kind, &[one, other]),
            BALANCE => Call::new(kind, &[one]),
            DEPOSIT_CHECKING => Call::new(kind, &[one, 130]),
            SEND_PAYMENT => Call::new(kind, &[one, other, 500]),
            // A deposit or a withdrawal.
            TRANSACT_SAVINGS if random.random_bool(0.5) => Call::new(kind, &[one, 2020]),
            TRANSACT_SAVINGS => Call::new(kind, &[one, -2020]),
            _ => Call::new(kind, &[one, 500]),
        }
    }

    fn parts(&self, kind: usize) -> usize {
        match kind {
            AMALGAMATE | SEND_PAYMENT => 2,
            _ => 1,
        }
    }

    fn is_right(&self, call: &Call, outcome: Outcome) -> bool {
        match (call.kind, outcome) {
            (WRITE_CHECK, Some(taken)) => {
                taken == call.numbers[1] || taken == call.numbers[1] + PENALTY
            }
            (BALANCE, Some(_)) => true,
            (SEND_PAYMENT | TRANSACT_SAVINGS, None) => true,
            (_, outcome) => outcome == Some(0),
        }
    }

    fn change(&self, call: &Call, outcome: Outcome) -> i64 {
        match (call.kind, outcome) {
            (DEPOSIT_CHECKING | TRANSACT_SAVINGS, Some(_)) => call.numbers[1],
            (WRITE_CHECK, Some(taken)) => -taken,
            _ => 0,
        }
    }

    fn total(&self) -> Option<Total> {
        let all = [SAVINGS, CHECKING]
            .into_iter()
            .flat_map(|table| (0..self.accounts).map(move |account| self.cents(table, account)));
        Some(Total {
            loaded: all.sum(),
            postgres: "SELECT (SELECT sum(cents) FROM savings) + (SELECT sum(cents) FROM checking)",
        })
    }
}

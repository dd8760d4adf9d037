//! Clients that do no harm: one of a table of its own, one of the Redis gateway; and one that
//! nobody attacks, of a server that only echoes, which shows what the machine is still good for.

use super::bed::{Bed, REDIS_SECRET};
use super::redis::{LARGE, request};
use farslot::Table;
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Keys of a batch.
const BATCH: u64 = 16;

/// Both of them.
pub struct Good {
    table: Table,
    redis: RefCell<Redis>,
    gateway: SocketAddr,
    echo: RefCell<TcpStream>,
}

/// A connection to the gateway that was admitted.
struct Redis(BufReader<TcpStream>);

impl Redis {
    fn admitted(gateway: SocketAddr) -> Self {
        let stream = TcpStream::connect(gateway).unwrap();
        // A reply that never comes shall fail the test, not hang it.
        stream
            .set_read_timeout(Some(Duration::from_secs(240)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        let mut redis = Self(BufReader::new(stream));
        assert_eq!(redis.ask(&["AUTH", REDIS_SECRET]), b"+OK");
        redis
    }

    /// What is answered: a line, or the bytes of a value.
    fn ask<T: AsRef<[u8]>>(&mut self, arguments: &[T]) -> Vec<u8> {
        self.0.get_mut().write_all(&request(arguments)).unwrap();
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        line.truncate(line.len().saturating_sub(2));
        let Some(digits) = line.strip_prefix(b"$") else {
            return line;
        };
        let length: usize = std::str::from_utf8(digits).unwrap().parse().unwrap();
        let mut value = vec![0; length + 2];
        self.0.read_exact(&mut value).unwrap();
        value.truncate(length);
        value
    }
}

/// A connection to a thread of its own that sends back what it gets, and ends with the connection.
fn echo() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut echoing, _) = listener.accept().unwrap();
    for end in [&stream, &echoing] {
        end.set_nodelay(true).unwrap();
    }
    std::thread::spawn(move || {
        let mut byte = [0];
        while echoing.read_exact(&mut byte).is_ok() && echoing.write_all(&byte).is_ok() {}
    });
    stream
}

/// Who is measured.
pub const MEASURED: [&str; 3] = ["calls", "Redis", "an echo"];

impl Good {
    pub fn new(bed: &Bed) -> Self {
        let mut redis = Redis::admitted(bed.redis);
        let large = vec![b'v'; 1 << 20];
        for number in 0..LARGE {
            let key = format!("large-{number}");
            assert_eq!(redis.ask(&[b"SET", key.as_bytes(), &large]), b"+OK");
        }
        assert_eq!(redis.ask(&["SET", "quiet", "value"]), b"+OK");
        Self {
            table: bed.good().table("good").unwrap(),
            redis: RefCell::new(redis),
            gateway: bed.redis,
            echo: RefCell::new(echo()),
        }
    }

    /// Puts and gets, by calls and by Redis, and a Redis client that comes anew: each is answered
    /// as if nobody else were there.
    pub fn round(&self, round: u64) {
        let value = round.to_le_bytes();
        let keys: Vec<_> = (0..BATCH)
            .map(|number| format!("key-{number}").into_bytes())
            .collect();
        for key in &keys {
            let put = self.table.put(key, &value);
            assert!(put.is_ok(), "round {round}: {put:?}");
        }
        let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut found = 0;
        self.table
            .get_many(&asked, |_, got| {
                assert_eq!(got, Some(&value[..]), "round {round}");
                found += 1;
            })
            .unwrap();
        assert_eq!(found, BATCH);

        let value = format!("{round}");
        let mut redis = self.redis.borrow_mut();
        assert_eq!(redis.ask(&["SET", "good", &value]), b"+OK", "round {round}");
        assert_eq!(
            redis.ask(&["GET", "good"]),
            value.as_bytes(),
            "round {round}"
        );
        if round.is_multiple_of(16) {
            let mut another = Redis::admitted(self.gateway);
            assert_eq!(
                another.ask(&["GET", "good"]),
                value.as_bytes(),
                "round {round}"
            );
        }
    }

    /// Waits until the gateway has noticed that all other clients have left.
    pub fn wait_until_others_left(&self) {
        let mut redis = self.redis.borrow_mut();
        let since = Instant::now();
        let mut clients = || {
            let info = String::from_utf8(redis.ask(&["INFO", "clients"])).unwrap();
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix("connected_clients:"));
            line.unwrap().trim().parse::<u64>().unwrap()
        };
        while clients() > 1 {
            assert!(
                since.elapsed() < Duration::from_secs(120),
                "{} stay",
                clients()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// How long gets took within so long, by calls and by Redis, and an echo: measured at the same
    /// time.
    pub fn measure(&self, lasts: Duration) -> [Vec<Duration>; MEASURED.len()] {
        let until = Instant::now() + lasts;
        let mut took: [Vec<Duration>; MEASURED.len()] = Default::default();
        let key = b"key-0";
        let value = self.table.get(key).unwrap().expect("it was put");
        let mut redis = self.redis.borrow_mut();
        while Instant::now() < until {
            let since = Instant::now();
            assert_eq!(self.table.get(key).unwrap().as_deref(), Some(&value[..]));
            took[0].push(since.elapsed());
            let since = Instant::now();
            assert_eq!(redis.ask(&["GET", "quiet"]), b"value");
            took[1].push(since.elapsed());
            let since = Instant::now();
            let mut echo = self.echo.borrow_mut();
            echo.write_all(b"e").unwrap();
            echo.read_exact(&mut [0]).unwrap();
            took[2].push(since.elapsed());
        }
        took
    }
}

/// The 99th percentile.
pub fn p99(all: &[Duration]) -> Duration {
    let mut all = all.to_vec();
    all.sort_unstable();
    all[all.len() * 99 / 100]
}

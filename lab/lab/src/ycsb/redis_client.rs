//! Redis, through the crate that most Rust programs use for it, with pipelining.

use super::peers::{Identity, Introspect, PeerKind, PeerResources, PeerServer};
use super::system::{Answer, Client, Request, WorkloadSystem};
use crate::{LabError, Result};
use redis::{ConnectionLike, Value};
use std::net::SocketAddr;
use std::time::Duration;

/// No answer takes so long.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One thread's connection.
pub(crate) struct RedisClient {
    connection: redis::Connection,
    address: SocketAddr,
    pipeline: redis::Pipeline,
}

impl RedisClient {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let failed = |error: redis::RedisError| failure(address, &error);
        let client = redis::Client::open(format!("redis://{address}/")).map_err(failed)?;
        let connection = client
            .get_connection_with_timeout(TIMEOUT)
            .map_err(failed)?;
        connection.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        connection
            .set_write_timeout(Some(TIMEOUT))
            .map_err(failed)?;
        Ok(Self {
            connection,
            address,
            pipeline: redis::pipe(),
        })
    }

    /// What one command answers.
    pub(crate) fn command(&mut self, words: &[&str]) -> Result<Value> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        let answer = self.connection.req_command(&command);
        answer.map_err(|error| failure(self.address, &error))
    }

    /// What each command of a pipeline answers.
    pub(crate) fn ask(&mut self, pipeline: &redis::Pipeline) -> Result<Vec<Value>> {
        let answers = pipeline.query(&mut self.connection);
        answers.map_err(|error| failure(self.address, &error))
    }

    /// A section of `INFO`, as text.
    pub(crate) fn info(&mut self, section: &str) -> Result<String> {
        let answer = self.command(&["INFO", section])?;
        redis::from_redis_value(answer).map_err(|error| failure(self.address, &error.into()))
    }
}

fn failure(address: SocketAddr, error: &redis::RedisError) -> LabError {
    LabError::Peer {
        peer: "redis",
        address,
        reason: error.to_string(),
    }
}

fn unexpected(address: SocketAddr, answer: &Value) -> LabError {
    LabError::Peer {
        peer: "redis",
        address,
        reason: format!("unexpected answer {answer:?}"),
    }
}

impl WorkloadSystem for PeerServer<RedisClient> {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn version(&self) -> &str {
        self.version()
    }

    fn process(&self) -> Option<u32> {
        self.process()
    }

    fn connect(&self) -> Result<Box<dyn Client>> {
        Ok(Box::new(RedisClient::connect(self.address())?))
    }
}

impl Client for RedisClient {
    /// GETs and SETs in one pipeline; the records of scans by one MGET.
    fn ask(&mut self, request: &Request, answer: Answer<'_>) -> Result<bool> {
        self.pipeline.clear();
        if request.is_scan && !request.reads.is_empty() {
            self.pipeline.cmd("MGET");
            for key in &request.reads {
                self.pipeline.arg(key);
            }
        } else {
            for key in &request.reads {
                self.pipeline.cmd("GET").arg(key);
            }
        }
        for (key, value) in request.records() {
            self.pipeline.cmd("SET").arg(key).arg(value);
        }
        let answers: Vec<Value> = self
            .pipeline
            .query(&mut self.connection)
            .map_err(|error| failure(self.address, &error))?;
        let mut answers = answers.into_iter();
        let mut read = |number, value: &Value| {
            match value {
                Value::BulkString(value) => answer(number, Some(value)),
                Value::Nil => answer(number, None),
                other => return Err(unexpected(self.address, other)),
            }
            Ok(())
        };
        if request.is_scan && !request.reads.is_empty() {
            match answers.next() {
                Some(Value::Array(values)) => {
                    for (number, value) in values.iter().enumerate() {
                        read(number, value)?;
                    }
                }
                other => return Err(unexpected(self.address, &other.unwrap_or(Value::Nil))),
            }
        } else {
            for (number, value) in answers.by_ref().take(request.reads.len()).enumerate() {
                read(number, &value)?;
            }
        }
        match answers.find(|answer| !matches!(answer, Value::Okay)) {
            None => Ok(true),
            Some(other) => Err(unexpected(self.address, &other)),
        }
    }
}

impl Introspect for RedisClient {
    const KIND: PeerKind = PeerKind::Redis;

    fn arguments(port: u16, resources: PeerResources) -> Vec<String> {
        let (port, threads) = (port.to_string(), resources.threads.to_string());
        let mut arguments = vec![
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ];
        let memory = resources.memory.to_string();
        if let Some(policy) = resources.evicts {
            arguments.extend(["--maxmemory", &memory, "--maxmemory-policy", policy]);
        }
        if resources.threads > 1 {
            arguments.extend(["--io-threads", &threads]);
        }
        arguments.into_iter().map(Into::into).collect()
    }

    fn connect(address: SocketAddr) -> Result<Self> {
        Self::connect(address)
    }

    fn identify(&mut self) -> Result<Identity> {
        let info = self.info("server")?;
        let of = |name: &str| {
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        };
        let records = match self.command(&["DBSIZE"])? {
            Value::Int(records) => records.unsigned_abs(),
            _ => 0,
        };
        Ok(Identity {
            version: of("redis_version"),
            process: of("process_id").parse().unwrap_or_default(),
            records,
        })
    }

    fn empty(&mut self) -> Result<()> {
        self.command(&["FLUSHALL"]).map(drop)
    }
}

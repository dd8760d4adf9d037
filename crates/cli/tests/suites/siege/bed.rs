//! The node that is besieged, its tables and grants.

use crate::common::{Node, farslot, fresh_address, start_serving};
use farslot::admission::Secret;
use farslot::calls::request::{Question, RequestWriter, operation_bytes};
use farslot::fabric::tcp::{ConnectOptions, admission};
use farslot::fabric::{Limits, RegionId};
use farslot::layout::RaceShape;
use farslot::{FieldSize, OpenOptions, Operation, SlotKind, Store, TableOptions, TableRecord};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use std::fs::File;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

pub const MIB: u64 = 1 << 20;

/// What Redis clients give to AUTH.
pub const REDIS_SECRET: &str = "a secret of Redis clients";
const ADMIN: &str = "a secret for everything";
const GOOD: &str = "a secret of the good one";
const HOSTILE: &str = "a secret of hostile ones";

/// Slots of the table whose probes are as long as probes become.
const SLOTS: u64 = 1 << 17;
/// Keys of the tables that are damaged, of which these were put.
pub const KEYS: u64 = 400;

/// How many attack.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Admitted clients.
    pub callers: usize,
    /// Connections of unauthenticated clients.
    pub unauthenticated: usize,
    /// Redis clients of each kind.
    pub redis: usize,
}

impl Size {
    pub const SMALL: Self = Self {
        callers: 40,
        unauthenticated: 300,
        redis: 8,
    };
    pub const FULL: Self = Self {
        callers: 500,
        unauthenticated: 4_000,
        redis: 200,
    };

    /// As many as this process can open files for, which is told where they are fewer.
    pub fn within_limits(self) -> Self {
        let Self {
            callers,
            unauthenticated,
            redis,
        } = self;
        let wanted = callers + unauthenticated + redis * super::redis::KINDS + 200;
        let limit = raise_file_limit();
        if limit >= wanted {
            return self;
        }
        let scaled = |of: usize| (of * limit / wanted).max(1);
        let size = Self {
            callers: scaled(callers),
            unauthenticated: scaled(unauthenticated),
            redis: scaled(redis),
        };
        println!(
            "the limit of open files is {limit}, {wanted} are wanted: {size:?} in place of {self:?}"
        );
        size
    }
}

/// Raises this process's limit of open files, which the node starts with; returns what it is then.
fn raise_file_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised);
    let now = getrlimit(Resource::Nofile).current;
    now.map_or(usize::MAX, |now| now as usize)
}

/// A table that is attacked.
#[derive(Clone, Debug)]
pub struct Target {
    pub id: u64,
    pub extent: Range<u64>,
}

impl From<TableRecord> for Target {
    fn from(record: TableRecord) -> Self {
        Self {
            id: record.id,
            extent: record.extent(),
        }
    }
}

/// The tables that are attacked, by what the grants to them are called.
#[derive(Clone, Debug)]
pub struct Targets {
    /// A linear table whose slots all have one word, so that a lookup of an absent key looks at
    /// 65,536 of them.
    pub filled: Target,
    pub race: Target,
    pub linear: Target,
    /// The good client's, which quiet ones read.
    pub good: Target,
}

/// The node that is besieged.
pub struct Bed {
    pub size: Size,
    pub node: Node,
    pub targets: Targets,
    /// HOST:PORT of the agent.
    pub agent: String,
    pub redis: SocketAddr,
    shared: String,
    directory: tempfile::TempDir,
}

impl Bed {
    pub fn new(size: Size) -> Self {
        raise_file_limit();
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for (name, secret) in [
            ("admin", ADMIN),
            ("good", GOOD),
            ("hostile", HOSTILE),
            ("redis", REDIS_SECRET),
        ] {
            std::fs::write(at(name), secret).unwrap();
        }
        std::fs::write(at("grants.toml"), grants()).unwrap();
        // Over shared memory too: then what is lent is counted as shared, and the rest as its own.
        let shared = fresh_address();
        let connections = 1_000 + 2 * size.redis * super::redis::KINDS;
        let mut command = farslot(["serve", "tcp://127.0.0.1:0", "--also", &shared]);
        command.args(["--memory", "256MiB", "--while-stdin", "--json"]);
        command.arg("--secret-file").arg(at("admin"));
        command.arg("--grants").arg(at("grants.toml"));
        command.args(["--redis", "127.0.0.1:0", "--redis-connections"]);
        command.arg(connections.to_string());
        command.arg("--redis-secret-file").arg(at("redis"));
        command.stderr(File::create(at("log")).unwrap());
        let (process, ready) = start_serving(command);
        let ready: Value = serde_json::from_str(&ready).unwrap();
        let address = ready["address"].as_str().unwrap().to_owned();
        let redis = ready["redis"].as_str().unwrap();
        let node = Node { process, address };
        let targets = make_tables(&open(&node.address, "default", ADMIN));
        let bed = Self {
            size,
            agent: node.address.trim_start_matches("tcp://").into(),
            redis: redis.trim_start_matches("redis://").parse().unwrap(),
            node,
            targets,
            shared,
            directory,
        };
        crate::common::wait_for(&bed.log(), 7, "is in force");
        bed
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// A store of all of it, whose verbs need no answers of the node.
    pub fn by_shared_memory(&self) -> Store {
        Store::open(&self.shared).unwrap()
    }

    /// How one asks for all of it.
    pub fn admin_asks() -> ConnectOptions {
        ConnectOptions {
            secret: Some(Secret::new(ADMIN).unwrap()),
            ..patient()
        }
    }

    /// The store of the good client.
    pub fn good(&self) -> Store {
        open(&self.node.address, "good", GOOD)
    }

    /// How a hostile client asks for a grant.
    pub fn hostile(grant: &str) -> ConnectOptions {
        ConnectOptions {
            grant: grant.into(),
            secret: Some(Secret::new(HOSTILE).unwrap()),
            ..patient()
        }
    }

    /// How a quiet client asks for the good one's table.
    pub fn calm() -> ConnectOptions {
        ConnectOptions {
            grant: "quiet".into(),
            ..Self::hostile("")
        }
    }

    /// Admits a client; nothing if the node is too busy.
    pub fn admitted(&self, options: &ConnectOptions) -> Option<admission::Admitted> {
        admission::connect(&self.agent, options).ok()
    }

    /// Bytes by a line of `/proc/PID/status`, such as `VmHWM`.
    pub fn memory(&self, line: &str) -> u64 {
        let status = format!("/proc/{}/status", self.node.process.id());
        let status = std::fs::read_to_string(status).unwrap();
        let of_it = status.lines().find_map(|of| of.strip_prefix(line));
        let kib = of_it.and_then(|of| of.trim_start_matches(':').trim().strip_suffix(" kB"));
        let kib = kib.unwrap_or_else(|| panic!("it serves no more: {status}"));
        kib.parse::<u64>().unwrap() << 10
    }

    /// Resident bytes beyond what it lends.
    pub fn own_memory(&self) -> u64 {
        self.memory("RssAnon") + self.memory("RssFile")
    }

    /// Nothing has panicked, and the node serves on.
    pub fn assert_unharmed(&self) {
        let log = std::fs::read_to_string(self.log()).unwrap();
        let start = &log[..log.len().min(4_000)];
        assert!(!log.contains("panicked"), "{start}");
        let table = self.good().table("good").unwrap();
        assert!(table.put(b"last", b"value").is_ok(), "{start}");
    }
}

/// With patience: the machine is busy.
fn patient() -> ConnectOptions {
    ConnectOptions {
        connect_timeout: Duration::from_secs(60),
        limits: Limits {
            verb_timeout: 120_000_000_000,
            ..Limits::default()
        },
        ..ConnectOptions::default()
    }
}

fn open(address: &str, grant: &str, secret: &str) -> Store {
    let ConnectOptions {
        connect_timeout,
        limits,
        ..
    } = patient();
    let options = OpenOptions {
        secret: Some(Secret::new(secret).unwrap()),
        grant: grant.into(),
        connect_timeout,
        limits,
        ..OpenOptions::default()
    };
    Store::open_with(address, options).unwrap()
}

fn grants() -> String {
    let grant = |name: &str, table: &str, secret: &str, more: &str| {
        format!(
            "[{name}]\ntables = [\"{table}\"]\nrights = \"all\"\nsecret_file = \"{secret}\"\n{more}\n"
        )
    };
    [
        grant("good", "good", "good", ""),
        grant("quiet", "good", "hostile", ""),
        grant("lone", "filled", "hostile", "prefix = \"\""),
        grant("filler", "filled", "hostile", ""),
        grant("race", "race", "hostile", ""),
        grant("linear", "linear", "hostile", ""),
        grant("tenant", "linear", "hostile", "prefix = \"tenant\""),
    ]
    .concat()
}

/// A key of the damaged tables.
pub fn key(number: u64) -> [u8; 8] {
    (number << 32 | 77).to_le_bytes()
}

fn make_tables(admin: &Store) -> Targets {
    let small = FieldSize::Fixed(8);
    let filled = TableOptions::new(SLOTS * 9 / 10)
        .keys(small)
        .values(small)
        .slots(SlotKind::Pair);
    let any = TableOptions::new(4_000)
        .keys(FieldSize::UpTo(16))
        .values(FieldSize::UpTo(1_024));
    let race = any.clone().race(RaceShape::default());
    let good = TableOptions::new(1_000);
    let tables = [
        ("filled", filled),
        ("race", race),
        ("linear", any.slots(SlotKind::Heap)),
        ("good", good),
    ];
    let [filled, race, linear, good] = tables.map(|(name, options)| {
        let record = admin.create(name, &options).unwrap();
        if matches!(name, "race" | "linear") {
            let table = admin.table(name).unwrap();
            for number in 0..KEYS {
                table.put(&key(number), &[7; 900]).unwrap();
            }
        }
        Target::from(record)
    });
    fill(admin, &filled);
    Targets {
        filled,
        race,
        linear,
        good,
    }
}

/// Gives all of a table's slots one word: all but what the table's head takes.
fn fill(admin: &Store, target: &Target) {
    use farslot::fabric::{Endpoint, EndpointExt, Executor, NodeId, RemoteAddr};
    let executor = Executor::new(admin.tcp_endpoint().unwrap().unwrap());
    let endpoint = executor.endpoint();
    let bytes = 0x5157_u64.to_le_bytes().repeat(1 << 13);
    executor.block_on(async {
        let mut offset = target.extent.start + 4096;
        while offset < target.extent.end {
            let len = bytes.len().min((target.extent.end - offset) as usize);
            let at = RemoteAddr {
                node: NodeId(0),
                region: RegionId(0),
                offset,
            };
            let data = endpoint.core().buffers.copy_of(&bytes[..len]).unwrap();
            endpoint.write(at, data).await.unwrap();
            offset += len as u64;
        }
    });
}

/// How long an attacker says that it waits, in nanoseconds: what its calls do not come to in their
/// turns the node goes on with.
const PATIENCE: u64 = 1_000_000_000;

/// A request of a call as any caller can make it.
pub fn request(table: u64, operations: &[Operation<'_>]) -> Vec<u8> {
    let bytes = operations.iter().map(|of| operation_bytes(of).unwrap());
    let mut request = vec![0; RequestWriter::bytes(bytes.sum())];
    let mut writer = RequestWriter::new(
        &mut request,
        Question::Run,
        (table, PATIENCE),
        operations.len(),
    );
    operations.iter().for_each(|of| writer.put(of));
    request
}

/// Has this thread run when no other wants to (`SCHED_IDLE`): elsewhere attackers have processors
/// of their own.
pub fn run_when_idle() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let told = std::process::Command::new("chrt")
        .args(["--idle", "--pid", "0", &thread])
        .status();
    assert!(told.expect("chrt, of util-linux").success());
}

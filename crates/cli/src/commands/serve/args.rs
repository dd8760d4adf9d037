//! The options of `farslot serve`.

use super::{kept, metrics, redis, snapshots};
use bytesize::ByteSize;
use farslot::Address;
use farslot::admission::Network;
use std::path::PathBuf;

/// The options of `farslot serve`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where to serve: shm://NAME to processes of this user, tcp://HOST:PORT to other machines
    /// (port 0: any that is free), tcps://HOST:PORT under TLS, with --tls-cert and --tls-key,
    /// verbs://HOST:PORT[?device=NAME&port=N&gid=N] to those with an RDMA NIC
    #[arg(value_name = "ADDRESS")]
    pub(super) at: Option<Address>,
    /// Take options from this TOML file: each key is the name of a flag, such as
    /// snapshot-dir = "DIR". A flag or a variable of the environment goes before the file. SIGHUP
    /// has the file read again
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Check all that can be checked without serving, and print what would be in force and where it
    /// comes from
    #[arg(long)]
    pub(super) check_config: bool,
    /// Serve the same memory there as well: one shm:// name, any number of tcp:// and
    /// tcps:// addresses
    #[arg(long, value_name = "ADDRESS")]
    pub(super) also: Vec<Address>,
    /// How much memory; what is not used takes none [default: half of what is free]
    #[arg(long, value_name = "SIZE", env = "FARSLOT_MEMORY")]
    pub(super) memory: Option<ByteSize>,
    #[command(flatten)]
    pub(super) keep: kept::KeepArgs,
    /// Threads that serve each tcp:// address; clients are spread over them
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) threads: usize,
    /// The secret of clients that may only read: those with `--grant read-only`; two lines as in
    /// --secret-file
    #[arg(long, value_name = "FILE")]
    pub(super) read_only_secret_file: Option<PathBuf>,
    /// Open single tables to clients with `--grant NAME` and a secret or a certificate of their
    /// own, as a TOML file says: for each grant [NAME] with tables = ["..."], rights = "read" or
    /// "all", secret_file = "..." or clients = ["..."] (names of certificates), and, to slow its
    /// clients, operations_per_second = N and bytes_per_second = "SIZE"; SIGHUP has it read again.
    /// Where its tables are databases of --redis, Redis clients give AUTH its name and secret
    #[arg(long, value_name = "FILE")]
    pub(super) grants: Option<PathBuf>,
    /// Append a line of JSON to this file for every client that is admitted or refused, every grant
    /// that is put in force or revoked, and every table that is made or dropped; at most ten a
    /// second of each kind
    #[arg(long, value_name = "FILE")]
    pub(super) audit: Option<PathBuf>,
    #[command(flatten)]
    pub(super) redis: redis::RedisArgs,
    #[command(flatten)]
    pub(super) snapshots: snapshots::SnapshotArgs,
    #[command(flatten)]
    pub(super) metrics: metrics::MetricsArgs,
    /// Admit clients at tcps:// addresses that have a certificate of this authority, instead of a
    /// secret, to everything; its lists of revoked certificates (X509 CRL) may stand in the same
    /// file. SIGHUP has it read again, as --tls-cert and --tls-key
    #[arg(long, value_name = "FILE")]
    pub(super) tls_client_ca: Option<PathBuf>,
    /// Admit only those of --tls-client-ca to everything whose certificates have one of these DNS
    /// names, with commas between them
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        requires = "tls_client_ca"
    )]
    pub(super) tls_client: Vec<String>,
    /// Without a secret, serve an address that other machines can reach to the clients of this
    /// network, such as 10.0.0.0/8, or of several with commas between them; others are refused
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(super) trust: Vec<Network>,
    /// As --trust, of all networks
    #[arg(long)]
    pub(super) insecure: bool,
    /// End when standard input is closed: for a parent that may be killed
    #[arg(long, hide = true)]
    pub(super) while_stdin: bool,
}

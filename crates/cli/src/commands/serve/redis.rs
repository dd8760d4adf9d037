//! The Redis gateway of `farslot serve --redis ADDR`.

use super::grants::{FullAccess, GrantFile, grants_of};
use super::listen::Listen;
use farslot::admission::{Secret, TableGrant, TlsServer};
use farslot::{Evicting, Server};
use farslot_gateway::{Gateway, GatewayError, GatewayOptions};
use farslot_terminal::context::secrets_in;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::{number, output};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of the gateway.
#[derive(clap::Args, Debug)]
pub struct RedisArgs {
    /// Speak Redis's protocol (RESP2 and RESP3) there, over the same memory: HOST:PORT, port 0 for
    /// any that is free, or rediss://HOST:PORT under TLS, with --tls-cert and --tls-key. Its
    /// databases are the tables redis-0 to redis-15, made when they are first written to
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    redis: Option<Listen>,
    /// The secret that Redis clients give to AUTH, who may do everything then; a second line of the
    /// file does as well. They send it as it is: make one for this alone. Grants of --grants that
    /// open databases are further users, whose clients give AUTH the grant's name and secret
    #[arg(long, value_name = "FILE", requires = "redis")]
    redis_secret_file: Option<PathBuf>,
    /// Threads that serve Redis clients
    #[arg(long, value_name = "N", default_value_t = 1, requires = "redis")]
    redis_threads: usize,
    /// The most connections of Redis clients
    #[arg(long, value_name = "N", default_value = "1000", requires = "redis", value_parser = number::small_count)]
    redis_connections: usize,
    /// SLOWLOG tells Redis clients of requests that take so long or longer: the last 128
    #[arg(long, value_name = "TIME", default_value = "10ms", requires = "redis", value_parser = number::time)]
    redis_slower_than: Duration,
    /// What a database does that is made from now on and whose memory is full: refuse keys, or
    /// forget others, any or those with a time to live, first what was not read since it was put
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "noeviction",
        requires = "redis"
    )]
    redis_maxmemory_policy: MaxmemoryPolicy,
}

/// Redis's names of what a database does whose memory is full. By one bit a key, which says whether
/// it was read, there is one order for what Redis has two for. Keys that end soon have no
/// precedence (`volatile-ttl`).
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
#[value(rename_all = "kebab-case")]
enum MaxmemoryPolicy {
    /// Keys are refused
    Noeviction,
    /// Any key may be forgotten
    #[value(alias = "allkeys-lfu")]
    AllkeysLru,
    /// Keys with a time to live may be forgotten
    #[value(alias = "volatile-lfu")]
    VolatileLru,
}

fn address(text: &str) -> std::result::Result<Listen, String> {
    Listen::parse(text, ["redis", "rediss"])
}

impl RedisArgs {
    /// Whether Redis clients need a secret.
    pub fn needs_secret(&self) -> bool {
        self.redis_secret_file.is_some()
    }

    /// Whether Redis clients are to be served under TLS.
    pub fn is_under_tls(&self) -> bool {
        self.redis.as_ref().is_some_and(|listen| listen.tls)
    }
}

/// The secrets that Redis clients give who may do everything, if they need one.
///
/// # Errors
/// As [`secrets_in`].
pub fn secrets(args: &RedisArgs) -> Result<Option<Vec<Secret>>> {
    let file = args.redis_secret_file.as_deref();
    file.map(secrets_in).transpose()
}

/// How Redis clients are served, if that is asked for; without [`users`].
///
/// # Errors
/// A secret's file, as [`secrets_in`]; an address that needs a secret, or cannot be served.
pub fn options(
    args: &RedisArgs,
    insecure: bool,
    tls: Option<&TlsServer>,
) -> Result<Option<GatewayOptions>> {
    let Some(listen) = &args.redis else {
        return Ok(None);
    };
    let options = GatewayOptions {
        secrets: secrets(args)?.unwrap_or_default(),
        tls: tls.filter(|_| listen.tls).cloned(),
        insecure,
        threads: args.redis_threads,
        connections: args.redis_connections,
        slower_than: args.redis_slower_than,
        evicting: match args.redis_maxmemory_policy {
            MaxmemoryPolicy::Noeviction => None,
            MaxmemoryPolicy::AllkeysLru => Some(Evicting::All),
            MaxmemoryPolicy::VolatileLru => Some(Evicting::Expiring),
        },
        ..GatewayOptions::at(&listen.authority)
    };
    options.check().map_err(failure)?;
    Ok(Some(options))
}

/// The users that Redis clients can be, beside who has a secret that opens all databases: the
/// grants that a network has, or those of a file where there is none.
///
/// # Errors
/// A file with a mistake; a grant with such a secret.
pub fn users(
    grants: Option<&GrantFile>,
    file: Option<&Path>,
    secrets: &[Secret],
) -> Result<Vec<TableGrant>> {
    let users = match (grants, file) {
        (Some(grants), _) => grants.all(),
        (None, Some(file)) => grants_of(file, &FullAccess::default())?,
        (None, None) => Vec::new(),
    };
    let has_it = |user: &&TableGrant| secrets.iter().any(|secret| user.secrets.contains(secret));
    match users.iter().find(has_it) {
        None => Ok(users),
        Some(user) => Err(Failure::Failed(format!(
            "the grant {:?} has the secret of --redis-secret-file, which opens all databases; make \
             it one of its own",
            user.name
        ))),
    }
}

/// Serves Redis clients.
///
/// # Errors
/// That the address cannot be listened at.
pub fn start(options: &GatewayOptions, server: &Server) -> Result<Gateway> {
    let gateway = Gateway::start(server.store(), options).map_err(failure)?;
    let address = gateway.address();
    if options.secrets.is_empty() && !address.ip().is_loopback() {
        output::note(
            "Redis clients need no secret: whoever reaches this address can use all databases",
        );
    }
    if options.tls.is_none() && !address.ip().is_loopback() {
        output::note(format_args!(
            "nothing is encrypted at redis://{address}, the secret neither: on a network that is \
             not yours serve rediss://"
        ));
    }
    Ok(gateway)
}

fn failure(error: GatewayError) -> Failure {
    match error {
        GatewayError::Insecure { .. } => Failure::Failed(format!(
            "{error}\n  try:  head -c 32 /dev/urandom | base64 > redis.secret; chmod 600 redis.secret\n  \
             then --redis-secret-file redis.secret, or --insecure"
        )),
        GatewayError::BadOption { .. } => Failure::Usage(error.to_string()),
        error => Failure::Failed(error.to_string()),
    }
}

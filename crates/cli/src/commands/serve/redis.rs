//! The Redis gateway of `farslot serve --redis ADDR`.

use crate::context::secrets_in;
use crate::failure::{Failure, Result};
use crate::output;
use farslot::Server;
use farslot_gateway::{Gateway, GatewayError, GatewayOptions};
use std::path::PathBuf;

/// The options of the gateway.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Speak Redis's protocol (RESP2 and RESP3) there, over the same memory: HOST:PORT, port 0 for
    /// any that is free. Its databases are the tables redis-0 to redis-15, made when they are first
    /// written to
    #[arg(long = "redis", value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The secret that Redis clients give to AUTH. They send it as it is: make one for this alone
    #[arg(long = "redis-secret-file", value_name = "FILE", requires = "listen")]
    secret_file: Option<PathBuf>,
    /// Threads that serve Redis clients
    #[arg(
        long = "redis-threads",
        value_name = "N",
        default_value_t = 1,
        requires = "listen"
    )]
    threads: usize,
    /// The most connections of Redis clients
    #[arg(
        long = "redis-connections",
        value_name = "N",
        default_value_t = 1_000,
        requires = "listen"
    )]
    connections: usize,
}

/// Serves Redis clients, if that is asked for.
///
/// # Errors
/// That the address cannot be listened at, or needs a secret.
pub fn start(args: &Args, server: &Server, insecure: bool) -> Result<Option<Gateway>> {
    let Some(listen) = &args.listen else {
        return Ok(None);
    };
    let secrets = args.secret_file.as_deref().map(secrets_in).transpose()?;
    // Redis clients have one.
    let secret = secrets.and_then(|secrets| secrets.into_iter().next());
    let has_secret = secret.is_some();
    let options = GatewayOptions {
        secret,
        insecure,
        threads: args.threads,
        connections: args.connections,
        ..GatewayOptions::at(listen)
    };
    let gateway = Gateway::start(server.store(), &options).map_err(failure)?;
    if !has_secret && !gateway.address().ip().is_loopback() {
        output::note(
            "Redis clients need no secret: whoever reaches this address can use all databases",
        );
    }
    Ok(Some(gateway))
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

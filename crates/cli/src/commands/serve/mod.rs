//! `farslot serve`: lends memory, and does nothing else.

mod admission;
mod args;
mod audit;
mod grants;
mod metrics;
mod redis;
mod snapshots;
mod told;

use self::admission::Admission;
use self::audit::{Tables, audit_to};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;
pub use args::Args;
use farslot::{Address, Server, ServerOptions};
use farslot_gateway::Gateway;
use farslot_operate::Page;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
pub use told::{Told, switch};

/// Serves until the process is told to stop.
///
/// # Errors
/// That the memory cannot be had or the name is taken.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let address = args.at.as_ref().or(context.address.as_ref());
    let Some(address) = address else {
        return Err(Failure::Usage(
            "nothing says where to serve\n  try:  farslot serve shm://work &".into(),
        ));
    };
    let all: Vec<&Address> = std::iter::once(address).chain(&args.also).collect();
    let by_network =
        |address: &&Address| matches!(address, Address::Tcp { .. } | Address::Verbs { .. });
    for address in &all {
        if !matches!(address, Address::Shm { .. }) && !by_network(address) {
            return Err(Failure::Usage(format!(
                "{address} has no process that could serve it: use shm://NAME, tcp://HOST:PORT, tcps://HOST:PORT or verbs://HOST:PORT"
            )));
        }
    }
    let over_network = all.iter().any(by_network);
    let audit = args.audit.as_deref().map(audit_to).transpose()?;
    let under_tls = all
        .iter()
        .any(|address| matches!(address, Address::Tcp { tls: true, .. }));
    let mut admission = if over_network {
        Admission::read(&args, context, under_tls)?
    } else {
        Admission::of_this_user(&args)?
    };
    let options = ServerOptions {
        threads: args.threads,
        secrets: admission.secrets.clone(),
        clients: admission.clients.clone(),
        read_only_secrets: admission.read_only_secrets.clone(),
        tls: admission.tls.clone(),
        trusted: args.trust.clone(),
        insecure: args.insecure,
        audit: audit.clone(),
        restoring: args.snapshots.restores(),
        ..ServerOptions::default()
    };
    let bytes = args.memory.map_or_else(
        || farslot::fabric::shm::available_memory() / 2,
        |size| size.as_u64(),
    );
    // The switch is there before the line that says "ready": whoever reads it may end us at once.
    let reloads = admission.grants.is_some()
        || admission.tls.is_some()
        || over_network && context.secret_file.is_some();
    let told = switch(args.while_stdin, reloads)?;
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let served: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = Server::start_with(&served, bytes, &options)
        .map_err(|error| Failure::from(error).at(address))?;
    let server = Arc::new(server);
    if over_network && !context.json {
        note_openness(&args, &all, &admission);
    }
    let snapshots = snapshots::start(&args.snapshots, server.keeper(), &names)?;
    if args.snapshots.restores() {
        server.open_to_clients()?;
    }
    let gateway = redis::start(&args.redis, &server, args.insecure)?;
    let page = metrics::start(
        &args.metrics,
        &server,
        gateway.as_ref(),
        snapshots.as_ref(),
        &args.trust,
        args.insecure,
    )?;
    announce(
        server.addresses(),
        gateway.as_ref().map(Gateway::address),
        page.as_ref().map(Page::address),
        bytes,
        &admission,
        context.json,
    )?;
    let mut tables = audit.map(|audit| Tables::new(audit, &server));
    admission.keep_in_force(&args, context, &server, &told, &mut tables);
    drop(page);
    drop(gateway);
    if let Some(snapshots) = snapshots {
        // The last snapshots have all that was acknowledged.
        if let Err(error) = server.end_writes() {
            output::note(format_args!(
                "clients may write on while the last snapshots are taken: {error}"
            ));
        }
        snapshots.end();
    }
    drop(server);
    Ok(())
}

/// Notes what the owner may not expect of an address.
fn note_openness(args: &Args, addresses: &[&Address], admission: &Admission) {
    if admission.is_open() {
        output::note(if args.insecure {
            "no secret is needed: whoever reaches this address can use the memory"
        } else if args.trust.is_empty() {
            "no secret is needed: whoever is on this machine can use the memory"
        } else {
            "no secret is needed: whoever is in a network of --trust can use the memory"
        });
    }
    let plain = |address: &&&Address| match address {
        Address::Tcp {
            tls: false,
            authorities,
        } => !authorities.iter().all(|authority| is_loopback(authority)),
        _ => false,
    };
    if let Some(address) = addresses.iter().find(plain) {
        output::note(format_args!(
            "nothing is encrypted at {address}: on a network that is not yours serve tcps://"
        ));
    }
    if let Some(tls) = &admission.tls {
        output::note(format_args!(
            "the certificate's fingerprint, for --tls-pin: {}",
            tls.fingerprint()
        ));
    }
}

/// Whether no other machine reaches it.
fn is_loopback(authority: &str) -> bool {
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

fn announce(
    addresses: &[Address],
    redis: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    bytes: u64,
    admission: &Admission,
    as_json: bool,
) -> Result<()> {
    let pid = std::process::id();
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let redis = redis.map(|address| format!("redis://{address}"));
    let metrics = metrics.map(|address| format!("http://{address}/metrics"));
    let said = if as_json {
        output::json(&serde_json::json!({
            "address": addresses.first(), "addresses": addresses, "memory_bytes": bytes, "pid": pid,
            "redis": redis, "metrics": metrics, "secret_needed": !admission.secrets.is_empty(),
            "certificate_sha256": admission.tls.as_ref().map(|tls| tls.fingerprint().to_string()),
        }))
    } else {
        output::line(format!(
            "serving {} at {} (process {pid}; Ctrl-C or kill {pid} ends it)",
            output::sized(bytes),
            [&addresses[..], redis.as_slice(), metrics.as_slice()]
                .concat()
                .join(" and "),
        ))
    };
    match said {
        // Nobody reads the line: the memory is served all the same.
        Err(failure) if failure.is_closed_output() => Ok(()),
        said => said,
    }
}

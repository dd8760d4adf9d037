//! `farslot serve`: lends memory, and does nothing else.

mod admission;
mod audit;
mod grants;

use self::admission::Admission;
use self::audit::{Tables, audit_to};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;
use bytesize::ByteSize;
use farslot::{Address, Network, Server, ServerOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc;

/// The options of `farslot serve`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where to serve: shm://NAME to processes of this user, tcp://HOST:PORT to other machines
    /// (port 0: any that is free), tcps://HOST:PORT under TLS, with --tls-cert and --tls-key,
    /// verbs://HOST:PORT[?device=NAME&port=N&gid=N] to those with an RDMA NIC
    #[arg(value_name = "ADDRESS")]
    at: Option<Address>,
    /// Serve the same memory there as well: one shm:// name, any number of tcp:// and
    /// tcps:// addresses
    #[arg(long, value_name = "ADDRESS")]
    also: Vec<Address>,
    /// How much memory; what is not used takes none [default: half of what is free]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Threads that serve each tcp:// address; clients are spread over them
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// The secret of clients that may only read: those with `--grant read-only`; two lines as in
    /// --secret-file
    #[arg(long, value_name = "FILE")]
    read_only_secret_file: Option<PathBuf>,
    /// Open single tables to clients with `--grant NAME` and a secret or a certificate of their
    /// own, as a TOML file says: for each grant [NAME] with tables = ["..."], rights = "read" or
    /// "all", secret_file = "..." or clients = ["..."] (names of certificates), and, to slow its
    /// clients, operations_per_second = N and bytes_per_second = "SIZE"; SIGHUP has it read again
    #[arg(long, value_name = "FILE")]
    grants: Option<PathBuf>,
    /// Append a line of JSON to this file for every client that is admitted or refused, every grant
    /// that is put in force or revoked, and every table that is made or dropped; at most ten a
    /// second of each kind
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Admit clients at tcps:// addresses that have a certificate of this authority, instead of a
    /// secret, to everything; SIGHUP has it read again, as --tls-cert and --tls-key
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Admit only those of --tls-client-ca to everything whose certificates have one of these DNS
    /// names, with commas between them
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        requires = "tls_client_ca"
    )]
    tls_client: Vec<String>,
    /// Without a secret, serve an address that other machines can reach to the clients of this
    /// network, such as 10.0.0.0/8, or of several with commas between them; others are refused
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    trust: Vec<Network>,
    /// As --trust, of all networks
    #[arg(long)]
    insecure: bool,
    /// End when standard input is closed: for a parent that may be killed
    #[arg(long, hide = true)]
    while_stdin: bool,
}

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
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = Server::start_with(&names, bytes, &options)
        .map_err(|error| Failure::from(error).at(address))?;
    if over_network && !context.json {
        note_openness(&args, &all, &admission);
    }
    announce(server.addresses(), bytes, &admission, context.json)?;
    let mut tables = audit.map(|audit| Tables::new(audit, &server));
    admission.keep_in_force(&args, context, &server, &told, &mut tables);
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

fn announce(addresses: &[Address], bytes: u64, admission: &Admission, as_json: bool) -> Result<()> {
    let pid = std::process::id();
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let said = if as_json {
        output::json(&serde_json::json!({
            "address": addresses.first(), "addresses": addresses, "memory_bytes": bytes, "pid": pid,
            "secret_needed": !admission.secrets.is_empty(),
            "certificate_sha256": admission.tls.as_ref().map(|tls| tls.fingerprint().to_string()),
        }))
    } else {
        output::line(format!(
            "serving {} at {} (process {pid}; Ctrl-C or kill {pid} ends it)",
            output::sized(bytes),
            addresses.join(" and "),
        ))
    };
    match said {
        // Nobody reads the line: the memory is served all the same.
        Err(failure) if failure.is_closed_output() => Ok(()),
        said => said,
    }
}

/// What a process that serves is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// To end: by SIGINT or SIGTERM, or because standard input was closed.
    End,
    /// To read its files again: by SIGHUP.
    Reload,
}

/// Tells when the process is to end and, if it `reloads`, when to read its files again. SIGHUP is
/// left alone otherwise, so that `nohup` works.
///
/// # Errors
/// Of installing the signal handlers.
pub fn switch(while_stdin: bool, reloads: bool) -> Result<mpsc::Receiver<Told>> {
    let (tell, told) = mpsc::channel();
    let mut wanted = vec![SIGINT, SIGTERM];
    wanted.extend(reloads.then_some(SIGHUP));
    let mut signals = Signals::new(wanted).map_err(Failure::io("signals"))?;
    let on_signal = tell.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let what = match signal {
                SIGHUP => Told::Reload,
                _ => Told::End,
            };
            // Where nobody waits any more, the process is ending already.
            if on_signal.send(what).is_err() || what == Told::End {
                return;
            }
        }
    });
    if while_stdin {
        std::thread::spawn(move || {
            let mut ignored = [0; 64];
            while matches!(std::io::stdin().read(&mut ignored), Ok(1..)) {}
            let _ = tell.send(Told::End);
        });
    }
    Ok(told)
}

//! `farslot serve`: lends memory, and does nothing else.

mod audit;
mod grants;
mod redis;

use self::audit::{Tables, audit_to};
use self::grants::Grants;
use crate::context::{Context, secret_in};
use crate::failure::{Failure, Result};
use crate::output;
use bytesize::ByteSize;
use farslot::{Address, Secret, Server, ServerOptions};
use farslot_gateway::Gateway;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// The options of `farslot serve`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where to serve: shm://NAME to processes of this user, tcp://HOST:PORT to other machines
    /// (port 0: any that is free), verbs://HOST:PORT[?device=NAME&port=N&gid=N] to those with an
    /// RDMA NIC
    #[arg(value_name = "ADDRESS")]
    at: Option<Address>,
    /// Serve the same memory there as well: one shm:// name, any number of tcp:// addresses
    #[arg(long, value_name = "ADDRESS")]
    also: Vec<Address>,
    /// How much memory; what is not used takes none [default: half of what is free]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Threads that serve each tcp:// address; clients are spread over them
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// The secret of clients that may only read: those with `--grant read-only`
    #[arg(long, value_name = "FILE")]
    read_only_secret_file: Option<PathBuf>,
    /// Open single tables to clients with `--grant NAME` and a secret of their own, as a TOML file
    /// says: for each grant [NAME] with tables = ["..."], rights = "read" or "all", and secret_file
    /// = "..."; SIGHUP has it read again
    #[arg(long, value_name = "FILE")]
    grants: Option<PathBuf>,
    /// Append a line of JSON to this file for every client that is admitted or refused, every grant
    /// that is put in force or revoked, and every table that is made or dropped; at most ten a
    /// second of each kind
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    #[command(flatten)]
    redis: redis::Args,
    /// Serve an address that other machines can reach to anybody, without a secret
    #[arg(long)]
    insecure: bool,
    /// End when standard input is closed: for a parent that may be killed
    #[arg(long, hide = true)]
    while_stdin: bool,
}

/// How often a node looks whether tables have been made that a grant waits for, or dropped that one
/// opens: well before the memory of one that was dropped is another's.
const LOOK_FOR_TABLES: Duration = Duration::from_millis(100);
/// How often it looks which tables were made and dropped, to write that down.
const AUDIT_TABLES: Duration = Duration::from_secs(1);

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
                "{address} has no process that could serve it: use shm://NAME, tcp://HOST:PORT or verbs://HOST:PORT"
            )));
        }
    }
    let over_network = all.iter().any(by_network);
    let audit = args.audit.as_deref().map(audit_to).transpose()?;
    let mut admission = if over_network {
        Admission::read(&args, context)?
    } else {
        Admission::of_this_user(&args)?
    };
    let options = ServerOptions {
        threads: args.threads,
        secret: admission.secret.clone(),
        read_only_secret: admission.read_only_secret.clone(),
        insecure: args.insecure,
        audit: audit.clone(),
        ..ServerOptions::default()
    };
    let bytes = args.memory.map_or_else(
        || farslot::fabric::shm::available_memory() / 2,
        |size| size.as_u64(),
    );
    // The switch is there before the line that says "ready": whoever reads it may end us at once.
    let reloads = admission.grants.is_some() || over_network && context.secret_file.is_some();
    let told = switch(args.while_stdin, reloads)?;
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = Server::start_with(&names, bytes, &options)
        .map_err(|error| Failure::from(error).at(address))?;
    if over_network && options.secret.is_none() && !context.json {
        output::note(if args.insecure {
            "no secret is needed: whoever reaches this address can use the memory"
        } else {
            "no secret is needed: whoever is on this machine can use the memory"
        });
    }
    let gateway = redis::start(&args.redis, &server, args.insecure)?;
    announce(
        server.addresses(),
        gateway.as_ref().map(Gateway::address),
        bytes,
        options.secret.is_some(),
        context.json,
    )?;
    let mut tables = audit.map(|audit| Tables::new(audit, &server));
    admission.keep_in_force(&args, context, &server, &told, &mut tables);
    drop(gateway);
    drop(server);
    Ok(())
}

/// Who is admitted to what.
#[derive(Default)]
struct Admission {
    secret: Option<Secret>,
    read_only_secret: Option<Secret>,
    grants: Option<Grants>,
}

impl Admission {
    /// Of memory that only processes of this user reach, by its name: they need no secret, and may
    /// do everything.
    fn of_this_user(args: &Args) -> Result<Self> {
        let Some(option) = limiting_option(args) else {
            return Ok(Self::default());
        };
        Err(Failure::Usage(format!(
            "{option} is for tcp:// and verbs:// addresses: whoever reaches a shm:// address may do everything"
        )))
    }

    /// Of memory that is served over a network.
    fn read(args: &Args, context: &Context) -> Result<Self> {
        let secrets = Self::secrets(args, context)?;
        let both = secrets.secret.iter().chain(&secrets.read_only_secret);
        let mightier: Vec<_> = both.cloned().collect();
        let grants = args.grants.as_deref();
        let grants = grants
            .map(|file| Grants::read(file, mightier))
            .transpose()?;
        Ok(Self { grants, ..secrets })
    }

    /// The secrets that open more than single tables.
    fn secrets(args: &Args, context: &Context) -> Result<Self> {
        let secret = context.secret()?;
        // Whoever may do less must not be able to ask for the grant to everything.
        let Some(all) = &secret else {
            return match limiting_option(args) {
                Some(option) => Err(Failure::Usage(format!(
                    "{option} needs --secret-file as well: without one anybody can write"
                ))),
                None => Ok(Self::default()),
            };
        };
        let read_only_secret = args.read_only_secret_file.as_deref().map(secret_in);
        let read_only_secret = read_only_secret.transpose()?;
        if read_only_secret.as_ref() == Some(all) {
            return Err(Failure::Usage(
                "--read-only-secret-file must have another secret than --secret-file: with that one \
                 clients can write"
                    .into(),
            ));
        }
        Ok(Self {
            secret,
            read_only_secret,
            grants: None,
        })
    }
}

/// An option that admits some clients to less than everything.
fn limiting_option(args: &Args) -> Option<&'static str> {
    let grants = args.grants.as_ref().map(|_| "--grants");
    let read_only = args.read_only_secret_file.as_ref();
    read_only.map(|_| "--read-only-secret-file").or(grants)
}

impl Admission {
    /// Keeps grants and secrets as their files say, until the process is to end.
    fn keep_in_force(
        &mut self,
        args: &Args,
        context: &Context,
        server: &Server,
        told: &mpsc::Receiver<Told>,
        tables: &mut Option<Tables>,
    ) {
        loop {
            if let Some(grants) = &mut self.grants {
                grants.put_in_force(server);
            }
            if let Some(tables) = tables {
                tables.look(server);
            }
            let look = self.grants.as_ref().map(|_| LOOK_FOR_TABLES);
            let heard = match look.or(tables.as_ref().map(|_| AUDIT_TABLES)) {
                Some(look) => told.recv_timeout(look),
                None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match heard {
                Ok(Told::Reload) => self.reload(args, context, server),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Told::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Reads all files again. Where something is wrong with one, it says so and nothing of it
    /// changes.
    fn reload(&mut self, args: &Args, context: &Context, server: &Server) {
        if let Err(failure) = self.reload_secrets(args, context, server) {
            output::note(format_args!(
                "error: {failure}\n  all secrets stay as they were"
            ));
        }
        if let Some(grants) = &mut self.grants {
            grants.reload(server);
        }
    }

    fn reload_secrets(&mut self, args: &Args, context: &Context, server: &Server) -> Result<()> {
        let Self {
            secret,
            read_only_secret,
            ..
        } = Self::secrets(args, context)?;
        let other = |before: &Option<Secret>, now: &Option<Secret>| {
            now.clone().filter(|now| before.as_ref() != Some(now))
        };
        let all = other(&self.secret, &secret);
        let read_only = other(&self.read_only_secret, &read_only_secret);
        server.change_secrets(all.as_ref(), read_only.as_ref())?;
        let changed = [
            (&all, "--secret-file"),
            (&read_only, "--read-only-secret-file"),
        ];
        for (_, option) in changed.iter().filter(|(other, _)| other.is_some()) {
            output::note(format_args!(
                "the secret of {option} is another now: clients with the one before connect anew"
            ));
        }
        if let Some(grants) = &mut self.grants {
            grants.set_mightier(secret.iter().chain(&read_only_secret).cloned().collect());
        }
        (self.secret, self.read_only_secret) = (secret, read_only_secret);
        Ok(())
    }
}

fn announce(
    addresses: &[Address],
    redis: Option<SocketAddr>,
    bytes: u64,
    with_secret: bool,
    as_json: bool,
) -> Result<()> {
    let pid = std::process::id();
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let redis = redis.map(|address| format!("redis://{address}"));
    let said = if as_json {
        output::json(&serde_json::json!({
            "address": addresses.first(), "addresses": addresses, "memory_bytes": bytes, "pid": pid,
            "redis": redis, "secret_needed": with_secret,
        }))
    } else {
        output::line(format!(
            "serving {} at {} (process {pid}; Ctrl-C or kill {pid} ends it)",
            output::sized(bytes),
            [&addresses[..], redis.as_slice()].concat().join(" and "),
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

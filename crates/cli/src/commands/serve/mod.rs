//! `farslot serve`: lends memory, and does nothing else.

use crate::context::{Context, secret_in};
use crate::failure::{Failure, Result};
use crate::output;
use bytesize::ByteSize;
use farslot::{Address, Secret, Server, ServerOptions};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc;

/// The options of `farslot serve`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where to serve: shm://NAME to processes of this user, tcp://HOST:PORT to other machines (port 0: any
    /// that is free), verbs://HOST:PORT[?device=NAME&port=N&gid=N] to those with an RDMA NIC
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
    /// Serve an address that other machines can reach to anybody, without a secret
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
                "{address} has no process that could serve it: use shm://NAME, tcp://HOST:PORT or verbs://HOST:PORT"
            )));
        }
    }
    let over_network = all.iter().any(by_network);
    let (secret, read_only_secret) = if over_network {
        secrets(&args, context)?
    } else {
        (None, None)
    };
    let options = ServerOptions {
        threads: args.threads,
        secret,
        read_only_secret,
        insecure: args.insecure,
        ..ServerOptions::default()
    };
    let bytes = args.memory.map_or_else(
        || farslot::fabric::shm::available_memory() / 2,
        |size| size.as_u64(),
    );
    // The switch is there before the line that says "ready": whoever reads it may end us at once.
    let stopped = stop_switch(args.while_stdin)?;
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
    announce(
        server.addresses(),
        bytes,
        options.secret.is_some(),
        context.json,
    )?;
    let _ = stopped.recv();
    drop(server);
    Ok(())
}

/// The secret, and that of clients that may only read.
fn secrets(args: &Args, context: &Context) -> Result<(Option<Secret>, Option<Secret>)> {
    let all = context.secret()?;
    let Some(path) = &args.read_only_secret_file else {
        return Ok((all, None));
    };
    let read_only = secret_in(path)?;
    // Whoever may only read must not be able to ask for the grant to everything.
    match &all {
        None => Err(Failure::Usage(
            "--read-only-secret-file needs --secret-file as well: without one anybody can write"
                .into(),
        )),
        Some(all) if *all == read_only => Err(Failure::Usage(
            "--read-only-secret-file must have another secret than --secret-file: with that one \
             clients can write"
                .into(),
        )),
        Some(_) => Ok((all, Some(read_only))),
    }
}

fn announce(addresses: &[Address], bytes: u64, with_secret: bool, as_json: bool) -> Result<()> {
    let pid = std::process::id();
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let said = if as_json {
        output::json(&serde_json::json!({
            "address": addresses.first(), "addresses": addresses, "memory_bytes": bytes, "pid": pid,
            "secret_needed": with_secret,
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

/// Tells when the process is to end: on SIGINT and SIGTERM, or when standard input closes. SIGHUP
/// is left alone, so that `nohup` works.
///
/// # Errors
/// Of installing the signal handlers.
pub fn stop_switch(while_stdin: bool) -> Result<mpsc::Receiver<()>> {
    let (stop, stopped) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Failure::io("signals"))?;
    let on_signal = stop.clone();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // Where nobody waits any more, the process is ending already.
            let _ = on_signal.send(());
        }
    });
    if while_stdin {
        std::thread::spawn(move || {
            let mut ignored = [0; 64];
            while matches!(std::io::stdin().read(&mut ignored), Ok(1..)) {}
            let _ = stop.send(());
        });
    }
    Ok(stopped)
}

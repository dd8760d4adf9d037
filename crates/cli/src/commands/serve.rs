//! `farslot serve`: lends memory, and does nothing else.

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;
use bytesize::ByteSize;
use farslot::{Address, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read;
use std::sync::mpsc;

/// The options of `farslot serve`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where to serve: shm://NAME
    #[arg(value_name = "ADDRESS")]
    at: Option<Address>,
    /// How much memory; what is not used takes none [default: half of what is free]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
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
    if !matches!(address, Address::Shm { .. }) {
        return Err(Failure::Usage(format!(
            "{address} has no process that could serve it: use shm://NAME"
        )));
    }
    let bytes = args.memory.map_or_else(
        || farslot::fabric::shm::available_memory() / 2,
        |size| size.as_u64(),
    );
    // The switch is there before the line that says "ready": whoever reads it may end us at once.
    let stopped = stop_switch(args.while_stdin)?;
    let server =
        Server::start(&address.to_string(), bytes).map_err(|e| Failure::from(e).at(address))?;
    announce(address, bytes, context.json)?;
    let _ = stopped.recv();
    drop(server);
    Ok(())
}

fn announce(address: &Address, bytes: u64, as_json: bool) -> Result<()> {
    let pid = std::process::id();
    let said = if as_json {
        output::json(&serde_json::json!({
            "address": address.to_string(), "memory_bytes": bytes, "pid": pid,
        }))
    } else {
        output::line(format!(
            "serving {} at {address} (process {pid}; Ctrl-C or kill {pid} ends it)",
            output::sized(bytes)
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

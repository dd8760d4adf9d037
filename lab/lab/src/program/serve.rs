//! `farslot-lab serve`: the memory node of a measurement.

use bytesize::ByteSize;
use farslot::{Address, Server, ServerOptions};
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use farslot_terminal::serve_signal::switch;
use serde_json::json;

/// The options of `farslot-lab serve`: those with which a measurement starts its node.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Where to serve
    #[arg(value_name = "ADDRESS")]
    address: Address,
    /// How much memory
    #[arg(long, value_name = "SIZE")]
    memory: ByteSize,
    /// Threads that serve a tcp:// address
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// End when standard input is closed
    #[arg(long)]
    while_stdin: bool,
}

/// Serves until the process is told to stop.
///
/// # Errors
/// That the memory cannot be had or the name is taken.
pub(super) fn run(args: &Args) -> Result<()> {
    let told = switch(args.while_stdin, false)?;
    let options = ServerOptions {
        threads: args.threads,
        ..ServerOptions::default()
    };
    let served = args.address.to_string();
    let server = Server::start_with(&[&served], args.memory.as_u64(), &options);
    let server = server.map_err(|error| Failure::from(error).at(&args.address))?;
    let address = server.addresses().first().map(ToString::to_string);
    output::line(json!({ "address": address }).to_string())?;
    // The only signal is to end.
    let _ = told.recv();
    Ok(())
}

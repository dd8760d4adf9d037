//! An echo of the same bytes: a server that takes as many bytes as a batch takes and answers with
//! as many as its answer has, and does nothing else. Both sides look for a millisecond before they
//! sleep. No store can be faster that exchanges a request and a reply for each batch.
//!
//! ```text
//! request | bytes that follow, 32 | bytes of the reply, 32 | bytes |
//! reply   | bytes |
//! ```

use super::system::{Answer, Client, Request, WorkloadSystem};
use crate::{LabError, Result};
use farslot::Operation;
use farslot::calls::reply::ReplyWriter;
use farslot::calls::request::{RequestWriter, operation_bytes};
use farslot::fabric::FabricError;
use farslot_bench::PolledStream;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

/// The command of the program that serves: `farslot-lab echo`.
pub(crate) const COMMAND: &str = "echo";
/// The most bytes of a request or a reply.
const MOST_BYTES: usize = 4 << 20;
/// Bytes before a request.
const HEAD: usize = 8;

/// Serves at a port of this host that is free, which it says in a line on standard output, until
/// standard input closes.
///
/// # Errors
/// What the system says.
pub(crate) fn serve() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut out = io::stdout();
    writeln!(out, "{}", listener.local_addr()?)?;
    out.flush()?;
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // Whoever hangs up is not answered any more.
            thread::spawn(move || echo(connection));
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

/// Answers one client until it hangs up.
fn echo(connection: TcpStream) -> io::Result<()> {
    let mut connection = PolledStream::new(connection)?;
    let mut bytes = vec![0; HEAD + MOST_BYTES];
    loop {
        // With as few calls as the bytes come in.
        let mut has = 0;
        let mut needed = HEAD;
        let mut reply = 0;
        while has < needed {
            match connection.read(&mut bytes[has..])? {
                0 => return Ok(()),
                more => has += more,
            }
            if let Some(head) = bytes[..has].first_chunk() {
                let request;
                (request, reply) = of_head(*head);
                needed = HEAD + request;
            }
            if needed.max(reply) > bytes.len() {
                return Ok(());
            }
        }
        connection.write_all(&bytes[..reply])?;
    }
}

fn of_head(head: [u8; HEAD]) -> (usize, usize) {
    let word = u64::from_le_bytes(head);
    (word as u32 as usize, (word >> 32) as usize)
}

fn failed(error: io::Error) -> LabError {
    let call = "the echo";
    let error = error.to_string();
    FabricError::Os { call, error }.into()
}

/// The echo, as a process of its own, which ends with this.
pub(super) struct EchoProcess {
    process: Child,
    address: SocketAddr,
    value_bytes: usize,
}

impl EchoProcess {
    /// Starts it by a program that has the command.
    pub(super) fn start(program: &Path, value_bytes: usize) -> Result<Self> {
        let mut process = Command::new(program)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(failed)?;
        }
        let address = line.trim_end().parse().map_err(|_| {
            failed(io::Error::other(format!(
                "it said {line:?} in place of its address"
            )))
        });
        let address = address.inspect_err(|_| {
            let _ = process.kill();
        })?;
        Ok(Self {
            process,
            address,
            value_bytes,
        })
    }
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl WorkloadSystem for EchoProcess {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn version(&self) -> &str {
        "of the same bytes"
    }

    fn process(&self) -> Option<u32> {
        Some(self.process.id())
    }

    fn stores(&self) -> bool {
        false
    }

    fn connect(&self) -> Result<Box<dyn Client>> {
        let connection = TcpStream::connect(self.address).map_err(failed)?;
        Ok(Box::new(Connection {
            connection: PolledStream::new(connection).map_err(failed)?,
            value_bytes: self.value_bytes,
            bytes: Vec::new(),
        }))
    }
}

struct Connection {
    connection: PolledStream,
    value_bytes: usize,
    /// What is sent, then what comes back.
    bytes: Vec<u8>,
}

impl Client for Connection {
    fn ask(&mut self, request: &Request, answer: Answer<'_>) -> Result<bool> {
        let (reads, writes) = (request.reads.len(), request.writes.len());
        let head = operation_bytes(&Operation::Get(&[])).unwrap_or(0);
        self.bytes.clear();
        self.bytes.resize(RequestWriter::bytes(0), 0);
        for key in &request.reads {
            self.bytes.extend_from_slice(&[0; 16][..head.min(16)]);
            self.bytes.extend_from_slice(key);
        }
        for (key, value) in request.records() {
            self.bytes.extend_from_slice(&[0; 16][..head.min(16)]);
            self.bytes.extend_from_slice(key);
            self.bytes.extend_from_slice(value);
        }
        let reply = ReplyWriter::bytes(reads + writes, reads * self.value_bytes);
        // The first bytes are the head, as long as a request's.
        let follow = self.bytes.len() - HEAD;
        let word = follow as u64 | (reply as u64) << 32;
        self.bytes[..HEAD].copy_from_slice(&word.to_le_bytes());
        self.connection.write_all(&self.bytes).map_err(failed)?;
        self.bytes.resize(reply, 0);
        self.connection
            .read_exact(&mut self.bytes[..reply])
            .map_err(failed)?;
        let values = self.bytes[reply - reads * self.value_bytes..reply].chunks(self.value_bytes);
        for (number, value) in values.enumerate() {
            answer(number, Some(value));
        }
        Ok(true)
    }
}

// A request's first bytes have room for the head.
const _: () = assert!(RequestWriter::bytes(0) >= HEAD);

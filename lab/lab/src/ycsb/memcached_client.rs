//! memcached's text protocol, as far as it is needed: a multi-get and sets in one request.
//!
//! These lines are our own because no crate does what a fair comparison needs: `memcache` sends one
//! set at a time, and `async-memcached` parses an answer again from its first byte whenever a KiB
//! of it has come, which would make memcached look slower than it is.

use super::peers::{Identity, Introspect, PeerKind, PeerResources, PeerServer};
use super::system::{Answer, Client, Request, WorkloadSystem};
use crate::{LabError, Result};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer takes so long.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Larger than most answers to a batch.
const BUFFER_BYTES: usize = 64 << 10;
/// The largest item that memcached can be told to take.
const LARGEST_ITEM: usize = 1 << 30;

/// One thread's connection.
pub(super) struct MemcachedClient {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
    request: Vec<u8>,
    line: Vec<u8>,
    value: Vec<u8>,
}

impl MemcachedClient {
    pub(super) fn connect(address: SocketAddr) -> Result<Self> {
        let connect = || {
            let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok(stream)
        };
        let stream = connect().map_err(|error| failure(address, &error))?;
        Ok(Self {
            stream: BufReader::with_capacity(BUFFER_BYTES, stream),
            address,
            request: Vec::new(),
            line: Vec::new(),
            value: Vec::new(),
        })
    }

    /// A statistic of the server, by its name.
    pub(super) fn statistic(&mut self, name: &str) -> Result<String> {
        let address = self.address;
        let mut found = None;
        let mut ask = || -> std::io::Result<()> {
            self.stream.get_mut().write_all(b"stats\r\n")?;
            loop {
                let line = next_line(&mut self.stream, &mut self.line)?;
                if line == b"END" {
                    return Ok(());
                }
                let mut words = line.split(|byte| *byte == b' ').skip(1);
                if words.next() == Some(name.as_bytes()) {
                    found = words
                        .next()
                        .map(|value| String::from_utf8_lossy(value).into_owned());
                }
            }
        };
        ask().map_err(|error| failure(address, &error))?;
        found.ok_or_else(|| failure(address, &odd(format!("it has no statistic {name:?}"))))
    }

    /// Removes all that it holds.
    pub(super) fn flush(&mut self) -> Result<()> {
        let mut flush = || {
            self.stream.get_mut().write_all(b"flush_all\r\n")?;
            match next_line(&mut self.stream, &mut self.line)? {
                b"OK" => Ok(()),
                other => Err(unexpected(other)),
            }
        };
        flush().map_err(|error| failure(self.address, &error))
    }

    fn send(&mut self, request: &Request) -> std::io::Result<()> {
        self.request.clear();
        if !request.reads.is_empty() {
            self.request.extend_from_slice(b"get");
            for key in &request.reads {
                self.request.push(b' ');
                self.request.extend_from_slice(key);
            }
            self.request.extend_from_slice(b"\r\n");
        }
        for (key, value) in request.records() {
            self.request.extend_from_slice(b"set ");
            self.request.extend_from_slice(key);
            write!(self.request, " 0 0 {}\r\n", value.len())?;
            self.request.extend_from_slice(value);
            self.request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&self.request)
    }

    fn receive(&mut self, request: &Request, answer: Answer<'_>) -> std::io::Result<()> {
        if !request.reads.is_empty() {
            self.receive_values(request, answer)?;
        }
        for _ in &request.writes {
            match next_line(&mut self.stream, &mut self.line)? {
                b"STORED" => {}
                other => return Err(unexpected(other)),
            }
        }
        Ok(())
    }

    /// Values come in the order of their keys, and those of absent keys not at all.
    fn receive_values(&mut self, request: &Request, answer: Answer<'_>) -> std::io::Result<()> {
        let mut keys = request.reads.iter().enumerate();
        loop {
            let line = next_line(&mut self.stream, &mut self.line)?;
            if line == b"END" {
                break;
            }
            let mut words = line.split(|byte| *byte == b' ');
            let (Some(b"VALUE"), Some(key), _, Some(bytes)) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                return Err(unexpected(line));
            };
            let bytes = std::str::from_utf8(bytes)
                .ok()
                .and_then(|bytes| bytes.parse().ok());
            let bytes: usize = bytes
                .filter(|bytes| *bytes <= LARGEST_ITEM)
                .ok_or_else(|| unexpected(line))?;
            let number = loop {
                match keys.next() {
                    Some((number, asked)) if asked[..] == *key => break number,
                    Some((number, _)) => answer(number, None),
                    None => return Err(unexpected(line)),
                }
            };
            self.value.resize(bytes + 2, 0);
            self.stream.read_exact(&mut self.value)?;
            answer(number, Some(&self.value[..bytes]));
        }
        keys.for_each(|(number, _)| answer(number, None));
        Ok(())
    }
}

/// The next line, without its end.
fn next_line<'l>(
    stream: &mut BufReader<TcpStream>,
    line: &'l mut Vec<u8>,
) -> std::io::Result<&'l [u8]> {
    line.clear();
    stream.read_until(b'\n', line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(line),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

fn unexpected(line: &[u8]) -> Error {
    odd(format!(
        "unexpected answer {:?}",
        String::from_utf8_lossy(line)
    ))
}

fn odd(reason: String) -> Error {
    Error::new(ErrorKind::InvalidData, reason)
}

fn failure(address: SocketAddr, error: &Error) -> LabError {
    LabError::Peer {
        peer: "memcached",
        address,
        reason: error.to_string(),
    }
}

impl WorkloadSystem for PeerServer<MemcachedClient> {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn version(&self) -> &str {
        self.version()
    }

    fn process(&self) -> Option<u32> {
        self.process()
    }

    fn connect(&self) -> Result<Box<dyn Client>> {
        Ok(Box::new(MemcachedClient::connect(self.address())?))
    }
}

impl Client for MemcachedClient {
    fn ask(&mut self, request: &Request, answer: Answer<'_>) -> Result<bool> {
        let done = self
            .send(request)
            .and_then(|()| self.receive(request, answer));
        done.map_err(|error| failure(self.address, &error))?;
        Ok(true)
    }
}

impl Introspect for MemcachedClient {
    const KIND: PeerKind = PeerKind::Memcached;

    fn arguments(port: u16, resources: PeerResources) -> Vec<String> {
        let (port, threads) = (port.to_string(), resources.threads.to_string());
        let memory = resources.memory.div_ceil(1 << 20).to_string();
        let mut arguments = vec![
            "-l",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "0",
            "-t",
            &threads,
            "-m",
            &memory,
        ];
        if resources.evicts.is_none() {
            // Rather an error than a record that is gone.
            arguments.push("-M");
        }
        if rustix::process::geteuid().is_root() {
            // It refuses to run as root without being told so.
            arguments.extend(["-u", "root"]);
        }
        arguments.into_iter().map(Into::into).collect()
    }

    fn connect(address: SocketAddr) -> Result<Self> {
        Self::connect(address)
    }

    fn identify(&mut self) -> Result<Identity> {
        let number = |text: String| text.parse().unwrap_or_default();
        Ok(Identity {
            version: self.statistic("version")?,
            process: number(self.statistic("pid")?) as u32,
            records: number(self.statistic("curr_items")?),
        })
    }

    fn empty(&mut self) -> Result<()> {
        self.flush()
    }
}

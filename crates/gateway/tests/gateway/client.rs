//! A client that speaks RESP over a socket, and gateways to speak to.

use crate::tls_stream;
use farslot::{OpenOptions, Store};
use farslot_gateway::{Gateway, GatewayOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A store in this process's memory, and a gateway to it.
pub fn gateway() -> (Store, Gateway) {
    gateway_with(|_| {})
}

/// The same with other options.
pub fn gateway_with(change: impl FnOnce(&mut GatewayOptions)) -> (Store, Gateway) {
    let store = Store::embedded_with(256 << 20, OpenOptions::default()).unwrap();
    let mut options = GatewayOptions::at("127.0.0.1:0");
    change(&mut options);
    let gateway = Gateway::start(&store, &options).unwrap();
    (store, gateway)
}

/// A reply, in either protocol.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Reply>),
}

impl Reply {
    /// As `redis-cli` shows it, more or less: for comparing with literals.
    pub fn shown(&self) -> String {
        match self {
            Self::Status(text) => text.clone(),
            Self::Error(text) => format!("-{text}"),
            Self::Integer(number) => format!(":{number}"),
            Self::Bulk(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
            Self::Null => "nil".into(),
            Self::Array(parts) => {
                let parts: Vec<_> = parts.iter().map(Self::shown).collect();
                format!("[{}]", parts.join(" "))
            }
        }
    }
}

/// What carries bytes both ways.
trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

pub struct Client {
    tcp: TcpStream,
    stream: BufReader<Box<dyn Stream>>,
}

impl Client {
    pub fn of(gateway: &Gateway) -> Self {
        Self::at(gateway.address())
    }

    pub fn at(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        // A reply that never comes shall fail the test, not hang it.
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream.try_clone().unwrap(), stream)
    }

    /// Under TLS; the certificate is of this authority (PEM).
    pub fn under_tls(address: SocketAddr, authority: &[u8]) -> std::io::Result<Self> {
        let stream = tls_stream::connect(address, authority)?;
        Ok(Self::over(stream.sock.try_clone()?, stream))
    }

    fn over(tcp: TcpStream, stream: impl Stream + 'static) -> Self {
        let stream = BufReader::new(Box::new(stream) as Box<dyn Stream>);
        Self { tcp, stream }
    }

    /// Sends these bytes; the gateway may have closed the connection.
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Sends bytes below TLS.
    pub fn send_bare(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.tcp.write_all(bytes)
    }

    /// The next reply; an error at the connection's end.
    pub fn reply(&mut self) -> std::io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end_matches(['\r', '\n']).split_at(1);
        let length = || rest.parse::<usize>().unwrap();
        Ok(match kind {
            "+" => Reply::Status(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Integer(rest.parse().unwrap()),
            "_" => Reply::Null,
            "$" | "*" if rest == "-1" => Reply::Null,
            "$" | "=" => {
                let mut bytes = vec![0; length() + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(length());
                Reply::Bulk(bytes)
            }
            "*" => Reply::Array(
                (0..length())
                    .map(|_| self.reply())
                    .collect::<Result<_, _>>()?,
            ),
            "%" => {
                let parts = (0..2 * length()).map(|_| self.reply());
                Reply::Array(parts.collect::<Result<_, _>>()?)
            }
            _ => panic!("no reply: {line:?}"),
        })
    }

    /// Runs a command.
    pub fn run<T: AsRef<[u8]>>(&mut self, arguments: &[T]) -> Reply {
        self.send(&request(arguments)).unwrap();
        self.reply().unwrap()
    }

    /// The next bytes of replies.
    pub fn read_exact(&mut self, bytes: &mut [u8]) {
        self.stream.read_exact(bytes).unwrap();
    }

    /// Runs a command; whether the connection is open still.
    pub fn run_if_open<T: AsRef<[u8]>>(&mut self, arguments: &[T]) -> bool {
        self.send(&request(arguments)).is_ok() && self.reply().is_ok()
    }

    /// Runs a command of words, and shows its reply.
    pub fn ask(&mut self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        self.run(&words).shown()
    }

    /// Runs a command of words whose reply is a time that is left: not more than given, and less
    /// by what a slow machine takes.
    pub fn expect_left(&mut self, words: &str, given: i64) {
        let reply = self.ask(words);
        let left: i64 = reply.trim_start_matches(':').parse().unwrap();
        assert!((given / 2..=given).contains(&left), "{words}: {left}");
    }

    /// Sends no more. What was sent is done all the same.
    pub fn finish(&mut self) {
        self.tcp.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Runs commands of words, and compares each reply as it is shown.
    pub fn expect(&mut self, all: &[(&str, &str)]) {
        for (words, expected) in all {
            assert_eq!(self.ask(words), *expected, "{words}");
        }
    }
}

/// The bytes of a request.
pub fn request<T: AsRef<[u8]>>(arguments: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

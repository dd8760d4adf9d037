//! An echo: so many bytes there, so many back, and nothing else.

use super::options::{Ceiling, Options};
use crate::{BenchError, PolledStream, Result};
use farslot::fabric::FabricError;
use hdrhistogram::Histogram;
use rand_chacha::ChaCha8Rng;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

/// Exchanges of as many bytes as READs take.
pub(super) struct Echoes;

impl Ceiling for Echoes {
    fn many(&self, options: &Options) -> String {
        format!("echo of the bytes of {} READs", options.outstanding)
    }

    fn one(&self, _: &Options) -> String {
        "echo of the bytes of one READ".into()
    }

    fn rate(&self, options: &Options, _: &mut ChaCha8Rng) -> Result<f64> {
        let exchange = ExchangeBytes::of_reads(options.outstanding, options.read_bytes);
        let exchanges = options.operations.div_ceil(options.outstanding);
        Ok(exchange.rate(exchanges)? * options.outstanding as f64)
    }

    fn latency(
        &self,
        options: &Options,
        _: &mut ChaCha8Rng,
        latency: &mut Histogram<u64>,
    ) -> Result<()> {
        ExchangeBytes::of_reads(1, options.read_bytes).latency(options.single_reads, latency)
    }
}

/// The bytes of an exchange.
#[derive(Clone, Copy)]
struct ExchangeBytes {
    request: usize,
    answer: usize,
}

impl ExchangeBytes {
    /// As many bytes as a doorbell of so many READs and their completions have on the wire.
    fn of_reads(count: usize, bytes: usize) -> Self {
        const HEADER: usize = 8;
        const READ: usize = 24;
        Self {
            request: HEADER + count * READ,
            answer: HEADER + count * bytes,
        }
    }

    /// Exchanges a second.
    fn rate(self, exchanges: usize) -> Result<f64> {
        self.run(|exchange| {
            let since = Instant::now();
            for _ in 0..exchanges {
                exchange()?;
            }
            Ok(exchanges as f64 / since.elapsed().as_secs_f64())
        })
    }

    /// Times exchanges one by one, the clock's own time included.
    fn latency(self, exchanges: usize, latency: &mut Histogram<u64>) -> Result<()> {
        self.run(|exchange| {
            let mut before = Instant::now();
            for _ in 0..exchanges {
                exchange()?;
                let now = Instant::now();
                latency.saturating_record((now - before).as_nanos() as u64);
                before = now;
            }
            Ok(())
        })
    }

    /// Runs `client` beside a server that ends with it.
    fn run<T>(
        self,
        client: impl FnOnce(&mut dyn FnMut() -> std::io::Result<()>) -> std::io::Result<T>,
    ) -> Result<T> {
        let measure = || {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let mut to_server = PolledStream::new(TcpStream::connect(listener.local_addr()?)?)?;
            let mut to_client = PolledStream::new(listener.accept()?.0)?;
            thread::scope(|scope| {
                scope.spawn(move || {
                    let (mut request, answer) = (vec![0; self.request], vec![1; self.answer]);
                    // It ends when the client closes.
                    while to_client.read_exact(&mut request).is_ok()
                        && to_client.write_all(&answer).is_ok()
                    {}
                });
                let (request, mut answer) = (vec![2; self.request], vec![0; self.answer]);
                let result = client(&mut || {
                    to_server.write_all(&request)?;
                    to_server.read_exact(&mut answer)
                });
                drop(to_server);
                result
            })
        };
        measure().map_err(|error| {
            BenchError::from(FabricError::Os {
                call: "the echo",
                error: error.to_string(),
            })
        })
    }
}

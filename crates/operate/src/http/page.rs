//! The server, from its start to its end.

use super::answer::Answers;
use super::event_loop::HttpEventLoop;
use super::options::PageOptions;
use crate::source::Source;
use farslot::admission::{BACKLOG, TlsServer};
use rustix::event::{EventfdFlags, eventfd};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;

/// Why a page cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The address cannot be listened at.
    #[error("cannot serve metrics at {address}: {error}")]
    Listen {
        /// The address as given.
        address: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// Other machines reach the address, and no network is trusted.
    #[error(
        "{address} can be reached by other machines, and metrics need no secret: name the networks that are trusted"
    )]
    Insecure {
        /// The address.
        address: SocketAddr,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread that serves metrics: {error}")]
    Thread {
        /// What the system says.
        error: std::io::Error,
    },
}

impl PageOptions {
    /// Refuses what [`Page::start`] would refuse, as far as that shows without
    /// listening. Returns the addresses to listen at.
    ///
    /// # Errors
    /// [`PageError::Listen`] if the address has no IP address; [`PageError::Insecure`].
    pub fn check(&self) -> Result<Vec<SocketAddr>, PageError> {
        let resolved = self.listen.to_socket_addrs();
        let resolved: Vec<_> = resolved.map_err(|error| self.unusable(error))?.collect();
        let is_open = |address: &&SocketAddr| !address.ip().is_loopback();
        if !self.insecure
            && self.trusted.is_empty()
            && let Some(address) = resolved.iter().find(is_open)
        {
            return Err(PageError::Insecure { address: *address });
        }
        Ok(resolved)
    }

    fn unusable(&self, error: std::io::Error) -> PageError {
        PageError::Listen {
            address: self.listen.clone(),
            error,
        }
    }
}

/// Metrics, health and a page, served over HTTP or HTTPS for as long as this is held.
#[derive(Debug)]
pub struct Page {
    address: SocketAddr,
    tls: Arc<Option<RwLock<TlsServer>>>,
    end: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Page {
    /// Serves the metrics of a source.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn start(source: impl Source, options: &PageOptions) -> Result<Self, PageError> {
        let listener = listen(options)?;
        let thread = |error| PageError::Thread { error };
        let address = listener.local_addr().map_err(thread)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let end = end.map_err(|error| thread(error.into()))?;
        let end_reader = end.try_clone().map_err(thread)?;
        let answers = Answers::of(Box::new(source), address.ip().is_loopback());
        let tls = Arc::new(options.tls.clone().map(RwLock::new));
        let shared = Arc::clone(&tls);
        let event_loop = HttpEventLoop::new(listener, end_reader, options.clone(), shared, answers);
        let started = std::thread::Builder::new().name("farslot-metrics".into());
        let started = started.spawn(move || event_loop.run()).map_err(thread)?;
        Ok(Self {
            address,
            tls,
            end,
            thread: Some(started),
        })
    }

    /// Shows another certificate from now on, where it is served under TLS.
    pub fn change_tls(&self, new: &TlsServer) {
        if let Some(tls) = &*self.tls {
            *tls.write().unwrap_or_else(PoisonError::into_inner) = new.clone();
        }
    }

    /// Where it is served, with the port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that serves metrics has panicked");
        }
    }
}

fn listen(options: &PageOptions) -> Result<TcpListener, PageError> {
    let failed = |error| options.unusable(error);
    let addresses = options.check()?;
    let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
    Ok(listener)
}

//! The thread that serves the pages.

use super::answer::Answers;
use super::connection::Connection;
use super::options::PageOptions;
use farslot::admission::TlsServer;
use farslot_fabric::net::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The most connections.
const CONNECTIONS: usize = 64;
/// How long none is accepted where the process may open no more files.
const PAUSE: Duration = Duration::from_millis(100);

/// The thread that serves the pages.
pub(super) struct HttpEventLoop {
    listener: TcpListener,
    /// Readable once the thread is to end.
    end: OwnedFd,
    options: PageOptions,
    /// How it is served, where that is under TLS.
    tls: Arc<Option<RwLock<TlsServer>>>,
    answers: Answers,
    /// The oldest first.
    connections: Vec<Connection>,
    paused_until: Option<Instant>,
}

impl HttpEventLoop {
    pub(super) fn new(
        listener: TcpListener,
        end: OwnedFd,
        options: PageOptions,
        tls: Arc<Option<RwLock<TlsServer>>>,
        answers: Answers,
    ) -> Self {
        Self {
            listener,
            end,
            options,
            tls,
            answers,
            connections: Vec::new(),
            paused_until: None,
        }
    }

    /// Serves until it is to end.
    pub(super) fn run(mut self) {
        loop {
            let now = Instant::now();
            self.connections.retain(|connection| connection.until > now);
            self.paused_until = self.paused_until.filter(|until| *until > now);
            let ready = self.wait(now);
            if ready.end {
                return;
            }
            // From the last: those that are over leave the places of the others as they are.
            for place in (0..self.connections.len()).rev() {
                if ready.connections[place] && !self.connections[place].go_on(&mut self.answers) {
                    self.connections.remove(place);
                }
            }
            if ready.newcomers {
                self.accept();
            }
        }
    }

    /// Sleeps until there is something to do.
    fn wait(&self, now: Instant) -> SocketReadiness {
        let next = self.connections.iter().map(|connection| connection.until);
        let next = next.chain(self.paused_until).min();
        let timeout = next.map(|next| {
            let sleep = next.saturating_duration_since(now);
            Timespec {
                tv_sec: sleep.as_secs() as i64,
                tv_nsec: sleep.subsec_nanos().into(),
            }
        });
        let listens = match self.paused_until {
            None => PollFlags::IN,
            Some(_) => PollFlags::empty(),
        };
        let mut polled = vec![
            PollFd::new(&self.end, PollFlags::IN),
            PollFd::new(&self.listener, listens),
        ];
        let connections = self.connections.iter();
        polled.extend(connections.map(|one| PollFd::new(one.socket.tcp(), one.wants())));
        // Interrupted or not, what there is will be told again.
        let _ = poll(&mut polled, timeout.as_ref());
        let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
        SocketReadiness {
            end: ready.next() == Some(true),
            newcomers: ready.next() == Some(true),
            connections: ready.collect(),
        }
    }

    fn accept(&mut self) {
        for _ in 0..CONNECTIONS {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    if !self.options.trusts(peer.ip()) {
                        continue;
                    }
                    let tls = (*self.tls).as_ref();
                    let tls = tls.map(|tls| tls.read().unwrap_or_else(PoisonError::into_inner));
                    let Ok(socket) = Socket::accepted(stream, tls.as_deref()) else {
                        continue;
                    };
                    drop(tls);
                    let mut connection = Connection::new(socket);
                    if connection.go_on(&mut self.answers) {
                        if self.connections.len() == CONNECTIONS {
                            self.connections.remove(0);
                        }
                        self.connections.push(connection);
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    _ => {
                        log::warn!("metrics are not served for a moment: {error}");
                        self.paused_until = Some(Instant::now() + PAUSE);
                        return;
                    }
                },
            }
        }
    }
}

/// Which sockets are ready, as the kernel has told.
struct SocketReadiness {
    end: bool,
    newcomers: bool,
    /// By the places of the connections.
    connections: Vec<bool>,
}

//! A keeper.

use super::{DONE, DROP, HOLD, IN_USE, KEPT, NOTHING, Place, TAKE};
use crate::Result;
use crate::error::os;
use crate::memory::{id_of, is_claimed};
use crate::unix_socket::{UnixSocketMessage, receive, send_file, span, user_of_peer};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// Connections at a time; beyond, the oldest is closed.
const MOST_CLIENTS: usize = 16;
/// How long a keeper that keeps nothing waits for somebody.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps the memory of the node of a name, until it keeps nothing and nobody is connected. Returns
/// `false` at once if the name has a keeper already.
///
/// # Errors
/// What the system says.
pub fn serve(place: &Place) -> Result<bool> {
    place.make()?;
    let Some(_lock) = place.lock()? else {
        return Ok(false);
    };
    let path = place.socket();
    // What a keeper has left that was killed.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(os("unlink")(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(os("bind"))?;
    listener.set_nonblocking(true).map_err(os("fcntl"))?;
    let served = Server::default().until_unused(&listener);
    let _ = std::fs::remove_file(&path);
    served.map(|()| true)
}

#[derive(Default)]
struct Server {
    memory: Option<OwnedFd>,
    clients: Vec<UnixStream>,
}

impl Server {
    fn until_unused(mut self, listener: &UnixListener) -> Result<()> {
        loop {
            let is_unused = self.memory.is_none() && self.clients.is_empty();
            let patience = is_unused.then(|| span(PATIENCE));
            let mut waited = vec![PollFd::new(listener, PollFlags::IN)];
            let clients = self.clients.iter();
            waited.extend(clients.map(|client| PollFd::new(client, PollFlags::IN)));
            match poll(&mut waited, patience.as_ref()) {
                Ok(0) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(os("poll")(error)),
            }
            let happened: Vec<bool> = waited.iter().map(|one| !one.revents().is_empty()).collect();
            let had_clients = !self.clients.is_empty();
            let clients = std::mem::take(&mut self.clients);
            for (client, happened) in clients.into_iter().zip(&happened[1..]) {
                if !happened || self.answer(&client) {
                    self.clients.push(client);
                }
            }
            if happened[0] {
                self.admit(listener);
            } else if had_clients && self.clients.is_empty() && self.memory.is_none() {
                return Ok(());
            }
        }
    }

    /// Takes a connection of this user's.
    fn admit(&mut self, listener: &UnixListener) {
        let Ok((stream, _)) = listener.accept() else {
            return;
        };
        let user = rustix::process::geteuid();
        let is_own = user_of_peer(&stream).is_ok_and(|peer| peer == user);
        if is_own && stream.set_nonblocking(true).is_ok() {
            if self.clients.len() >= MOST_CLIENTS {
                self.clients.remove(0);
            }
            self.clients.push(stream);
        }
    }

    /// Answers a request; false if the connection is over.
    fn answer(&mut self, mut client: &UnixStream) -> bool {
        let (request, file) = match receive(client) {
            Ok(UnixSocketMessage::Byte(request, file)) => (request, file),
            Ok(UnixSocketMessage::Nothing) => return true,
            Ok(UnixSocketMessage::Closed) | Err(_) => return false,
        };
        let answer = match (request, file) {
            (TAKE, None) => match &self.memory {
                Some(memory) => return send_file(client, KEPT, memory.as_fd()),
                None => NOTHING,
            },
            (HOLD, Some(file)) if self.is_free_for(Some(&file)) => {
                self.memory = Some(file);
                DONE
            }
            (DROP, None) if self.is_free_for(None) => {
                self.memory = None;
                DONE
            }
            (HOLD, Some(_)) | (DROP, None) => IN_USE,
            _ => return false,
        };
        matches!(client.write(&[answer]), Ok(1))
    }

    /// Whether what is kept may be given up for another file: no node has it, or it is the same.
    fn is_free_for(&self, next: Option<&OwnedFd>) -> bool {
        let Some(kept) = &self.memory else {
            return true;
        };
        let is_same =
            next.is_some_and(|next| matches!((id_of(next), id_of(kept)), (Ok(a), Ok(b)) if a == b));
        is_same || matches!(is_claimed(kept.as_fd()), Ok(false))
    }
}

//! The side of a node, and of whoever has a keeper end.

use super::{DONE, DROP, HOLD, IN_USE, KEPT, NOTHING, Place, TAKE};
use crate::error::os;
use crate::unix_socket::{UnixSocketMessage, receive, receive_within, send_file, user_of_peer};
use crate::{FabricError, Result};
use std::io::{ErrorKind, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a keeper is waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A connection to the keeper of a name.
#[derive(Debug)]
pub struct Keeper {
    stream: UnixStream,
    name: String,
}

/// What a keeper has.
#[derive(Debug)]
pub enum Taken {
    /// The memory of a node.
    Memory(OwnedFd),
    /// None.
    Nothing,
}

impl Keeper {
    /// Connects to the keeper at a place; nothing if there is none.
    ///
    /// # Errors
    /// [`WrongUser`](FabricError::WrongUser), or what the system says.
    pub fn connect(place: &Place) -> Result<Option<Self>> {
        let stream = loop {
            match UnixStream::connect(place.socket()) {
                Ok(stream) => break stream,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused => return Ok(None),
                    _ => return Err(os("connect")(error)),
                },
            }
        };
        let user = rustix::process::geteuid();
        let owner = user_of_peer(&stream).map_err(os("getsockopt(SO_PEERCRED)"))?;
        if owner != user {
            return Err(FabricError::WrongUser {
                name: place.name().into(),
                owner: owner.as_raw(),
                user: user.as_raw(),
            });
        }
        Ok(Some(Self {
            stream,
            name: place.name().into(),
        }))
    }

    /// The memory that is kept, for a node to go on with.
    ///
    /// # Errors
    /// What the system says.
    pub fn take(&mut self) -> Result<Taken> {
        match self.ask(TAKE, None)? {
            (KEPT, Some(file)) => Ok(Taken::Memory(file)),
            (NOTHING, None) => Ok(Taken::Nothing),
            other => Err(self.nonsense(&other)),
        }
    }

    /// Has a memory kept from now on, in place of what was kept before.
    ///
    /// # Errors
    /// [`MemoryInUse`](FabricError::MemoryInUse) while another is kept whose node runs, or what the
    /// system says.
    pub fn hold(&mut self, file: BorrowedFd<'_>) -> Result<()> {
        self.done(HOLD, Some(file))
    }

    /// Has nothing kept any more, which ends a keeper once nobody is connected to it.
    ///
    /// # Errors
    /// As [`Keeper::hold`].
    pub fn drop_memory(&mut self) -> Result<()> {
        self.done(DROP, None)
    }

    /// Whether the keeper has ended, or the connection to it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(
            receive(&self.stream),
            Ok(UnixSocketMessage::Closed) | Err(_)
        )
    }

    fn done(&mut self, request: u8, file: Option<BorrowedFd<'_>>) -> Result<()> {
        match self.ask(request, file)? {
            (DONE, None) => Ok(()),
            (IN_USE, None) => Err(FabricError::MemoryInUse {
                subject: format!("the kept memory {:?}", self.name),
            }),
            other => Err(self.nonsense(&other)),
        }
    }

    fn ask(&mut self, request: u8, file: Option<BorrowedFd<'_>>) -> Result<(u8, Option<OwnedFd>)> {
        let sent = match file {
            Some(file) => send_file(&self.stream, request, file),
            None => self.stream.write_all(&[request]).is_ok(),
        };
        let failed = |end: &str| FabricError::Os {
            call: "asking the keeper",
            error: format!("that of {:?} {end}", self.name),
        };
        if !sent {
            return Err(failed("has ended"));
        }
        match receive_within(&self.stream, ANSWER_WITHIN)? {
            UnixSocketMessage::Byte(byte, file) => Ok((byte, file)),
            UnixSocketMessage::Closed => Err(failed("has ended")),
            UnixSocketMessage::Nothing => Err(failed("did not answer within 5 s")),
        }
    }

    fn nonsense(&self, (found, _): &(u8, Option<OwnedFd>)) -> FabricError {
        FabricError::NotFarslot {
            subject: format!("the keeper of {:?}", self.name),
            found: (*found).into(),
            expected: DONE.into(),
        }
    }
}

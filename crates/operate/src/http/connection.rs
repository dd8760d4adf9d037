//! One client: a request, an answer, the end.

use super::answer::Answers;
use super::request::{Arrived, LONGEST};
use farslot_fabric::net::Socket;
use rustix::event::PollFlags;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// How long a request may take to arrive, with the handshake of TLS before it.
const REQUEST: Duration = Duration::from_secs(5);
/// How long its answer may take to leave.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the client may take to close the connection. If it still sends when the socket is
/// closed, its answer is lost.
const LINGER: Duration = Duration::from_secs(1);
/// Reads and writes before others have their turn.
const STEPS_A_TURN: usize = 16;

/// A connection.
pub(super) struct Connection {
    pub(super) socket: Socket,
    /// When it is over, however far it has come.
    pub(super) until: Instant,
    stage: Stage,
}

enum Stage {
    /// These bytes of the request have arrived.
    Request(Vec<u8>),
    /// The answer, and how much of it has left.
    Answer(Vec<u8>, usize),
    /// The client has its answer, and is waited for.
    End,
}

impl Connection {
    pub(super) fn new(socket: Socket) -> Self {
        Self {
            socket,
            until: Instant::now() + REQUEST,
            stage: Stage::Request(Vec::new()),
        }
    }

    /// What it waits for.
    pub(super) fn wants(&self) -> PollFlags {
        match self.stage {
            Stage::Request(_) if self.socket.has_unsent() => PollFlags::IN | PollFlags::OUT,
            Stage::Request(_) | Stage::End => PollFlags::IN,
            Stage::Answer(..) => PollFlags::OUT,
        }
    }

    /// Goes on as far as it can, within its turn; false if it is over.
    pub(super) fn go_on(&mut self, answers: &mut Answers) -> bool {
        for _ in 0..STEPS_A_TURN {
            let goes_on = match &mut self.stage {
                Stage::Request(_) => self.receive(answers),
                Stage::Answer(..) => self.send(),
                Stage::End => self.linger(),
            };
            match goes_on {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    fn receive(&mut self, answers: &mut Answers) -> std::io::Result<()> {
        let Stage::Request(bytes) = &mut self.stage else {
            return Ok(());
        };
        let mut piece = [0; 1024];
        let room = piece.len().min(LONGEST - bytes.len());
        let received = self.socket.read(&mut piece[..room])?;
        if received == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&piece[..received]);
        if let Some(answer) = answers.answer(&Arrived::of(bytes)) {
            self.stage = Stage::Answer(answer, 0);
            self.until = Instant::now() + ANSWER;
        }
        Ok(())
    }

    fn send(&mut self) -> std::io::Result<()> {
        let Stage::Answer(answer, sent) = &mut self.stage else {
            return Ok(());
        };
        if *sent < answer.len() {
            *sent += self.socket.write(&answer[*sent..])?;
            return Ok(());
        }
        self.socket.close_notify();
        self.socket.tcp().shutdown(Shutdown::Write)?;
        self.stage = Stage::End;
        self.until = Instant::now() + LINGER;
        Ok(())
    }

    fn linger(&mut self) -> std::io::Result<()> {
        match self.socket.read(&mut [0; 1024])? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            // What follows a request is thrown away.
            _ => Ok(()),
        }
    }
}

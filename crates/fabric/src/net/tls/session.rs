//! One connection's TLS, between a socket that does not block and the frames.

use crate::error::TlsFailure;
use crate::net::socket::{self, Io};
use rustls::Connection;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};

/// The TLS of a connection.
pub(crate) struct Session {
    tls: Connection,
    /// Bytes that have been sealed for [`Session::send`] and not told as moved: not all of their
    /// records have gone.
    sealed: usize,
    /// Bytes that have been opened and not received.
    opened: usize,
    /// Bytes of the handshake that have arrived.
    handshake: usize,
    failure: Option<TlsFailure>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

/// What is sealed at once: what rustls buffers at most.
const SEALED_AT_ONCE: usize = 64 << 10;
/// What an idle session takes.
const IDLE: usize = 8 << 10;
/// A record that has not come whole.
const RECORD: usize = 18 << 10;
/// What a failed session throws away at once of what still comes.
const THROWN_AWAY: usize = 4 << 10;

impl Session {
    /// The most bytes of a handshake: far more than any has whose certificates are few.
    pub(crate) const HANDSHAKE_BYTES: usize = 32 << 10;

    pub(super) fn new(tls: Connection) -> Self {
        Self {
            tls,
            sealed: 0,
            opened: 0,
            handshake: 0,
            failure: None,
        }
    }

    /// Whether no frame can go either way yet.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Whether records wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.failure.is_none() && self.tls.wants_write()
    }

    /// Bytes that have been opened and not received.
    pub(crate) fn opened(&self) -> usize {
        self.opened
    }

    /// Bytes that it holds, at the most.
    pub(crate) fn held(&self) -> usize {
        let arriving = match self.is_shaking_hands() {
            true => Self::HANDSHAKE_BYTES,
            false => RECORD,
        };
        IDLE + arriving + self.opened + self.sealed
    }

    /// Tells the other side that nothing more is sent.
    pub(crate) fn close_notify(&mut self, tcp: &TcpStream) {
        self.tls.send_close_notify();
        // It goes with one call or not at all.
        let _ = self.tls.write_tls(&mut TlsTransport(tcp));
    }

    /// Why it is over, if the other side broke it.
    pub(crate) fn failure(&self) -> Option<TlsFailure> {
        self.failure.clone()
    }

    /// The certificate by which the other side has proved itself, in DER.
    pub(crate) fn certificate(&self) -> Option<&[u8]> {
        Some(self.tls.peer_certificates()?.first()?)
    }

    /// Receives once into `space`, which is not empty.
    pub(crate) fn receive(&mut self, tcp: &TcpStream, space: &mut [u8]) -> Io {
        if self.failure.is_some() {
            return throw_away(tcp);
        }
        loop {
            match self.tls.reader().read(space) {
                Ok(0) => return Io::Closed,
                Ok(bytes) => {
                    self.opened = self.opened.saturating_sub(bytes);
                    return Io::Moved(bytes);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Io::Closed,
            }
            match self.receive_records(tcp) {
                Io::Moved(_) => {}
                other => return other,
            }
        }
    }

    /// Goes on with the handshake, as far as what has come reaches.
    pub(crate) fn shake_hands(&mut self, tcp: &TcpStream) -> Io {
        match self.flush(tcp) {
            Io::Moved(_) if self.is_shaking_hands() => self.receive_records(tcp),
            other => other,
        }
    }

    /// Takes records once, and answers what is to be answered by itself.
    fn receive_records(&mut self, tcp: &TcpStream) -> Io {
        let shaking = self.is_shaking_hands();
        let mut from = TlsTransport(tcp);
        let received = match self.tls.read_tls(&mut from) {
            Ok(0) => return Io::Closed,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Io::Blocked,
            Err(_) => return Io::Closed,
        };
        if shaking {
            self.handshake += received;
            if self.handshake > Self::HANDSHAKE_BYTES {
                return self.fail(
                    tcp,
                    TlsFailure::LongHandshake {
                        limit: Self::HANDSHAKE_BYTES,
                    },
                );
            }
        }
        match self.tls.process_new_packets() {
            Ok(state) => self.opened = state.plaintext_bytes_to_read(),
            Err(error) => return self.fail(tcp, failure_of(&error)),
        }
        match self.flush(tcp) {
            Io::Closed => Io::Closed,
            _ => Io::Moved(received),
        }
    }

    /// Ends it, and tells the other side why.
    fn fail(&mut self, tcp: &TcpStream, failure: TlsFailure) -> Io {
        // The alert goes with one call or not at all.
        let _ = self.tls.write_tls(&mut TlsTransport(tcp));
        let _ = tcp.shutdown(Shutdown::Write);
        self.failure = Some(failure);
        Io::Closed
    }

    /// Sends records that wait; what has moved says nothing.
    pub(crate) fn flush(&mut self, tcp: &TcpStream) -> Io {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut TlsTransport(tcp)) {
                Ok(1..) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Io::Blocked,
                Ok(0) | Err(_) => return Io::Closed,
            }
        }
        Io::Moved(0)
    }

    /// Sends what it can of `bytes`, which are not empty. Those that did not move have to come
    /// first when it is called again: they may be sealed already.
    pub(crate) fn send(&mut self, tcp: &TcpStream, bytes: &[u8]) -> Io {
        if self.failure.is_some() {
            return Io::Closed;
        }
        match self.flush(tcp) {
            Io::Moved(_) if !self.is_shaking_hands() => {}
            Io::Moved(_) => return Io::Blocked,
            other => return other,
        }
        if self.sealed == 0 {
            let at_once = &bytes[..bytes.len().min(SEALED_AT_ONCE)];
            match self.tls.writer().write(at_once) {
                Ok(sealed @ 1..) => self.sealed = sealed,
                Ok(0) | Err(_) => return Io::Closed,
            }
            match self.flush(tcp) {
                Io::Moved(_) => {}
                other => return other,
            }
        }
        Io::Moved(std::mem::take(&mut self.sealed))
    }
}

/// What still comes over a session that has failed: it is read so that the alert is not lost with
/// the connection.
fn throw_away(tcp: &TcpStream) -> Io {
    match socket::receive(tcp, &mut [0; THROWN_AWAY]) {
        Io::Moved(_) => Io::Blocked,
        other => other,
    }
}

/// A socket as rustls wants it; it never waits.
struct TlsTransport<'s>(&'s TcpStream);

fn moved(io: Io) -> io::Result<usize> {
    match io {
        Io::Moved(bytes) => Ok(bytes),
        Io::Blocked => Err(ErrorKind::WouldBlock.into()),
        Io::Closed => Err(ErrorKind::ConnectionReset.into()),
    }
}

impl Read for TlsTransport<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        moved(socket::receive(self.0, space))
    }
}

impl Write for TlsTransport<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        moved(socket::send(self.0, bytes))
    }

    fn write_vectored(&mut self, records: &[IoSlice<'_>]) -> io::Result<usize> {
        moved(socket::send_all_of(self.0, records))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failure_of(error: &rustls::Error) -> TlsFailure {
    use rustls::CertificateError as Certificate;
    use rustls::{AlertDescription as Alert, Error};
    match error {
        Error::InvalidMessage(_) => TlsFailure::NotTls,
        Error::InvalidCertificate(wrong) => match wrong {
            Certificate::Expired | Certificate::ExpiredContext { .. } => TlsFailure::Expired,
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
                TlsFailure::NotValidYet
            }
            Certificate::UnknownIssuer | Certificate::BadSignature => TlsFailure::UnknownAuthority,
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                TlsFailure::OtherName
            }
            Certificate::ApplicationVerificationFailure => TlsFailure::OtherFingerprint,
            other => TlsFailure::BadCertificate {
                reason: other.to_string(),
            },
        },
        Error::AlertReceived(
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::UnsupportedCertificate
            | Alert::DecryptError
            | Alert::AccessDenied,
        ) => TlsFailure::Refused {
            reason: error.to_string(),
        },
        other => TlsFailure::Broken {
            reason: other.to_string(),
        },
    }
}

//! A client that says what it likes.

use farslot_fabric::tcp::admission::{Admitted, connect};
use farslot_fabric::tcp::wire::{FrameKind, Header, Span, decode_failure};
use farslot_fabric::tcp::{Agent, ConnectOptions};
use farslot_fabric::{FabricError, NodeId};
use std::io::{Read, Write};
use std::net::TcpStream;

/// An admitted client without the checks of an endpoint.
pub struct RawClient(pub Admitted);

/// A frame of one verb or of several.
pub fn frame(count: u16, verbs: &[u64]) -> Vec<u64> {
    let words = 1 + verbs.len() as u32;
    let kind = FrameKind::Verbs;
    let mut frame = vec![Header { kind, count, words }.encode()];
    frame.extend(verbs);
    frame
}

/// Words as they are sent.
pub fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl RawClient {
    #[allow(dead_code, reason = "not every file that has this has an agent")]
    pub fn connect(agent: &Agent, options: &ConnectOptions) -> Self {
        Self(connect(&agent.address().to_string(), options).unwrap())
    }

    /// What carries the frames.
    pub fn tcp(&self) -> &TcpStream {
        self.0.socket.tcp()
    }

    pub fn span(&self, region: u16, offset: u64, len: u32) -> Span {
        let key = self.0.welcome.keys[usize::from(region)];
        Span {
            region,
            offset,
            len,
            key,
        }
    }

    #[allow(dead_code, reason = "not every file that has this asks")]
    /// Sends one verb and waits for what it is answered with: the words of its completion.
    pub fn ask(&mut self, verb: impl FnOnce(&mut Vec<u64>)) -> Result<Vec<u64>, FabricError> {
        let mut words = Vec::new();
        verb(&mut words);
        self.send(&frame(1, &words));
        let header = Header::decode(self.words(1)[0]).unwrap();
        assert_eq!(header.count, 1);
        let rest = self.words(header.words as usize - 1);
        match header.kind {
            FrameKind::Completions => Ok(rest),
            FrameKind::Failure => Err(decode_failure(rest.try_into().unwrap(), NodeId(0)).unwrap()),
            kind => panic!("{kind:?}"),
        }
    }

    #[allow(dead_code, reason = "not every file that has this sends")]
    pub fn send(&mut self, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.tcp().write_all(&bytes).unwrap();
    }

    pub fn words(&mut self, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; count * 8];
        self.tcp().read_exact(&mut bytes).unwrap();
        let words = bytes.chunks_exact(8);
        words
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }
}

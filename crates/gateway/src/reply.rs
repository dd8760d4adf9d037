//! Replies, and their bytes in RESP2 and RESP3.

use crate::failure::Failure;
use crate::record::Bytes;

/// Bytes of a part for which the output has room made.
const LONG: usize = 64 << 10;

/// Which form replies have: the version that a client asks for by HELLO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Resp2,
    Resp3,
}

impl Protocol {
    pub(crate) const fn version(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// What a command answers.
#[derive(Clone, Debug)]
pub(crate) enum Reply<'r> {
    Status(&'static str),
    Integer(i64),
    Bulk(Bytes<'r>),
    /// Parts of any number, as bytes of the protocol: strings that [`append`](Reply::append) has
    /// written, or the replies to a transaction.
    Bulks {
        count: usize,
        encoded: Vec<u8>,
    },
    /// Bytes of the protocol that never change.
    Encoded(&'static [u8]),
    Null,
    /// In RESP2 another than that of a string.
    NullArray,
    Array(Vec<Reply<'r>>),
    /// Pairs of keys and values; one array of both in RESP2.
    Map(Vec<(&'static str, Reply<'r>)>),
    /// A text to be shown as it is, as that of INFO.
    Verbatim(String),
    Error(Failure),
}

pub(crate) const OK: Reply<'static> = Reply::Status("OK");

impl<'r> Reply<'r> {
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self::Bulk(Bytes::copied(text.as_ref().as_bytes()))
    }

    /// Bytes of its text, those of parts left out.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Bulk(bytes) => bytes.len(),
            Self::Bulks { encoded, .. } => encoded.len(),
            _ => 0,
        }
    }

    pub(crate) fn flag(is_so: bool) -> Self {
        Self::Integer(i64::from(is_so))
    }

    /// Appends a string to those of [`Reply::Bulks`].
    pub(crate) fn append(bulks: &mut Vec<u8>, bytes: &[u8]) {
        bulks.push(b'$');
        bulks.extend_from_slice(itoa::Buffer::new().format(bytes.len()).as_bytes());
        bulks.extend_from_slice(b"\r\n");
        bulks.extend_from_slice(bytes);
        bulks.extend_from_slice(b"\r\n");
    }

    /// Its bytes.
    pub(crate) fn encoded(&self, protocol: Protocol) -> Vec<u8> {
        let mut output = Vec::new();
        self.put(&mut output, usize::MAX, protocol);
        output
    }

    /// Appends its bytes; if that makes more than `limit` of them, or one of its parts is an
    /// error, an error in place of all of it.
    pub(crate) fn put(&self, output: &mut Vec<u8>, limit: usize, protocol: Protocol) {
        let before = output.len();
        let mut writer = Writer {
            output,
            most: before.saturating_add(limit),
            protocol,
        };
        if let Err(failure) = writer.put(self) {
            let failure = failure.unwrap_or(Failure::LongReply { limit });
            writer.output.truncate(before);
            writer.error(&failure);
        }
    }
}

impl<'r> From<Result<Reply<'r>, Failure>> for Reply<'r> {
    fn from(result: Result<Self, Failure>) -> Self {
        result.unwrap_or_else(Reply::Error)
    }
}

struct Writer<'o> {
    output: &'o mut Vec<u8>,
    /// Bytes that the output may have.
    most: usize,
    protocol: Protocol,
}

impl Writer<'_> {
    /// Fails with the error of a part, or with nothing at the limit.
    fn put(&mut self, reply: &Reply<'_>) -> Result<(), Option<Failure>> {
        match reply {
            Reply::Status(text) => self.line(b'+', text.as_bytes()),
            Reply::Integer(number) => self.head(b':', *number),
            Reply::Bulk(bytes) => self.bulk(bytes)?,
            Reply::Bulks { count, encoded } => {
                self.head(b'*', *count as i64);
                self.raw(encoded)?;
            }
            Reply::Encoded(bytes) => self.raw(bytes)?,
            Reply::Null | Reply::NullArray => {
                let is_array = matches!(reply, Reply::NullArray);
                self.output.extend_from_slice(match self.protocol {
                    Protocol::Resp2 if is_array => b"*-1\r\n",
                    Protocol::Resp2 => b"$-1\r\n",
                    Protocol::Resp3 => b"_\r\n",
                });
            }
            Reply::Array(parts) => {
                self.head(b'*', parts.len() as i64);
                parts.iter().try_for_each(|part| self.put(part))?;
            }
            Reply::Map(pairs) => {
                match self.protocol {
                    Protocol::Resp2 => self.head(b'*', 2 * pairs.len() as i64),
                    Protocol::Resp3 => self.head(b'%', pairs.len() as i64),
                }
                for (key, value) in pairs {
                    self.bulk(key.as_bytes())?;
                    self.put(value)?;
                }
            }
            Reply::Verbatim(text) => match self.protocol {
                Protocol::Resp2 => self.bulk(text.as_bytes())?,
                Protocol::Resp3 => {
                    self.head(b'=', text.len() as i64 + 4);
                    self.output.extend(b"txt:");
                    self.output.extend(text.as_bytes());
                    self.output.extend(b"\r\n");
                }
            },
            Reply::Error(failure) => return Err(Some(failure.clone())),
        }
        if self.output.len() > self.most {
            return Err(None);
        }
        Ok(())
    }

    fn bulk(&mut self, bytes: &[u8]) -> Result<(), Option<Failure>> {
        self.check(bytes)?;
        self.head(b'$', bytes.len() as i64);
        self.output.extend_from_slice(bytes);
        self.output.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<(), Option<Failure>> {
        self.check(bytes)?;
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    fn check(&mut self, more: &[u8]) -> Result<(), Option<Failure>> {
        if more.len() > self.most.saturating_sub(self.output.len()) {
            return Err(None);
        }
        if more.len() >= LONG {
            // A buffer that grows by itself has up to twice as many.
            self.output.reserve_exact(more.len() + 32);
        }
        Ok(())
    }

    fn head(&mut self, kind: u8, number: i64) {
        match number {
            0..=9 => self
                .output
                .extend_from_slice(&[kind, b'0' + number as u8, b'\r', b'\n']),
            _ => self.line(kind, itoa::Buffer::new().format(number).as_bytes()),
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.output.push(kind);
        self.output.extend_from_slice(text);
        self.output.extend_from_slice(b"\r\n");
    }

    /// On one line, whatever the client has sent.
    fn error(&mut self, failure: &Failure) {
        let text = failure.to_string().replace(['\r', '\n'], " ");
        self.line(b'-', text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(reply: &Reply<'_>, limit: usize, protocol: Protocol) -> String {
        let mut output = b"before ".to_vec();
        reply.put(&mut output, limit, protocol);
        String::from_utf8(output).unwrap().split_off(7)
    }

    #[test]
    fn replies_have_the_form_that_was_asked_for() {
        let reply = Reply::Array(vec![
            OK,
            Reply::Integer(-12),
            Reply::Null,
            Reply::Map(vec![("key", Reply::text("value"))]),
            Reply::Verbatim("text".into()),
        ]);
        assert_eq!(
            put(&reply, 1_000, Protocol::Resp2),
            "*5\r\n+OK\r\n:-12\r\n$-1\r\n*2\r\n$3\r\nkey\r\n$5\r\nvalue\r\n$4\r\ntext\r\n"
        );
        assert_eq!(
            put(&reply, 1_000, Protocol::Resp3),
            "*5\r\n+OK\r\n:-12\r\n_\r\n%1\r\n$3\r\nkey\r\n$5\r\nvalue\r\n=8\r\ntxt:text\r\n"
        );
    }

    #[test]
    fn an_error_stands_for_the_whole_reply_on_one_line() {
        let failure = Failure::Store("a\r\nb".into());
        let reply = Reply::Array(vec![OK, Reply::Error(failure)]);
        assert_eq!(put(&reply, 1_000, Protocol::Resp2), "-ERR a  b\r\n");
        let long = Reply::Array(vec![Reply::text("value"); 100]);
        assert!(put(&long, 1_000, Protocol::Resp2).starts_with("-ERR the reply would be longer"));
    }
}

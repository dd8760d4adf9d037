//! Requests as they arrive: arrays of bulk strings, or lines of words.
//!
//! The parser goes on where it stopped, so that a request that arrives byte by byte costs no more
//! than one that arrives whole. It allocates for arguments that have arrived, never for a number
//! that was announced, and knows no other RESP type: a client sends nothing else. (A general RESP
//! parser builds a tree of frames and copies each string; here an argument is a range of the
//! connection's buffer.)

use std::ops::Range;

/// Bytes of the longest line: of a header, or of an inline request.
const LONGEST_LINE: usize = 64 << 10;

/// What a request may be at the most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    /// Arguments, the command's name included.
    pub(crate) arguments: usize,
    /// Bytes of an argument.
    pub(crate) bulk: usize,
    /// Bytes in all.
    pub(crate) request: usize,
}

/// Arguments of the longest request whose bytes are skipped, as Redis counts them.
const MOST_SKIPPED: usize = 1 << 20;
/// Bytes of the longest argument that is skipped: Redis's own limit.
const LONGEST_SKIPPED: usize = 512 << 20;

/// What there is of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// A part of it, or nothing.
    Unfinished,
    /// All of it, in so many bytes. Its [arguments](RequestParser::arguments) are known.
    Whole(usize),
    /// So many bytes of a request that is too long: they are to be forgotten. More will come.
    Skipped(usize),
    /// The last bytes of a request that is too long.
    Refused(usize, TooLong),
}

/// Why a request is not done. Its bytes are skipped, and the connection goes on behind them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum TooLong {
    #[error("an argument of {bytes} bytes is longer than the limit of {limit} bytes")]
    Argument { bytes: usize, limit: usize },
    #[error("a request of {arguments} arguments has more than the limit of {limit}")]
    Arguments { arguments: usize, limit: usize },
    #[error("a request of at least {bytes} bytes is longer than the limit of {limit} bytes")]
    Request { bytes: usize, limit: usize },
}

/// Why a request cannot be read. The connection ends: where the next request would start is
/// unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("invalid multibulk length")]
    ArrayLength,
    #[error("unauthenticated multibulk length")]
    UnauthenticatedArrayLength,
    #[error("invalid bulk length")]
    BulkLength,
    #[error("unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    #[error("expected '$', got '{}'", char::from(*.0))]
    NoBulk(u8),
    #[error("too big mbulk count string")]
    LongArrayHeader,
    #[error("too big bulk count string")]
    LongBulkHeader,
    #[error("too big inline request")]
    LongLine,
    #[error("quotes in an inline request, which have no meaning here: send an array")]
    Quotes,
    #[error("the request is longer than {limit} bytes")]
    Request { limit: usize },
}

/// A request that is being read. All places count from its first byte.
#[derive(Debug, Default)]
pub(crate) struct RequestParser {
    /// How far it has been read.
    at: usize,
    /// Arguments that are still to come; nothing before the header was read.
    left: Option<usize>,
    /// Length of the argument that is next, once its header was read; of one that is skipped, what
    /// is left of it.
    bulk: Option<usize>,
    arguments: Vec<Range<usize>>,
    /// Why the request is skipped, if it is.
    too_long: Option<TooLong>,
}

impl RequestParser {
    /// Reads on, in all bytes of the request that have arrived and were not skipped. Clients that
    /// have not shown that they know the secret have `is_unauthenticated`: none of their
    /// requests is skipped.
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        limits: &RequestLimits,
        is_unauthenticated: bool,
    ) -> Result<Progress, ProtocolError> {
        let is_array = self.too_long.is_some() || input.first() == Some(&b'*');
        let request = match input.first() {
            None => return Ok(Progress::Unfinished),
            Some(_) if is_array => self.read_array(input, limits, is_unauthenticated)?,
            Some(_) => self.read_words(input, limits)?,
        };
        if let Some(too_long) = self.too_long {
            let skipped = std::mem::take(&mut self.at);
            return Ok(match request {
                Some(_) => Progress::Refused(skipped, too_long),
                None => Progress::Skipped(skipped),
            });
        }
        if request.unwrap_or(input.len()) > limits.request {
            let limit = limits.request;
            return Err(ProtocolError::Request { limit });
        }
        Ok(request.map_or(Progress::Unfinished, Progress::Whole))
    }

    /// Bytes that it keeps.
    pub(crate) fn held(&self) -> usize {
        self.arguments.capacity() * size_of::<Range<usize>>()
    }

    /// Where the arguments of a whole request are. None of an empty one, which has no answer.
    pub(crate) fn arguments(&self) -> &[Range<usize>] {
        &self.arguments
    }

    /// Makes it ready for the next request.
    pub(crate) fn reset(&mut self) {
        (self.at, self.left, self.bulk) = (0, None, None);
        self.too_long = None;
        self.arguments.clear();
        // One request with many arguments shall not take their memory for ever.
        self.arguments.shrink_to(64);
    }

    fn read_array(
        &mut self,
        input: &[u8],
        limits: &RequestLimits,
        is_unauthenticated: bool,
    ) -> Result<Option<usize>, ProtocolError> {
        let mut left = match self.left {
            Some(left) => left,
            None => {
                let line = self.line(input, ProtocolError::LongArrayHeader)?;
                let Some(line) = line else { return Ok(None) };
                let announced = number(&line[1..]).ok_or(ProtocolError::ArrayLength)?;
                let left = usize::try_from(announced).unwrap_or(0);
                if left > limits.arguments {
                    if is_unauthenticated {
                        return Err(ProtocolError::UnauthenticatedArrayLength);
                    }
                    if left > MOST_SKIPPED {
                        return Err(ProtocolError::ArrayLength);
                    }
                    self.skip(TooLong::Arguments {
                        arguments: left,
                        limit: limits.arguments,
                    });
                }
                left
            }
        };
        while left > 0 {
            self.left = Some(left);
            let Some(argument) = self.bulk(input, limits, is_unauthenticated)? else {
                return Ok(None);
            };
            if self.too_long.is_none() {
                self.arguments.push(argument);
            }
            left -= 1;
        }
        Ok(Some(self.at))
    }

    /// The next argument, if all of it is here. Of one that is skipped, only the end matters.
    fn bulk(
        &mut self,
        input: &[u8],
        limits: &RequestLimits,
        is_unauthenticated: bool,
    ) -> Result<Option<Range<usize>>, ProtocolError> {
        let bytes = match self.bulk {
            Some(bytes) => bytes,
            None => {
                match input.get(self.at) {
                    None => return Ok(None),
                    Some(b'$') => {}
                    Some(other) => return Err(ProtocolError::NoBulk(*other)),
                }
                let line = self.line(input, ProtocolError::LongBulkHeader)?;
                let Some(line) = line else { return Ok(None) };
                let bytes = number(&line[1..]).and_then(|bytes| usize::try_from(bytes).ok());
                let bytes = bytes.filter(|bytes| *bytes <= LONGEST_SKIPPED);
                let bytes = bytes.ok_or(match is_unauthenticated {
                    true => ProtocolError::UnauthenticatedBulkLength,
                    false => ProtocolError::BulkLength,
                })?;
                self.check(bytes, limits, is_unauthenticated)?;
                bytes
            }
        };
        let end = self.at + bytes;
        if input.len() < end + 2 {
            self.bulk = Some(bytes);
            if self.too_long.is_some() {
                self.at = end.min(input.len());
                self.bulk = Some(end - self.at);
            }
            return Ok(None);
        }
        self.bulk = None;
        let argument = self.at..end;
        self.at = end + 2;
        Ok(Some(argument))
    }

    /// Compares the next argument with the limits.
    fn check(
        &mut self,
        bytes: usize,
        limits: &RequestLimits,
        is_unauthenticated: bool,
    ) -> Result<(), ProtocolError> {
        let all = self.at + bytes + 2;
        if bytes > limits.bulk {
            if is_unauthenticated {
                return Err(ProtocolError::UnauthenticatedBulkLength);
            }
            let limit = limits.bulk;
            self.skip(TooLong::Argument { bytes, limit });
        } else if all > limits.request {
            let limit = limits.request;
            if is_unauthenticated {
                return Err(ProtocolError::Request { limit });
            }
            self.skip(TooLong::Request { bytes: all, limit });
        }
        Ok(())
    }

    /// Skips the rest of the request, for the first reason that there is.
    fn skip(&mut self, why: TooLong) {
        self.too_long.get_or_insert(why);
        self.arguments = Vec::new();
    }

    /// A line of words, as a person types it. One with quotes is refused: they would be taken for
    /// part of a key or value.
    fn read_words(
        &mut self,
        input: &[u8],
        limits: &RequestLimits,
    ) -> Result<Option<usize>, ProtocolError> {
        let searched = self.at;
        let Some(end) = input[searched..].iter().position(|byte| *byte == b'\n') else {
            if input.len() > LONGEST_LINE {
                return Err(ProtocolError::LongLine);
            }
            self.at = input.len();
            return Ok(None);
        };
        let end = searched + end;
        let mut at = 0;
        for word in input[..end].split(u8::is_ascii_whitespace) {
            if word.contains(&b'"') || word.contains(&b'\'') {
                return Err(ProtocolError::Quotes);
            }
            if !word.is_empty() {
                self.arguments.push(at..at + word.len());
            }
            at += word.len() + 1;
        }
        if self.arguments.len() > limits.arguments {
            return Err(ProtocolError::ArrayLength);
        }
        Ok(Some(end + 1))
    }

    /// The line at the present place, without its end; the place is behind it then.
    fn line<'i>(
        &mut self,
        input: &'i [u8],
        too_long: ProtocolError,
    ) -> Result<Option<&'i [u8]>, ProtocolError> {
        let rest = &input[self.at..];
        let longest = &rest[..rest.len().min(LONGEST_LINE)];
        let Some(end) = longest.iter().position(|byte| *byte == b'\r') else {
            // Headers are short: they are searched again from their start.
            return if rest.len() > 32 {
                Err(too_long)
            } else {
                Ok(None)
            };
        };
        if rest.len() < end + 2 {
            return Ok(None);
        }
        self.at += end + 2;
        Ok(Some(&rest[..end]))
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    crate::number::integer(digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: RequestLimits = RequestLimits {
        arguments: 8,
        bulk: 100,
        request: 800,
    };

    /// The arguments of all whole requests in the bytes, which arrive so many at a time. In place
    /// of one that is too long stands why.
    fn read_all(bytes: &[u8], at_a_time: usize) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        read_as(bytes, at_a_time, false)
    }

    fn read_as(
        bytes: &[u8],
        at_a_time: usize,
        is_unauthenticated: bool,
    ) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let (mut parser, mut from, mut requests) = (RequestParser::default(), 0, Vec::new());
        let mut here = 0;
        while here < bytes.len() {
            here = (here + at_a_time).min(bytes.len());
            loop {
                let input = &bytes[from..here];
                let length = match parser.read(input, &LIMITS, is_unauthenticated)? {
                    Progress::Unfinished => break,
                    Progress::Skipped(length) => {
                        from += length;
                        assert!(
                            here - from <= 33,
                            "headers alone are kept of a skipped request"
                        );
                        break;
                    }
                    Progress::Refused(length, why) => {
                        requests.push(vec![why.to_string().into_bytes()]);
                        length
                    }
                    Progress::Whole(length) => {
                        assert!(length > 0);
                        let arguments = parser.arguments().iter();
                        let request = arguments.map(|of| input[of.clone()].to_vec());
                        requests.push(request.collect());
                        length
                    }
                };
                from += length;
                assert!(from <= here);
                parser.reset();
            }
        }
        Ok(requests)
    }

    fn encoded(request: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
        for argument in request {
            bytes.extend(format!("${}\r\n", argument.len()).bytes());
            bytes.extend(argument);
            bytes.extend(b"\r\n");
        }
        bytes
    }

    proptest! {
        #[test]
        fn requests_are_the_same_however_they_arrive(
            requests in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..8),
                1..5,
            ),
            at_a_time in 1_usize..40,
        ) {
            let bytes: Vec<u8> = requests.iter().flat_map(|request| encoded(request)).collect();
            prop_assert_eq!(read_all(&bytes, at_a_time), Ok(requests));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>(), at_a_time in 1_usize..40) {
            let at_once = read_all(&bytes, bytes.len().max(1));
            prop_assert_eq!(read_all(&bytes, at_a_time).is_ok(), at_once.is_ok());
        }
    }

    #[test]
    fn words_of_a_line_are_arguments() {
        let requests = read_all(b"PING\r\n\r\nset a  b\n", 3).unwrap();
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let expected: [Vec<Vec<u8>>; 3] = [words(&["PING"]), words(&[]), words(&["set", "a", "b"])];
        assert_eq!(requests, expected);
        for line in [&b"set a \"b c\"\n"[..], b"set a 'b'\n", b"set a it's\n"] {
            assert_eq!(read_all(line, 3), Err(ProtocolError::Quotes));
        }
    }

    #[test]
    fn limits_are_kept() {
        let refused = |bytes: &[u8]| read_all(bytes, 7).unwrap_err();
        assert_eq!(refused(b"*1048577\r\n"), ProtocolError::ArrayLength);
        assert_eq!(
            refused(b"*99999999999999999999\r\n"),
            ProtocolError::ArrayLength
        );
        assert_eq!(refused(b"*1\r\n$536870913\r\n"), ProtocolError::BulkLength);
        assert_eq!(refused(b"*1\r\n$-1\r\n"), ProtocolError::BulkLength);
        assert_eq!(refused(b"*1\r\n:1\r\n"), ProtocolError::NoBulk(b':'));
        assert_eq!(
            refused(&[b'a'; 70_000]),
            ProtocolError::Request { limit: 800 }
        );
        assert_eq!(refused(&[b'*'; 100]), ProtocolError::LongArrayHeader);
        let unauthenticated = |bytes: &[u8]| read_as(bytes, 7, true).unwrap_err();
        assert_eq!(
            unauthenticated(b"*9\r\n"),
            ProtocolError::UnauthenticatedArrayLength
        );
        assert_eq!(
            unauthenticated(b"*1\r\n$101\r\n"),
            ProtocolError::UnauthenticatedBulkLength
        );
        // None that is shorter than its limit is refused, and empty arrays are no requests.
        assert_eq!(read_all(b"*0\r\n*-1\r\n", 1), Ok(vec![vec![], vec![]]));
    }
    #[test]
    fn what_is_behind_a_request_that_is_too_long_is_read() {
        let ping = vec![b"PING".to_vec()];
        let (many, long, all) = (
            vec![vec![7]; 9],
            vec![vec![7; 101]; 2],
            vec![vec![7; 100]; 8],
        );
        for (request, why) in [
            (
                many,
                "a request of 9 arguments has more than the limit of 8",
            ),
            (
                long,
                "an argument of 101 bytes is longer than the limit of 100 bytes",
            ),
            (
                all,
                "a request of at least 868 bytes is longer than the limit of 800 bytes",
            ),
        ] {
            for at_a_time in 1..300 {
                let bytes = [encoded(&request), encoded(&ping)].concat();
                let read = read_all(&bytes, at_a_time).unwrap();
                let expected = [vec![why.as_bytes().to_vec()], ping.clone()];
                assert_eq!(read, expected, "{at_a_time} at a time");
            }
        }
    }
}

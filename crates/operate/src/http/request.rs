//! The little that is read of a request: method, path and host.

/// The most bytes of a request.
pub(super) const LONGEST: usize = 8 << 10;
/// The most header lines.
const HEADERS: usize = 64;

/// A request that has arrived whole, but for a body: none of the pages takes one.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Request<'r> {
    pub(super) method: &'r str,
    /// Without what follows a question mark.
    pub(super) path: &'r str,
    pub(super) host: Option<&'r str>,
}

/// What has arrived of a request.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Arrived<'r> {
    Whole(Request<'r>),
    /// More is to come.
    Part,
    TooLong,
    Malformed,
}

impl<'r> Arrived<'r> {
    pub(super) fn of(bytes: &'r [u8]) -> Self {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) if bytes.len() < LONGEST => return Self::Part,
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Self::TooLong;
            }
            Err(_) => return Self::Malformed,
        }
        let (Some(method), Some(target)) = (parsed.method, parsed.path) else {
            return Self::Malformed;
        };
        let mut hosts = parsed.headers.iter();
        let host = hosts.find(|header| header.name.eq_ignore_ascii_case("host"));
        Self::Whole(Request {
            method,
            path: target.split_once('?').map_or(target, |(path, _)| path),
            host: host.and_then(|host| std::str::from_utf8(host.value).ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_arrive() {
        let request_bytes = b"GET /metrics?x=1 HTTP/1.1\r\nhOST: a:1\r\n\r\n";
        for length in 0..request_bytes.len() {
            assert_eq!(
                Arrived::of(&request_bytes[..length]),
                Arrived::Part,
                "{length}"
            );
        }
        let request = Request {
            method: "GET",
            path: "/metrics",
            host: Some("a:1"),
        };
        assert_eq!(Arrived::of(request_bytes), Arrived::Whole(request));
        assert_eq!(Arrived::of(b"\0\x01 /\r\n"), Arrived::Malformed);
        assert_eq!(Arrived::of(&[b'a'; LONGEST]), Arrived::TooLong);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS + 1));
        assert_eq!(Arrived::of(many.as_bytes()), Arrived::TooLong);
    }
}

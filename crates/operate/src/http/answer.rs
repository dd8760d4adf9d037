//! The answers to requests.

use super::request::{Arrived, Request};
use crate::family::text;
use crate::source::{Slow, Source};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use std::net::IpAddr;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Metrics that were collected are given for so long: however often they are asked for, the memory
/// is not busy with that.
const COLLECT_EVERY: Duration = Duration::from_millis(500);

/// Nothing but the page's own script and style, which asks this server alone.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const PAGE: &str = include_str!("../page.html");

/// What requests are answered from.
pub(super) struct Answers {
    source: Box<dyn Source>,
    /// Whether the server is at a loopback address.
    is_local: bool,
    metrics: Option<(Instant, String)>,
}

impl Answers {
    pub(super) fn of(source: Box<dyn Source>, is_local: bool) -> Self {
        Self {
            source,
            is_local,
            metrics: None,
        }
    }

    /// The answer to what has arrived; nothing if more has to come.
    pub(super) fn answer(&mut self, arrived: &Arrived<'_>) -> Option<Vec<u8>> {
        Some(match arrived {
            Arrived::Part => return None,
            Arrived::TooLong => plain("431 Request Header Fields Too Large", "too long\n"),
            Arrived::Malformed => plain("400 Bad Request", "not a request\n"),
            Arrived::Whole(request) => {
                let mut response = self.answer_request(request);
                if request.method == "HEAD" {
                    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n");
                    response.truncate(end.map_or(0, |end| end + 4));
                }
                response
            }
        })
    }

    fn answer_request(&mut self, request: &Request<'_>) -> Vec<u8> {
        if !matches!(request.method, "GET" | "HEAD") {
            return plain("405 Method Not Allowed", "GET and HEAD alone\n");
        }
        if self.is_local && !request.host.is_none_or(is_local_name) {
            return plain("421 Misdirected Request", "use an address, or localhost\n");
        }
        match request.path {
            "/" => response("200 OK", "text/html; charset=utf-8", PAGE),
            "/metrics" => response("200 OK", "text/plain; version=0.0.4", self.metrics()),
            "/healthz" => plain("200 OK", "ok\n"),
            "/readyz" => match self.source.ready() {
                Ok(()) => plain("200 OK", "ready\n"),
                Err(reason) => plain("503 Service Unavailable", &format!("{reason}\n")),
            },
            "/slow" => {
                let slow: Vec<_> = self.source.slow().iter().map(described).collect();
                let slow = serde_json::json!({ "slow": slow });
                response("200 OK", "application/json", &slow.to_string())
            }
            path => match path.strip_prefix("/tables/") {
                Some(table) => self.survey(table),
                None => plain(
                    "404 Not Found",
                    "there is /, /metrics, /healthz, /readyz, /slow and /tables/NAME\n",
                ),
            },
        }
    }

    fn survey(&self, table: &str) -> Vec<u8> {
        let name = percent_decode_str(table).decode_utf8();
        match name.ok().and_then(|name| self.source.survey(&name)) {
            Some(survey) => response("200 OK", "application/json", &survey.to_string()),
            None => plain("404 Not Found", "there is no such table\n"),
        }
    }

    fn metrics(&mut self) -> &str {
        let is_fresh = |(at, _): &(Instant, String)| at.elapsed() < COLLECT_EVERY;
        let collected = self.metrics.take().filter(is_fresh);
        let collected =
            collected.unwrap_or_else(|| (Instant::now(), text(&self.source.families())));
        &self.metrics.insert(collected).1
    }
}

fn described(slow: &Slow) -> Value {
    let at = slow.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    serde_json::json!({
        "at_unix_ms": at.as_millis() as u64,
        "took_seconds": slow.took.as_secs_f64(),
        "operation": slow.operation,
        "table": slow.table,
        "by": slow.by,
    })
}

/// Whether a page that another site has in a browser of this machine cannot go by that name: it
/// could have its own name resolve to this machine.
fn is_local_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_matches(['[', ']']);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn plain(status: &str, text: &str) -> Vec<u8> {
    response(status, "text/plain; charset=utf-8", text)
}

fn response(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Security-Policy: {POLICY}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_sites_are_not_local() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9",
            "localhost:9",
            "[::1]:9",
            "[::1]",
        ] {
            assert!(is_local_name(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:9",
            "127.0.0.1.evil.example",
        ] {
            assert!(!is_local_name(host), "{host}");
        }
    }
}

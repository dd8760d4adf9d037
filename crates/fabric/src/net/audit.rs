//! What an owner may want to know later of who came and what they did: as lines in the log, and as
//! JSON in a file.
//!
//! Unauthenticated clients can cause most of these events. So each kind has a limit of its own of
//! lines a second, and one flood neither fills a disk nor hides events of another kind. How many
//! were left out is told.

use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    /// A client was admitted.
    Admitted,
    /// A client was refused, or is served no more.
    Refused,
    /// A client left when it was asked for a secret.
    Unproved,
    /// A connection was closed for want of places.
    TurnedAway,
    /// A connection was closed because of a malformed frame.
    Malformed,
    /// A verb was refused.
    VerbRefused,
    /// A connection was closed because its grant was revoked.
    Closed,
    /// A grant was put in force.
    Granted,
    /// A grant was revoked.
    Revoked,
    /// A table was made.
    TableMade,
    /// A table was dropped.
    TableDropped,
}

const KINDS: usize = AuditKind::TableDropped as usize + 1;

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct AuditEvent<'e> {
    /// What has happened.
    pub kind: AuditKind,
    /// Whose connection it concerns.
    pub peer: Option<SocketAddr>,
    /// The name of the grant that it concerns, as the client or the owner gave it.
    pub grant: Option<&'e str>,
    /// What there is to say besides: the reason, or a table's name.
    pub detail: Option<fmt::Arguments<'e>>,
}

impl fmt::Display for AuditEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self
            .peer
            .as_ref()
            .map_or(&"nobody" as &dyn fmt::Display, |peer| peer);
        let grant = self.grant.unwrap_or_default();
        match self.kind {
            AuditKind::Admitted => write!(f, "admitted {peer} under the grant {grant:?}")?,
            AuditKind::Refused => write!(f, "refused {peer}")?,
            AuditKind::Unproved => write!(
                f,
                "{peer} left when it was asked for the secret of the grant {grant:?}"
            )?,
            AuditKind::TurnedAway | AuditKind::Malformed | AuditKind::Closed => {
                write!(f, "closing the connection of {peer}")?;
            }
            AuditKind::VerbRefused => {
                write!(f, "refused a verb of {peer} under the grant {grant:?}")?;
            }
            AuditKind::Granted => write!(f, "the grant {grant:?} is in force")?,
            AuditKind::Revoked => write!(f, "the grant {grant:?} is revoked")?,
            AuditKind::TableMade => f.write_str("a table was made")?,
            AuditKind::TableDropped => f.write_str("a table was dropped")?,
        }
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

/// How many lines of one kind are written in a second: ten.
#[derive(Debug)]
pub struct LineLimit {
    since: Instant,
    written: u32,
    left_out: u64,
}

const A_SECOND: Duration = Duration::from_secs(1);
const MOST_A_SECOND: u32 = 10;

/// What to do with a line.
#[derive(PartialEq, Eq, Debug)]
enum LineVerdict {
    /// It is left out.
    Not,
    /// It is written, behind word of so many that were left out.
    Write(u64),
}

impl Default for LineLimit {
    fn default() -> Self {
        Self::new()
    }
}

impl LineLimit {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            written: 0,
            left_out: 0,
        }
    }

    fn may_write(&mut self, now: Instant) -> LineVerdict {
        let mut left_out = 0;
        if now.saturating_duration_since(self.since) >= A_SECOND {
            left_out = std::mem::take(&mut self.left_out);
            (self.since, self.written) = (now, 0);
        }
        if self.written == MOST_A_SECOND {
            self.left_out += 1;
            return LineVerdict::Not;
        }
        self.written += 1;
        LineVerdict::Write(left_out)
    }

    /// Whether a line may be written now: how many were left out since the last one.
    pub fn line(&mut self) -> Option<u64> {
        match self.may_write(Instant::now()) {
            LineVerdict::Write(left_out) => Some(left_out),
            LineVerdict::Not => None,
        }
    }
}

/// A file of events, a line of JSON each.
pub struct Audit(Mutex<AuditLines>);

struct AuditLines {
    limits: [LineLimit; KINDS],
    to: Box<dyn Write + Send>,
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'l> {
    time: String,
    event: AuditKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Events of this kind before it that have no line.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit(..)")
    }
}

impl Audit {
    /// Writes there, each line at once.
    #[must_use]
    pub fn to(to: impl Write + Send + 'static) -> Arc<Self> {
        Arc::new(Self(Mutex::new(AuditLines {
            limits: std::array::from_fn(|_| LineLimit::new()),
            to: Box::new(to),
        })))
    }

    /// Writes an event down, unless too many of its kind have come. A file that cannot be written
    /// is told of in the log.
    pub fn record(&self, event: &AuditEvent<'_>) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let AuditLines { limits, to } = &mut *lines;
        let LineVerdict::Write(left_out) = limits[event.kind as usize].may_write(Instant::now())
        else {
            return;
        };
        let line = Line {
            time: utc_time(SystemTime::now()),
            event: event.kind,
            address: event.peer,
            grant: event.grant,
            detail: event.detail.map(|detail| detail.to_string()),
            left_out: (left_out > 0).then_some(left_out),
        };
        let written = serde_json::to_string(&line)
            .map_err(std::io::Error::from)
            .and_then(|line| writeln!(to, "{line}").and_then(|()| to.flush()));
        if let Err(error) = written {
            log::error!("the audit log cannot be written: {error}");
        }
    }
}

/// Where a thread tells of events: the log, and the owner's audit log.
pub(crate) struct Reports {
    limits: [LineLimit; KINDS],
    audit: Option<Arc<Audit>>,
}

impl Reports {
    pub(crate) fn new(audit: Option<Arc<Audit>>) -> Self {
        Self {
            limits: std::array::from_fn(|_| LineLimit::new()),
            audit,
        }
    }

    /// Tells of an event.
    pub(crate) fn tell(&mut self, event: &AuditEvent<'_>) {
        if let Some(audit) = &self.audit {
            audit.record(event);
        }
        let level = match event.kind {
            AuditKind::Refused
            | AuditKind::Unproved
            | AuditKind::TurnedAway
            | AuditKind::Malformed
            | AuditKind::VerbRefused => log::Level::Warn,
            _ => log::Level::Info,
        };
        if !log::log_enabled!(level) {
            return;
        }
        if let LineVerdict::Write(left_out) =
            self.limits[event.kind as usize].may_write(Instant::now())
        {
            if left_out > 0 {
                log::log!(level, "{left_out} more like the next one");
            }
            log::log!(level, "{event}");
        }
    }
}

/// A time in the form `2026-01-31T23:59:59.999Z`; one that has none, before 1970 or after the year
/// 9999, as the nearest that has.
#[must_use]
pub fn utc_time(at: SystemTime) -> String {
    let last = UNIX_EPOCH + Duration::from_millis(253_402_300_799_999);
    humantime::format_rfc3339_millis(at.clamp(UNIX_EPOCH, last)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            let at = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(7);
            assert_eq!(utc_time(at), expected);
        }
        for (at, expected) in [
            (
                UNIX_EPOCH - Duration::from_secs(1),
                "1970-01-01T00:00:00.000Z",
            ),
            (
                UNIX_EPOCH + Duration::from_secs(1 << 39),
                "9999-12-31T23:59:59.999Z",
            ),
        ] {
            assert_eq!(utc_time(at), expected);
        }
    }

    #[test]
    fn lines_of_a_kind_are_few_and_the_rest_are_counted() {
        let mut limit = LineLimit::new();
        let now = limit.since;
        let all = (0..25).map(|_| limit.may_write(now));
        let written = all.filter(|may| *may == LineVerdict::Write(0)).count();
        assert_eq!(written, 10);
        assert_eq!(limit.may_write(now + A_SECOND), LineVerdict::Write(15));
        assert_eq!(limit.may_write(now + A_SECOND), LineVerdict::Write(0));
    }

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_flood_of_one_kind_hides_no_other_and_every_line_is_json() {
        let kept = Kept::default();
        let audit = Audit::to(kept.clone());
        let event = |kind, grant| AuditEvent {
            kind,
            peer: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 7))),
            grant: Some(grant),
            detail: None,
        };
        for _ in 0..10_000 {
            audit.record(&event(AuditKind::Refused, "\"\n{}"));
        }
        audit.record(&event(AuditKind::Admitted, "good"));
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let of = |kind| lines.iter().filter(|line| line["event"] == kind).count();
        assert!(of("refused") >= 10 && of("refused") < 10_000);
        assert_eq!(of("admitted"), 1);
        assert_eq!(lines[0]["grant"], "\"\n{}");
        let last = lines.last().unwrap();
        assert_eq!(
            (&last["grant"], &last["address"]),
            (&"good".into(), &"127.0.0.1:7".into())
        );
    }
}

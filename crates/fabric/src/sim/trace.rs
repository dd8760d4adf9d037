//! What happens in a world, line by line: to read a run that a seed replays.
//!
//! With `FARSLOT_TRACE=FILE` every world of the process appends its events to the file; `-` is the
//! error output. A line has the world's number there, the virtual time, who does or meets it, and
//! the verb by its number. What a trace tells changes nothing in the run: the digest is the same.

use super::clock::Picos;
use super::op::PostedVerb;
use crate::{OperationClass, VerbKind};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{LineWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable that names the file.
const VARIABLE: &str = "FARSLOT_TRACE";
/// Words that a line shows at most.
const SHOWN: usize = 4;

/// Worlds of this process whose events the environment has asked for.
static WORLDS: AtomicU64 = AtomicU64::new(0);

/// Where the events of a world go, if anywhere.
pub(super) struct EventTrace {
    sink: Option<Box<dyn Write + Send>>,
    /// What a line begins with.
    world: String,
}

impl EventTrace {
    /// As the environment says: to the error output too where the file cannot be opened, which is
    /// told there.
    pub(super) fn of_environment(seed: u64) -> Self {
        let named = std::env::var_os(VARIABLE).map(|file| -> Box<dyn Write + Send> {
            if file == "-" {
                return Box::new(std::io::stderr());
            }
            match OpenOptions::new().create(true).append(true).open(&file) {
                Ok(opened) => Box::new(LineWriter::new(opened)),
                Err(error) => {
                    let mut output = std::io::stderr();
                    let _ = writeln!(output, "{VARIABLE}={}: {error}", file.display());
                    Box::new(output)
                }
            }
        });
        let mut world = String::new();
        if named.is_some() {
            world = format!("world {} ", WORLDS.fetch_add(1, Ordering::Relaxed));
        }
        let mut trace = Self { sink: named, world };
        trace.line(0, format_args!("begins, with seed {seed}"));
        trace
    }

    /// From now on to here.
    pub(super) fn to(&mut self, sink: Box<dyn Write + Send>) {
        self.sink = Some(sink);
    }

    pub(super) fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// Tells an event.
    #[inline]
    pub(super) fn line(&mut self, now: Picos, event: fmt::Arguments<'_>) {
        if let Self {
            sink: Some(sink),
            world,
        } = self
        {
            let (micros, nanos) = (now / 1_000_000, now / 1_000 % 1_000);
            // A full disk is no reason for the run to be another.
            let _ = writeln!(sink, "{world}{micros:>6}.{nanos:03} us  {event}");
        }
    }
}

impl PostedVerb {
    /// What is asked for.
    pub(super) fn asked(&self) -> impl fmt::Display + '_ {
        RequestText(self)
    }

    /// What it has found or brought.
    pub(super) fn effect(&self) -> impl fmt::Display + '_ {
        EffectText(self)
    }
}

struct RequestText<'o>(&'o PostedVerb);

impl fmt::Display for RequestText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(op) = self;
        let [first, second] = op.operands;
        match op.kind {
            VerbKind::Read => f.write_str("READ"),
            VerbKind::ReadMany => f.write_str("READ of pieces"),
            VerbKind::Write => write!(f, "WRITE of {}", Words(&op.data)),
            VerbKind::WriteImm => write!(f, "WRITE with immediate {first}"),
            VerbKind::CompareSwap => write!(f, "swap of {first:#x} for {second:#x}"),
            VerbKind::FetchAdd => write!(f, "add of {first:#x}"),
            VerbKind::Call => write!(f, "call of region {first}, {} bytes", op.bytes),
        }?;
        for span in &op.spans {
            let (region, (from, len)) = (span.region, span.bytes());
            write!(f, ", region {region} at {from}, {len} bytes")?;
        }
        Ok(())
    }
}

struct EffectText<'o>(&'o PostedVerb);

impl fmt::Display for EffectText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(op) = self;
        match op.kind {
            VerbKind::Read | VerbKind::ReadMany => write!(f, "finds {}", Words(&op.data)),
            VerbKind::CompareSwap | VerbKind::FetchAdd => {
                let becomes = op.atomic_result(op.found);
                write!(f, "finds {:#x}, which becomes {becomes:#x}", op.found)
            }
            VerbKind::Write | VerbKind::WriteImm | VerbKind::Call => f.write_str("is there"),
        }
    }
}

/// Of which class the operation is that a verb belongs to, if it belongs to any.
pub(super) struct OfClass(pub(super) Option<OperationClass>);

impl fmt::Display for OfClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(OperationClass(class)) => write!(f, ", for an operation of class {class}"),
            None => Ok(()),
        }
    }
}

/// The first of some words.
struct Words<'w>(&'w [u64]);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(words) = self;
        for (number, word) in words.iter().take(SHOWN).enumerate() {
            let space = if number > 0 { " " } else { "" };
            write!(f, "{space}{word:#x}")?;
        }
        match words.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} words more"),
        }
    }
}

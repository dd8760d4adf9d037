//! What is written where: answers on standard output, everything else on standard error.

use crate::failure::{Failure, Result};
use comfy_table::{ContentArrangement, Table, TableStyle};
use farslot::admission::utc_time;
use farslot::is_visible;
use farslot_bench::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// Writes one JSON object and a newline to standard output.
///
/// # Errors
/// Of standard output.
pub fn json(value: &impl Serialize) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Writes a line to standard output.
///
/// # Errors
/// Of standard output.
pub fn line(text: impl AsRef<[u8]>) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Writes a line for people to standard error, or a record where the log is JSON; nobody listening
/// is no failure.
pub fn note(text: impl std::fmt::Display) {
    let _ = match is_log_json() {
        true => log_line(&mut io::stderr().lock(), "NOTE", "farslot", text),
        // It may have names and bytes of anybody's in it.
        false => writeln!(io::stderr().lock(), "{}", escaped(&text.to_string())),
    };
}

/// Text for a terminal: what does not show as itself is escaped, but for ends of lines and tabs.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match is_visible(character) || "\n\t".contains(character) {
            true => escaped.push(character),
            false => escaped.extend(character.escape_unicode()),
        }
    }
    escaped
}

/// Whether FARSLOT_LOG_FORMAT asks for JSON on standard error: an object a line.
fn is_log_json() -> bool {
    static IS_JSON: OnceLock<bool> = OnceLock::new();
    *IS_JSON
        .get_or_init(|| std::env::var_os("FARSLOT_LOG_FORMAT").is_some_and(|form| form == "json"))
}

/// Writes a record of the log as JSON.
fn log_line(
    to: &mut impl Write,
    level: &str,
    target: &str,
    message: impl std::fmt::Display,
) -> io::Result<()> {
    let time = utc_time(std::time::SystemTime::now());
    let message = message.to_string();
    let record = serde_json::json!({
        "time": time, "level": level, "target": target, "message": message,
    });
    writeln!(to, "{record}")
}

/// What the store and its agents have to say beside their answers goes to standard error: warnings,
/// or what FARSLOT_LOG asks for, such as `info` or `farslot_fabric=debug`. With
/// FARSLOT_LOG_FORMAT=json each is an object on a line.
pub fn log_to_stderr() {
    let filter = env_logger::Env::default().filter_or("FARSLOT_LOG", "warn");
    // It can only fail where there is a logger already.
    let _ = env_logger::Builder::from_env(filter)
        .format(|to, record| {
            let (level, target) = (record.level(), record.target());
            if is_log_json() {
                return log_line(to, level.as_str(), target, record.args());
            }
            let time = utc_time(std::time::SystemTime::now());
            let message = escaped(&record.args().to_string());
            writeln!(to, "[{time} {level} {target}] {message}")
        })
        .try_init();
}

/// Says why a command failed, and what to try next.
pub fn report(failure: &Failure, as_json: bool) {
    let hint = failure.hint();
    note(format_args!("error: {failure}"));
    if let Some(hint) = &hint {
        note(format_args!("  {hint}"));
    }
    if as_json {
        // If this cannot be written either, the exit code still tells.
        let _ = json(&serde_json::json!({ "error": failure.to_string(), "hint": hint }));
    }
}

/// Refuses a file that could not be written when the work is done. It is left as it is, and one
/// that is not there yet is not there afterwards.
///
/// # Errors
/// What the system says.
pub fn check_writable(path: &Path) -> Result<()> {
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    let name = || path.display().to_string();
    opened.map_err(Failure::io(name()))?;
    if is_new {
        std::fs::remove_file(path).map_err(Failure::io(name()))?;
    }
    Ok(())
}

/// A table that fits the terminal's width, or as many columns as COLUMNS says; elsewhere it is as
/// wide as it must be.
#[must_use]
pub fn new_table(style: TableStyle) -> Table {
    let mut table = Table::new();
    table.load_style(style);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    let columns = std::env::var("COLUMNS").ok();
    if let Some(columns) = columns.and_then(|columns| columns.parse().ok()) {
        table.set_width(columns);
    }
    table
}

/// A number with its thousands apart: `1 234 567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes for people: `1.5 GiB`.
#[must_use]
pub fn sized(bytes: u64) -> String {
    bytesize::ByteSize(bytes).to_string()
}

/// `1 record`, `2 records`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// Runs a measurement that says on standard error, if that is a terminal, what it is at.
pub fn on_spinner<T>(measurement: impl FnOnce(Progress<'_>) -> T) -> T {
    let spinner = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    spinner.enable_steady_tick(Duration::from_millis(200));
    let measured = measurement(&|at| spinner.set_message(at.to_owned()));
    spinner.finish_and_clear();
    measured
}

/// A number as a table shows it: rates in millions, small ones with two digits, others whole.
#[must_use]
pub fn number(value: f64) -> String {
    if value >= 1e5 {
        format!("{:.2} M", value / 1e6)
    } else if value < 100.0 && value.fract() != 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1 000"),
            (1_234_567, "1 234 567"),
        ] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(counted(1, "key"), "1 key");
        assert_eq!(counted(1_000, "key"), "1 000 keys");
    }
}

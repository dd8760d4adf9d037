//! A client for the pages, and a reader of Prometheus's text format that takes nothing else.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).unwrap();
    stream.set_write_timeout(patience).unwrap();
    stream
}

/// Sends these bytes, and reads the answer to its end.
pub fn send(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = connect(address);
    stream.write_all(request).unwrap();
    answer(&mut stream)
}

pub fn answer(stream: &mut impl Read) -> Answer {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = length.unwrap().parse().unwrap();
    assert!(body.is_empty() || body.len() == length, "{head}");
    Answer {
        status,
        head: head.into(),
        body: body.into(),
    }
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    send(address, request.as_bytes())
}

/// The metrics of a page, once they say so: they are collected at most twice a second.
pub fn metrics_that(address: SocketAddr, is_so: impl Fn(&Metrics) -> bool) -> Metrics {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = get(address, "/metrics");
        assert_eq!(answer.status, 200);
        assert!(
            answer
                .head
                .contains("Content-Type: text/plain; version=0.0.4")
        );
        let metrics = Metrics::parse(&answer.body);
        if is_so(&metrics) {
            check_by_promtool(&answer.body);
            return metrics;
        }
        assert!(Instant::now() < until, "{}", answer.body);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// As Prometheus's own program checks it, where there is one.
fn check_by_promtool(text: &str) {
    let program = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut program) = program else { return };
    program
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = program.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// Samples by name and labels.
#[derive(Debug, Default)]
pub struct Metrics(HashMap<String, Vec<(Labels, f64)>>);

type Labels = BTreeMap<String, String>;

impl Metrics {
    /// Reads the text format, as strictly as it is specified.
    pub fn parse(text: &str) -> Self {
        let mut metrics = Self::default();
        let (mut told, mut typed) = (HashSet::new(), HashMap::new());
        let mut family = String::new();
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').unwrap();
                assert!(!help.is_empty() && told.insert(name.to_owned()), "{line}");
                family = name.into();
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert_eq!(name, family, "{line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                typed.insert(name.to_owned(), kind.to_owned());
            } else {
                let (name, labels, value) = sample(line);
                let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
                assert!(
                    name.starts_with("farslot_") && name.chars().all(is_name),
                    "{line}"
                );
                let base = match &*typed[&family] {
                    "histogram" => ["_bucket", "_sum", "_count"]
                        .iter()
                        .find_map(|suffix| name.strip_suffix(suffix))
                        .unwrap_or_else(|| panic!("{line}")),
                    _ => &*name,
                };
                assert_eq!(base, family, "{line}");
                let of_name = metrics.0.entry(name).or_default();
                assert!(
                    of_name.iter().all(|(known, _)| *known != labels),
                    "twice: {line}"
                );
                of_name.push((labels, value));
            }
        }
        metrics.check_histograms();
        metrics
    }

    fn check_histograms(&self) {
        for (name, samples) in &self.0 {
            let Some(base) = name.strip_suffix("_bucket") else {
                continue;
            };
            let mut last = HashMap::new();
            for (labels, value) in samples {
                let mut others = labels.clone();
                let bound: f64 = others.remove("le").unwrap().parse().unwrap();
                let before = last.insert(others, (bound, *value));
                assert!(
                    before.is_none_or(|(b, v)| b < bound && v <= *value),
                    "{name}"
                );
            }
            for (labels, (bound, count)) in last {
                assert_eq!(bound, f64::INFINITY, "{name}");
                let counts = &self.0[&format!("{base}_count")];
                assert!(counts.contains(&(labels, count)), "{name}");
            }
        }
    }

    /// The sum of all samples with these labels among theirs.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let samples = self.0.get(name).into_iter().flatten();
        let has = |of: &Labels| {
            let has = |(name, value): &(&str, &str)| of.get(*name).is_some_and(|of| of == value);
            labels.iter().all(has)
        };
        samples
            .filter(|(of, _)| has(of))
            .map(|(_, value)| value)
            .sum()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// `name{label="value",...} number`
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while let Some((label, quoted)) = rest.split_once("=\"") {
            let mut value = String::new();
            let mut chars = quoted.char_indices();
            let end = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        c @ ('"' | '\\') => c,
                        c => panic!("{c:?} in {line}"),
                    }),
                    (_, c) => value.push(c),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = &quoted[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap();
    }
    let value = rest.strip_prefix(' ').unwrap().parse().unwrap();
    (name.to_owned(), labels, value)
}

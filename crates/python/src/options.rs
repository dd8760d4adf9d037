//! Options by their names, as keyword arguments: those of the program `farslot`.

use crate::failure::raise;
use farslot::admission::{Fingerprint, Secret, TlsClient, Trust};
use farslot::layout::TableSpec;
use farslot::{
    Access, Cache, Expiry, IndexError, OpenOptions, Rights, SchemeKind, StoreError, TableOptions,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The given options with their names.
fn given<'py>(options: Option<&Bound<'py, PyDict>>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let all = options.into_iter().flat_map(|options| options.iter());
    let all = all.filter(|(_, value)| !value.is_none());
    all.map(|(name, value)| Ok((name.extract()?, value)))
        .collect()
}

fn unknown(name: &str) -> PyErr {
    PyTypeError::new_err(format!("there is no option {name:?}"))
}

/// The error of an option that cannot be.
fn bad(py: Python<'_>, option: &'static str, value: impl ToString, limit: &str) -> PyErr {
    let error = IndexError::BadOption {
        option,
        value: value.to_string(),
        limit: limit.to_owned(),
    };
    raise(py, StoreError::from(error))
}

/// What of a few names is given.
fn one_of<T: Copy>(
    py: Python<'_>,
    option: &'static str,
    value: &Bound<'_, PyAny>,
    names: &[(&str, T)],
) -> PyResult<T> {
    let text: String = value.extract()?;
    let named = names.iter().find(|(name, _)| *name == text);
    named.map(|(_, named)| *named).ok_or_else(|| {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        bad(py, option, text, &all.join(", "))
    })
}

/// A span that is given in seconds.
pub(crate) fn seconds(
    py: Python<'_>,
    option: &'static str,
    value: &Bound<'_, PyAny>,
) -> PyResult<Duration> {
    let given: f64 = value.extract()?;
    let seconds = Duration::try_from_secs_f64(given).ok();
    let seconds = seconds.filter(|seconds| *seconds <= Expiry::LONGEST);
    let limit = || format!("seconds, from 0 to {}", Expiry::LONGEST.as_secs());
    seconds.ok_or_else(|| bad(py, option, given, &limit()))
}

/// The options of a new table, which may be built of records that are known.
pub(crate) fn table_options(
    py: Python<'_>,
    options: Option<&Bound<'_, PyDict>>,
    is_built: bool,
) -> PyResult<TableOptions> {
    let mut texts = Vec::new();
    for (name, value) in given(options)? {
        let text: String = value.str()?.extract()?;
        // Flags as they are written where options are texts, NumPy's as well.
        let text = match &*text {
            "True" | "False" => text.to_lowercase(),
            _ => text,
        };
        texts.push((name, text));
    }
    let pairs = texts.iter().map(|(name, text)| (&**name, &**text));
    let mut spec = TableSpec::parse(pairs).map_err(|error| match error {
        StoreError::Index(IndexError::BadOption {
            option: "option",
            value,
            ..
        }) => unknown(&value),
        error => raise(py, error),
    })?;
    if is_built {
        spec.scheme.get_or_insert(SchemeKind::Sealed);
        // The number of its records counts.
        spec.capacity.get_or_insert(1);
    }
    spec.options().map_err(|error| raise(py, error))
}

/// The bytes of a store in this process, if they are given.
pub(crate) fn memory_of(options: Option<&Bound<'_, PyDict>>) -> PyResult<Option<u64>> {
    let memory = options.map(|options| options.get_item("memory"));
    let memory = memory.transpose()?.flatten();
    memory.map_or(Ok(None), |memory| memory.extract())
}

/// A secret, as bytes or text.
pub(crate) fn secret_of(
    py: Python<'_>,
    given: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Secret>> {
    let Some(given) = given else {
        return Ok(None);
    };
    let secret = match given.cast::<PyString>() {
        Ok(text) => Secret::new(text.extract::<String>()?),
        Err(_) => Secret::new(given.extract::<Vec<u8>>()?),
    };
    secret.map(Some).map_err(|error| raise(py, error.into()))
}

/// Files longer than this are no certificates.
const LONGEST_PEM: u64 = 1 << 20;

fn pem(path: &Path) -> PyResult<Vec<u8>> {
    let mut bytes = Vec::new();
    // The limit holds for pipes and devices too, whose length is not known beforehand.
    let file = std::fs::File::open(path)?;
    file.take(LONGEST_PEM + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_PEM {
        let message = format!("{} has more than {LONGEST_PEM} bytes", path.display());
        return Err(PyValueError::new_err(message));
    }
    Ok(bytes)
}

/// How a store is opened.
pub(crate) fn open_options(
    py: Python<'_>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<OpenOptions> {
    let mut open = OpenOptions::default();
    let access = Access::ALL.map(|access| (access.name(), access));
    let (mut cache, mut stale_for) = (None, None);
    let mut pins: Vec<Fingerprint> = Vec::new();
    let (mut authority, mut certificate, mut key) = (None, None, None);
    for (name, value) in given(options)? {
        match name.as_str() {
            // See `memory_of`.
            "memory" => {}
            "secret" => open.secret = secret_of(py, Some(&value))?,
            "grant" => open.grant = value.extract()?,
            "read_only" => {
                if value.extract()? {
                    open.rights = Rights::READ;
                }
            }
            "access" => open.access = one_of(py, "access", &value, &access)?,
            "cache" => cache = Some(Cache::new(value.extract()?)),
            "stale_for" => stale_for = Some(seconds(py, "stale_for", &value)?),
            "client_memory" => open.client_memory = Some(value.extract()?),
            "connect_timeout" => open.connect_timeout = seconds(py, "connect_timeout", &value)?,
            "timeout" => {
                let span = seconds(py, "timeout", &value)?.as_nanos();
                open.limits.verb_timeout = span.try_into().unwrap_or(u64::MAX);
            }
            "tls_ca" => authority = Some(pem(&value.extract::<PathBuf>()?)?),
            "tls_cert" => certificate = Some(pem(&value.extract::<PathBuf>()?)?),
            "tls_key" => key = Some(pem(&value.extract::<PathBuf>()?)?),
            "tls_pin" => {
                for pin in value.extract::<String>()?.split(',') {
                    let parsed = pin.trim().parse();
                    let limit = "a SHA-256 fingerprint in hexadecimal";
                    pins.push(parsed.map_err(|_| bad(py, "tls_pin", pin, limit))?);
                }
            }
            _ => return Err(unknown(&name)),
        }
    }
    open.cache = match (cache, stale_for) {
        (None, Some(span)) => {
            return Err(bad(py, "stale_for", span.as_secs_f64(), "it needs a cache"));
        }
        (cache, stale_for) => cache.map(|cache| Cache { stale_for, ..cache }),
    };
    let trust = match (authority, pins.is_empty()) {
        (Some(_), false) => return Err(PyTypeError::new_err("pass tls_ca or tls_pin, not both")),
        (Some(authority), true) => Some(Trust::Authorities(authority)),
        (None, false) => Some(Trust::Pinned(pins)),
        (None, true) => None,
    };
    let identity = match (&certificate, &key) {
        (Some(certificate), Some(key)) => Some((&certificate[..], &key[..])),
        (None, None) => None,
        _ => return Err(PyTypeError::new_err("tls_cert and tls_key belong together")),
    };
    if let Some(trust) = trust {
        let tls = TlsClient::new(&trust, identity).map_err(|error| raise(py, error.into()))?;
        open.tls = Some(tls);
    } else if identity.is_some() {
        let message = "tls_cert needs tls_ca or tls_pin: nothing says which nodes are trusted";
        return Err(PyTypeError::new_err(message));
    }
    Ok(open)
}

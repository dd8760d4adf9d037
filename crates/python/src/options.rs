//! Options by their names, as keyword arguments: those of the program `farslot`.

use crate::failure::raise;
use farslot::admission::Secret;
use farslot::layout::TableSpec;
use farslot::{Expiry, IndexError, OpenOptions, SchemeKind, StoreError, TableOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::path::PathBuf;
use std::time::Duration;

/// The given options with their names, as texts.
fn texts(options: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, String)>> {
    let mut texts = Vec::new();
    let all = options.into_iter().flat_map(|options| options.iter());
    for (name, value) in all.filter(|(_, value)| !value.is_none()) {
        // Paths as they are named; flags as they are written where options are texts, NumPy's too.
        let path = value.extract::<PathBuf>().ok();
        let text = match path.and_then(|path| path.into_os_string().into_string().ok()) {
            Some(text) => text,
            None => value.str()?.extract()?,
        };
        let text = match &*text {
            "True" | "False" => text.to_lowercase(),
            _ => text,
        };
        texts.push((name.extract()?, text));
    }
    Ok(texts)
}

fn pairs(texts: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    texts.iter().map(|(name, text)| (&**name, &**text))
}

/// A name that there is not is Python's own error.
fn refused(py: Python<'_>, error: StoreError) -> PyErr {
    match error {
        StoreError::Index(IndexError::BadOption {
            option: "option",
            value,
            ..
        }) => PyTypeError::new_err(format!("there is no option {value:?}")),
        error => raise(py, error),
    }
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
    seconds.ok_or_else(|| {
        let error = IndexError::BadOption {
            option,
            value: given.to_string(),
            limit: format!("seconds, from 0 to {}", Expiry::LONGEST.as_secs()),
        };
        raise(py, StoreError::from(error))
    })
}

/// The options of a new table, which may be built of records that are known.
pub(crate) fn table_options(
    py: Python<'_>,
    options: Option<&Bound<'_, PyDict>>,
    is_built: bool,
) -> PyResult<TableOptions> {
    let texts = texts(options)?;
    let mut spec = TableSpec::parse(pairs(&texts)).map_err(|error| refused(py, error))?;
    if is_built {
        spec.scheme.get_or_insert(SchemeKind::Sealed);
        // The number of its records counts.
        spec.capacity.get_or_insert(1);
    }
    spec.options().map_err(|error| raise(py, error))
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

/// How a store is opened.
pub(crate) fn open_options(
    py: Python<'_>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<OpenOptions> {
    let mut texts = texts(options)?;
    // A secret may be bytes that are no text.
    texts.retain(|(name, _)| name != "secret");
    let mut open = OpenOptions::named(pairs(&texts)).map_err(|error| refused(py, error))?;
    let secret = options.map(|options| options.get_item("secret"));
    let secret = secret.transpose()?.flatten();
    let secret = secret.filter(|secret| !secret.is_none());
    if let Some(secret) = secret_of(py, secret.as_ref())? {
        open.secret = Some(secret);
    }
    Ok(open)
}

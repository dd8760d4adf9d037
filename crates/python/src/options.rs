//! Options by their names, as keyword arguments: those of the program `farslot`.

use crate::failure::raise;
use farslot::{
    Access, Cache, CuckooShape, DuoShape, Evicting, Expiry, FieldSize, Fingerprint, HashKind,
    IndexError, OnRestart, OpenOptions, RaceShape, Rights, SchemeKind, Secret, SlotKind,
    StoreError, TableOptions, TlsClient, Trust,
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

/// What a table shall be.
#[derive(Default)]
struct Given {
    /// Whether its records are known, and so how many these are.
    is_built: bool,
    capacity: Option<u64>,
    scheme: Option<SchemeKind>,
    key: Option<FieldSize>,
    value: Option<FieldSize>,
    ways: Option<u32>,
    bucket_slots: Option<u32>,
    fingerprint_bits: Option<u32>,
    writer_alone: bool,
    perfect: bool,
    filter: bool,
    grow_to: Option<u64>,
    load_factor: Option<f64>,
    multi_key: bool,
    expiring: Option<bool>,
    evicting: Option<Evicting>,
    slots: Option<SlotKind>,
    inline_bytes: Option<u32>,
    heap: Option<u64>,
    hash: HashKind,
    on_restart: OnRestart,
}

const SLOTS: [(&str, SlotKind); 6] = [
    ("word", SlotKind::Word),
    ("pair", SlotKind::Pair),
    ("inline", SlotKind::Inline),
    ("heap", SlotKind::Heap),
    ("hybrid", SlotKind::Hybrid),
    ("signatures", SlotKind::Signatures),
];

const EVICTING: [(&str, Evicting); 2] = [("all", Evicting::All), ("expiring", Evicting::Expiring)];

const HASHES: [(&str, HashKind); 2] = [("xxh3", HashKind::Xxh3), ("knuth", HashKind::Knuth)];

/// The options of a new table, which may be built of records that are known.
pub(crate) fn table_options(
    py: Python<'_>,
    options: Option<&Bound<'_, PyDict>>,
    is_built: bool,
) -> PyResult<TableOptions> {
    let mut asked = Given {
        is_built,
        ..Given::default()
    };
    let schemes = SchemeKind::ALL.map(|kind| (kind.name(), kind));
    let on_restart = OnRestart::ALL.map(|what| (what.name(), what));
    let twice = |size: Option<FieldSize>, which: &str| match size {
        None => Ok(()),
        Some(_) => Err(PyTypeError::new_err(format!(
            "pass {which}_size or max_{which}, not both"
        ))),
    };
    for (name, value) in given(options)? {
        match name.as_str() {
            "capacity" => asked.capacity = Some(value.extract()?),
            "scheme" => asked.scheme = Some(one_of(py, "scheme", &value, &schemes)?),
            "key_size" | "max_key" => {
                twice(asked.key, "key")?;
                let bytes = value.extract()?;
                asked.key = Some(match name.as_str() {
                    "key_size" => FieldSize::Fixed(bytes),
                    _ => FieldSize::UpTo(bytes),
                });
            }
            "value_size" | "max_value" => {
                twice(asked.value, "value")?;
                let bytes = value.extract()?;
                asked.value = Some(match name.as_str() {
                    "value_size" => FieldSize::Fixed(bytes),
                    _ => FieldSize::UpTo(bytes),
                });
            }
            "ways" => asked.ways = Some(value.extract()?),
            "bucket_slots" => asked.bucket_slots = Some(value.extract()?),
            "fingerprint_bits" => asked.fingerprint_bits = Some(value.extract()?),
            "writer_alone" => asked.writer_alone = value.extract()?,
            "perfect" => asked.perfect = value.extract()?,
            "filter" => asked.filter = value.extract()?,
            "grow_to" => asked.grow_to = Some(value.extract()?),
            "load_factor" => asked.load_factor = Some(value.extract()?),
            "multi_key" => asked.multi_key = value.extract()?,
            "expiring" => asked.expiring = Some(value.extract()?),
            "evicting" => asked.evicting = Some(one_of(py, "evicting", &value, &EVICTING)?),
            "slots" => asked.slots = Some(one_of(py, "slots", &value, &SLOTS)?),
            "inline_bytes" => asked.inline_bytes = Some(value.extract()?),
            "heap" => asked.heap = Some(value.extract()?),
            "hash" => asked.hash = one_of(py, "hash", &value, &HASHES)?,
            "on_restart" => asked.on_restart = one_of(py, "on_restart", &value, &on_restart)?,
            _ => return Err(unknown(&name)),
        }
    }
    asked.check(py)?;
    Ok(asked.options())
}

impl Given {
    /// Which scheme it is: without a capacity, one that grows as far as the memory allows.
    fn scheme(&self) -> SchemeKind {
        let default = match self.capacity {
            _ if self.is_built => SchemeKind::Sealed,
            Some(_) => SchemeKind::Linear,
            None => SchemeKind::Race,
        };
        self.scheme.unwrap_or(default)
    }

    /// Refuses what only tables of other schemes have.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        use SchemeKind::{Chained, Cuckoo, Duo, Race, Sealed};
        let scheme = self.scheme();
        let has_capacity = self.capacity.is_some() || self.is_built;
        if !has_capacity && scheme != Race {
            let limit = "needs a capacity: only race tables grow as far as the memory allows";
            return Err(bad(py, "scheme", scheme, limit));
        }
        let of_capacity = [
            ("grow_to", self.grow_to.is_some()),
            ("heap", self.heap.is_some()),
            ("multi_key", self.multi_key),
            ("slots", self.slots.is_some()),
        ];
        for (option, is_given) in of_capacity {
            if is_given && !has_capacity {
                return Err(bad(py, option, "given", "it needs a capacity"));
            }
        }
        if self.filter && !self.perfect {
            return Err(bad(py, "filter", "given", "only with perfect=True"));
        }
        let keyed = SchemeKind::ALL.into_iter().filter(|kind| kind.has_keys());
        let keyed: Vec<_> = keyed.collect();
        let of_few: [(_, bool, &[SchemeKind]); 7] = [
            ("ways", self.ways.is_some(), &[Cuckoo]),
            (
                "bucket_slots",
                self.bucket_slots.is_some(),
                &[Cuckoo, Duo, Race],
            ),
            ("fingerprint_bits", self.fingerprint_bits.is_some(), &[Duo]),
            ("writer_alone", self.writer_alone, &[Duo]),
            ("perfect", self.perfect, &[Sealed]),
            ("grow_to", self.grow_to.is_some(), &[Duo, Race, Chained]),
            ("key_size", self.key.is_some(), &keyed),
        ];
        for (option, is_given, schemes) in of_few {
            if is_given && !schemes.contains(&scheme) {
                let names: Vec<_> = schemes.iter().map(|scheme| scheme.name()).collect();
                let limit = format!("for tables of the scheme {}", names.join(" or "));
                return Err(bad(py, option, "given", &limit));
            }
        }
        Ok(())
    }

    fn options(&self) -> TableOptions {
        let scheme = self.scheme();
        let mut options = match (self.capacity, scheme) {
            (Some(capacity), _) => TableOptions::new(capacity),
            (None, SchemeKind::Race) => TableOptions::default(),
            (None, _) => TableOptions::new(1),
        };
        options = options.hash(self.hash).on_restart(self.on_restart);
        options = match scheme {
            SchemeKind::Linear => options,
            SchemeKind::Cuckoo => options.cuckoo(self.cuckoo()),
            SchemeKind::Duo => options.duo(self.duo()),
            SchemeKind::Race => options.race(self.race()),
            SchemeKind::Sealed if self.filter => options.perfect_with_filter(),
            SchemeKind::Sealed if self.perfect => options.perfect(),
            SchemeKind::Sealed => options.sealed(),
            SchemeKind::Chained => options.chained(),
            SchemeKind::Ordered => options.ordered(),
            SchemeKind::Queue => options.queue(),
        };
        if let Some(most) = self.grow_to {
            options = options.grow_to(most);
        }
        if let Some(load_factor) = self.load_factor {
            options = options.load_factor(load_factor);
        }
        if let Some(key) = self.key {
            options = options.keys(key);
        }
        if let Some(value) = self.value {
            options = options.values(value);
        }
        if let Some(slot) = self.slots {
            options = options.slots(slot);
        }
        if let Some(bytes) = self.inline_bytes {
            options = options.inline_bytes(bytes);
        }
        if let Some(heap) = self.heap {
            options = options.heap_bytes(heap);
        }
        if self.multi_key {
            options = options.multi_key();
        }
        if let Some(expiring) = self.expiring {
            options = options.expiring(expiring);
        }
        if let Some(evicting) = self.evicting {
            options = options.evicting(evicting);
        }
        options
    }

    fn cuckoo(&self) -> CuckooShape {
        let default = CuckooShape::default();
        CuckooShape {
            ways: self.ways.unwrap_or(default.ways),
            bucket_slots: self.bucket_slots.unwrap_or(default.bucket_slots),
        }
    }

    fn duo(&self) -> DuoShape {
        let default = DuoShape::default();
        DuoShape {
            bucket_slots: self.bucket_slots.unwrap_or(default.bucket_slots),
            fingerprint_bits: self.fingerprint_bits.unwrap_or(default.fingerprint_bits),
            readers: !self.writer_alone,
        }
    }

    fn race(&self) -> RaceShape {
        let default = RaceShape::default();
        RaceShape {
            bucket_slots: self.bucket_slots.unwrap_or(default.bucket_slots),
        }
    }
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
    let own = match (&certificate, &key) {
        (Some(certificate), Some(key)) => Some((&certificate[..], &key[..])),
        (None, None) => None,
        _ => return Err(PyTypeError::new_err("tls_cert and tls_key belong together")),
    };
    if let Some(trust) = trust {
        let tls = TlsClient::new(&trust, own).map_err(|error| raise(py, error.into()))?;
        open.tls = Some(tls);
    } else if own.is_some() {
        let message = "tls_cert needs tls_ca or tls_pin: nothing says which nodes are trusted";
        return Err(PyTypeError::new_err(message));
    }
    Ok(open)
}

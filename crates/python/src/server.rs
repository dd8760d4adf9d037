//! Memory of this process, lent to others.

use crate::failure::raise;
use crate::options::secret_of;
use farslot::{Server, ServerOptions};
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};

/// A server.
#[pyclass(subclass, frozen)]
pub(crate) struct RawServer {
    /// Nothing when it was closed.
    server: Mutex<ManuallyDrop<Option<Server>>>,
    addresses: Vec<String>,
    process: u32,
}

impl RawServer {
    fn end(&self) {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        // After a fork its threads are the parent's.
        if self.process == std::process::id() {
            drop(server.take());
        }
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.end();
    }
}

#[pymethods]
impl RawServer {
    #[new]
    #[pyo3(signature = (addresses, memory, secret, threads))]
    fn new(
        addresses: Vec<String>,
        memory: u64,
        secret: Option<&Bound<'_, PyAny>>,
        threads: Option<usize>,
        py: Python<'_>,
    ) -> PyResult<Self> {
        let mut options = ServerOptions::default();
        options.threads = threads.unwrap_or(options.threads);
        options.secrets = secret_of(py, secret)?.into_iter().collect();
        let texts: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let started = py.detach(|| Server::start_with(&texts, memory, &options));
        let server = started.map_err(|error| raise(py, error))?;
        let addresses = server.addresses().iter().map(ToString::to_string);
        Ok(Self {
            addresses: addresses.collect(),
            process: std::process::id(),
            server: Mutex::new(ManuallyDrop::new(Some(server))),
        })
    }

    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }
}

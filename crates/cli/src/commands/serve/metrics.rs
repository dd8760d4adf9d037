//! The metrics of `farslot serve --metrics ADDR`.

use crate::failure::{Failure, Result};
use farslot::{Network, Server};
use farslot_operate::{NodeMetrics, Page, PageError, PageOptions};
use std::sync::Arc;

/// The options of the metrics.
#[derive(clap::Args, Debug)]
pub struct MetricsArgs {
    /// Serve metrics for Prometheus there (/metrics), health (/healthz, /readyz) and a page that
    /// shows both (/), over HTTP: HOST:PORT, port 0 for any that is free. Beyond loopback only to
    /// clients of --trust, or to all with --insecure
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
}

/// Serves metrics, if that is asked for.
///
/// # Errors
/// That the address cannot be listened at, or that nobody beyond loopback is trusted.
pub fn start(
    args: &MetricsArgs,
    server: &Arc<Server>,
    trusted: &[Network],
    insecure: bool,
) -> Result<Option<Page>> {
    let Some(listen) = &args.metrics else {
        return Ok(None);
    };
    let options = PageOptions {
        trusted: trusted.into(),
        insecure,
        ..PageOptions::at(listen)
    };
    let page = Page::start(NodeMetrics::of(Arc::clone(server)), &options);
    Ok(Some(page.map_err(failure)?))
}

fn failure(error: PageError) -> Failure {
    match error {
        PageError::Insecure { .. } => Failure::Failed(format!(
            "{error}\n  try:  --trust 10.0.0.0/8 (your network), or --insecure"
        )),
        error => Failure::Failed(error.to_string()),
    }
}

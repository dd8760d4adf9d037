//! The metrics of `farslot serve --metrics ADDR`.

use super::listen::Listen;
use super::snapshots::Snapshots;
use farslot::Server;
use farslot::admission::{Network, TlsServer};
use farslot_gateway::Gateway;
use farslot_operate::{NodeMetrics, Page, PageError, PageOptions, Source};
use farslot_terminal::failure::{Failure, Result};
use std::sync::Arc;

/// The options of the metrics.
#[derive(clap::Args, Debug)]
pub struct MetricsArgs {
    /// Serve metrics for Prometheus there (/metrics), health (/healthz, /readyz) and a page that
    /// shows both (/), over HTTP: HOST:PORT, port 0 for any that is free, or https://HOST:PORT
    /// under TLS, with --tls-cert and --tls-key. Beyond loopback only to clients of --trust, or to
    /// all with --insecure
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    metrics: Option<Listen>,
}

fn address(text: &str) -> std::result::Result<Listen, String> {
    Listen::parse(text, ["http", "https"])
}

impl MetricsArgs {
    /// Whether metrics are to be served under TLS.
    pub fn is_under_tls(&self) -> bool {
        self.metrics.as_ref().is_some_and(|listen| listen.tls)
    }
}

/// How metrics are served, if that is asked for.
///
/// # Errors
/// That nobody beyond loopback is trusted, or that the address cannot be served.
pub fn options(
    args: &MetricsArgs,
    trusted: &[Network],
    insecure: bool,
    tls: Option<&TlsServer>,
) -> Result<Option<PageOptions>> {
    let Some(listen) = &args.metrics else {
        return Ok(None);
    };
    let options = PageOptions {
        trusted: trusted.into(),
        insecure,
        tls: tls.filter(|_| listen.tls).cloned(),
        ..PageOptions::at(&listen.authority)
    };
    options.check().map_err(failure)?;
    Ok(Some(options))
}

/// Serves metrics, those of the gateway to Redis clients and of snapshots too.
///
/// # Errors
/// That the address cannot be listened at.
pub fn start(
    options: &PageOptions,
    server: &Arc<Server>,
    gateway: Option<&Gateway>,
    snapshots: Option<&Snapshots>,
) -> Result<Page> {
    let mut sources: Vec<Box<dyn Source>> = vec![Box::new(NodeMetrics::of(Arc::clone(server)))];
    if let Some(gateway) = gateway {
        sources.push(Box::new(gateway.metrics()));
    }
    if let Some(snapshots) = snapshots {
        sources.push(Box::new(snapshots.metrics()));
    }
    Page::start(sources, options).map_err(failure)
}

fn failure(error: PageError) -> Failure {
    match error {
        PageError::Insecure { .. } => Failure::Failed(format!(
            "{error}\n  try:  --trust 10.0.0.0/8 (your network), or --insecure"
        )),
        error => Failure::Failed(error.to_string()),
    }
}

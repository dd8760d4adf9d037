//! What is served beside the memory: Redis clients, and the page of metrics.

use super::admission::tls_of;
use super::plan::Plan;
use super::reload::Changes;
use super::snapshots::Snapshots;
use super::{metrics, redis};
use crate::context::Context;
use crate::failure::Result;
use crate::output;
use farslot::{Server, TlsServer};
use farslot_gateway::Gateway;
use farslot_operate::Page;
use std::sync::Arc;

/// What is served beside the memory. It ends when this is dropped.
pub(super) struct Beside {
    page: Option<Page>,
    gateway: Option<Gateway>,
    /// What those show that are under TLS.
    tls: Option<TlsServer>,
}

impl Beside {
    /// Serves what is asked for.
    ///
    /// # Errors
    /// That an address cannot be listened at.
    pub(super) fn start(
        plan: &Plan,
        server: &Arc<Server>,
        snapshots: Option<&Snapshots>,
    ) -> Result<Self> {
        let redis = plan.redis.as_ref();
        let gateway = redis.map(|options| redis::start(options, server));
        let gateway = gateway.transpose()?;
        let page = plan
            .metrics
            .as_ref()
            .map(|options| metrics::start(options, server, gateway.as_ref(), snapshots));
        Ok(Self {
            page: page.transpose()?,
            gateway,
            tls: plan.tls_beside.clone(),
        })
    }

    /// Where Redis clients are served.
    pub(super) fn redis(&self, plan: &Plan) -> Option<String> {
        let (gateway, options) = (self.gateway.as_ref()?, plan.redis.as_ref()?);
        let scheme = if options.tls.is_some() {
            "rediss"
        } else {
            "redis"
        };
        Some(format!("{scheme}://{}", gateway.address()))
    }

    /// Where metrics are served.
    pub(super) fn metrics(&self, plan: &Plan) -> Option<String> {
        let (page, options) = (self.page.as_ref()?, plan.metrics.as_ref()?);
        let scheme = if options.tls.is_some() {
            "https"
        } else {
            "http"
        };
        Some(format!("{scheme}://{}/metrics", page.address()))
    }

    /// Reads the certificate again. Where something is wrong with it, it says so and nothing
    /// changes.
    pub(super) fn reload(&mut self, context: &Context, changes: &mut Changes<'_>) {
        let Some(before) = &self.tls else { return };
        let now = match tls_of(context, None) {
            Ok(now) => now,
            Err(failure) => {
                return output::note(format_args!(
                    "error: {failure}\n  the certificate for Redis clients and metrics stays as it was"
                ));
            }
        };
        changes.applied(&["tls-cert", "tls-key"]);
        if now == *before {
            return;
        }
        if let Some(gateway) = &self.gateway {
            gateway.change_tls(&now);
        }
        if let Some(page) = &self.page {
            page.change_tls(&now);
        }
        output::note("the certificate for Redis clients and metrics is another now");
        self.tls = Some(now);
    }
}

//! Metrics, health and a page for those who operate memory nodes, over HTTP, and the metrics of a
//! program's own tables.
//!
//! A [`Page`] serves six paths, under TLS if [`PageOptions::tls`] says so:
//!
//! | path | what |
//! |---|---|
//! | `/metrics` | all metrics, in Prometheus's text format |
//! | `/healthz` | 200 while the process answers |
//! | `/readyz` | 200 while the [`Source`] is ready; else 503, and why |
//! | `/tables/NAME` | how a table's keys lie, in JSON; the name percent-encoded |
//! | `/slow` | the last things that took long, in JSON |
//! | `/` | a page that draws the metrics, for people |
//!
//! What they show is a [`Source`]: a memory node ([`NodeMetrics`]), its snapshots
//! ([`SnapshotMetrics`]), or a program's tables
//! ([`ClientMetrics`](farslot::metrics::ClientMetrics)). Metrics are collected when they are asked
//! for, at most twice a second, and cost nothing otherwise. Of the tables that somebody asks for
//! every slot is read, one table at a time, in a thread of its own that rests four fifths of the
//! time.
//!
//! A program with a registry of its own (the crate `prometheus-client`) needs no page: with the
//! feature `prometheus-client`, `Collected` adds a source's metrics to the registry.
//!
//! ```
//! use farslot::metrics::ClientMetrics;
//! use farslot::{OpenOptions, Store, TableOptions};
//! use farslot_operate::{Page, PageOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let metrics = ClientMetrics::default();
//! let options = OpenOptions {
//!     metrics: Some(metrics.clone()),
//!     ..OpenOptions::default()
//! };
//! let store = Store::embedded_with(64 << 20, options)?;
//! let page = Page::start(metrics, &PageOptions::at("127.0.0.1:0"))?;
//! println!("http://{}/metrics", page.address());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
#[cfg(feature = "prometheus-client")]
mod collected;
mod family;
mod http;
mod node;
mod snapshots;
mod source;
mod surveys;

#[cfg(feature = "prometheus-client")]
pub use collected::Collected;
pub use family::{Family, Kind, Sample, text};
pub use http::{Page, PageError, PageOptions};
pub use node::NodeMetrics;
pub use snapshots::SnapshotMetrics;
pub use source::{Slow, Source};
pub use surveys::survey_fields;

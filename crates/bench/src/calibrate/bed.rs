//! What can be asked of a fabric that is measured.

use super::probe::VerbProbe;
use crate::Result;
use farslot::fabric::sim::NicProfile;

/// Which NIC is to be kept busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Saturate {
    /// That of one machine of clients, by READs from as many nodes as there are.
    Requester,
    /// That of one node, by clients of as many machines as there are.
    Responder,
}

/// Verbs that are to saturate a NIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) probe: VerbProbe,
    /// Client threads.
    pub(super) clients: usize,
    /// Verbs that each has under way.
    pub(super) width: usize,
    pub(super) saturate: Saturate,
}

/// A fabric under measurement.
pub(super) trait FabricBed {
    /// What it is, for people.
    fn describe(&self) -> String;

    /// What a profile of this fabric says where nothing can be measured, and on what grounds.
    fn defaults(&self) -> (NicProfile, &'static str);

    /// Whether there are machines enough to saturate a requester and a responder apart.
    fn tells_nics_apart(&self) -> bool;

    /// Whether long READs are limited by a link, with a bandwidth of its own.
    fn has_link(&self) -> bool;

    /// Nanoseconds of a processor for each random cache line that it loads, several prefetched
    /// together; nothing where no client's processor loads what its verbs read.
    fn line_ns(&mut self) -> Result<Option<f64>>;

    /// How often a rate is measured, of which the median counts.
    fn repetitions(&self) -> usize;

    /// The most client threads that make sense.
    fn most_clients(&self) -> usize;

    /// The median time, in ns, of one verb when nothing else is under way.
    fn idle_ns(&mut self, probe: VerbProbe) -> Result<f64>;

    /// Verbs per second of all clients together.
    fn rate(&mut self, load: &Load) -> Result<f64>;
}

//! What all processes of an exploration must have alike.

use crate::error::RankError;
use crate::explicit::digest_of;
use crate::net::Net;
use farslot_set::job::Job;

/// What is explored, and how: the processes compare it when they meet, and none goes on where one
/// has something else. How much memory each may take is not part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms(Vec<(&'static str, String)>);

impl Terms {
    /// A net, and the text of the condition that is checked of it, if there is one.
    #[must_use]
    pub fn of_net(net: &Net, condition: Option<&str>) -> Self {
        let fingerprint = digest_of(&net, (0, 1));
        let model = format!("{:?} (fingerprint {fingerprint:016x})", net.name());
        Self::of_model(&model).and("condition", condition.unwrap_or("none"))
    }

    /// A model that its name says all of.
    #[must_use]
    pub fn of_model(name: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self(vec![("model", name.to_owned()), ("version", version)])
    }

    /// The same, and something else by a name.
    #[must_use]
    pub fn and(mut self, term: &'static str, value: impl Into<String>) -> Self {
        self.0.push((term, value.into()));
        self
    }

    pub(crate) fn agree(&self, job: &mut Job) -> Result<(), RankError> {
        let terms: Vec<_> = self
            .0
            .iter()
            .map(|(term, value)| (*term, value.as_str()))
            .collect();
        Ok(job.agree(&terms)?)
    }
}

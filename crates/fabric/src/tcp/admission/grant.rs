//! Grants: what is opened to whom.

use super::handshake::LONGEST_NAME;
use super::{Refusal, Secret};
use crate::{FabricError, NodeInfo, RegionId, RegionInfo, Result, Rights};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What is opened to those who know a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Its name, by which clients ask for it: at most 64 bytes.
    pub name: String,
    /// What clients must know; nothing for a grant to anybody who can connect.
    pub secret: Option<Secret>,
    /// The regions it opens, and at most these rights to each; nothing for all regions with all rights
    /// that the node has.
    pub regions: Option<Vec<(RegionId, Rights)>>,
}

impl Grant {
    /// The name of the grant that is asked for where none is named.
    pub const DEFAULT: &'static str = "default";

    /// The default grant: everything, to those who know the secret, or to anybody.
    #[must_use]
    pub fn everything(secret: Option<Secret>) -> Self {
        Self {
            name: Self::DEFAULT.into(),
            secret,
            regions: None,
        }
    }

    /// Every region, with at most the rights given.
    #[must_use]
    pub fn limited(name: &str, secret: Option<Secret>, node: &NodeInfo, rights: Rights) -> Self {
        let regions = (0..node.regions.len() as u16).map(|region| (RegionId(region), rights));
        Self {
            name: name.into(),
            secret,
            regions: Some(regions.collect()),
        }
    }

    /// The node's regions with the rights that this grant gives; none where it does not open one.
    pub(crate) fn regions_of(&self, node: &NodeInfo) -> Result<Vec<RegionInfo>> {
        if self.name.len() > LONGEST_NAME {
            return Err(FabricError::BadName {
                name: self.name.clone(),
                reason: "a grant's name has at most 64 bytes",
            });
        }
        let mut regions = node.regions.clone();
        let Some(granted) = &self.regions else {
            return Ok(regions);
        };
        for region in &mut regions {
            region.rights = Rights::NONE;
        }
        for (id, rights) in granted {
            let of_node = node.regions.get(usize::from(id.0));
            let (Some(region), Some(of_node)) = (regions.get_mut(usize::from(id.0)), of_node)
            else {
                return Err(FabricError::UnknownRegion {
                    node: crate::NodeId(0),
                    region: *id,
                    regions: node.regions.len(),
                });
            };
            region.rights = region.rights.and(of_node.rights.masked_by(*rights));
        }
        Ok(regions)
    }
}

/// A grant in force, with its keys.
pub(crate) struct Issued {
    pub(crate) secret: Option<Secret>,
    /// Of each region of the node; those that are not granted have no rights.
    pub(crate) regions: Vec<RegionInfo>,
    /// One a region: random, or the NIC's.
    pub(crate) keys: Vec<u64>,
    revoked: AtomicBool,
}

impl Issued {
    #[inline]
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }
}

/// All grants of a node, by name.
#[derive(Default)]
pub(crate) struct Grants(RwLock<HashMap<String, Arc<Issued>>>);

impl Grants {
    /// Puts a grant in force, with random keys of its own. One of the same name is revoked.
    pub(crate) fn issue(&self, grant: &Grant, node: &NodeInfo) -> Result<()> {
        let regions = grant.regions_of(node)?;
        let keys = regions.iter().map(|_| rand::random()).collect();
        self.issue_with(grant, regions, keys);
        Ok(())
    }

    /// Puts a grant in force that opens these regions by these keys. One of the same name is revoked.
    pub(crate) fn issue_with(
        &self,
        grant: &Grant,
        regions: Vec<RegionInfo>,
        keys: Vec<u64>,
    ) -> Arc<Issued> {
        let issued = Arc::new(Issued {
            secret: grant.secret.clone(),
            keys,
            regions,
            revoked: AtomicBool::new(false),
        });
        let mut grants = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = grants.insert(grant.name.clone(), Arc::clone(&issued)) {
            before.revoked.store(true, Ordering::Release);
        }
        issued
    }

    /// Ends a grant; false if there is none in force by that name.
    pub(crate) fn revoke(&self, name: &str) -> bool {
        let grants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let grant = grants.get(name);
        grant.is_some_and(|grant| !grant.revoked.swap(true, Ordering::AcqRel))
    }

    /// The grant in force by that name.
    pub(crate) fn find(&self, name: &str) -> std::result::Result<Arc<Issued>, Refusal> {
        let grants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match grants.get(name) {
            None => Err(Refusal::NoSuchGrant),
            Some(grant) if grant.is_revoked() => Err(Refusal::GrantRevoked),
            Some(grant) => Ok(Arc::clone(grant)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_opens_what_it_names_and_no_more_than_the_node_does() {
        let node = NodeInfo {
            incarnation: 1,
            regions: [Rights::ALL, Rights::READ, Rights::ALL]
                .map(|rights| RegionInfo { len: 8, rights })
                .to_vec(),
            page_bytes: 4096,
        };
        let grants = Grants::default();
        let mut grant = Grant::limited("some", None, &node, Rights::ALL);
        grant.regions.as_mut().unwrap().remove(0);
        grants.issue(&grant, &node).unwrap();
        let first = grants.find("some").unwrap();
        let rights: Vec<_> = first.regions.iter().map(|region| region.rights).collect();
        assert_eq!(rights, [Rights::NONE, Rights::READ, Rights::ALL]);

        // Granted anew: other keys, and the ones before are void.
        grants.issue(&grant, &node).unwrap();
        let again = grants.find("some").unwrap();
        assert!(first.is_revoked() && !again.is_revoked());
        assert_ne!(first.keys, again.keys);

        assert!(grants.revoke("some") && !grants.revoke("some") && !grants.revoke("none"));
        assert_eq!(grants.find("some").err(), Some(Refusal::GrantRevoked));
        assert_eq!(grants.find("none").err(), Some(Refusal::NoSuchGrant));
        grant.regions = Some(vec![(RegionId(3), Rights::READ)]);
        assert!(matches!(
            grants.issue(&grant, &node),
            Err(FabricError::UnknownRegion { regions: 3, .. })
        ));
    }
}

//! What one client may do by the verbs that the owner's processor looks at.

use crate::net::admission::Issued;
use crate::verb::check_access;
use crate::{FabricError, RegionInfo, RemoteAddr, Result, Rights};
use std::net::SocketAddr;
use std::sync::Arc;

/// A client's grant, and what it has asked for of that.
pub(super) struct Permitted {
    pub(super) grant: Arc<Issued>,
    /// Where it connects from.
    pub(super) peer: SocketAddr,
    /// With the rights that the client has.
    pub(super) regions: Vec<RegionInfo>,
}

impl Permitted {
    /// Checks an access.
    ///
    /// # Errors
    /// [`FabricError::GrantRevoked`], [`FabricError::UnknownRegion`],
    /// [`FabricError::AccessDenied`], [`FabricError::OutOfBounds`].
    pub(super) fn check(&self, at: RemoteAddr, len: u64, needed: Rights) -> Result<()> {
        let RemoteAddr { node, region, .. } = at;
        if self.grant.is_revoked() {
            return Err(FabricError::GrantRevoked { node });
        }
        let Some(info) = self.regions.get(usize::from(region.0)) else {
            return Err(FabricError::UnknownRegion {
                node,
                region,
                regions: self.regions.len(),
            });
        };
        check_access(at, len, needed, info)?;
        self.grant.check_area(at, len, needed)
    }
}

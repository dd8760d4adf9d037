//! Grants: what an agent opens to clients that know a secret.

use super::handshake::LONGEST_NAME;
use super::secret::Secret;
use crate::net::room::Room;
use crate::{FabricError, NodeInfo, RegionId, RegionInfo, RemoteAddr, Result, Rights};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What an agent opens to clients that know a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Its name, by which clients ask for it: at most 64 bytes.
    pub name: String,
    /// The secret that clients must know; `None` admits every client that can connect.
    pub secret: Option<Secret>,
    /// The areas that it opens; `None` opens all regions with all rights of the node.
    pub areas: Option<Vec<Area>>,
}

/// A part of a region that a grant opens. A verb must lie within a single area, so an area should
/// cover whatever is read or written at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Area {
    /// The region.
    pub region: RegionId,
    /// Its bytes; those past the region's end are ignored.
    pub bytes: Range<u64>,
    /// The most rights; limited to those of the node.
    pub rights: Rights,
}

impl Area {
    /// All of a region.
    #[must_use]
    pub const fn whole(region: RegionId, rights: Rights) -> Self {
        Self {
            region,
            bytes: 0..u64::MAX,
            rights,
        }
    }
}

impl Grant {
    /// The name of the grant that clients ask for by default.
    pub const DEFAULT: &'static str = "default";

    /// The default grant: everything, to clients that know the secret, or to every client.
    #[must_use]
    pub fn everything(secret: Option<Secret>) -> Self {
        Self {
            name: Self::DEFAULT.into(),
            secret,
            areas: None,
        }
    }

    /// Every region, with at most the rights given.
    #[must_use]
    pub fn limited(name: &str, secret: Option<Secret>, node: &NodeInfo, rights: Rights) -> Self {
        let regions = (0..node.regions.len() as u16).map(RegionId);
        Self {
            name: name.into(),
            secret,
            areas: Some(regions.map(|region| Area::whole(region, rights)).collect()),
        }
    }
}

/// Parts of one region, in order, with the rights to each.
type Areas = Box<[(Range<u64>, Rights)]>;

/// A grant in force, with its keys.
pub(crate) struct Issued {
    pub(crate) name: String,
    pub(crate) secret: Option<Secret>,
    /// Of each region of the node, with the rights that it has anywhere; those that are not granted
    /// have none.
    pub(crate) regions: Vec<RegionInfo>,
    /// Of each region, what is opened of it, in order, unless all of it is alike.
    areas: Vec<Option<Areas>>,
    /// Random, one a region.
    pub(crate) keys: Vec<u64>,
    revoked: AtomicBool,
    /// Of all grants of this process, from 1.
    pub(crate) number: u64,
    /// What the connections of its clients hold.
    pub(crate) room: Room,
}

/// Grants that were ever issued by this process.
static ISSUED: AtomicU64 = AtomicU64::new(0);

impl Issued {
    /// The grant as it is for a node; `keys` are its own. The connections of its clients may hold
    /// `room` bytes together.
    pub(crate) fn new(grant: &Grant, node: &NodeInfo, room: usize) -> Result<Self> {
        if grant.name.len() > LONGEST_NAME {
            return Err(FabricError::BadName {
                name: grant.name.clone(),
                reason: "a grant's name has at most 64 bytes",
            });
        }
        let mut regions = node.regions.clone();
        let mut areas = vec![None; regions.len()];
        if let Some(opened) = &grant.areas {
            for ((id, region), areas) in (0..).zip(&mut regions).zip(&mut areas) {
                let of_region = opened.iter().filter(|area| area.region == RegionId(id));
                *areas = areas_of(region, of_region)?;
            }
            let unknown = |area: &&Area| usize::from(area.region.0) >= node.regions.len();
            if let Some(area) = opened.iter().find(unknown) {
                return Err(FabricError::UnknownRegion {
                    node: crate::NodeId(0),
                    region: area.region,
                    regions: node.regions.len(),
                });
            }
        }
        Ok(Self {
            name: grant.name.clone(),
            secret: grant.secret.clone(),
            keys: regions.iter().map(|_| rand::random()).collect(),
            regions,
            areas,
            revoked: AtomicBool::new(false),
            number: ISSUED.fetch_add(1, Ordering::Relaxed) + 1,
            room: Room::new(room),
        })
    }

    #[inline]
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// What is opened of a region, in order.
    pub(crate) fn areas(&self, region: usize) -> Vec<(Range<u64>, Rights)> {
        match (self.areas.get(region), self.regions.get(region)) {
            (Some(Some(areas)), _) => areas.to_vec(),
            (_, Some(info)) if info.rights != Rights::NONE => vec![(0..info.len, info.rights)],
            _ => Vec::new(),
        }
    }

    /// Checks an access that lies in its region, which has the needed rights somewhere.
    #[inline]
    pub(crate) fn check_area(&self, at: RemoteAddr, len: u64, needed: Rights) -> Result<()> {
        match self.areas.get(usize::from(at.region.0)) {
            Some(Some(areas)) => check_within(areas, at, len, needed),
            _ => Ok(()),
        }
    }
}

fn check_within(
    areas: &[(Range<u64>, Rights)],
    at: RemoteAddr,
    len: u64,
    needed: Rights,
) -> Result<()> {
    let behind = areas.partition_point(|(bytes, _)| bytes.start <= at.offset);
    let granted = match behind.checked_sub(1).map(|index| &areas[index]) {
        Some((bytes, rights)) if at.offset + len <= bytes.end => *rights,
        _ => Rights::NONE,
    };
    if granted.allow(needed) {
        return Ok(());
    }
    Err(FabricError::AccessDenied {
        at,
        needed,
        granted,
    })
}

/// What is opened of a region, whose rights become those that it has anywhere; nothing if all of it
/// is alike.
fn areas_of<'a>(
    region: &mut RegionInfo,
    opened: impl Iterator<Item = &'a Area>,
) -> Result<Option<Areas>> {
    let of_node = std::mem::replace(&mut region.rights, Rights::NONE);
    let mut areas = Vec::new();
    for area in opened {
        let rights = area.rights.masked_by(of_node);
        region.rights = region.rights.and(rights);
        areas.push((area.bytes.start..area.bytes.end.min(region.len), rights));
    }
    areas.sort_unstable_by_key(|(bytes, _)| bytes.start);
    // Memory is read in words: one that two areas share would be read by the clients of both.
    let bounds = areas.iter().flat_map(|(bytes, _)| [bytes.start, bytes.end]);
    if let Some(value) = bounds.into_iter().find(|bound| !bound.is_multiple_of(8)) {
        return Err(FabricError::BadOption {
            option: "a bound of a grant's area",
            value,
            limit: "a multiple of 8",
        });
    }
    let mut end = 0;
    for (bytes, _) in &areas {
        if bytes.start < end || bytes.is_empty() && region.len > 0 {
            return Err(FabricError::BadOption {
                option: "the start of a grant's area",
                value: bytes.start,
                limit: "behind the area before, and before its own end and the region's",
            });
        }
        end = bytes.end;
    }
    let is_alike = match &areas[..] {
        [] => true,
        [(bytes, _)] => *bytes == (0..region.len),
        _ => false,
    };
    Ok((!is_alike).then(|| areas.into()))
}

/// All grants of a node, by name.
#[derive(Default)]
pub(crate) struct Grants(RwLock<HashMap<String, Arc<Issued>>>);

impl Grants {
    /// Puts a grant in force, with keys of its own. One of the same name is revoked.
    pub(crate) fn issue(&self, grant: &Grant, node: &NodeInfo, room: usize) -> Result<()> {
        self.put_in_force(Arc::new(Issued::new(grant, node, room)?));
        Ok(())
    }

    /// Puts a grant in force. One of the same name is revoked; returns whether there was one in
    /// force.
    pub(crate) fn put_in_force(&self, issued: Arc<Issued>) -> bool {
        let mut grants = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = grants.insert(issued.name.clone(), issued);
        before.is_some_and(|before| !before.revoked.swap(true, Ordering::AcqRel))
    }

    /// Ends a grant; false if there is none in force by that name.
    pub(crate) fn revoke(&self, name: &str) -> bool {
        let grants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let grant = grants.get(name);
        grant.is_some_and(|grant| !grant.revoked.swap(true, Ordering::AcqRel))
    }

    /// The grant of that name, which may be revoked.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Issued>> {
        let grants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        grants.get(name).map(Arc::clone)
    }

    /// Whether any of them needs a secret.
    pub(crate) fn need_secrets(&self) -> bool {
        let grants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        grants.values().any(|grant| grant.secret.is_some())
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
        grant.areas.as_mut().unwrap().remove(0);
        grants.issue(&grant, &node, 1 << 20).unwrap();
        let first = grants.find("some").unwrap();
        let rights: Vec<_> = first.regions.iter().map(|region| region.rights).collect();
        assert_eq!(rights, [Rights::NONE, Rights::READ, Rights::ALL]);

        // Granted anew: other keys, and the ones before are void.
        grants.issue(&grant, &node, 1 << 20).unwrap();
        let again = grants.find("some").unwrap();
        assert!(first.is_revoked() && !again.is_revoked());
        assert_ne!(first.keys, again.keys);

        assert!(grants.revoke("some") && !grants.revoke("some") && !grants.revoke("none"));
        assert!(grants.find("some").unwrap().is_revoked());
        assert!(grants.find("none").is_none() && !grants.need_secrets());
        grant.areas = Some(vec![Area::whole(RegionId(3), Rights::READ)]);
        assert!(matches!(
            grants.issue(&grant, &node, 1 << 20),
            Err(FabricError::UnknownRegion { regions: 3, .. })
        ));
    }

    fn of_areas(areas: &[(Range<u64>, Rights)]) -> Result<Issued> {
        let region = RegionInfo {
            len: 1000,
            rights: Rights::READ.and(Rights::WRITE),
        };
        let node = NodeInfo {
            incarnation: 1,
            regions: vec![region],
            page_bytes: 4096,
        };
        let areas = areas.iter().map(|(bytes, rights)| Area {
            region: RegionId(0),
            bytes: bytes.clone(),
            rights: *rights,
        });
        let grant = Grant {
            name: "some".into(),
            secret: None,
            areas: Some(areas.collect()),
        };
        Issued::new(&grant, &node, 1 << 20)
    }

    #[test]
    fn an_access_lies_in_one_area_as_a_whole() {
        let issued = of_areas(&[
            (600..2000, Rights::ALL),
            (0..104, Rights::READ),
            (104..200, Rights::ALL),
        ])
        .unwrap();
        assert_eq!(issued.regions[0].rights, Rights::READ.and(Rights::WRITE));
        let check = |offset, len, needed| {
            let at = RemoteAddr {
                node: crate::NodeId(0),
                region: RegionId(0),
                offset,
            };
            match issued.check_area(at, len, needed) {
                Ok(()) => None,
                Err(FabricError::AccessDenied { granted, .. }) => Some(granted),
                Err(other) => panic!("{other}"),
            }
        };
        for (offset, len) in [(0, 104), (103, 1), (104, 96), (600, 400), (999, 1)] {
            assert_eq!(check(offset, len, Rights::READ), None, "{offset} {len}");
        }
        for (offset, len) in [(0, 105), (199, 2), (200, 1), (599, 2), (300, 8)] {
            let none = Some(Rights::NONE);
            assert_eq!(check(offset, len, Rights::READ), none, "{offset} {len}");
        }
        assert_eq!(check(0, 8, Rights::WRITE), Some(Rights::READ));
        assert_eq!(check(104, 8, Rights::WRITE), None);
        // The node itself gives no more.
        let granted = Rights::READ.and(Rights::WRITE);
        assert_eq!(check(104, 8, Rights::ATOMIC), Some(granted));
    }

    #[test]
    fn areas_that_overlap_or_are_empty_are_refused() {
        for areas in [
            &[(0..104, Rights::READ), (96..200, Rights::ALL)][..],
            &[(0..100, Rights::READ)],
            &[(0..0, Rights::READ)],
            &[(1000..2000, Rights::READ)],
        ] {
            let issued = of_areas(areas).map(drop);
            assert!(
                matches!(issued, Err(FabricError::BadOption { .. })),
                "{issued:?}"
            );
        }
        assert_eq!(of_areas(&[]).unwrap().regions[0].rights, Rights::NONE);
        let whole = of_areas(&[(0..u64::MAX, Rights::READ)]).unwrap();
        assert_eq!(whole.areas, [None]);
    }
}

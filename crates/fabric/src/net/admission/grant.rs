//! Grants: what an agent opens to clients that know a secret or have a certificate.

use super::handshake::LONGEST_NAME;
use super::secret::Secret;
use crate::net::rate::{Rate, RateMeter};
use crate::net::room::ByteBudget;
use crate::net::tls::Clients;
use crate::{FabricError, NodeInfo, RegionId, RegionInfo, RemoteAddr, Result, Rights};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What an agent opens to clients that know a secret or have a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Its name, by which clients ask for it: at most 64 bytes.
    pub name: String,
    /// Secrets, any one of which a client must know: mostly one, and for a while that before it.
    pub secrets: Vec<Secret>,
    /// Certificates that open it in place of a secret, under TLS. Without these and without secrets
    /// it admits every client of a trusted network.
    pub clients: Option<Clients>,
    /// The areas that it opens; `None` opens all regions with all rights of the node.
    pub areas: Option<Vec<Area>>,
    /// Areas of which it opens single keys, to calls. They overlap none of `areas`. TCP alone can
    /// hold clients to them.
    pub by_prefix: Vec<PrefixArea>,
    /// Blocks that it opens by what the region itself says of them. TCP alone can hold clients to
    /// them.
    pub tagged: Vec<TaggedBlocks>,
    /// How much its clients may ask for; TCP alone can hold them to it.
    pub rate: Rate,
}

/// By what a client is admitted under a grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Credential {
    /// It is of a trusted network.
    Nothing,
    Secret(Secret),
    Certificate(Clients),
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

/// A part of a region of which a grant opens single keys. No verb but a call reaches its bytes, and
/// only through a handler that holds callers to the prefix ([`Caller::keys`](crate::Caller::keys)):
/// the fabric does not know what a key is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrefixArea {
    /// The region.
    pub region: RegionId,
    /// Its bytes.
    pub bytes: Range<u64>,
    /// The rights to the keys; limited to those of the node.
    pub rights: Rights,
    /// What the keys begin with. An empty prefix opens all keys.
    pub prefix: Vec<u8>,
}

/// Blocks of a region, all of one size, of which words in the region say whose they are: a grant
/// opens those with its tag, as it is when a verb arrives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaggedBlocks {
    /// The region.
    pub region: RegionId,
    /// Its byte at which the word of its first block stands; those of the others follow.
    pub words_at: u64,
    /// Bytes of a block: a power of two.
    pub block: u64,
    /// The bits of a word that are the tag.
    pub mask: u64,
    /// What these have to be.
    pub tag: u64,
    /// The rights to the blocks; limited to those of the node.
    pub rights: Rights,
}

impl TaggedBlocks {
    /// Whether all of these bytes lie in such blocks, by what `load` says of words of the region.
    fn have(&self, bytes: &Range<u64>, load: impl Fn(u64) -> u64) -> bool {
        let blocks = bytes.start / self.block..bytes.end.div_ceil(self.block);
        !blocks.is_empty()
            && blocks
                .into_iter()
                .all(|block| load(self.words_at + block * 8) & self.mask == self.tag)
    }
}

impl Area {
    /// All of a region.
    #[must_use]
    pub const fn of_region(region: RegionId, rights: Rights) -> Self {
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
            secrets: secret.into_iter().collect(),
            clients: None,
            areas: None,
            by_prefix: Vec::new(),
            tagged: Vec::new(),
            rate: Rate::UNLIMITED,
        }
    }

    /// Every region, with at most the rights given.
    #[must_use]
    pub fn limited(name: &str, secret: Option<Secret>, node: &NodeInfo, rights: Rights) -> Self {
        let regions = (0..node.regions.len() as u16).map(RegionId);
        Self {
            name: name.into(),
            areas: Some(
                regions
                    .map(|region| Area::of_region(region, rights))
                    .collect(),
            ),
            ..Self::everything(secret)
        }
    }

    /// Whether it admits clients that prove nothing.
    pub(crate) fn needs_no_proof(&self) -> bool {
        self.secrets.is_empty() && self.clients.is_none()
    }
}

/// By what clients are admitted under a grant with these secrets and certificates.
pub(crate) fn credentials(secrets: &[Secret], clients: Option<&Clients>) -> Vec<Credential> {
    let secrets = secrets.iter().cloned().map(Credential::Secret);
    let clients = clients.cloned().map(Credential::Certificate);
    let mut all: Vec<_> = secrets.chain(clients).collect();
    if all.is_empty() {
        all.push(Credential::Nothing);
    }
    all
}

/// Parts of one region, in order, with the rights to each.
type GrantedRanges = Box<[(Range<u64>, Rights)]>;

/// A grant in force for the clients of one credential, with its keys.
pub(crate) struct Issued {
    pub(crate) name: String,
    pub(crate) credential: Credential,
    /// Of each region of the node, with the rights that it has anywhere; those that are not granted
    /// have none.
    pub(crate) regions: Vec<RegionInfo>,
    /// Of each region, what is opened of it, in order, unless all of it is alike.
    areas: Vec<Option<GrantedRanges>>,
    by_prefix: Arc<[PrefixArea]>,
    tagged: Arc<[TaggedBlocks]>,
    /// Random, one a region.
    pub(crate) keys: Vec<u64>,
    revoked: AtomicBool,
    /// Of all grants of this process, from 1; the same for all credentials of a grant.
    pub(crate) number: u64,
    /// What the connections of its clients hold, whatever their credentials.
    pub(crate) room: Arc<ByteBudget>,
    /// What its clients may ask for, whatever their credentials; nothing for no limit.
    pub(crate) meter: Option<Arc<RateMeter>>,
}

/// Grants that were ever issued by this process.
static ISSUED: AtomicU64 = AtomicU64::new(0);

impl Issued {
    /// The grant as it is for a node, once for each credential; `keys` are its own. The connections
    /// of its clients may hold `room` bytes together.
    pub(crate) fn all(grant: &Grant, node: &NodeInfo, room: usize) -> Result<Vec<Self>> {
        if grant.name.len() > LONGEST_NAME {
            return Err(FabricError::BadName {
                name: grant.name.clone(),
                reason: "a grant's name has at most 64 bytes",
            });
        }
        grant.rate.check()?;
        let mut regions = node.regions.clone();
        let mut areas = vec![None; regions.len()];
        if let Some(opened) = &grant.areas {
            for ((id, region), areas) in (0..).zip(&mut regions).zip(&mut areas) {
                let of_region = opened.iter().filter(|area| area.region == RegionId(id));
                *areas = areas_of(region, of_region)?;
            }
            for area in opened {
                known(area.region, &node.regions)?;
            }
        }
        let tagged = tagged(grant, &node.regions)?;
        for blocks in &*tagged {
            let region = &mut regions[usize::from(blocks.region.0)];
            region.rights = region.rights.and(blocks.rights);
        }
        let first = Self {
            tagged,
            name: grant.name.clone(),
            credential: Credential::Nothing,
            keys: Vec::new(),
            by_prefix: by_prefix(grant, &node.regions)?,
            regions,
            areas,
            revoked: AtomicBool::new(false),
            number: ISSUED.fetch_add(1, Ordering::Relaxed) + 1,
            room: Arc::new(ByteBudget::new(room)),
            meter: RateMeter::new(grant.rate).map(Arc::new),
        };
        let credentials = credentials(&grant.secrets, grant.clients.as_ref());
        Ok(credentials.into_iter().map(|by| first.by(by)).collect())
    }

    /// The same grant for clients of another credential.
    pub(crate) fn by(&self, credential: Credential) -> Self {
        Self {
            name: self.name.clone(),
            credential,
            keys: self.regions.iter().map(|_| rand::random()).collect(),
            regions: self.regions.clone(),
            areas: self.areas.clone(),
            by_prefix: Arc::clone(&self.by_prefix),
            tagged: Arc::clone(&self.tagged),
            revoked: AtomicBool::new(false),
            number: self.number,
            room: Arc::clone(&self.room),
            meter: self.meter.clone(),
        }
    }

    /// The secret that its clients know.
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match &self.credential {
            Credential::Secret(secret) => Some(secret),
            Credential::Nothing | Credential::Certificate(_) => None,
        }
    }

    /// Refuses what its clients ask for from now on; false if that was so already.
    fn revoke(&self) -> bool {
        !self.revoked.swap(true, Ordering::AcqRel)
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

    /// What the keys begin with that calls may use in a part of a region, and the rights to them.
    pub(crate) fn keys(&self, region: RegionId, bytes: &Range<u64>) -> Option<(&[u8], Rights)> {
        let mut areas = self.by_prefix.iter();
        let area = areas.find(|area| {
            let Range { start, end } = area.bytes;
            area.region == region && start <= bytes.start && bytes.end <= end
        })?;
        Some((&area.prefix, area.rights))
    }

    /// Checks an access that lies in its region, which has the needed rights somewhere.
    #[inline]
    pub(crate) fn check_area(&self, at: RemoteAddr, len: u64, needed: Rights) -> Result<()> {
        match self.areas.get(usize::from(at.region.0)) {
            Some(Some(areas)) => check_within(areas, at, len, needed),
            _ => Ok(()),
        }
    }

    /// Whether it opens blocks by what their regions say.
    pub(crate) fn has_tagged(&self) -> bool {
        !self.tagged.is_empty()
    }

    /// Whether it opens these bytes so, by what `load` says of words of their region.
    pub(crate) fn opens_tagged(
        &self,
        at: RemoteAddr,
        len: u64,
        needed: Rights,
        load: impl Fn(u64) -> u64,
    ) -> bool {
        // The access lies in the region.
        let bytes = at.offset..at.offset + len;
        let mut tagged = self.tagged.iter();
        tagged.any(|blocks| {
            blocks.region == at.region && blocks.rights.allow(needed) && blocks.have(&bytes, &load)
        })
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
) -> Result<Option<GrantedRanges>> {
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

/// The region of that number, of these.
fn known(region: RegionId, regions: &[RegionInfo]) -> Result<&RegionInfo> {
    let found = regions.get(usize::from(region.0));
    found.ok_or(FabricError::UnknownRegion {
        node: crate::NodeId(0),
        region,
        regions: regions.len(),
    })
}

/// The areas of which a grant opens single keys, with no more rights than the node gives.
fn by_prefix(grant: &Grant, regions: &[RegionInfo]) -> Result<Arc<[PrefixArea]>> {
    let bad = |area: &PrefixArea, limit| FabricError::BadOption {
        option: "the start of a grant's area of single keys",
        value: area.bytes.start,
        limit,
    };
    let overlaps = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
    let mut all: Vec<PrefixArea> = Vec::with_capacity(grant.by_prefix.len());
    for area in &grant.by_prefix {
        let region = known(area.region, regions)?;
        if area.bytes.is_empty() || area.bytes.end > region.len {
            return Err(bad(area, "before its own end, which is in the region"));
        }
        let opened = grant.areas.iter().flatten();
        let mut opened = opened.map(|opened| (opened.region, &opened.bytes));
        let mut before = all.iter().map(|before| (before.region, &before.bytes));
        let taken = |(of, bytes): (RegionId, &Range<u64>)| {
            of == area.region && overlaps(bytes, &area.bytes)
        };
        if grant.areas.is_none() || opened.any(taken) || before.any(taken) {
            return Err(bad(area, "outside of the grant's other areas"));
        }
        all.push(PrefixArea {
            rights: area.rights.masked_by(region.rights),
            ..area.clone()
        });
    }
    Ok(all.into())
}

/// The blocks that a grant opens by what their regions say, with no more rights than the node
/// gives.
fn tagged(grant: &Grant, regions: &[RegionInfo]) -> Result<Arc<[TaggedBlocks]>> {
    let mut all = Vec::with_capacity(grant.tagged.len());
    for blocks in &grant.tagged {
        let region = known(blocks.region, regions)?;
        let words = region.len / blocks.block.max(1);
        let end = blocks
            .words_at
            .saturating_add(words.saturating_add(1).saturating_mul(8));
        let are_some = blocks.block.is_power_of_two() && blocks.words_at.is_multiple_of(8);
        if grant.areas.is_none() || !are_some || end > region.len {
            return Err(FabricError::BadOption {
                option: "the words of a grant's blocks",
                value: blocks.words_at,
                limit: "in the region, one for each block of a power of two of bytes",
            });
        }
        all.push(TaggedBlocks {
            rights: blocks.rights.masked_by(region.rights),
            ..blocks.clone()
        });
    }
    Ok(all.into())
}

/// All grants of a node, by name: of each what was issued last, once for each credential.
#[derive(Default)]
pub(crate) struct GrantRegistry(RwLock<HashMap<String, Vec<Arc<Issued>>>>);

impl GrantRegistry {
    /// Puts a grant in force, with keys of its own. One of the same name is revoked.
    pub(crate) fn issue(&self, grant: &Grant, node: &NodeInfo, room: usize) -> Result<()> {
        let issued = Issued::all(grant, node, room)?;
        self.put_in_force(issued.into_iter().map(Arc::new).collect());
        Ok(())
    }

    /// Puts a grant in force in place of what was issued under its name, which is revoked but for
    /// what is among the new; returns whether anything was revoked.
    pub(crate) fn put_in_force(&self, issued: Vec<Arc<Issued>>) -> bool {
        let Some(first) = issued.first() else {
            return false;
        };
        let name = first.name.clone();
        let mut grants = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = grants.insert(name.clone(), issued);
        let stays = |one: &Arc<Issued>| grants[&name].iter().any(|new| Arc::ptr_eq(new, one));
        let ended = before.into_iter().flatten().filter(|one| !stays(one));
        ended.fold(false, |any, one| one.revoke() | any)
    }

    /// Ends a grant; false if there is none in force by that name.
    pub(crate) fn revoke(&self, name: &str) -> bool {
        self.find(name)
            .iter()
            .fold(false, |any, one| one.revoke() | any)
    }

    /// What was issued last under that name, all of which may be revoked.
    pub(crate) fn find(&self, name: &str) -> Vec<Arc<Issued>> {
        let grants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        grants.get(name).cloned().unwrap_or_default()
    }

    /// How many are in force.
    pub(crate) fn in_force(&self) -> usize {
        let grants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let in_force = |all: &&Vec<Arc<Issued>>| all.iter().any(|one| !one.is_revoked());
        grants.values().filter(in_force).count()
    }

    /// Those in force that are opened by certificates.
    pub(crate) fn by_certificates(&self) -> Vec<String> {
        let grants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let opened = |one: &Arc<Issued>| {
            matches!(one.credential, Credential::Certificate(_)) && !one.is_revoked()
        };
        let names = grants.iter().filter(|(_, all)| all.iter().any(opened));
        names.map(|(name, _)| name.clone()).collect()
    }

    /// Whether any of them needs a secret.
    pub(crate) fn need_secrets(&self) -> bool {
        self.any(|one| one.secret().is_some())
    }

    /// Whether any of them needs a certificate.
    pub(crate) fn need_certificates(&self) -> bool {
        self.any(|one| matches!(one.credential, Credential::Certificate(_)))
    }

    fn any(&self, is: impl Fn(&Issued) -> bool) -> bool {
        let grants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        grants.values().flatten().any(|one| is(one))
    }
}

#[cfg(test)]
#[path = "grant_tests.rs"]
mod tests;

//! RDMA devices: which exist, and which port and address to use.

use super::abi::{
    IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, IBV_LINK_LAYER_ETHERNET, IBV_PORT_ACTIVE,
    ibv_context, ibv_device, ibv_device_attr, ibv_gid_entry, ibv_port_attr,
};
use super::library::Library;
use crate::{FabricError, Result};
use std::ffi::CStr;
use std::fmt;
use std::net::IpAddr;
use std::ptr::NonNull;
use std::sync::Arc;

/// Which RDMA device, port and address to use. By default the port that has the IP address of the
/// set-up connection, else the first active port there is.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct DeviceOptions {
    /// The device's name, such as `mlx5_0`.
    pub device: Option<String>,
    /// The port's number, from 1 on.
    pub port: Option<u8>,
    /// The address, an index into the port's table of GIDs. By default the one with the IP address
    /// of the set-up connection, else a RoCE v2 one; InfiniBand uses index 0.
    pub gid_index: Option<u32>,
}

/// An open device, and the port of it that is used.
pub(super) struct Device {
    context: NonNull<ibv_context>,
    pub(super) library: &'static Library,
    pub(super) name: String,
    pub(super) attributes: ibv_device_attr,
    pub(super) port: Port,
}

// SAFETY: libibverbs' contexts may be used from any thread, by several at a time.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// A port with the address that is used.
#[derive(Clone, Copy)]
pub(super) struct Port {
    pub(super) number: u8,
    pub(super) attributes: ibv_port_attr,
    pub(super) gid_index: u8,
    pub(super) gid: [u8; 16],
}

impl Port {
    /// Whether peers are addressed by GIDs, as on RoCE, rather than by LIDs.
    pub(super) fn is_ethernet(&self) -> bool {
        u32::from(self.attributes.link_layer) == IBV_LINK_LAYER_ETHERNET
    }
}

impl Device {
    /// Opens the device that was chosen; `local` is the set-up connection's own address, if it has
    /// one.
    ///
    /// # Errors
    /// [`FabricError::NoRdmaDevice`].
    pub(super) fn open(options: &DeviceOptions, local: Option<IpAddr>) -> Result<Arc<Self>> {
        let library = Library::get()?;
        let list = DeviceList::get(library)?;
        let mut reasons = Vec::new();
        let mut first = None;
        for raw in list.devices() {
            let name = list.name(raw);
            if options
                .device
                .as_ref()
                .is_some_and(|wanted| *wanted != name)
            {
                reasons.push(format!("{name} is not the one asked for"));
                continue;
            }
            match Self::open_one(library, raw, name, options, local) {
                Ok((device, true)) => return Ok(Arc::new(device)),
                Ok((device, false)) => first = first.or(Some(device)),
                Err(reason) => reasons.push(reason),
            }
        }
        first.map(Arc::new).ok_or_else(|| {
            let wanted = options.device.as_ref();
            let wanted = wanted.map_or(String::new(), |name| format!(" named {name:?}"));
            let reason = if reasons.is_empty() {
                "this machine has none".into()
            } else {
                format!("none{wanted} can be used: {}", reasons.join("; "))
            };
            FabricError::NoRdmaDevice { reason }
        })
    }

    /// Opens one device on its best port; says whether that has the address `local`.
    fn open_one(
        library: &'static Library,
        raw: *mut ibv_device,
        name: String,
        options: &DeviceOptions,
        local: Option<IpAddr>,
    ) -> std::result::Result<(Self, bool), String> {
        // SAFETY: `raw` is of a list that is not freed yet.
        let context = NonNull::new(unsafe { (library.open_device)(raw) })
            .ok_or_else(|| format!("{name} cannot be opened: {}", last_error()))?;
        // SAFETY: zeros are values of these plain structures of integers.
        let (attributes, port) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let mut device = Self {
            context,
            library,
            name,
            attributes,
            port: Port {
                number: 0,
                attributes: port,
                gid_index: 0,
                gid: [0; 16],
            },
        };
        // SAFETY: the context is open, and the structure is as the header declares it.
        let failed = unsafe { (library.query_device)(context.as_ptr(), &mut device.attributes) };
        if failed != 0 {
            return Err(format!(
                "{} cannot be asked: {}",
                device.name,
                os_error(failed)
            ));
        }
        let gids = device.gids();
        let mut first = None;
        for number in 1..=device.attributes.phys_port_cnt {
            if options.port.is_some_and(|wanted| wanted != number) {
                continue;
            }
            let Some(attributes) = device.active_port(number) else {
                continue;
            };
            let gids = gids.iter().filter(|gid| gid.port_num == u32::from(number));
            let Some((gid, is_local)) = choose(gids, options.gid_index, local) else {
                continue;
            };
            let port = Port {
                number,
                attributes,
                // Indices past 255 do not fit a path's description and are not chosen.
                gid_index: gid.gid_index as u8,
                gid: gid.gid.raw,
            };
            if is_local {
                device.port = port;
                return Ok((device, true));
            }
            first = first.or(Some(port));
        }
        match first {
            Some(port) => {
                device.port = port;
                Ok((device, false))
            }
            None => Err(format!(
                "{} has no active port with an address that was asked for",
                device.name
            )),
        }
    }

    pub(super) fn context(&self) -> *mut ibv_context {
        self.context.as_ptr()
    }

    fn active_port(&self, number: u8) -> Option<ibv_port_attr> {
        // SAFETY: zeros are a value of this plain structure of integers.
        let mut attributes: ibv_port_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open; the structure is at least as long as what the function
        // fills.
        let failed = unsafe { (self.library.query_port)(self.context(), number, &mut attributes) };
        (failed == 0 && attributes.state == IBV_PORT_ACTIVE).then_some(attributes)
    }

    /// The addresses of all ports.
    fn gids(&self) -> Vec<ibv_gid_entry> {
        const MOST: usize = 1024;
        // SAFETY: zeros are a value of this plain structure of integers.
        let mut entries = vec![unsafe { std::mem::zeroed::<ibv_gid_entry>() }; MOST];
        // SAFETY: the function fills at most `MOST` entries of the size given.
        let count = unsafe {
            (self.library.query_gid_table)(
                self.context(),
                entries.as_mut_ptr(),
                MOST,
                0,
                size_of::<ibv_gid_entry>(),
            )
        };
        entries.truncate(usize::try_from(count).unwrap_or(0));
        entries.retain(|entry| entry.gid_index <= u32::from(u8::MAX));
        entries
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: whatever was made of the context holds the device, so that nothing of it is left.
        unsafe { (self.library.close_device)(self.context.as_ptr()) };
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.name, self.port.number)
    }
}

/// Chooses an address of a port; says whether it is that of the set-up connection.
fn choose<'g>(
    gids: impl Iterator<Item = &'g ibv_gid_entry> + Clone,
    index: Option<u32>,
    local: Option<IpAddr>,
) -> Option<(&'g ibv_gid_entry, bool)> {
    let local = local.map(|ip| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    });
    let is_local = |gid: &ibv_gid_entry| Some(gid.gid.raw) == local;
    if let Some(index) = index {
        let mut gids = gids.filter(|gid| gid.gid_index == index);
        return gids.next().map(|gid| (gid, is_local(gid)));
    }
    // The best is the least; of equals the first.
    let rank = |gid: &&ibv_gid_entry| {
        let is_ipv4 = gid
            .gid
            .raw
            .starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        let kind = match gid.gid_type {
            IBV_GID_TYPE_ROCE_V2 => 0,
            IBV_GID_TYPE_ROCE_V1 => 2,
            _ => 1,
        };
        (!is_local(gid), kind, !is_ipv4)
    };
    gids.min_by_key(rank).map(|gid| (gid, is_local(gid)))
}

/// The devices of this machine, held while one of them is opened.
struct DeviceList {
    library: &'static Library,
    list: NonNull<*mut ibv_device>,
    count: usize,
}

impl DeviceList {
    fn get(library: &'static Library) -> Result<Self> {
        let mut count = 0;
        // SAFETY: the function stores the count and returns a list, or nothing.
        let list = unsafe { (library.get_device_list)(&mut count) };
        let list = NonNull::new(list).ok_or_else(|| FabricError::NoRdmaDevice {
            reason: format!(
                "the kernel's RDMA drivers cannot be asked: {}",
                last_error()
            ),
        })?;
        Ok(Self {
            library,
            list,
            count: usize::try_from(count).unwrap_or(0),
        })
    }

    fn devices(&self) -> impl Iterator<Item = *mut ibv_device> {
        // SAFETY: the list has `count` devices, and is freed when `self` is dropped.
        unsafe { std::slice::from_raw_parts(self.list.as_ptr(), self.count) }
            .iter()
            .copied()
    }

    fn name(&self, device: *mut ibv_device) -> String {
        // SAFETY: the device is of this list; its name is a C string in it.
        let name = unsafe { CStr::from_ptr((self.library.get_device_name)(device)) };
        name.to_string_lossy().into_owned()
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the list is freed once; devices that were opened stay open.
        unsafe { (self.library.free_device_list)(self.list.as_ptr()) };
    }
}

/// What the system says of the call that failed last on this thread.
pub(super) fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

/// What the system says of an error number that a function returned.
pub(super) fn os_error(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::abi::ibv_gid;

    const IBV_GID_TYPE_IB: u32 = 0;

    fn gid(gid_index: u32, gid_type: u32, ip: &str) -> ibv_gid_entry {
        let raw = match ip.parse().unwrap() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        ibv_gid_entry {
            gid: ibv_gid { raw },
            gid_index,
            port_num: 1,
            gid_type,
            ndev_ifindex: 0,
        }
    }

    #[test]
    fn the_address_of_the_connection_is_preferred_and_then_roce_v2() {
        let gids = [
            gid(0, IBV_GID_TYPE_ROCE_V1, "fe80::1"),
            gid(1, IBV_GID_TYPE_ROCE_V2, "fe80::1"),
            gid(2, IBV_GID_TYPE_ROCE_V1, "10.0.0.1"),
            gid(3, IBV_GID_TYPE_ROCE_V2, "10.0.0.1"),
            gid(4, IBV_GID_TYPE_ROCE_V2, "10.0.0.2"),
        ];
        let chosen = |index, local: &str| {
            let local = Some(local.parse().unwrap());
            choose(gids.iter(), index, local).map(|(gid, is_local)| (gid.gid_index, is_local))
        };
        assert_eq!(chosen(None, "10.0.0.2"), Some((4, true)));
        assert_eq!(chosen(None, "10.0.0.1"), Some((3, true)));
        assert_eq!(chosen(None, "127.0.0.1"), Some((3, false)));
        assert_eq!(chosen(Some(0), "10.0.0.1"), Some((0, false)));
        assert_eq!(chosen(Some(2), "10.0.0.1"), Some((2, true)));
        assert_eq!(chosen(Some(9), "10.0.0.1"), None);
        let infiniband = [gid(0, IBV_GID_TYPE_IB, "fe80::2")];
        assert!(matches!(
            choose(infiniband.iter(), None, None),
            Some((_, false))
        ));
    }
}

//! Memory and addresses that cannot be had: refused with the reason.

use farslot::fabric::FabricError;
use farslot::{OpenOptions, Server, Store, StoreError};

const MIB: u64 = 1 << 20;

#[test]
fn memory_that_is_not_there_is_refused() {
    let too_small = Store::embedded_with(1000, OpenOptions::default()).map(|_| ());
    assert!(matches!(
        too_small,
        Err(StoreError::TooSmall { bytes: 1000, .. })
    ));
    let beyond = Store::embedded_with(1 << 60, OpenOptions::default()).map(|_| ());
    assert!(matches!(
        beyond,
        Err(StoreError::Fabric(FabricError::Memory { .. }))
    ));
    let simulated = Store::open("sim://cx5-edr?memory=1024PiB").map(|_| ());
    assert!(matches!(
        simulated,
        Err(StoreError::Fabric(FabricError::Memory { .. }))
    ));
}

#[test]
fn addresses_that_lead_nowhere_say_why() {
    let open = |address: &str| Store::open(address).map(|_| ()).unwrap_err();
    assert!(matches!(open("ftp://x"), StoreError::UnknownScheme { .. }));
    assert!(matches!(open("shm://"), StoreError::BadAddress { .. }));
    assert!(matches!(
        open("sim://no-such-nic"),
        StoreError::BadAddress { .. }
    ));
    assert!(matches!(
        open("shm://nobody-serves-this"),
        StoreError::Fabric(FabricError::NoSuchRegion { .. })
    ));
    assert!(matches!(
        Server::start("embedded", MIB).map(|_| ()),
        Err(StoreError::NotServable { .. })
    ));
}

//! Grants as they are issued, checked and revoked.

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
    let grants = GrantRegistry::default();
    let mut grant = Grant::limited("some", None, &node, Rights::ALL);
    grant.areas.as_mut().unwrap().remove(0);
    grants.issue(&grant, &node, 1 << 20).unwrap();
    let first = grants.find("some").remove(0);
    let rights: Vec<_> = first.regions.iter().map(|region| region.rights).collect();
    assert_eq!(rights, [Rights::NONE, Rights::READ, Rights::ALL]);

    // Granted anew: other keys, and the ones before are void.
    grants.issue(&grant, &node, 1 << 20).unwrap();
    let again = grants.find("some").remove(0);
    assert!(first.is_revoked() && !again.is_revoked());
    assert_ne!(first.keys, again.keys);

    assert!(grants.revoke("some") && !grants.revoke("some") && !grants.revoke("none"));
    assert!(grants.find("some")[0].is_revoked());
    assert!(grants.find("none").is_empty() && !grants.need_secrets());
    grant.areas = Some(vec![Area::of_region(RegionId(3), Rights::READ)]);
    assert!(matches!(
        grants.issue(&grant, &node, 1 << 20),
        Err(FabricError::UnknownRegion { regions: 3, .. })
    ));
}

/// A node of 1,000 bytes that nobody may use atomics on.
fn readable_and_writable() -> NodeInfo {
    NodeInfo {
        incarnation: 1,
        regions: vec![RegionInfo {
            len: 1000,
            rights: Rights::READ.and(Rights::WRITE),
        }],
        page_bytes: 4096,
    }
}

fn of_areas(areas: &[(Range<u64>, Rights)]) -> Result<Issued> {
    let node = readable_and_writable();
    let areas = areas.iter().map(|(bytes, rights)| Area {
        region: RegionId(0),
        bytes: bytes.clone(),
        rights: *rights,
    });
    let grant = Grant {
        areas: Some(areas.collect()),
        ..Grant::everything(None)
    };
    Ok(Issued::all(&grant, &node, 1 << 20)?.remove(0))
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
fn single_keys_are_opened_in_their_area_and_no_bytes_of_it() {
    let node = readable_and_writable();
    let of = |bytes, areas| {
        let area = PrefixArea {
            region: RegionId(0),
            bytes,
            rights: Rights::ALL,
            prefix: b"a:".to_vec(),
        };
        let grant = Grant {
            areas,
            by_prefix: vec![area],
            ..Grant::everything(None)
        };
        Ok(Issued::all(&grant, &node, 1 << 20)?.remove(0))
    };
    let catalog = Area {
        region: RegionId(0),
        bytes: 0..104,
        rights: Rights::READ,
    };
    for areas in [vec![], vec![catalog.clone()]] {
        let issued = of(200..400, Some(areas)).unwrap();
        let rights = Rights::READ.and(Rights::WRITE);
        for bytes in [200..400, 208..216] {
            assert_eq!(issued.keys(RegionId(0), &bytes), Some((&b"a:"[..], rights)));
        }
        assert_eq!(issued.keys(RegionId(1), &(200..400)), None);
        for bytes in [199..300, 300..401, 0..104] {
            assert_eq!(issued.keys(RegionId(0), &bytes), None);
        }
        let at = RemoteAddr {
            node: crate::NodeId(0),
            region: RegionId(0),
            offset: 200,
        };
        let region = &issued.regions[0];
        let read = crate::verb::check_access(at, 8, Rights::READ, region)
            .and_then(|()| issued.check_area(at, 8, Rights::READ));
        assert!(matches!(read, Err(FabricError::AccessDenied { .. })));
    }
    for (bytes, areas) in [
        (200..1001, Some(vec![])),
        (200..200, Some(vec![])),
        (96..400, Some(vec![catalog])),
        (200..400, None),
    ] {
        let issued: Result<Issued> = of(bytes, areas);
        let refused = matches!(issued.map(drop), Err(FabricError::BadOption { .. }));
        assert!(refused);
    }
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
    let everything = of_areas(&[(0..u64::MAX, Rights::READ)]).unwrap();
    assert_eq!(everything.areas, [None]);
}

#[test]
fn what_stays_of_a_grant_is_not_revoked_with_what_goes() {
    let secret = |byte| Secret::new([byte; 16]).unwrap();
    let node = NodeInfo {
        incarnation: 1,
        regions: Vec::new(),
        page_bytes: 4096,
    };
    let grants = GrantRegistry::default();
    let both = Grant {
        secrets: vec![secret(1), secret(2)],
        clients: Some(Clients::Any),
        ..Grant::everything(None)
    };
    grants.issue(&both, &node, 1 << 20).unwrap();
    let [one, two, certificate] = &grants.find("default")[..] else {
        panic!("one for each credential");
    };
    assert!(one.number == two.number && Arc::ptr_eq(&one.room, &certificate.room));
    let three = Arc::new(one.by(Credential::Secret(secret(3))));
    assert!(grants.put_in_force(vec![Arc::clone(two), Arc::clone(&three)]));
    assert!(one.is_revoked() && !two.is_revoked() && certificate.is_revoked());
    assert!(grants.need_secrets() && !grants.need_certificates());
    assert!(grants.revoke("default") && two.is_revoked() && three.is_revoked());
}

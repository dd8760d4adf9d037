//! Tables by name: made once, found by everybody, refused with the reason.

use farslot::fabric::{FabricError, Rights};
use farslot::index::IndexError;
use farslot::{
    FieldSize, HashKind, OpenOptions, Server, SlotKind, Store, StoreError, TableOptions,
};

const MIB: u64 = 1 << 20;

fn store() -> Store {
    Store::embedded_with(64 * MIB, OpenOptions::default()).unwrap()
}

fn small() -> TableOptions {
    TableOptions::new(100)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
}

#[test]
fn a_name_is_given_once_and_missing_ones_list_the_others() {
    let store = store();
    let missing = store.table("files").map(|_| ()).unwrap_err().to_string();
    assert_eq!(missing, "there is no table \"files\"; the store has none");
    store.create("files", &small()).unwrap();
    store.create("dirs", &small()).unwrap();
    assert_eq!(
        store.create("files", &small()),
        Err(StoreError::TableExists {
            name: "files".into()
        })
    );
    let missing = store.table("links").map(|_| ()).unwrap_err().to_string();
    assert!(missing.ends_with("the store has files, dirs"), "{missing}");
    let names: Vec<_> = store
        .tables()
        .unwrap()
        .into_iter()
        .map(|table| table.name)
        .collect();
    assert_eq!(names, ["files", "dirs"]);
}

#[test]
fn bad_names_and_options_are_refused() {
    let store = store();
    for name in ["", "a\nb", &"n".repeat(129)] {
        assert!(matches!(
            store.create(name, &small()),
            Err(StoreError::BadName { .. })
        ));
    }
    let bad = [
        TableOptions::new(0),
        small().load_factor(0.0),
        small().slots(SlotKind::Word),
        TableOptions::new(10).hash(HashKind::Knuth),
        small().values(FieldSize::Fixed(u32::MAX)),
    ];
    for options in bad {
        assert!(matches!(
            store.create("t", &options),
            Err(StoreError::Index(IndexError::BadOption { .. }))
        ));
    }
    assert_eq!(store.tables().unwrap(), []);
}

#[test]
fn memory_that_is_not_there_is_refused_and_the_rest_stays_usable() {
    let store = store();
    let large = TableOptions::new(100 * MIB)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8));
    match store.create("large", &large) {
        Err(StoreError::OutOfMemory {
            requested,
            free,
            total,
        }) => {
            assert!(requested > u128::from(total) && free == total && total < 64 * MIB);
        }
        other => panic!("{other:?}"),
    }
    store.create("small", &small()).unwrap();
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
fn the_catalog_takes_no_more_than_it_holds() {
    let store = store();
    for table in 0..farslot::MOST_TABLES {
        store.create(&format!("table-{table}"), &small()).unwrap();
    }
    assert_eq!(
        store.create("one-more", &small()),
        Err(StoreError::TooManyTables {
            limit: farslot::MOST_TABLES
        })
    );
    store
        .table("table-255")
        .unwrap()
        .put(&[1; 8], &[2; 8])
        .unwrap();
}

#[test]
fn of_many_creators_of_one_name_one_wins() {
    let store = store();
    let made: usize = std::thread::scope(|scope| {
        let creators: Vec<_> = (0..8)
            .map(|creator| {
                let store = store.clone();
                scope.spawn(move || {
                    let same = store.create("same", &small()).is_ok();
                    store.create(&format!("own-{creator}"), &small()).unwrap();
                    usize::from(same)
                })
            })
            .collect();
        creators
            .into_iter()
            .map(|creator| creator.join().unwrap())
            .sum()
    });
    assert_eq!(made, 1);
    let tables = store.tables().unwrap();
    assert_eq!(tables.len(), 9);
    let mut offsets: Vec<_> = tables.iter().map(|table| table.offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    assert_eq!(offsets.len(), 9, "no two tables share memory");
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

#[test]
fn a_read_only_store_answers_and_refuses_writes() {
    let name = format!("shm://test-ro-{}", std::process::id());
    for address in [&name, "tcp://127.0.0.1:0"] {
        let server = Server::start(address, 16 * MIB).unwrap();
        refuse_writes(&server);
    }
}

fn refuse_writes(server: &Server) {
    server.store().create("t", &small()).unwrap();
    server
        .store()
        .table("t")
        .unwrap()
        .put(&[1; 8], &[2; 8])
        .unwrap();
    let options = OpenOptions {
        rights: Rights::READ,
        ..OpenOptions::default()
    };
    let store = Store::open_with(&server.addresses()[0].to_string(), options).unwrap();
    let table = store.table("t").unwrap();
    assert_eq!(table.get(&[1; 8]).unwrap().as_deref(), Some(&[2; 8][..]));
    for refused in [
        table.put(&[3; 8], &[4; 8]).map(|_| ()),
        table.remove(&[1; 8]).map(|_| ()),
        store.create("u", &small()).map(|_| ()),
    ] {
        assert!(matches!(
            refused,
            Err(StoreError::Fabric(FabricError::AccessDenied { .. }))
        ));
    }
}

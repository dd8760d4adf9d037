use super::*;
use farslot::fabric::sim::NicProfile;
use farslot::read_cost;

fn simulated(profile: NicProfile) -> Calibration {
    let mut bed = SimBed::new(profile, 1);
    measure::calibrate(&mut bed, "sim://test", Some(32), &|_| {}).unwrap()
}

fn within(part: f64, measured: f64, true_value: f64) -> bool {
    let ratio = measured / true_value;
    println!("{measured} of {true_value}: {ratio}");
    (ratio - 1.0).abs() < part
}

/// The simulator is what its profile says, seen through the verbs alone.
#[test]
fn a_simulated_nic_gives_back_its_own_profile() {
    let slower = NicProfile {
        name: "slower".into(),
        read_latency_ns: 3000.0,
        latency_per_byte_ns: 0.2,
        atomic_ns: 60.0,
        link_bytes_per_ns: 5.0,
        ..NicProfile::connectx5_edr()
    };
    for truth in [NicProfile::connectx5_edr(), slower] {
        let calibration = simulated(truth.clone());
        let found = &calibration.profile;
        assert!(within(0.01, found.read_latency_ns, truth.read_latency_ns));
        assert!(within(
            0.01,
            found.latency_per_byte_ns,
            truth.latency_per_byte_ns
        ));
        assert!(within(
            0.03,
            found.requester_ns.per_message,
            truth.requester_ns.per_message
        ));
        assert!(within(
            0.03,
            found.responder_ns.per_message,
            truth.responder_ns.per_message
        ));
        assert!(within(
            0.03,
            found.responder_ns.per_byte,
            truth.responder_ns.per_byte
        ));
        assert!(within(
            0.01,
            found.link_bytes_per_ns,
            truth.link_bytes_per_ns
        ));
        assert!(within(0.03, found.atomic_ns, truth.atomic_ns));
        for row in &calibration.occupancy {
            assert!((row.ratio - 1.0).abs() < 0.03, "{row:?}");
        }
        for row in &calibration.verbs {
            assert!(row.latency_ns > truth.read_latency_ns, "{row:?}");
        }
        let model = read_cost(found);
        assert!(within(0.03, model.peak_reads_per_second, 87.17e6));
        // The file says the same, and can be simulated.
        let text = file_text(&calibration).unwrap();
        assert_eq!(NicProfile::parse(&text).unwrap(), *found);
    }
}

#[test]
fn a_seed_gives_the_same_profile() {
    let profile = NicProfile::connectx5_edr();
    let run = |seed| {
        let mut bed = SimBed::new(profile.clone(), seed);
        measure::calibrate(&mut bed, "sim://test", Some(8), &|_| {}).unwrap()
    };
    assert_eq!(run(3), run(3));
}

/// Real memory is measured in a table of its own, which stays empty, and other tables stay as they
/// are.
#[test]
#[ignore = "long: scripts/test --all"]
fn real_memory_is_measured_beside_others_tables() {
    let name = format!("shm://calibrate-{}", std::process::id());
    for address in [&name, "tcp://127.0.0.1:0"] {
        let server = farslot::Server::start(address, 16 << 20).unwrap();
        measure_beside_others(&server.addresses()[0].to_string());
    }
}

fn measure_beside_others(address: &str) {
    let store = Store::open(address).unwrap();
    store.create("mine", &TableOptions::new(1000)).unwrap();
    let mine = store.table("mine").unwrap();
    mine.put(b"key", b"value").unwrap();
    let options = Options {
        scratch_bytes: 1 << 20,
        clients: Some(1),
        seed: 0,
    };
    let calibration = run(address, OpenOptions::default(), &options, &|_| {}).unwrap();
    let again = scratch_table(&store, 1 << 20).unwrap();
    assert_eq!(mine.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(store.tables().unwrap().len(), 2);
    assert_eq!(again.name, SCRATCH_TABLE);
    assert_eq!(calibration.profile.validate(), Ok(()));
    let text = file_text(&calibration).unwrap();
    assert_eq!(NicProfile::parse(&text).unwrap(), calibration.profile);
    // With a record in it, it is nobody's to write to.
    let scratch = store.table(SCRATCH_TABLE).unwrap();
    scratch.put(b"abcd", b"efg\0").unwrap();
    scratch.flush().unwrap();
    assert!(matches!(
        run(address, OpenOptions::default(), &options, &|_| {}),
        Err(BenchError::ScratchInUse { .. })
    ));
}

#[test]
fn options_without_a_measurement_are_named() {
    let no_clients = Options {
        clients: Some(0),
        ..Options::default()
    };
    let small = Options {
        scratch_bytes: 1,
        ..Options::default()
    };
    for options in [no_clients, small] {
        assert!(
            run("embedded", OpenOptions::default(), &options, &|_| {})
                .unwrap_err()
                .is_usage()
        );
    }
    assert!(
        run(
            "sim://none",
            OpenOptions::default(),
            &Options::default(),
            &|_| {}
        )
        .is_err()
    );
}

//! What a device or a process has no more of.

use crate::{at, client, patient, served};
use farslot_fabric::verbs::{Agent, DeviceOptions, VerbsAgentOptions, VerbsEndpoint, VerbsOptions};
use farslot_fabric::*;
use std::process::Command;

#[test]
fn many_queue_pairs_are_served_side_by_side() {
    let (_node, agent) = served(4096);
    let clients: Vec<_> = (0..130).map(|_| client(&agent)).collect();
    for round in 0..2 {
        for (before, executor) in (0..).zip(&clients) {
            let added = executor.block_on(executor.endpoint().fetch_add(at(0), 1));
            assert_eq!(added, Ok(round * 130 + before));
        }
    }
    assert_eq!(agent.counters().connections, 130);
    drop(clients);
    crate::wait_until("all are let go", || agent.counters().connections == 0);
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let node = crate::node(8, Rights::ALL);
    let device = DeviceOptions {
        device: Some("mlx9_7".into()),
        ..DeviceOptions::default()
    };
    let options = VerbsAgentOptions {
        device: device.clone(),
        ..VerbsAgentOptions::default()
    };
    let error = Agent::start(node, &options).map(drop).unwrap_err();
    let FabricError::NoRdmaDevice { reason } = &error else {
        panic!("{error}");
    };
    assert!(
        reason.contains("mlx9_7") && reason.contains("is not the one"),
        "{reason}"
    );
    let (_node, agent) = served(8);
    let address = agent.address().to_string();
    let options = VerbsOptions {
        device,
        ..patient()
    };
    let error = VerbsEndpoint::connect(&[&address], &options)
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, FabricError::NoRdmaDevice { .. }), "{error}");
}

#[test]
fn a_port_and_an_address_can_be_chosen() {
    let (_node, agent) = served(4096);
    let address = agent.address().to_string();
    let device = |port, gid_index| DeviceOptions {
        device: Some(agent.device().into()),
        port,
        gid_index,
    };
    let connect = |device| {
        let options = VerbsOptions {
            device,
            ..patient()
        };
        VerbsEndpoint::connect(&[&address], &options).map(drop)
    };
    assert_eq!(connect(device(Some(1), None)), Ok(()));
    for wrong in [device(Some(99), None), device(None, Some(254))] {
        let error = connect(wrong).unwrap_err();
        assert!(matches!(error, FabricError::NoRdmaDevice { .. }), "{error}");
    }
}

const LOCKED: &str = "FARSLOT_TEST_LOCKED_MEMORY";

/// Not a test of its own: what a process does that may lock little memory.
#[test]
fn little_locked_memory_process() {
    if std::env::var(LOCKED).is_err() {
        return;
    }
    let node = crate::node(64 << 20, Rights::ALL);
    let error = Agent::start(node, &VerbsAgentOptions::default())
        .map(drop)
        .unwrap_err();
    println!("refused: {error:?}: {error}");
}

#[test]
fn too_little_locked_memory_says_which_limit_it_is_and_how_to_raise_it() {
    // Root may lock what it likes: the process is nobody's.
    let program = std::env::current_exe().unwrap();
    let limited =
        "ulimit -l 1024 && exec \"$0\" --exact limits::little_locked_memory_process --nocapture";
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
        ])
        .args(["sh", "-c", limited])
        .arg(program)
        .env(LOCKED, "1")
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let refused = said.lines().find_map(|line| line.split_once("refused: "));
    let (_, refused) = refused.unwrap_or_else(|| panic!("{said}{output:?}"));
    assert!(
        refused.starts_with("LockedMemory { needed: 67108864"),
        "{refused}"
    );
    for part in [
        "limit: 1048576",
        "RLIMIT_MEMLOCK",
        "ulimit -l",
        "limits.conf",
        "LimitMEMLOCK",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
}

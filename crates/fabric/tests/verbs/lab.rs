//! What needs the lab itself, its two devices on their wire and its root's rights:
//! `scripts/test-verbs --here` leaves these out.

use crate::{at, patient, served};
use farslot_fabric::tcp::Refusal;
use farslot_fabric::verbs::{
    Agent, ConnectOptions, ServeOptions, VerbsAgentOptions, VerbsEndpoint, VerbsOptions,
};
use farslot_fabric::*;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).status();
    assert!(done.unwrap().success(), "ip {arguments}");
}

/// Cuts the wire for as long as it is held.
struct Cut;

impl Cut {
    fn new() -> Self {
        // Packets to the second device are lost, and nobody is told.
        Self::neighbour("02:77:00:00:00:99");
        Self
    }

    fn neighbour(address: &str) {
        ip(&format!(
            "neigh replace 10.77.0.2 lladdr {address} dev lab0 nud permanent"
        ));
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        Self::neighbour("02:77:00:00:00:01");
    }
}

#[test]
fn devices_are_chosen_by_address_and_a_lost_network_is_noticed_in_time() {
    const VERB_TIMEOUT: Nanos = 1_000_000_000;
    /// Long enough for a NIC that has few turns of a busy processor to give up before it.
    const PEER_TIMEOUT: Duration = Duration::from_secs(10);
    assert_eq!(std::env::var("RDMA_LAB_DEVICES").as_deref(), Ok("2"));
    // Both devices are this machine's: only by its source address does a connection take the wire.
    ip("route replace local 10.77.0.2 dev lab1 table local proto kernel scope host src 10.77.0.1");
    let node = crate::node(4096, Rights::ALL);
    let options = VerbsAgentOptions::from(ServeOptions {
        listen: "10.77.0.2:0".into(),
        insecure: true,
        peer_timeout: PEER_TIMEOUT,
        ..ServeOptions::default()
    });
    let agent = Agent::start(node, &options).unwrap();
    assert_eq!(agent.device(), "rxe1");
    let options = VerbsOptions::from(ConnectOptions {
        limits: Limits {
            verb_timeout: VERB_TIMEOUT,
            ..Limits::default()
        },
        peer_timeout: PEER_TIMEOUT,
        ..ConnectOptions::default()
    });
    let address = agent.address().to_string();
    let endpoint = Rc::new(VerbsEndpoint::connect(&[address], &options).unwrap());
    assert_eq!(endpoint.device(), "rxe0");
    let executor = Executor::new(Rc::clone(&endpoint));
    assert_eq!(executor.block_on(endpoint.fetch_add(at(8), 1)), Ok(0));
    let node = NodeId(0);
    let is_down = || matches!(endpoint.node_state(node), Ok(NodeState::Down(_)));
    let is_up = || endpoint.is_up(node);

    // With a verb on its way: by the NIC or by the clock.
    let cut = Cut::new();
    let lost = executor.block_on(endpoint.fetch_add(at(8), 1)).unwrap_err();
    let after = VERB_TIMEOUT;
    assert_eq!(lost, FabricError::TimedOut { node, after });
    assert!(is_down());
    drop(cut);
    crate::wait_until("up again", is_up);
    let sum = executor.block_on(endpoint.fetch_add(at(8), 0)).unwrap();
    assert!(sum == 1 || sum == 2, "{sum}");

    // With none on its way: by the set-up connection, on both sides.
    let cut = Cut::new();
    crate::wait_until("known to be down", is_down);
    crate::wait_until("let go", || agent.counters().connections == 0);
    drop(cut);
    crate::wait_until("up again", is_up);
    assert_eq!(executor.block_on(endpoint.fetch_add(at(8), 0)), Ok(sum));
}

/// This process's own control group, which may have no more than so many objects of any device.
struct Group(&'static Path);

impl Group {
    fn new() -> Self {
        let root = Path::new("/sys/fs/cgroup");
        std::fs::write(root.join("cgroup.subtree_control"), "+rdma").unwrap();
        let group = Self(Path::new("/sys/fs/cgroup/farslot-test"));
        std::fs::create_dir(group.0).unwrap();
        std::fs::write(group.0.join("cgroup.procs"), "0").unwrap();
        group
    }

    fn limit(&self, device: &str, objects: &str) {
        let line = format!("{device} hca_object={objects}");
        std::fs::write(self.0.join("rdma.max"), line).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        std::fs::write("/sys/fs/cgroup/cgroup.procs", "0").unwrap();
        // A thread that has just ended keeps it busy for a moment.
        crate::wait_until("it is removed", || std::fs::remove_dir(self.0).is_ok());
    }
}

#[test]
fn a_device_without_another_queue_pair_says_so_on_either_side() {
    let group = Group::new();
    let (_node, agent) = served(4096);
    let first = crate::client(&agent);
    let address = agent.address().to_string();
    let current = || {
        let current = std::fs::read_to_string(group.0.join("rdma.current")).unwrap();
        let line = current
            .lines()
            .find_map(|line| line.strip_prefix(agent.device()));
        let (_, objects) = line.unwrap().split_once("hca_object=").unwrap();
        objects.trim().parse::<u32>().unwrap()
    };
    let used = current();
    let (mut at_client, mut at_agent) = (false, false);
    for more in 0.. {
        group.limit(agent.device(), &(used + more).to_string());
        match VerbsEndpoint::connect(&[&address], &patient()) {
            Ok(_) => break,
            Err(FabricError::NoQueuePair { limit, device, .. }) => {
                assert!(limit > 0 && device == agent.device());
                at_client = true;
            }
            Err(FabricError::NotAdmitted {
                reason: Refusal::NoQueuePair { limit },
                ..
            }) => {
                assert!(limit > 0);
                at_agent = true;
            }
            // Of what comes before a queue pair and after.
            Err(FabricError::Os { call, .. }) => assert!(call.starts_with("ibv_"), "{call}"),
            Err(other) => panic!("{other}"),
        }
        assert_eq!(first.block_on(first.endpoint().fetch_add(at(0), 0)), Ok(0));
        crate::wait_until("all is given back", || current() == used);
    }
    group.limit(agent.device(), "max");
    assert!(at_client && at_agent);
}

#[test]
fn memory_is_in_large_pages_where_the_machine_has_set_them_aside() {
    let set_aside = |pages: &str| std::fs::write("/proc/sys/vm/nr_hugepages", pages).unwrap();
    set_aside("8");
    let (node, agent) = served(4 << 20);
    assert_eq!(node.info().page_bytes, 2 << 20);
    let executor = crate::client(&agent);
    let endpoint = executor.endpoint();
    executor.block_on(async {
        let mut data = endpoint.core().buffers.take(4 << 20).unwrap();
        data.words_mut().fill(7);
        endpoint.write(at(0), data).await.unwrap();
        let read = endpoint.read(at(0), 4 << 20).await.unwrap();
        assert!(read.words().iter().all(|word| *word == 7));
    });
    drop((executor, agent, node));
    // And without where it has not.
    set_aside("0");
    let (node, agent) = served(4 << 20);
    assert_eq!(node.info().page_bytes, 4096);
    let executor = crate::client(&agent);
    assert_eq!(
        executor.block_on(executor.endpoint().fetch_add(at(0), 1)),
        Ok(0)
    );
}

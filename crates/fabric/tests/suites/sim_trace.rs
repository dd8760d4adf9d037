//! What a world tells of a run, and that it is the same run.

use farslot_fabric::sim::{
    Chance, ClientId, ClientStop, FaultPlan, FaultTime, NicProfile, RunEnd, Simulation, World,
};
use farslot_fabric::{
    Endpoint, EndpointExt, NodeId, OperationClass, RegionId, RemoteAddr, Rights, in_order,
};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

const PUT: OperationClass = OperationClass(2);
const PAGE: &str = include_str!("../../../../docs/contributing.md");

/// What was written, for who keeps a clone.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).unwrap()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

/// One client publishes a record of two words and stops for good; another reads them meanwhile, and
/// each READ is torn. Returns the digest of the run.
fn run(trace: Option<Kept>) -> u64 {
    let world = World::new(0, NicProfile::connectx5_edr());
    world.add_node(&[(4096, Rights::ALL)]);
    if let Some(trace) = trace {
        world.trace_to(trace);
    }
    world.set_faults(FaultPlan {
        torn_reads: Chance {
            probability: 1.0,
            up_to_ns: 60,
        },
        client_stops: vec![ClientStop {
            client: ClientId(0),
            when: FaultTime::At(2_000),
        }],
        ..FaultPlan::default()
    });
    let mut simulation = Simulation::new(world.clone());
    simulation.spawn_client(async |endpoint| {
        let record = endpoint.core().buffers.copy_of(&[0xab; 16]).unwrap();
        let published = async {
            let write = endpoint.write(at(64), record);
            in_order(write, endpoint.compare_swap(at(0), 0, 64)).await
        };
        endpoint.operation(PUT, published).await.unwrap().unwrap();
        endpoint.fetch_add(at(8), 1).await.unwrap();
    });
    simulation.spawn_client(async |endpoint| {
        let read = endpoint.read(at(64), 16).await.unwrap();
        assert_eq!(read.len(), 16);
    });
    assert_eq!(simulation.run(), RunEnd::Done);
    world.digest()
}

#[test]
fn a_trace_is_the_one_on_the_page_and_changes_nothing() {
    let kept = Kept::default();
    assert_eq!(run(Some(kept.clone())), run(None));
    let text = kept.text();
    assert!(PAGE.contains(&format!("```text\n{text}```")), "{text}");
}

//! Growth of CuckooDuo beside that of MapEmbed.

use farslot::fabric::sim::{NicProfile, SimEndpoint, World};
use farslot::fabric::{Executor, Limits, Nanos, NodeId, RegionId, RemoteAddr, Rights};
use farslot::index::Sizing;
use farslot::index::duo::{DuoGrowth, DuoLayout, DuoOptions, DuoOwner, DuoTable, GrowthMemory};
use farslot::index::{FieldSize, Index, IndexExt};
use farslot_lab::baseline::map_embed::MapEmbedTable;
use farslot_lab::baseline::{BaselineOptions, CleaningMode, CopyPace};
use std::rc::Rc;
use std::sync::Arc;

const TABLE: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 4096,
};
/// As in paper 001.
const ROUND_TRIP: Nanos = 3_200;
const VERB_TIMEOUT: Nanos = 1_000_000;

/// A table that can grow, in a world of its own.
struct Bed {
    world: World,
    layout: DuoLayout,
    memory: GrowthMemory,
}

impl Bed {
    fn new(options: &DuoOptions) -> Self {
        let layout = options.layout().unwrap();
        let end = TABLE.offset + u64::try_from(layout.table_bytes()).unwrap();
        let memory = GrowthMemory {
            mark: RemoteAddr { offset: 0, ..TABLE },
            start: RemoteAddr {
                offset: end.next_multiple_of(4096),
                ..TABLE
            },
            bytes: 2 * end + (1 << 20),
        };
        let profile = NicProfile {
            read_latency_ns: ROUND_TRIP as f64,
            ..NicProfile::connectx5_edr()
        };
        let world = World::new(1, profile);
        world.add_node(&[(memory.start.offset + memory.bytes, Rights::ALL)]);
        Self {
            world,
            layout,
            memory,
        }
    }

    /// An owner of several threads.
    fn owner(&self) -> Arc<DuoOwner> {
        DuoOwner::new(TABLE, self.layout.clone()).unwrap()
    }

    fn endpoint(&self) -> Rc<SimEndpoint> {
        self.world.endpoint(Limits {
            verb_timeout: VERB_TIMEOUT,
            ..Limits::default()
        })
    }

    fn thread_of(&self, owner: &Arc<DuoOwner>) -> (Executor<SimEndpoint>, DuoTable<SimEndpoint>) {
        let endpoint = self.endpoint();
        let growth = DuoGrowth::from(self.memory);
        let table = owner.table(Rc::clone(&endpoint)).with_growth(growth);
        (Executor::new(endpoint), table.unwrap())
    }
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// The paper's comparison, at the same NIC and with as much under way: what decides are the bytes,
/// of which both read the table once.
#[test]
#[ignore = "long: scripts/test --all"]
fn an_active_growth_takes_less_than_map_embeds() {
    for (field, slots, times) in [(64, 1 << 14, 1.15), (1024, 1 << 10, 1.3)] {
        let size = FieldSize::Fixed(field);
        let bed = Bed::new(&DuoOptions::new(Sizing {
            load_factor: Some(1.0),
            ..Sizing::new(slots, size, size, 7)
        }));
        let record = |number: u64| vec![(number % 251) as u8 + 1; field as usize - 8];
        let bytes = |number: u64| [&key(number)[..], &record(number)].concat();
        let (executor, table) = bed.thread_of(&bed.owner());
        let ours = executor.block_on(async {
            for number in 0..slots * 85 / 100 {
                let bytes = bytes(number);
                table.put(&bytes, &bytes).await.unwrap();
            }
            table.grow(&bed.memory, 2).await.unwrap();
            let begun = table.now();
            table.sweep().await.unwrap();
            table.now() - begun
        });
        let options = BaselineOptions {
            bucket_slots: 8,
            stash: 32,
            ..BaselineOptions::new(slots, size, size, 7)
        };
        let took = [CopyPace::SIDE_BY_SIDE, CopyPace::BUCKET_BY_BUCKET].map(|pace| {
            // Room for a table of twice as many slots behind one of five times as many.
            let bed = Bed::new(&DuoOptions::new(Sizing {
                load_factor: Some(0.2),
                ..Sizing::new(slots, size, size, 7)
            }));
            let endpoint = bed.endpoint();
            let table = MapEmbedTable::create(Rc::clone(&endpoint), TABLE, &options).unwrap();
            Executor::new(endpoint).block_on(async {
                for number in 0..slots * 85 / 100 {
                    let bytes = bytes(number);
                    table.put(&bytes, &bytes).await.unwrap();
                }
                let begun = table.now();
                let to = bed.memory.start;
                table.grow(to, CleaningMode::Active, pace).await.unwrap();
                table.now() - begun
            })
        });
        println!("{field} bytes: {ours} ns, MapEmbed {took:?} ns");
        assert!(
            took[0] as f64 > times * ours as f64,
            "{took:?} and {ours} ns"
        );
        assert!(took[1] > took[0]);
    }
}

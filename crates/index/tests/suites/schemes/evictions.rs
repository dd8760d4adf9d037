//! Caches under the simulator's faults: what is evicted is absent, what is not has its last value,
//! and nothing is refused, however evictions, other writes and clients that are killed coincide.

use crate::common::bed::{Bed, with};
use crate::common::chaos::{Tally, limits, rng_of};
use crate::common::run::{Run, look_around};
use crate::common::seeds::Runs;
use crate::common::{Slot, faults, race};
use farslot_check::TableOp;
use farslot_fabric::EndpointExt;
use farslot_fabric::sim::{HostId, Simulation};
use farslot_index::SchemeClient;
use farslot_index::heap::Evicting;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RUNS: Runs = Runs {
    module: module_path!(),
    slots: &[race::VARIED],
    seeds: 150,
    run,
};

/// Runs a seed and judges it.
fn run(slot: Slot, seed: u64) -> Tally {
    const KEYS: u64 = 60;
    let mut rng = rng_of(slot, seed);
    let dimensions = race::Dimensions {
        bucket_slots: rng.random_range(1..=2),
        groups: rng.random_range(2..=6),
        roots: 1,
        most_subtables: [1, 4][rng.random_range(0..2)],
    };
    let heap_bytes = [3 << 10, 6 << 10, 12 << 10][rng.random_range(0..3)];
    let mut bed = Bed::race(slot, dimensions, heap_bytes, rng.random());
    if let Bed::Race(layout) = &mut bed {
        layout.evicting = Some(Evicting::All);
    }
    let clients = rng.random_range(2..=4);
    let world = bed.world(rng.random());
    world.set_faults(faults::of_writers(seed, clients, &mut rng));
    let run = Run {
        forgets: true,
        ..Run::new(slot, seed)
    };
    let mut simulation = Simulation::new(world.clone());
    let clients: Vec<_> = (0..clients)
        .map(|number| {
            let client = simulation.add_client(HostId(0), limits());
            let (bed, run) = (bed.clone(), run.clone());
            let mut rng = ChaCha8Rng::seed_from_u64(rng.random());
            simulation.spawn(client, async move |endpoint| {
                let table = bed.open(endpoint, 0).await;
                with!(&table, table => {
                    let caller = run.caller(table, number);
                    for turn in 0..80 {
                        let pause = rng.random_range(0..=10_000);
                        table.endpoint().sleep(pause).await;
                        // Operations of all kinds, batches among them, on keys of which some are
                        // more popular.
                        let keys = [KEYS / 8, KEYS][rng.random_range(0..2)];
                        caller.run_any(keys, turn, [6, 8, 2, 2, 1, 1, 1, 0], &mut rng).await;
                    }
                });
            });
            client
        })
        .collect();
    run.finish(&mut simulation, &clients);
    look_around(&world, async |endpoint| {
        let table = bed.open(endpoint, 0).await;
        with!(&table, table => {
            let caller = run.caller(table, 1_000);
            for key in 0..KEYS {
                caller.run(key, TableOp::Get).await;
            }
            let evicted = table.read_occupancy().await.unwrap().evicted;
            run.count(|tally| tally.moves += evicted);
        });
    });
    run.judged(&world)
}

#[test]
fn a_seed_is_one_run() {
    RUNS.are_repeatable(5);
}

#[test]
fn histories() {
    RUNS.judge_all(race::VARIED, |total| {
        let runs = total.runs;
        println!("{} records evicted", total.moves);
        assert!(total.moves > 20 * runs, "{total:?}");
        assert!(total.returned > 100 * runs, "{total:?}");
        assert!(total.seen > 10 * runs, "{total:?}");
        assert!(total.stopped > runs / 20, "{total:?}");
        assert_eq!(total.full, 0, "{total:?}");
    });
}

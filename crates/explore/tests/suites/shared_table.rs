//! Explorations by several ranks that share one table, paper 002's, find what one process finds.

use crate::nets::{flags, kanban, manufacturing, philosophers};
use crate::oracle;
use farslot_explore::explicit::ranks::{
    Exchange, TableShape, explore_net_rank, explore_rank, rings_for_net, simulate,
};
use farslot_explore::explicit::{Explored, Options, Progress};
use farslot_explore::models::Named;
use farslot_explore::net::Net;
use farslot_explore::packed::PackedNet;
use farslot_explore::{ExploreError, RankError};
use farslot_fabric::NodeId;
use farslot_fabric::sim::{ClientId, ClientStop, FaultPlan, NodeStop, When};

/// Room for tables of three sizes at each rank.
const THREE_SIZES: u64 = 200 << 10;

fn chaos(seed: u64) -> FaultPlan {
    FaultPlan::chaos(seed, 0.6)
}

/// What each rank comes to; nothing of one that did not come to its end.
fn ends_of<T: 'static, F: Future<Output = T> + 'static>(
    net: &Net,
    (seed, faults): (u64, FaultPlan),
    (ranks, memory): (u32, u64),
    part: impl Fn(Net, Exchange) -> F,
) -> Vec<Option<T>> {
    let shape = rings_for_net(net, ranks).unwrap();
    let table = Some(TableShape::within(ranks, memory));
    let ends = simulate(seed, faults, shape, table, |exchange| {
        part(net.clone(), exchange)
    });
    ends.unwrap()
}

async fn whole(net: Net, mut exchange: Exchange) -> Result<Explored, ExploreError> {
    let (options, progress) = (Options::default(), Progress::default());
    let found = explore_net_rank(&net, None, &options, &mut exchange, None, &progress).await;
    found.map(|(explored, _)| explored)
}

#[test]
fn ranks_that_share_a_table_count_what_one_process_counts() {
    for net in [philosophers(5), kanban(2), manufacturing(2), flags(5)] {
        let plain = oracle::explore(&net, usize::MAX).unwrap();
        for seed in 0..6 {
            println!("{} seed {seed}", net.name());
            let ranks = 1 + seed as u32 % 4;
            let seeded = (seed, chaos(seed));
            let ends = ends_of(&net, seeded, (ranks, THREE_SIZES), whole);
            assert_eq!(ends.len(), ranks as usize);
            for end in ends {
                let found = end.unwrap().unwrap();
                assert_eq!(
                    (found.states, found.transitions, found.deadlocks),
                    (plain.states, plain.transitions, plain.deadlocks)
                );
                assert_eq!(
                    (found.depth, found.tokens),
                    (plain.depth, Some(plain.tokens))
                );
            }
        }
    }
}

#[test]
fn a_table_that_was_used_is_empty_where_places_need_more_bits() {
    let ends = ends_of(
        &kanban(2),
        (7, chaos(7)),
        (3, THREE_SIZES),
        async |net, mut exchange| {
            let mut packed = PackedNet::with_widths(&net, None, vec![1; net.places().len()]);
            let (options, progress, mut widened) = (Options::default(), Progress::default(), 0);
            loop {
                match explore_rank(&packed, &options, &mut exchange, None, &progress).await {
                    Ok(explored) => return (explored.states, widened),
                    Err(ExploreError::NoRoom(no_room)) => packed = packed.widened(no_room).unwrap(),
                    Err(error) => panic!("{error}"),
                }
                widened += 1;
            }
        },
    );
    for end in ends {
        let (states, widened) = end.unwrap();
        assert_eq!(states, 4600);
        assert!(widened >= 12);
    }
}

#[test]
fn violations_are_as_near_as_for_one_process() {
    for name in ["peterson-broken", "dekker-broken", "2pc-broken:3", "2pc:3"] {
        let model: Named = name.parse().unwrap();
        let options = Options {
            check_invariant: true,
            ..Options::default()
        };
        let alone = model.explore(&options, None, &Progress::default()).unwrap();
        for seed in 0..3 {
            println!("{name} seed {seed}");
            let (shape, table) = (model.rings(3).unwrap(), TableShape::within(3, THREE_SIZES));
            let ends = simulate(seed, chaos(seed), shape, Some(table), |mut exchange| {
                let (model, options) = (model.clone(), options.clone());
                async move {
                    let progress = Progress::default();
                    let found = model.explore_rank(&options, &mut exchange, None, &progress);
                    found.await.unwrap()
                }
            });
            for end in ends.unwrap() {
                let found = end.unwrap();
                let steps = found.trace.as_ref().map(Vec::len);
                assert_eq!(steps, alone.trace.as_ref().map(Vec::len));
                assert_eq!(found.explored.depth, alone.explored.depth);
            }
        }
    }
}

#[test]
fn what_a_table_has_no_room_for_is_refused_on_all_ranks() {
    let no_faults = || (1, FaultPlan::default());
    // One size, of fewer buckets than there are states.
    for end in ends_of(&kanban(2), no_faults(), (2, 10 << 10), whole) {
        let error = end.unwrap().unwrap_err();
        let ExploreError::OutOfMemory { states, limit, .. } = error else {
            panic!("{error}");
        };
        assert!(states > 1_800 && limit == 8 << 10, "{states}, {limit}");
    }
    for end in ends_of(
        &kanban(2),
        no_faults(),
        (2, THREE_SIZES),
        async |net, mut exchange| {
            let wide = PackedNet::with_widths(&net, None, vec![5; net.places().len()]);
            let (options, progress) = (Options::default(), Progress::default());
            explore_rank(&wide, &options, &mut exchange, None, &progress)
                .await
                .map(drop)
        },
    ) {
        let error = end.unwrap().unwrap_err();
        let no_bucket = matches!(
            error,
            ExploreError::Rank(RankError::NoBucket {
                bits: 64..,
                limit: 63
            })
        );
        assert!(no_bucket, "{error}");
    }
    let directory = tempfile::tempdir().unwrap();
    let journal = directory.path().join("journal");
    for end in ends_of(
        &kanban(2),
        no_faults(),
        (2, THREE_SIZES),
        |net, mut exchange| {
            let journal = journal.clone();
            async move {
                let (options, progress, path) =
                    (Options::default(), Progress::default(), &*journal);
                let exchange = &mut exchange;
                explore_net_rank(&net, None, &options, exchange, Some(path), &progress)
                    .await
                    .map(drop)
            }
        },
    ) {
        let error = end.unwrap().unwrap_err();
        let refused = matches!(error, ExploreError::Rank(RankError::NoJournal));
        assert!(refused, "{error}");
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

/// A process that is killed: its memory and its thread end at one moment.
#[test]
fn a_rank_that_is_lost_ends_all_others() {
    for seed in 0..8 {
        println!("seed {seed}");
        let when = When::At(1 + seed * 50_000);
        let faults = FaultPlan {
            node_stops: vec![NodeStop {
                node: NodeId(1),
                when,
                back_after: None,
            }],
            client_stops: vec![ClientStop {
                client: ClientId(1),
                when,
            }],
            ..chaos(seed)
        };
        let ends = ends_of(&kanban(3), (seed, faults), (3, 8 << 20), whole);
        assert!(ends[1].is_none(), "rank 1 has come to an end");
        for end in [&ends[0], &ends[2]] {
            let ended = end.as_ref().unwrap();
            assert!(ended.is_err(), "without rank 1 the exploration is void");
        }
    }
}

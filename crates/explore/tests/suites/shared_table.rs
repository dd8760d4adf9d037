//! What ends explorations by several ranks that share one table, paper 002's; `ranks.rs` has what
//! they find.

use crate::nets::kanban;
use farslot_explore::explicit::ranks::{
    Exchange, TableShape, explore_net_rank, explore_rank, rings_for_net, simulate,
};
use farslot_explore::explicit::{Explored, Options, Progress};
use farslot_explore::net::Net;
use farslot_explore::packed::PackedNet;
use farslot_explore::{ExploreError, RankError};
use farslot_fabric::NodeId;
use farslot_fabric::sim::{ClientId, ClientStop, FaultPlan, FaultTime, NodeStop};

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
fn what_a_table_has_no_room_for_is_refused_on_all_ranks() {
    let no_faults = || (1, FaultPlan::default());
    // One size, of fewer buckets than there are states.
    for end in ends_of(&kanban(2), no_faults(), (2, 10 << 10), whole) {
        let error = end.unwrap().unwrap_err();
        let ExploreError::OutOfMemory { states, limit, .. } = error else {
            panic!("{error}");
        };
        assert!(states > 1_800 && limit == 10 << 10, "{states}, {limit}");
    }
    for end in ends_of(
        &kanban(2),
        no_faults(),
        (2, THREE_SIZES),
        async |net, mut exchange| {
            let wide = PackedNet::with_widths(&net, None, vec![9; net.places().len()]);
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
        let when = FaultTime::At(1 + seed * 50_000);
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

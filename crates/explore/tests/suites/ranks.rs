//! Explorations by several ranks find what one process finds: in the simulator under faults, and
//! over threads that stand for processes.

use crate::nets::{flags, kanban, manufacturing, philosophers};
use crate::oracle;
use farslot_explore::explicit::ranks::{
    RankFabric, RingShape, TableShape, Team, explore_net_rank, explore_rank, rings_for_net,
    simulate,
};
use farslot_explore::explicit::{Explored, Options, Progress, explore, explore_net};
use farslot_explore::formula::Formula;
use farslot_explore::model::Model;
use farslot_explore::models::{Named, NamedExplored};
use farslot_explore::net::Net;
use farslot_explore::packed::PackedNet;
use farslot_explore::{ExploreError, RankError, Terms};
use farslot_fabric::NodeId;
use farslot_fabric::sim::{ClientId, ClientStop, FaultPlan, FaultTime, NodeStop};
use farslot_set::job::{Job, JobError, Launch};
use std::net::TcpListener;
use std::time::Duration;

type Part<T> = Result<T, ExploreError>;

fn options(check_invariant: bool) -> Options {
    Options {
        check_invariant,
        ..Options::default()
    }
}

/// The numbers, without what differs from way to way.
fn numbers(explored: &Explored) -> Explored {
    Explored {
        bytes: 0,
        seconds: 0.0,
        preparation: 0.0,
        ..explored.clone()
    }
}

/// What all ranks say, which must be the same.
fn agreed<T: PartialEq + std::fmt::Debug>(ends: Vec<T>) -> T {
    assert!(ends.windows(2).all(|two| two[0] == two[1]), "{ends:?}");
    ends.into_iter().next().unwrap()
}

fn chaos(seed: u64) -> FaultPlan {
    FaultPlan::chaos(seed, 0.6)
}

/// Where the ranks have their states: in sets of their own, and in one table, of up to three sizes.
fn tables(ranks: u32) -> [Option<TableShape>; 2] {
    [None, Some(TableShape::within(ranks, 200 << 10))]
}

fn simulated_net(net: &Net, seed: u64, shape: RingShape, table: Option<TableShape>) -> Explored {
    let ends = simulate(seed, chaos(seed), shape, table, |mut exchange| {
        let net = net.clone();
        async move {
            let (options, progress) = (options(false), Progress::default());
            let found =
                explore_net_rank(&net, None, &options, &mut exchange, None, &progress).await;
            numbers(&found.unwrap().0)
        }
    });
    let ends = ends.unwrap().into_iter();
    agreed(ends.map(Option::unwrap).collect())
}

#[test]
fn simulated_ranks_under_faults_count_what_one_process_counts() {
    for net in [philosophers(5), kanban(2), manufacturing(2), flags(5)] {
        let plain = oracle::explore(&net, usize::MAX).unwrap();
        for seed in 0..6 {
            let ranks = 1 + seed as u32 % 4;
            let shape = rings_for_net(&net, ranks).unwrap();
            // Every second seed's rings are full most of the time.
            let shape = match seed % 2 {
                0 => shape,
                _ => shape.smallest(2),
            };
            for table in tables(ranks) {
                println!("{} seed {seed}, {table:?}", net.name());
                let found = simulated_net(&net, seed, shape, table);
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
fn ranks_begin_anew_together_where_a_place_needs_more_bits() {
    let net = kanban(2);
    let shape = rings_for_net(&net, 3).unwrap();
    // A table that was used is empty again.
    for table in tables(3) {
        let ends = simulate(7, chaos(7), shape, table, |mut exchange| {
            let net = net.clone();
            async move {
                let mut packed = PackedNet::with_widths(&net, None, vec![1; net.places().len()]);
                let (options, progress, mut widened) = (options(false), Progress::default(), 0);
                loop {
                    match explore_rank(&packed, &options, &mut exchange, None, &progress).await {
                        Ok(explored) => return (explored.states, widened),
                        Err(ExploreError::NoRoom(no_room)) => {
                            packed = packed.widened(no_room).unwrap();
                        }
                        Err(error) => panic!("{error}"),
                    }
                    widened += 1;
                }
            }
        });
        let ends = ends.unwrap().into_iter();
        let (states, widened) = agreed(ends.map(Option::unwrap).collect());
        assert_eq!(states, 4600);
        assert!(widened >= 12);
    }
}

/// Compressed states: of three words.
#[test]
fn markings_of_several_words_are_sent_whole() {
    let net = kanban(2);
    let shape = rings_for_net(&net, 3).unwrap();
    let ends = simulate(3, chaos(3), shape, None, |mut exchange| {
        let net = net.clone();
        async move {
            let wide = PackedNet::with_widths(&net, None, vec![9; net.places().len()]);
            assert!(wide.bits() > 128);
            let (options, progress) = (options(false), Progress::default());
            let found = explore_rank(&wide, &options, &mut exchange, None, &progress).await;
            numbers(&found.unwrap())
        }
    });
    let ends = ends.unwrap().into_iter();
    let found: Explored = agreed(ends.map(Option::unwrap).collect());
    let alone = explore_net(&net, None, &options(false), None, &Progress::default());
    assert_eq!(found, numbers(&alone.unwrap().0));
}

#[test]
fn violations_are_as_near_as_for_one_process() {
    for name in ["peterson-broken", "dekker-broken", "2pc-broken:3", "2pc:3"] {
        let model: Named = name.parse().unwrap();
        let alone = model
            .explore(&options(true), None, &Progress::default())
            .unwrap();
        for seed in 0..3 {
            let shape = model.rings(3).unwrap();
            for table in tables(3) {
                println!("{name} seed {seed}, {table:?}");
                let ends = simulate(seed, chaos(seed), shape, table, |mut exchange| {
                    let model = model.clone();
                    async move {
                        let options = options(true);
                        let progress = Progress::default();
                        let found = model
                            .explore_rank(&options, &mut exchange, None, &progress)
                            .await;
                        let NamedExplored { explored, trace } = found.unwrap();
                        (numbers(&explored), trace)
                    }
                });
                let ends = ends.unwrap().into_iter();
                let (explored, trace) = agreed(ends.map(Option::unwrap).collect());
                assert_eq!(
                    trace.as_ref().map(Vec::len),
                    alone.trace.as_ref().map(Vec::len)
                );
                assert_eq!(explored.depth, alone.explored.depth);
                assert_eq!(
                    explored.violation.map(|path| path.len()),
                    trace.map(|path| path.len())
                );
            }
        }
    }
}

/// Ranks that were stopped at different moments go on together from the last level that all of them
/// have.
#[test]
fn ranks_go_on_from_their_journals() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let of_rank = |rank: usize| directory.path().join(format!("journal.{rank}-of-3"));
    let net = kanban(2);
    let shape = rings_for_net(&net, 3).unwrap();
    let run = |seed: u64| -> Vec<Part<Explored>> {
        let ends = simulate(seed, chaos(seed), shape, None, |mut exchange| {
            let (net, path) = (net.clone(), path.clone());
            async move {
                let (options, progress, path) = (options(false), Progress::default(), Some(&*path));
                let exchange = &mut exchange;
                let found = explore_net_rank(&net, None, &options, exchange, path, &progress);
                Ok(numbers(&found.await?.0))
            }
        });
        ends.unwrap().into_iter().map(Option::unwrap).collect()
    };
    let whole = agreed(run(0).into_iter().map(Result::unwrap).collect());
    assert_eq!(whole.states, 4600);
    let files: Vec<_> = (0..3)
        .map(|rank| std::fs::read(of_rank(rank)).unwrap())
        .collect();
    for seed in 1..25 {
        println!("seed {seed}");
        for (rank, bytes) in files.iter().enumerate() {
            // Of none less than its header, which it has before any has a level.
            let least = 8 * 7 + net.places().len();
            let cut = least + (seed as usize * 7919 * (rank + 1)) % (bytes.len() - least);
            std::fs::write(of_rank(rank), &bytes[..cut]).unwrap();
        }
        let again = agreed(run(seed).into_iter().map(Result::unwrap).collect());
        assert_eq!(again, whole, "seed {seed}");
    }
    // They are whole again.
    for (rank, bytes) in files.iter().enumerate() {
        assert_eq!(std::fs::read(of_rank(rank)).unwrap().len(), bytes.len());
    }
    std::fs::remove_file(of_rank(1)).unwrap();
    for end in run(1) {
        assert!(
            matches!(end, Err(ExploreError::WrongJournal { .. })),
            "{end:?}"
        );
    }
    assert!(!of_rank(1).exists(), "what is refused is left as it is");
    // A rank's journal is no other rank's.
    std::fs::copy(of_rank(0), of_rank(1)).unwrap();
    for (rank, end) in run(1).into_iter().enumerate() {
        match end {
            Err(ExploreError::WrongJournal { .. }) if rank == 1 => {}
            Err(ExploreError::Rank(RankError::GaveUp { rank: 1 })) if rank != 1 => {}
            other => panic!("rank {rank}: {other:?}"),
        }
    }
}

/// A process that is killed: its memory and its thread end at one moment.
#[test]
fn a_rank_that_is_lost_is_named_to_all_others() {
    let net = kanban(3);
    for seed in 0..8 {
        println!("seed {seed}");
        let shape = rings_for_net(&net, 3).unwrap();
        let when = FaultTime::At(1 + seed * 50_000);
        let node_stops = vec![NodeStop {
            node: NodeId(1),
            when,
            back_after: None,
        }];
        let client_stops = vec![ClientStop {
            client: ClientId(1),
            when,
        }];
        let faults = FaultPlan {
            node_stops,
            client_stops,
            ..chaos(seed)
        };
        let ends = simulate(seed, faults, shape, None, |mut exchange| {
            let net = net.clone();
            async move {
                let (options, progress) = (options(false), Progress::default());
                let found =
                    explore_net_rank(&net, None, &options, &mut exchange, None, &progress).await;
                found.err()
            }
        });
        let ends = ends.unwrap();
        assert!(ends[1].is_none(), "rank 1 has come to an end");
        for end in [&ends[0], &ends[2]] {
            let error = end.as_ref().unwrap().as_ref();
            let error = error.expect("without rank 1 the exploration is void");
            assert!(
                matches!(error, ExploreError::Rank(RankError::Fabric { rank: 1, .. })),
                "{error}"
            );
        }
    }
}

#[test]
fn a_rank_without_memory_ends_all() {
    let net = kanban(3);
    let shape = rings_for_net(&net, 3).unwrap();
    let ends = simulate(1, FaultPlan::default(), shape, None, |mut exchange| {
        let net = net.clone();
        async move {
            let memory = if exchange.rank() == 2 {
                10_000
            } else {
                u64::MAX
            };
            let options = Options {
                memory,
                ..options(false)
            };
            let progress = Progress::default();
            let found =
                explore_net_rank(&net, None, &options, &mut exchange, None, &progress).await;
            found.map(drop)
        }
    });
    let ends: Vec<_> = ends.unwrap().into_iter().map(Option::unwrap).collect();
    for (rank, end) in ends.into_iter().enumerate() {
        match end {
            Err(ExploreError::OutOfMemory { .. }) if rank == 2 => {}
            Err(ExploreError::Rank(RankError::GaveUp { rank: 2 })) if rank != 2 => {}
            other => panic!("rank {rank}: {other:?}"),
        }
    }
}

/// What ranks do that are threads of this process, each with its part of one job.
pub fn in_jobs<T: Send>(ranks: u32, part: impl Fn(Job) -> T + Sync) -> Vec<T> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let listener = (rank == 0).then(|| listener.try_clone().unwrap());
                let launch = Launch {
                    rank,
                    ranks,
                    rendezvous: Some(address.clone()),
                    timeout: Duration::from_secs(120),
                };
                let part = &part;
                scope.spawn(move || part(Job::join_over(launch, listener).unwrap()))
            })
            .collect();
        let ends = threads.into_iter().map(|thread| thread.join().unwrap());
        ends.collect()
    })
}

/// What threads, each a rank with memory of its own, find over a fabric of processes.
fn in_threads<T: Send + PartialEq + std::fmt::Debug>(
    ranks: u32,
    over: &RankFabric,
    shape: RingShape,
    part: impl AsyncFn(&mut farslot_explore::explicit::ranks::Exchange) -> Part<T> + Sync,
) -> T {
    agreed(in_jobs(ranks, |job| {
        let team = Team::meet(job, over, shape, None, Terms::of_model("a test's")).unwrap();
        team.run(async |exchange| part(exchange).await).unwrap()
    }))
}

#[test]
fn ranks_with_other_nets_or_conditions_are_refused() {
    let nets = [kanban(3), kanban(4)];
    let shape = rings_for_net(&nets[0], 2).unwrap();
    let refused = |terms: [Terms; 2]| {
        let ends = in_jobs(2, |job| {
            let terms = terms[job.rank() as usize].clone();
            Team::meet(job, &RankFabric::Shm, shape, None, terms).map(drop)
        });
        let Err(RankError::Job(JobError::Disagreement { term, rank: 1, .. })) = &ends[0] else {
            panic!("{ends:?}");
        };
        assert_eq!(ends[0], ends[1]);
        term.clone()
    };
    let [one, other] = nets.each_ref().map(|net| Terms::of_net(net, None));
    assert_eq!(refused([one.clone(), other]), "model");
    let checked = Terms::of_net(&nets[0], Some("--invariant p = 0"));
    assert_eq!(refused([one.clone(), checked]), "condition");
    let symbolic = in_jobs(2, |mut job| {
        let terms = one.clone();
        if job.rank() == 0 {
            return Team::meet(job, &RankFabric::Shm, shape, None, terms)
                .map(drop)
                .map_err(Into::into);
        }
        let options = crate::agreement::symbolic_options(1, 1 << 24);
        farslot_explore::symbolic::share_memory(&mut job, &options, terms).map(drop)
    });
    for end in symbolic {
        let Err(ExploreError::Rank(RankError::Job(JobError::Disagreement { term, .. }))) = end
        else {
            panic!("{end:?}");
        };
        assert_eq!(term, "way");
    }
}

#[test]
fn ranks_over_shared_memory_and_tcp_count_what_one_process_counts() {
    let net = kanban(3);
    let alone = explore_net(&net, None, &options(false), None, &Progress::default());
    let alone = numbers(&alone.unwrap().0);
    assert_eq!(alone.states, 58_400);
    let tcp = RankFabric::Tcp("127.0.0.1:0".into());
    for (ranks, over) in [(1, RankFabric::Shm), (2, RankFabric::Shm), (3, tcp)] {
        let shape = rings_for_net(&net, ranks).unwrap();
        let found = in_threads(ranks, &over, shape, async |exchange| {
            let (options, progress) = (options(false), Progress::default());
            let found = explore_net_rank(&net, None, &options, exchange, None, &progress).await?;
            Ok(numbers(&found.0))
        });
        assert_eq!(found, alone, "{ranks} ranks over {over:?}");
    }
}

#[test]
fn an_invariant_of_a_net_is_checked_by_all_ranks() {
    let net = kanban(1);
    let formula = net.places()[0].id.clone() + " <= 0";
    let formula = Formula::parse(&formula, &net).unwrap();
    let alone = explore_net(
        &net,
        Some(&formula),
        &options(true),
        None,
        &Progress::default(),
    );
    let alone = alone.unwrap().0.violation.unwrap();
    let shape = rings_for_net(&net, 2).unwrap();
    let path = in_threads(2, &RankFabric::Shm, shape, async |exchange| {
        let (options, progress) = (options(true), Progress::default());
        let (found, packed) =
            explore_net_rank(&net, Some(&formula), &options, exchange, None, &progress).await?;
        let path = found.violation.expect("a card is there sooner or later");
        assert!(!packed.invariant(&path.last().unwrap().state));
        Ok(path)
    });
    assert_eq!(path.len(), alone.len());
    // Each step is one of the model's.
    let packed = PackedNet::sampled(&net, None);
    let mut successors = farslot_explore::model::Successors::new(packed.bits().div_ceil(64));
    for two in path.windows(2) {
        successors.clear();
        packed.successors(&two[0].state, &mut successors).unwrap();
        let steps = successors.states().chunks_exact(two[0].state.len());
        let mut steps = steps.zip(successors.actions());
        assert!(
            steps.any(|(state, action)| *state == two[1].state && Some(*action) == two[1].action)
        );
    }
    // The same with a model's own invariant, which holds.
    let model: Named = "peterson".parse().unwrap();
    let alone = model
        .explore(&options(true), None, &Progress::default())
        .unwrap();
    let shape = model.rings(2).unwrap();
    let found = in_threads(2, &RankFabric::Shm, shape, async |exchange| {
        let progress = Progress::default();
        let found = model
            .explore_rank(&options(true), exchange, None, &progress)
            .await?;
        Ok((numbers(&found.explored), found.trace))
    });
    assert_eq!(found, (numbers(&alone.explored), None));
}

/// Every state of a level comes to its rank, whatever the model: also one without any successor.
#[test]
fn a_model_of_one_state_ends_at_once() {
    #[derive(Clone)]
    struct One;
    impl Model for One {
        fn bits(&self) -> usize {
            70
        }
        fn initial(&self) -> Vec<Vec<u64>> {
            vec![vec![5, 1]]
        }
        fn successors(
            &self,
            _: &[u64],
            _: &mut farslot_explore::model::Successors,
        ) -> Result<(), farslot_explore::model::StateOverflow> {
            Ok(())
        }
    }
    let alone = explore(&One, &options(false), None, &Progress::default()).unwrap();
    let shape = RingShape::for_states(4, 2).unwrap();
    let ends = simulate(0, chaos(0), shape, None, |mut exchange| async move {
        let progress = Progress::default();
        let found = explore_rank(&One, &options(false), &mut exchange, None, &progress).await;
        numbers(&found.unwrap())
    });
    let ends = ends.unwrap().into_iter();
    let found: Explored = agreed(ends.map(Option::unwrap).collect());
    assert_eq!(found, numbers(&alone));
    assert_eq!((found.states, found.deadlocks, found.depth), (1, 1, 0));
}

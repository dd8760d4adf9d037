//! Jobs of several threads that stand for processes.

use super::*;
use std::collections::HashMap;
use std::io::Write;

fn rendezvous() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

fn join(rank: u32, ranks: u32, (listener, address): &(TcpListener, String)) -> Job {
    let listener = (rank == 0).then(|| listener.try_clone().unwrap());
    Job::join_over(launch(rank, ranks, address), listener).unwrap()
}

fn launch(rank: u32, ranks: u32, address: &str) -> Launch {
    Launch {
        rank,
        ranks,
        rendezvous: Some(address.into()),
        timeout: Duration::from_secs(30),
    }
}

#[test]
fn launchers_are_understood() {
    let of = |set: &[(&str, &str)]| {
        let set: HashMap<String, String> = set
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        Launch::from_variables(|name| set.get(name).cloned(), None)
            .map(|launch| (launch.rank, launch.ranks))
    };
    assert_eq!(of(&[]), Ok((0, 1)));
    assert_eq!(
        of(&[("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")]),
        Ok((3, 4))
    );
    assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]), Ok((0, 2)));
    assert_eq!(
        of(&[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "48")]),
        Ok((1, 48))
    );
    for bad in ["48", "-1", "x", ""] {
        let refused = of(&[("SLURM_PROCID", bad), ("SLURM_NTASKS", "48")]);
        assert!(
            matches!(refused, Err(JobError::BadVariable { .. })),
            "{bad:?}"
        );
    }
}

#[test]
fn every_rank_gets_every_part() {
    let meeting = rendezvous();
    std::thread::scope(|scope| {
        for rank in 0..4 {
            let meeting = &meeting;
            scope.spawn(move || {
                let mut job = join(rank, 4, meeting);
                for round in 0..3u8 {
                    let part = vec![round; rank as usize * 1000];
                    let all = job.all_gather(&part).unwrap();
                    let expected: Vec<_> = (0..4).map(|rank| vec![round; rank * 1000]).collect();
                    assert_eq!(all, expected);
                }
            });
        }
    });
    let mut alone = Job::join(Launch::alone()).unwrap();
    assert_eq!(alone.all_gather(b"me").unwrap(), [b"me".to_vec()]);
}

#[test]
fn a_rank_that_dies_is_named_to_all_others() {
    let meeting = rendezvous();
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let meeting = &meeting;
            scope.spawn(move || {
                let mut job = join(rank, 3, meeting);
                if rank == 2 {
                    return;
                }
                assert_eq!(job.barrier(), Err(JobError::RankDied { rank: 2 }));
            });
        }
    });
}

#[test]
fn strangers_are_turned_away_and_absent_ranks_are_counted() {
    let (listener, address) = rendezvous();
    let mut intruder = None;
    std::thread::scope(|scope| {
        let root = scope.spawn(|| {
            let launch = Launch {
                timeout: Duration::from_millis(500),
                ..launch(0, 2, &address)
            };
            Job::join_over(launch, Some(listener)).map(drop)
        });
        while !root.is_finished() {
            if let Ok(mut stream) = TcpStream::connect(&address) {
                let _ = stream.write_all(&[0xff; 64]);
                intruder = Some(stream);
            }
            std::thread::sleep(PAUSE);
        }
        let refused = root.join().unwrap();
        assert!(
            matches!(
                refused,
                Err(JobError::NotAllCame {
                    came: 1,
                    ranks: 2,
                    ..
                })
            ),
            "{refused:?}"
        );
    });
    drop(intruder);
    assert_eq!(
        Job::join(launch(2, 2, &address)).map(drop),
        Err(JobError::NoSuchRank { rank: 2, ranks: 2 })
    );
    let nowhere = Launch {
        rendezvous: None,
        ..launch(0, 2, "")
    };
    assert_eq!(
        Job::join(nowhere).map(drop),
        Err(JobError::NoRendezvous { ranks: 2 })
    );
}

/// What each of these ranks, each told of so many ranks, gets from joining.
fn joined(ranks: &[(u32, u32)]) -> Vec<Result<(), JobError>> {
    let (listener, address) = rendezvous();
    std::thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .iter()
            .map(|&(rank, of)| {
                let listener = (rank == 0).then(|| listener.try_clone().unwrap());
                let launch = launch(rank, of, &address);
                scope.spawn(move || Job::join_over(launch, listener).map(drop))
            })
            .collect();
        let ends = threads.into_iter().map(|thread| thread.join().unwrap());
        ends.collect()
    })
}

#[test]
fn a_rank_that_comes_twice_is_refused_and_all_hear_it() {
    let refused = Err(JobError::SameRank { rank: 1, ranks: 3 });
    assert_eq!(
        joined(&[(0, 3), (1, 3), (1, 3)]),
        [refused.clone(), refused.clone(), refused]
    );
}

#[test]
fn a_rank_that_comes_when_the_job_has_begun_is_told_so() {
    let meeting = rendezvous();
    let address = &meeting.1;
    let first = {
        let meeting = (meeting.0.try_clone().unwrap(), address.clone());
        std::thread::spawn(move || join(0, 2, &meeting))
    };
    let mut other = join(1, 2, &meeting);
    let mut first = first.join().unwrap();
    // One that says nothing, and one that is no rank, keep nobody else waiting for long.
    let silent = TcpStream::connect(address).unwrap();
    let mut intruder = TcpStream::connect(address).unwrap();
    intruder.write_all(&[0xff; 64]).unwrap();
    for (rank, ranks) in [(1, 2), (0, 2), (2, 3)] {
        let end = match rank {
            // Rank 0 would listen itself.
            0 => Job::join(launch(rank, ranks, address)).map(drop),
            _ => Job::join_over(launch(rank, ranks, address), None).map(drop),
        };
        match rank {
            0 => assert!(matches!(end, Err(JobError::Io { .. })), "{end:?}"),
            _ => assert_eq!(end, Err(JobError::HasBegun { rank, ranks: 2 })),
        }
    }
    drop((silent, intruder));
    // The job goes on.
    let gathered = std::thread::spawn(move || other.all_gather(b"other"));
    let all = first.all_gather(b"first").unwrap();
    assert_eq!(all, [b"first".to_vec(), b"other".to_vec()]);
    assert_eq!(gathered.join().unwrap().unwrap(), all);
    // When it has ended nobody listens, and another job can meet there.
    drop(first);
    drop(meeting.0);
    let late = Launch {
        timeout: Duration::from_millis(50),
        ..launch(1, 2, address)
    };
    let end = Job::join(late).map(drop);
    assert!(
        matches!(end, Err(JobError::NobodyListens { .. })),
        "{end:?}"
    );
}

#[test]
fn a_job_begins_where_another_one_is_about_to_end() {
    let meeting = rendezvous();
    let address = meeting.1.clone();
    let before = {
        let meeting = (meeting.0.try_clone().unwrap(), address.clone());
        std::thread::spawn(move || join(0, 2, &meeting))
    };
    drop(join(1, 2, &meeting));
    let before = before.join().unwrap();
    drop(meeting.0);
    let next = {
        let launch = Launch {
            timeout: Duration::from_secs(600),
            ..launch(1, 2, &address)
        };
        std::thread::spawn(move || Job::join(launch).map(drop))
    };
    // Whether it has been told that a job has begun, or was cut off, or neither: it tries again.
    drop(before);
    let first = Job::join(launch(0, 2, &address));
    assert!(first.is_ok(), "{first:?}");
    assert_eq!(next.join().unwrap(), Ok(()));
}

#[test]
fn ranks_that_were_told_of_other_numbers_are_refused() {
    let refused = Err(JobError::OtherRanks {
        rank: 1,
        peer: 2,
        ranks: 3,
    });
    assert_eq!(joined(&[(0, 3), (1, 2)]), [refused.clone(), refused]);
}

#[test]
fn what_ranks_have_is_compared_and_all_hear_of_a_difference() {
    let long = "x".repeat(100_000);
    let meeting = rendezvous();
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let (meeting, long) = (&meeting, &long);
            scope.spawn(move || {
                let mut job = join(rank, 3, meeting);
                let model = format!("{long}{}", rank / 2);
                assert_eq!(job.agree(&[("model", long), ("way", "new\nline")]), Ok(()));
                let Err(JobError::Disagreement {
                    term, rank: other, ..
                }) = job.agree(&[("model", "a"), ("property", &model)])
                else {
                    panic!("they differ behind what is shown")
                };
                assert_eq!((&*term, other), ("property", 2));
                let model = if rank == 1 { "b" } else { "a" };
                assert_eq!(
                    job.agree(&[("model", model)]).unwrap_err().to_string(),
                    "the ranks do not agree: the model of rank 1 is b, that of rank 0 a"
                );
                // Of another purpose.
                let terms = [("model", "a"), ("kind", "map")];
                let terms = &terms[..if rank == 1 { 2 } else { 1 }];
                assert_eq!(
                    job.agree(terms).unwrap_err().to_string(),
                    "the ranks do not agree: the kind of rank 1 is map, that of rank 0 not known"
                );
                // It is of use afterwards.
                assert_eq!(job.agree(&[]), Ok(()));
            });
        }
    });
}

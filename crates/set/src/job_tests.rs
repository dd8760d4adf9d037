//! Jobs of several threads that stand for processes.

use super::*;
use std::collections::HashMap;

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
    let mut stranger = None;
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
                stranger = Some(stream);
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
    drop(stranger);
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

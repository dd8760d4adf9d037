//! Find-or-puts, small, by one process.

use farslot_bench::BenchError;
use farslot_bench::find_or_put::{
    Answers, JobRanks, MappedSet, Mix, Options, StoredSet, Subject, measure, memory,
};
use farslot_set::job::{Job, Launch};

fn small() -> Options {
    Options {
        mixes: vec![Mix { found: 80 }],
        loads: vec![0.25, 0.9],
        slots: 1 << 12,
        repetitions: 2,
        seed: 5,
    }
}

/// Measures a set of this process alone beside others.
fn alone(
    options: &Options,
    others: &mut [&mut dyn Subject],
) -> farslot_bench::Result<Vec<farslot_bench::BenchRow>> {
    let mut job = Job::join(Launch::alone()).unwrap();
    let mut ranks = JobRanks(&mut job);
    let mut set = MappedSet::of_processes(&mut ranks, options.slots)?;
    measure(options, &mut ranks, &mut set, others, "process", &|_| ())
}

#[test]
fn every_set_is_there_beside_the_mappings_swaps() {
    let options = small();
    let name = format!("bench-find-or-put-{}", std::process::id());
    let memory = memory(&options).unwrap();
    let address = format!("shm://{name}");
    let _server = farslot::Server::start(&address, memory).unwrap();
    let mut stored = StoredSet::open(&address, options.slots).unwrap();
    let rows = alone(&options, &mut [&mut stored]).unwrap();
    assert_eq!(rows.len(), 6);
    for (load, rows) in ["0.25", "0.9"].into_iter().zip(rows.chunks(3)) {
        for row in rows {
            assert!(
                row.name
                    .starts_with(&format!("80/20, load {load}, 1 process, ")),
                "{row:?}"
            );
            assert!(row.value > 0.0, "{row:?}");
        }
        let limit = Some(rows[2].value);
        assert_eq!(
            (rows[0].limit, rows[1].limit, rows[2].limit),
            (limit, limit, None)
        );
    }
}

/// Says that it has inserted one element more than it was given.
struct Liar;

impl Subject for Liar {
    fn name(&self) -> &str {
        "liar"
    }

    fn renew(&mut self, _: usize) -> farslot_bench::Result<()> {
        Ok(())
    }

    fn find_or_put_all(&mut self, words: &[u64]) -> farslot_bench::Result<Answers> {
        let inserted = words.len() as u64 + 1;
        Ok(Answers { inserted, full: 0 })
    }
}

#[test]
fn an_outcome_that_is_wrong_ends_the_measurement() {
    let wrong = alone(&small(), &mut [&mut Liar]);
    assert!(
        matches!(wrong, Err(BenchError::WrongAnswers { .. })),
        "{wrong:?}"
    );
}

#[test]
fn options_that_nothing_can_be_measured_with_are_refused() {
    let bad = [
        Options {
            slots: 100,
            ..small()
        },
        Options {
            repetitions: 0,
            ..small()
        },
        Options {
            mixes: Vec::new(),
            ..small()
        },
        Options {
            loads: Vec::new(),
            ..small()
        },
        Options {
            loads: vec![0.5, 0.5],
            ..small()
        },
        Options {
            loads: vec![0.01],
            ..small()
        },
        Options {
            loads: vec![0.96],
            ..small()
        },
        Options {
            loads: vec![f64::NAN],
            ..small()
        },
    ];
    for options in bad {
        let refused = alone(&options, &mut []).unwrap_err();
        // A table of too few slots is refused by the set already where it is not by the options.
        assert!(refused.is_usage(), "{options:?}: {refused}");
    }
}

/// A table that is so full has runs longer than what is searched: those elements are counted.
#[test]
fn what_finds_no_bucket_is_counted_and_is_no_wrong_answer() {
    let options = Options {
        loads: vec![0.95],
        mixes: vec![Mix { found: 50 }],
        slots: 1 << 18,
        repetitions: 1,
        seed: 0,
    };
    let rows = alone(&options, &mut []).unwrap();
    let refused = rows
        .iter()
        .find(|row| row.name.ends_with("want of a bucket"));
    assert!(refused.unwrap().value > 0.0, "{rows:?}");
}

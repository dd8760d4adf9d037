use super::*;
use crate::BenchError;

fn ask(key: u32, value: u32) -> Question {
    Question::new(10_000_000, key, value, NicProfile::connectx5_edr())
}

fn place(advice: &Advice, scheme: &str) -> usize {
    let is = |ranked: &Ranked| ranked.scheme == scheme;
    advice
        .ranked
        .iter()
        .position(is)
        .unwrap_or_else(|| panic!("{scheme} is not ranked"))
}

const SMALL: CheckOptions = CheckOptions {
    slots: 1 << 16,
    lookups: 6_000,
    seed: 1,
};

/// The simulator against the model, for all schemes that are ranked.
fn agrees(question: &Question) {
    let advice = advise(question).unwrap();
    assert!(advice.ranked.len() >= 10, "{}", advice.ranked.len());
    let rows = check(question, &advice.ranked, &SMALL, &|_| {}).unwrap();
    let mut worst: f64 = 0.0;
    for row in &rows {
        worst = worst.max(row.worst_error());
        assert!(row.worst_error() < 0.1, "{row:?}");
    }
    println!("{} schemes, worst error {:.1} %", rows.len(), 100.0 * worst);
}

#[test]
fn words_half_full_mostly_hit() {
    agrees(&Question {
        load: Some(0.5),
        hit_ratio: 0.9,
        ..ask(4, 3)
    });
}

#[test]
fn inline_records_that_mostly_hit() {
    agrees(&Question {
        load: Some(0.8),
        hit_ratio: 0.9,
        ..ask(8, 24)
    });
}

#[test]
fn heap_records_of_which_half_miss() {
    agrees(&Question {
        load: Some(0.9),
        hit_ratio: 0.5,
        ..ask(16, 84)
    });
}

#[test]
fn sealed_tables_for_latency() {
    agrees(&Question {
        load: Some(0.8),
        sealed: true,
        objective: Objective::Latency,
        ..ask(8, 24)
    });
}

#[test]
fn small_unique_records_go_into_linear_words() {
    let advice = advise(&Question {
        load: Some(0.8),
        ..ask(4, 3)
    })
    .unwrap();
    assert_eq!(advice.ranked[0].scheme, "linear, word");
    assert!(place(&advice, "linear, heap") > place(&advice, "linear, inline"));
    assert!(
        advice
            .ranked
            .is_sorted_by(|one, other| one.operations_per_second >= other.operations_per_second)
    );
    for ranked in &advice.ranked {
        assert!(
            ranked.lookups_per_second > 0.0 && !ranked.why.is_empty(),
            "{ranked:?}"
        );
    }
}

#[test]
fn what_is_excluded_has_a_reason() {
    let advice = advise(&ask(8, 56)).unwrap();
    let excluded = |advice: &Advice, scheme: &str| {
        let found = advice
            .excluded
            .iter()
            .find(|excluded| excluded.scheme == scheme);
        found
            .unwrap_or_else(|| panic!("{scheme} is not excluded"))
            .why
            .clone()
    };
    assert!(excluded(&advice, "linear, word").contains("Word slots hold 8 bytes"));
    assert!(excluded(&advice, "cuckoo 2 x 1, parallel, heap").contains("as full as 0.75"));
    let several = Question {
        values: vec![(10, 1.0), (1000, 0.1)],
        ..ask(8, 56)
    };
    assert!(excluded(&advise(&several).unwrap(), "linear, inline").contains("fixed sizes"));
    let multi = Question {
        unique: false,
        ..ask(8, 56)
    };
    assert!(excluded(&advise(&multi).unwrap(), "cuckoo 3 x 4, parallel, heap").contains("sealed"));
    let little = Question {
        memory: Some(1 << 30),
        ..ask(8, 120)
    };
    let advice = advise(&little).unwrap();
    assert!(excluded(&advice, "linear, inline").contains("memory limit of 1073741824"));
    assert!(
        advice
            .ranked
            .iter()
            .all(|ranked| ranked.memory_bytes <= 1 << 30)
    );
}

#[test]
fn memory_that_is_there_is_used() {
    let with = |memory| {
        advise(&Question {
            memory: Some(memory),
            ..ask(8, 24)
        })
        .unwrap()
    };
    let (little, much) = (with(480 << 20), with(4 << 30));
    let load = |advice: &Advice| advice.ranked[place(advice, "linear, inline")].load;
    assert_eq!(load(&much), 0.5);
    assert!(load(&little) > 0.5, "{}", load(&little));
}

#[test]
fn updates_cost_and_move_inline_values_out() {
    let reads = advise(&ask(8, 24)).unwrap();
    let mixed = advise(&Question {
        updates: 0.5,
        ..ask(8, 24)
    })
    .unwrap();
    let inline = |advice: &Advice| advice.ranked[place(advice, "linear, inline")].clone();
    let (read, mixed) = (inline(&reads), inline(&mixed));
    assert!(mixed.operations_per_second < read.operations_per_second);
    assert!(mixed.reads > read.reads + 0.8 && mixed.memory_bytes > read.memory_bytes);
    assert!(mixed.why.contains("out of band"));
}

#[test]
fn workloads_that_there_are_not_are_named() {
    let bad = [
        (
            "entries",
            Question {
                entries: 0,
                ..ask(8, 8)
            },
        ),
        (
            "value sizes",
            Question {
                values: vec![],
                ..ask(8, 8)
            },
        ),
        (
            "weight of a value size",
            Question {
                values: vec![(8, f64::NAN)],
                ..ask(8, 8)
            },
        ),
        (
            "hit ratio",
            Question {
                hit_ratio: 1.5,
                ..ask(8, 8)
            },
        ),
        (
            "load factor",
            Question {
                load: Some(1.0),
                ..ask(8, 8)
            },
        ),
        (
            "updates",
            Question {
                updates: 0.1,
                sealed: true,
                ..ask(8, 8)
            },
        ),
    ];
    for (named, question) in bad {
        match advise(&question) {
            Err(error @ BenchError::BadOption { option, .. }) => {
                assert_eq!(option, named);
                assert!(error.is_usage());
            }
            other => panic!("{named}: {other:?}"),
        }
    }
    let updates = Question {
        updates: 0.5,
        ..ask(8, 8)
    };
    assert!(
        check(&updates, &[], &SMALL, &|_| {})
            .unwrap_err()
            .is_usage()
    );
}

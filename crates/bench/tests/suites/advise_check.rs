//! Whether the simulator agrees with the advisor.

use crate::advise::{ask, place};
use farslot::model::Objective;
use farslot_bench::advise::{AdviceQuestion, CheckOptions, Checked, Ranked, Reads, advise, check};
use std::collections::BTreeSet;

const SMALL: CheckOptions = CheckOptions {
    slots: 1 << 16,
    lookups: 6_000,
    writes: 1_000,
    seed: 1,
};

/// Which of the shapes of cuckoo tables a question is checked for: every third, from this one on.
/// They take most of the time, and the questions together check each several times. With
/// `FARSLOT_EVERY_SCHEME` set, all are checked for all.
struct Shapes(usize);

impl Shapes {
    /// The ranked schemes that are checked: all but the other cuckoo tables.
    fn of(&self, ranked: &[Ranked]) -> Vec<Ranked> {
        let shape = |ranked: &Ranked| match &ranked.plan.reads {
            Reads::Cuckoo { layout, .. } => Some((layout.ways, layout.bucket_slots)),
            _ => None,
        };
        let shapes: BTreeSet<_> = ranked.iter().filter_map(shape).collect();
        let all = std::env::var_os("FARSLOT_EVERY_SCHEME").is_some();
        let chosen: Vec<_> = shapes.into_iter().skip(self.0).step_by(3).collect();
        let is_chosen = |one: &&Ranked| all || shape(one).is_none_or(|of| chosen.contains(&of));
        ranked.iter().filter(is_chosen).cloned().collect()
    }

    /// The simulator against the model; returns what is ranked.
    fn agree(&self, question: &AdviceQuestion) -> Vec<String> {
        self.agree_in(question, &SMALL)
    }

    fn agree_in(&self, question: &AdviceQuestion, options: &CheckOptions) -> Vec<String> {
        let advice = advise(question).unwrap();
        let ranked = self.of(&advice.ranked);
        let checked = check(question, &ranked, options, &|_| {}).unwrap();
        let mut worst = (0.0, String::new());
        for row in &checked {
            let Checked::Simulated(row) = row else {
                panic!("{row:?}");
            };
            if row.worst_error() > worst.0 {
                worst = (row.worst_error(), format!("{row:?}"));
            }
        }
        println!(
            "{} schemes, worst error {:.1}%: {}",
            checked.len(),
            100.0 * worst.0,
            worst.1
        );
        assert!(worst.0 < 0.1, "{}", worst.1);
        let schemes = advice.ranked.into_iter().map(|ranked| ranked.scheme);
        schemes.collect()
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn words_half_full_mostly_hit() {
    Shapes(0).agree(&AdviceQuestion {
        load: Some(0.5),
        hit_ratio: 0.9,
        ..ask(4, 3)
    });
}

#[test]
#[ignore = "long: scripts/test --all"]
fn inline_records_that_mostly_hit() {
    Shapes(1).agree(&AdviceQuestion {
        load: Some(0.8),
        hit_ratio: 0.9,
        ..ask(8, 24)
    });
}

#[test]
#[ignore = "long: scripts/test --all"]
fn heap_records_of_which_half_miss() {
    Shapes(2).agree(&AdviceQuestion {
        load: Some(0.9),
        hit_ratio: 0.5,
        ..ask(16, 84)
    });
}

#[test]
fn sealed_tables_for_latency() {
    Shapes(0).agree(&AdviceQuestion {
        load: Some(0.8),
        sealed: true,
        objective: Objective::Latency,
        ..ask(8, 24)
    });
}

#[test]
#[ignore = "long: scripts/test --all"]
fn records_of_64_bytes_at_all_loads() {
    for (load, shapes) in [(0.5, Shapes(0)), (0.8, Shapes(1)), (0.9, Shapes(2))] {
        shapes.agree(&AdviceQuestion {
            load: Some(load),
            ..ask(8, 56)
        });
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn sealed_records_of_16_bytes_that_mostly_miss() {
    // Misses of nearly full tables differ much: it takes more of them.
    let options = CheckOptions {
        slots: 1 << 18,
        lookups: 12_000,
        ..SMALL
    };
    let question = AdviceQuestion {
        load: Some(0.9),
        sealed: true,
        hit_ratio: 0.1,
        ..ask(8, 8)
    };
    let schemes = Shapes(1).agree_in(&question, &options);
    for sealed in ["sealed, inline", "sealed, out of band, as they arrive"] {
        assert!(schemes.iter().any(|scheme| scheme == sealed), "{schemes:?}");
    }
}

fn sizes_up_to_1_kib() -> Vec<(u32, f64)> {
    [8, 16, 32, 64, 128, 256, 512, 1024]
        .map(|bytes| (bytes, 1.0))
        .to_vec()
}

fn mostly_small() -> Vec<(u32, f64)> {
    vec![(8, 5.0), (16, 4.0), (1000, 1.0)]
}

#[test]
#[ignore = "long: scripts/test --all"]
fn values_of_several_sizes() {
    let ranked = |shapes: Shapes, values, load, objective| {
        shapes.agree(&AdviceQuestion {
            load: Some(load),
            values,
            objective,
            ..ask(8, 8)
        })
    };
    let spread = ranked(Shapes(2), sizes_up_to_1_kib(), 0.8, Objective::Throughput);
    let small = ranked(Shapes(0), mostly_small(), 0.5, Objective::Latency);
    let hybrid = |schemes: &[String]| schemes.iter().any(|scheme| scheme == "linear, hybrid");
    assert!(!hybrid(&spread) && hybrid(&small));
    let signatures = |scheme: &String| scheme == "cuckoo 3 x 4, parallel, signatures";
    assert!(spread.iter().any(signatures) && small.iter().any(signatures));
}

#[test]
#[ignore = "long: scripts/test --all"]
fn sealed_values_of_several_sizes_some_of_them_long() {
    Shapes(2).agree(&AdviceQuestion {
        load: Some(0.8),
        sealed: true,
        values: vec![(100, 3.0), (3000, 1.0)],
        ..ask(8, 8)
    });
}

#[test]
#[ignore = "long: scripts/test --all"]
fn keys_that_may_have_several_records() {
    for (sealed, shapes) in [(false, Shapes(0)), (true, Shapes(1))] {
        shapes.agree(&AdviceQuestion {
            load: Some(0.8),
            unique: false,
            sealed,
            ..ask(8, 8)
        });
    }
}

#[test]
#[ignore = "long: scripts/test --all"]
fn popular_keys_change_nothing() {
    let skewed = AdviceQuestion {
        load: Some(0.8),
        skew: 0.99,
        ..ask(8, 24)
    };
    Shapes(1).agree(&skewed);
    let advice = advise(&skewed).unwrap();
    assert!(advice.notes[0].contains("changes no figure"));
    let even = advise(&AdviceQuestion {
        skew: 0.0,
        ..skewed
    })
    .unwrap();
    for (one, other) in advice.ranked.iter().zip(&even.ranked) {
        assert_eq!(one.operations_per_second, other.operations_per_second);
    }
}

/// Updates and puts by one client, and what many look up meanwhile in the state that they leave.
#[test]
#[ignore = "long: scripts/test --all"]
fn writes_of_every_scheme_cost_what_is_predicted() {
    let with = |question| AdviceQuestion {
        updates: 0.1,
        inserts: 0.1,
        ..question
    };
    let load = |load, question| AdviceQuestion {
        load: Some(load),
        ..question
    };
    Shapes(0).agree(&with(load(0.5, ask(4, 3))));
    let schemes = Shapes(1).agree(&with(load(0.8, ask(8, 24))));
    for scheme in [
        "linear, heap",
        "cuckoo 3 x 4, parallel, heap",
        "race",
        "duo, inline",
        "duo, heap",
    ] {
        assert!(schemes.iter().any(|one| one == scheme), "{schemes:?}");
    }
    let several = AdviceQuestion {
        values: mostly_small(),
        ..ask(8, 8)
    };
    Shapes(2).agree(&with(load(0.5, several)));
}

#[test]
#[ignore = "long: scripts/test --all"]
fn puts_alone_find_the_tables_nearly_full() {
    let question = AdviceQuestion {
        load: Some(0.86),
        inserts: 0.5,
        clients: 1,
        ..ask(8, 56)
    };
    let schemes = Shapes(0).agree(&question);
    for scheme in [
        "race",
        "duo, inline",
        "duo, heap, writer alone",
        "duo, inline, writer alone",
    ] {
        assert!(schemes.iter().any(|one| one == scheme), "{schemes:?}");
    }
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let why = |question: &AdviceQuestion, scheme: &str| {
        let advice = advise(question).unwrap();
        let ranked = &advice.ranked[place(&advice, scheme)..][..1];
        match &check(question, ranked, &SMALL, &|_| {}).unwrap()[..] {
            [Checked::Not { why, .. }] => why.clone(),
            other => panic!("{other:?}"),
        }
    };
    let large = AdviceQuestion {
        entries: 1_000_000,
        sealed: true,
        ..ask(8, 80_000)
    };
    assert!(why(&large, "sealed, out of band").contains("4 to 65539 bytes"));
    assert!(why(&ask(1, 1), "linear, heap").contains("4 to 65539 bytes"));
    let empty = CheckOptions {
        lookups: 0,
        ..SMALL
    };
    assert!(
        check(&ask(8, 8), &[], &empty, &|_| {})
            .unwrap_err()
            .is_usage()
    );
}

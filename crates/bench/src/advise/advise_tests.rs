use super::*;
use crate::BenchError;
use crate::simulated::TABLE_AT;
use farslot::fabric::sim::{HostId, Simulation};
use farslot::fabric::{Endpoint, Limits};
use farslot::index::Index;
use farslot::index::linear::{LinearTable, ReadPolicy, ReadSizes};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

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

/// Which of the shapes of cuckoo tables a question is checked for: every third, from this one on. They take most of the
/// time, and the questions together check each several times. With `FARSLOT_EVERY_SCHEME` set, all are checked for all.
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
    fn agree(&self, question: &Question) -> Vec<String> {
        self.agree_in(question, &SMALL)
    }

    fn agree_in(&self, question: &Question, options: &CheckOptions) -> Vec<String> {
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
fn words_half_full_mostly_hit() {
    Shapes(0).agree(&Question {
        load: Some(0.5),
        hit_ratio: 0.9,
        ..ask(4, 3)
    });
}

#[test]
fn inline_records_that_mostly_hit() {
    Shapes(1).agree(&Question {
        load: Some(0.8),
        hit_ratio: 0.9,
        ..ask(8, 24)
    });
}

#[test]
fn heap_records_of_which_half_miss() {
    Shapes(2).agree(&Question {
        load: Some(0.9),
        hit_ratio: 0.5,
        ..ask(16, 84)
    });
}

#[test]
fn sealed_tables_for_latency() {
    Shapes(0).agree(&Question {
        load: Some(0.8),
        sealed: true,
        objective: Objective::Latency,
        ..ask(8, 24)
    });
}

#[test]
fn records_of_64_bytes_at_all_loads() {
    for (load, shapes) in [(0.5, Shapes(0)), (0.8, Shapes(1)), (0.9, Shapes(2))] {
        shapes.agree(&Question {
            load: Some(load),
            ..ask(8, 56)
        });
    }
}

#[test]
fn sealed_records_of_16_bytes_that_mostly_miss() {
    // Misses of nearly full tables differ much: it takes more of them.
    let options = CheckOptions {
        slots: 1 << 18,
        lookups: 12_000,
        ..SMALL
    };
    let question = Question {
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
fn values_of_several_sizes() {
    let ranked = |shapes: Shapes, values, load, objective| {
        shapes.agree(&Question {
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
fn sealed_values_of_several_sizes_some_of_them_long() {
    Shapes(2).agree(&Question {
        load: Some(0.8),
        sealed: true,
        values: vec![(100, 3.0), (3000, 1.0)],
        ..ask(8, 8)
    });
}

#[test]
fn keys_that_may_have_several_records() {
    for (sealed, shapes) in [(false, Shapes(0)), (true, Shapes(1))] {
        shapes.agree(&Question {
            load: Some(0.8),
            unique: false,
            sealed,
            ..ask(8, 8)
        });
    }
}

#[test]
fn popular_keys_change_nothing() {
    let skewed = Question {
        load: Some(0.8),
        skew: 0.99,
        ..ask(8, 24)
    };
    Shapes(1).agree(&skewed);
    let advice = advise(&skewed).unwrap();
    assert!(advice.notes[0].contains("changes no figure"));
    let even = advise(&Question {
        skew: 0.0,
        ..skewed
    })
    .unwrap();
    for (one, other) in advice.ranked.iter().zip(&even.ranked) {
        assert_eq!(one.operations_per_second, other.operations_per_second);
    }
}

/// Puts of new keys, one after the other, behind a simulated NIC.
fn puts_cost(question: &Question, scheme: &str) {
    const PUTS: u32 = 2_000;
    let advice = advise(question).unwrap();
    let ranked = &advice.ranked[place(&advice, scheme)];
    let Reads::Linear { layout, read_slots } = &ranked.plan.reads else {
        panic!("{scheme}");
    };
    // As full as the question says half way.
    let before = (SMALL.slots as f64 * ranked.plan.load) as u32 - PUTS / 2;
    let records = |count| check::small_records(question, &ranked.plan, 1, count);
    let filling = check::small_linear(question, &ranked.plan, layout, &SMALL, &records(before));
    let (filling, records) = (filling.unwrap(), records(before + PUTS));
    let world = filling.memory().world(1, question.profile.clone()).unwrap();
    let layout = filling.layout().clone();
    let sizes = ReadSizes::new(&layout, ReadPolicy::Fixed(*read_slots as u32)).unwrap();
    let mut simulation = Simulation::new(world);
    let client = simulation.add_client(HostId(0), Limits::default());
    let done = Rc::new(Cell::new(None));
    let noted = Rc::clone(&done);
    simulation.spawn(client, |endpoint| async move {
        let table = LinearTable::open(Rc::clone(&endpoint), TABLE_AT, layout, sizes)
            .await
            .unwrap();
        let verbs = || {
            let counters = endpoint.core().counters.snapshot();
            counters.verbs.iter().sum::<u64>()
        };
        let since = (endpoint.now(), verbs());
        for record in before..before + PUTS {
            let (key, value) = (records.key(record), records.value(record));
            assert!(table.put(&key, &value).await.unwrap());
        }
        noted.set(Some((endpoint.now() - since.0, verbs() - since.1)));
    });
    let _ = simulation.run_until(10_000_000_000);
    let (span, verbs) = done.get().unwrap();
    let costs = verb_costs(&question.profile);
    let put = price::put(question, &costs, &ranked.plan).unwrap().unwrap();
    let latency = put.latency_ns / (span as f64 / f64::from(PUTS));
    let verbs = put.verbs / (verbs as f64 / f64::from(PUTS));
    println!("{scheme}: put predicted / simulated: latency {latency:.3}, verbs {verbs:.3}");
    assert!(
        (latency - 1.0).abs() < 0.1 && (verbs - 1.0).abs() < 0.1,
        "{scheme}"
    );
}

#[test]
fn a_put_of_a_new_key_costs_what_is_predicted() {
    for load in [0.5, 0.8] {
        let with = |question| Question {
            load: Some(load),
            inserts: 0.1,
            ..question
        };
        puts_cost(&with(ask(4, 3)), "linear, word");
        for scheme in ["linear, pair", "linear, inline", "linear, heap"] {
            puts_cost(&with(ask(8, 8)), scheme);
        }
        let several = Question {
            values: mostly_small(),
            ..ask(8, 8)
        };
        puts_cost(&with(several), "linear, hybrid");
    }
}

#[test]
fn cuckoo_puts_are_not_priced_and_come_last() {
    let advice = advise(&Question {
        inserts: 0.2,
        ..ask(8, 24)
    })
    .unwrap();
    let first = advice.ranked.iter().position(|ranked| ranked.unpriced_puts);
    let (priced, others) = advice.ranked.split_at(first.unwrap());
    assert!(
        priced
            .iter()
            .all(|ranked| ranked.scheme.starts_with("linear"))
    );
    for other in others {
        assert!(other.unpriced_puts && other.why.contains("not priced"));
        let ratio = other.operations_per_second / other.lookups_per_second;
        assert!((ratio - 1.0).abs() < 1e-9);
    }
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
            "skew",
            Question {
                skew: f64::NAN,
                ..ask(8, 8)
            },
        ),
        (
            "updates and inserts",
            Question {
                updates: 0.6,
                inserts: 0.6,
                ..ask(8, 8)
            },
        ),
        (
            "inserts",
            Question {
                inserts: 0.1,
                sealed: true,
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
}

#[test]
fn records_that_no_heap_holds_have_no_reads_out_of_band() {
    let question = ask(8, 1 << 24);
    let reads = question.read_beyond(0).map(drop);
    for refused in [reads, question.block_bytes().map(drop)] {
        let Err(BenchError::BadOption { option, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(option, "value size");
    }
    let (bytes, share) = ask(8, 64).read_beyond(0).unwrap();
    assert_eq!((bytes % 8.0, share), (0.0, 1.0));
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let why = |question: &Question, scheme: &str| {
        let advice = advise(question).unwrap();
        let ranked = &advice.ranked[place(&advice, scheme)..][..1];
        match &check(question, ranked, &SMALL, &|_| {}).unwrap()[..] {
            [Checked::Not { why, .. }] => why.clone(),
            other => panic!("{other:?}"),
        }
    };
    let updates = Question {
        updates: 0.5,
        ..ask(8, 8)
    };
    assert!(why(&updates, "linear, inline").contains("updates are not simulated"));
    let large = Question {
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

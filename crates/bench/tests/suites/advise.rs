//! What the advisor recommends.

use farslot::fabric::sim::NicProfile;
use farslot_bench::BenchError;
use farslot_bench::advise::{Advice, AdviceQuestion, Ranked, Writers, advise};

pub(super) fn ask(key: u32, value: u32) -> AdviceQuestion {
    AdviceQuestion::new(10_000_000, key, value, NicProfile::connectx5_edr())
}

pub(super) fn place(advice: &Advice, scheme: &str) -> usize {
    let is = |ranked: &Ranked| ranked.scheme == scheme;
    advice
        .ranked
        .iter()
        .position(is)
        .unwrap_or_else(|| panic!("{scheme} is not ranked"))
}

#[test]
fn who_may_write_and_look_up_decides() {
    let has = |question: &AdviceQuestion, scheme: &str| {
        let advice = advise(question).unwrap();
        let is = |name: &str| name == scheme;
        let ranked = advice.ranked.iter().any(|one| is(&one.scheme));
        assert_ne!(
            ranked,
            advice.excluded.iter().any(|one| is(&one.scheme)),
            "{scheme}"
        );
        ranked
    };
    let two = ask(8, 24);
    let many = AdviceQuestion {
        clients: 9,
        writers: 3,
        ..two.clone()
    };
    let alone = AdviceQuestion {
        clients: 1,
        ..two.clone()
    };
    let growing = AdviceQuestion {
        grow_to: Some(100_000_000),
        ..two.clone()
    };
    let cases = [
        ("linear, heap", [true, true, true, false]),
        ("cuckoo 3 x 4, parallel, inline", [true, false, true, false]),
        ("race", [true, true, true, true]),
        ("duo, inline", [true, false, true, true]),
        ("duo, inline, writer alone", [false, false, true, false]),
    ];
    for (scheme, expected) in cases {
        let found = [&two, &many, &alone, &growing].map(|question| has(question, scheme));
        assert_eq!(found, expected, "{scheme}");
    }
}

#[test]
fn what_costs_no_verb_costs_the_client_s_processor() {
    let absent = AdviceQuestion {
        clients: 1,
        threads: 28,
        hit_ratio: 0.0,
        ..ask(8, 24)
    };
    let alone = |question: &AdviceQuestion| {
        let advice = advise(question).unwrap();
        advice.ranked[place(&advice, "duo, inline, writer alone")].clone()
    };
    let (many, few) = (
        alone(&absent),
        alone(&AdviceQuestion {
            threads: 2,
            ..absent
        }),
    );
    // Next to no READ: hundreds of ns in an index of 28 MB.
    assert!((200.0..1_000.0).contains(&many.client_ns), "{many:?}");
    assert!((many.lookups_per_second / 14.0 / few.lookups_per_second - 1.0).abs() < 1e-9);
    assert!(many.lookups_per_second < 28e9 / 200.0);
    assert!(few.why.starts_with("client processors"), "{}", few.why);
    // Where there is no index, only verbs are posted.
    let advice = advise(&ask(8, 24)).unwrap();
    let linear = &advice.ranked[place(&advice, "linear, heap")];
    let posted = linear.reads * NicProfile::connectx5_edr().post_ns;
    assert!((linear.client_ns - posted).abs() < 1e-9);
}

#[test]
fn clients_that_remember_where_records_are_take_one_round_trip() {
    let question = AdviceQuestion {
        updates: 0.5,
        ..ask(8, 200)
    };
    let remembering = AdviceQuestion {
        record_locations: 1 << 30,
        ..question.clone()
    };
    let of = |question: &AdviceQuestion| {
        let advice = advise(question).unwrap();
        advice.ranked[place(&advice, "linear, heap")].clone()
    };
    let (none, all) = (of(&question), of(&remembering));
    assert!(none.round_trips > 1.8 && all.round_trips < 1.45, "{all:?}");
    assert!(all.reads < none.reads + 1e-9 && all.latency_ns < none.latency_ns * 0.8);
    let trips = |ranked: &Ranked| ranked.update.unwrap().round_trips;
    assert!(trips(&none) > 2.5 && trips(&all) < 1.6, "{none:?} {all:?}");
    assert_eq!((none.remembered, all.remembered), (0, 1 << 24));
    assert_eq!(all.client_bytes - none.client_bytes, 16 << 24);
    // Whose records are in their slots remembers nothing.
    let inline = advise(&AdviceQuestion {
        updates: 0.0,
        ..remembering
    });
    let inline = inline.unwrap();
    assert_eq!(
        inline.ranked[place(&inline, "linear, inline")].remembered,
        0
    );
}

#[test]
fn growing_costs_new_keys_more() {
    let stays = AdviceQuestion {
        inserts: 0.5,
        ..ask(8, 24)
    };
    let grows = AdviceQuestion {
        grow_to: Some(100_000_000),
        ..stays.clone()
    };
    let (stays, grows) = (advise(&stays).unwrap(), advise(&grows).unwrap());
    for scheme in ["race", "duo, inline"] {
        let of = |advice: &Advice| advice.ranked[place(advice, scheme)].clone();
        let (stays, grows) = (of(&stays), of(&grows));
        let growth = grows.growth.unwrap();
        assert!(stays.growth.is_none() && growth.verbs > 0.2, "{growth:?}");
        assert!(grows.operations_per_second < stays.operations_per_second);
        assert_eq!(grows.put.unwrap().verbs, stays.put.unwrap().verbs);
    }
    assert!(grows.notes.iter().any(|note| note.contains("estimate")));
}

#[test]
fn the_memory_of_clients_is_told_and_may_be_limited() {
    let advice = advise(&ask(8, 24)).unwrap();
    let of = |advice: &Advice, scheme: &str| advice.ranked[place(advice, scheme)].clone();
    // 16.5 bits a slot, and 4 bytes a bucket: of a table 3/4 full.
    let duo = of(&advice, "duo, inline");
    let expected = (16.5 / 8.0 + 4.0 / 8.0) / 0.75;
    assert!(
        (duo.client_bytes_per_record / expected - 1.0).abs() < 0.01,
        "{duo:?}"
    );
    assert_eq!((duo.writers, duo.can_grow), (Writers::One, true));
    let race = of(&advice, "race");
    assert!(race.client_bytes < 1024 && race.writers == Writers::Any && race.can_grow);
    assert_eq!(of(&advice, "linear, heap").client_bytes, 0);
    // A fuller table has less index.
    let limited = AdviceQuestion {
        client_memory: Some((duo.client_bytes as f64 * 0.85) as u64),
        ..ask(8, 24)
    };
    assert!(of(&advise(&limited).unwrap(), "duo, inline").load > 0.8);
    let little = AdviceQuestion {
        client_memory: Some(1 << 20),
        ..ask(8, 24)
    };
    let little = advise(&little).unwrap();
    let out = little
        .excluded
        .iter()
        .find(|one| one.scheme == "duo, inline");
    assert!(
        out.unwrap().why.contains("of each client's memory"),
        "{out:?}"
    );
    assert!(little.ranked.iter().all(|one| one.client_bytes <= 1 << 20));
}

#[test]
fn tables_that_grow_have_the_memory_for_it() {
    let question = AdviceQuestion {
        grow_to: Some(80_000_000),
        ..ask(8, 24)
    };
    let (grows, stays) = (advise(&question).unwrap(), advise(&ask(8, 24)).unwrap());
    for scheme in ["race", "duo, inline", "duo, heap"] {
        let of = |advice: &Advice| advice.ranked[place(advice, scheme)].clone();
        let (grows, stays) = (of(&grows), of(&stays));
        let times = grows.memory_bytes as f64 / stays.memory_bytes as f64;
        assert!((6.0..20.0).contains(&times), "{scheme}: {times}");
        assert_eq!(grows.latency_ns, stays.latency_ns);
    }
}

#[test]
fn tables_are_no_fuller_than_their_schemes_get() {
    let nearly = AdviceQuestion {
        load: Some(0.95),
        ..ask(8, 24)
    };
    let advice = advise(&nearly).unwrap();
    let race = advice
        .excluded
        .iter()
        .find(|one| one.scheme == "race")
        .unwrap();
    assert!(race.why.contains("full at 0.87"), "{race:?}");
    // One READ, however full it is.
    let duo = &advice.ranked[place(&advice, "duo, inline")];
    assert!((0.9..1.3).contains(&duo.round_trips), "{duo:?}");
    assert!(
        (1.0..1.6).contains(&duo.put.unwrap().round_trips),
        "{duo:?}"
    );
}

#[test]
fn small_unique_records_go_into_linear_words() {
    let advice = advise(&AdviceQuestion {
        load: Some(0.8),
        ..ask(4, 3)
    })
    .unwrap();
    // Of those whose clients keep nothing; with an index in each client's memory one READ is always
    // enough.
    let mut without_index = advice.ranked.iter().filter(|one| one.client_bytes == 0);
    assert_eq!(without_index.next().unwrap().scheme, "linear, word");
    assert_eq!(advice.ranked[0].scheme, "duo, inline");
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
    let several = AdviceQuestion {
        values: vec![(10, 1.0), (1000, 0.1)],
        ..ask(8, 56)
    };
    assert!(excluded(&advise(&several).unwrap(), "linear, inline").contains("fixed sizes"));
    let multi = AdviceQuestion {
        unique: false,
        ..ask(8, 56)
    };
    assert!(excluded(&advise(&multi).unwrap(), "cuckoo 3 x 4, parallel, heap").contains("sealed"));
    let little = AdviceQuestion {
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
        advise(&AdviceQuestion {
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
    let mixed = advise(&AdviceQuestion {
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
            AdviceQuestion {
                entries: 0,
                ..ask(8, 8)
            },
        ),
        (
            "value sizes",
            AdviceQuestion {
                values: vec![],
                ..ask(8, 8)
            },
        ),
        (
            "weight of a value size",
            AdviceQuestion {
                values: vec![(8, f64::NAN)],
                ..ask(8, 8)
            },
        ),
        (
            "hit ratio",
            AdviceQuestion {
                hit_ratio: 1.5,
                ..ask(8, 8)
            },
        ),
        (
            "load factor",
            AdviceQuestion {
                load: Some(1.0),
                ..ask(8, 8)
            },
        ),
        (
            "clients",
            AdviceQuestion {
                clients: 0,
                writers: 0,
                ..ask(8, 8)
            },
        ),
        (
            "number of writers",
            AdviceQuestion {
                writers: 3,
                ..ask(8, 8)
            },
        ),
        (
            "capacity to grow to",
            AdviceQuestion {
                grow_to: Some(9),
                ..ask(8, 8)
            },
        ),
        (
            "skew",
            AdviceQuestion {
                skew: f64::NAN,
                ..ask(8, 8)
            },
        ),
        (
            "updates and inserts",
            AdviceQuestion {
                updates: 0.6,
                inserts: 0.6,
                ..ask(8, 8)
            },
        ),
        (
            "inserts",
            AdviceQuestion {
                inserts: 0.1,
                sealed: true,
                ..ask(8, 8)
            },
        ),
        (
            "updates",
            AdviceQuestion {
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

/// Of data that never changes nothing is read but the slot of the key, and its record.
#[test]
fn a_perfect_hash_is_the_best_for_what_never_changes() {
    for (key, value) in [(8, 8), (8, 24), (16, 300)] {
        for hit_ratio in [1.0, 0.5] {
            let question = AdviceQuestion {
                sealed: true,
                hit_ratio,
                ..ask(key, value)
            };
            let advice = advise(&question).unwrap();
            let first = &advice.ranked[0];
            // Where half of the lookups miss, a large record is better not read with its slot.
            let (form, reads) = match (value, hit_ratio) {
                (300, 0.5) => ("out of band", 1.5 + 0.5 / 256.0),
                _ => ("inline", 1.0),
            };
            assert_eq!(first.scheme, format!("sealed, {form}, perfect hash"));
            assert!((first.reads - reads).abs() < 1e-9, "{first:?}");
            assert_eq!(first.load, 0.99);
            assert!(first.client_bytes_per_record < 0.3, "{first:?}");
            assert!(first.why.contains("perfect hash function"), "{}", first.why);
        }
    }
}

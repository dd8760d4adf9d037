//! Lookups behind a simulated NIC.

use farslot::FieldSize;
use farslot::fabric::sim::NicProfile;
use farslot::index::Sizing;
use farslot::index::cuckoo::{CuckooOptions, LookupOrder};
use farslot::index::linear::{KeyRule, LinearOptions, ReadPolicy, SlotKind};
use farslot::index::sealed::{SealedForm, SealedOptions, SlotOrder};
use farslot::layout::Scheme;
use farslot::model::{ProbeDistribution, TableLoad};
use farslot_bench::simulated::{
    Answer, Ask, BuiltSealed, Experiment, Filling, Records, RunLimit, SimulatedTable, WARM_UP,
    Zipf, built_cuckoo,
};

const SLOTS: u64 = 1 << 14;
const SEED: u64 = 3;

fn profile() -> NicProfile {
    NicProfile::connectx5_edr()
}

/// Linear tables of 8-byte records.
fn linear(rule: KeyRule, records: &Records, read_size: u32) -> (Filling, SimulatedTable) {
    let four_bytes = FieldSize::Fixed(4);
    let options = LinearOptions {
        slot: Some(SlotKind::Word),
        ..LinearOptions::new(Sizing {
            load_factor: Some(1.0),
            keys: rule,
            ..Sizing::new(SLOTS, four_bytes, four_bytes, SEED)
        })
    };
    let layout = options.layout().unwrap();
    let mut filling = Filling::new(layout.clone()).unwrap();
    filling.fill_with(records).unwrap();
    let policy = ReadPolicy::Fixed(read_size);
    (
        filling,
        SimulatedTable::by_policy(Scheme::Linear(layout), policy),
    )
}

fn cuckoo_layout(
    records: &Records,
    slot: SlotKind,
    keys: KeyRule,
) -> farslot::index::cuckoo::CuckooLayout {
    let fixed = FieldSize::Fixed;
    CuckooOptions {
        slot: Some(slot),
        ..CuckooOptions::new(Sizing {
            keys,
            ..Sizing::new(
                u64::from(records.count()),
                fixed(4),
                fixed(records.value_bytes() as u32),
                SEED,
            )
        })
    }
    .layout()
    .unwrap()
}

fn experiment(table: SimulatedTable, records: Records, ask: Ask, answer: Answer) -> Experiment {
    Experiment {
        table,
        records,
        ask,
        answer,
        threads: 28,
        width: 24,
        warm_up: WARM_UP,
        until: RunLimit::Lookups(20_000),
        seed: SEED,
    }
}

#[test]
fn a_linear_table_is_read_as_the_model_says() {
    let records = Records::distinct(SEED, (SLOTS as f64 * 0.5) as u32, 4);
    let (filling, table) = linear(KeyRule::Multi, &records, 8);
    let fill = TableLoad::from_load(SLOTS, 0.5).unwrap();
    let hits = ProbeDistribution::hit_all_matches(fill).unwrap();
    for (ask, distances) in [
        (Ask::Hits, hits),
        (Ask::Misses, ProbeDistribution::miss(fill)),
    ] {
        let run = experiment(table.clone(), records.clone(), ask, Answer::AllRecords);
        let measured = run
            .run(filling.memory().world(SEED, profile()).unwrap())
            .unwrap();
        let expected = distances.expected_reads(8);
        let reads = measured.table_reads_per_lookup();
        assert!((reads / expected - 1.0).abs() < 0.02, "{reads} {expected}");
        assert_eq!(measured.posted.to_heap, 0);
        assert_eq!(
            measured.posted.bytes,
            measured.posted.to_table * 64,
            "a wrapped READ is one, of as many slots"
        );
        // The NIC of the table is what is short.
        let busy = measured.lookups_per_second() * reads * (15.0 + 0.0713 * 64.0);
        assert!((0.97..1.01).contains(&(busy / 1e9)), "{busy}");
        assert!((measured.share_with_reads(1) - 1.0).abs() < 1e-9);
        let twice = distances.survival(8);
        assert!((measured.share_with_reads(2) / twice - 1.0).abs() < 0.2);
    }
}

#[test]
fn a_cuckoo_table_is_read_three_times_and_its_heap_once() {
    let records = Records::distinct(SEED, 10_000, 4);
    for (slot, to_heap) in [(SlotKind::Word, 0.0), (SlotKind::Heap, 1.0)] {
        let layout = cuckoo_layout(&records, slot, KeyRule::Unique);
        let memory = built_cuckoo(&layout, &records).unwrap();
        let order = LookupOrder::Parallel;
        let table = SimulatedTable::cuckoo(layout, order);
        let run = experiment(table, records.clone(), Ask::Hits, Answer::Value);
        let measured = run.run(memory.world(SEED, profile()).unwrap()).unwrap();
        assert!((measured.table_reads_per_lookup() - 3.0).abs() < 0.01);
        let heap = measured.heap_reads_per_lookup();
        assert!((heap - to_heap).abs() < 0.01, "{heap}");
        assert_eq!(
            measured.records, measured.lookups,
            "each finds its record as it ends"
        );
    }
}

#[test]
fn one_lookup_at_a_time_on_an_idle_fabric_has_the_latency_of_a_read() {
    let records = Records::distinct(SEED, (SLOTS / 4) as u32, 4);
    let (filling, table) = linear(KeyRule::Unique, &records, 32);
    let run = Experiment {
        threads: 1,
        width: 1,
        until: RunLimit::Lookups(1_000),
        ..experiment(table, records, Ask::Hits, Answer::Value)
    };
    let measured = run
        .run(filling.memory().world(SEED, profile()).unwrap())
        .unwrap();
    let expected = 1290.0 + 0.08 * 256.0;
    assert!((measured.latency_ns(50.0) / expected - 1.0).abs() < 0.01);
    let per_second = measured.lookups_per_second();
    let mean = measured.mean_latency_ns();
    assert!((per_second * mean / 1e9 - 1.0).abs() < 0.02, "{mean}");
    assert!(
        (per_second * expected / 1e9 - 1.0).abs() < 0.02,
        "{per_second}"
    );
}

#[test]
fn keys_with_several_records_are_found_with_all_of_them() {
    let keys = Zipf::new(2_000, 0.5);
    let records = Records::drawn(SEED, 8_000, &keys, 4);
    let (filling, table) = linear(KeyRule::Multi, &records, 32);
    let run = experiment(table, records, Ask::Hits, Answer::AllRecords);
    let measured = run
        .run(filling.memory().world(SEED, profile()).unwrap())
        .unwrap();
    assert!(measured.records > 3 * measured.lookups);
}

#[test]
fn popular_records_are_looked_up_more_often() {
    let records = Records::distinct(SEED, 5_000, 4);
    let (filling, table) = linear(KeyRule::Unique, &records, 8);
    let world = || filling.memory().world(SEED, profile()).unwrap();
    let run = |ask| experiment(table.clone(), records.clone(), ask, Answer::Value).run(world());
    let reads = |ask| run(ask).unwrap().table_reads_per_lookup();
    // The first of the records is the only one that is asked for, and it lies where it belongs.
    let one = reads(Ask::Popular(Zipf::new(1, 0.0)));
    assert!((one - 1.0).abs() < 1e-9, "{one}");
    assert!(reads(Ask::Hits) > 1.0);
}

#[test]
fn a_wrong_answer_ends_the_experiment() {
    let records = Records::distinct(SEED, 5_000, 4);
    let (filling, table) = linear(KeyRule::Unique, &records, 8);
    let more = Records::distinct(SEED, 6_000, 4);
    let run = experiment(table, more, Ask::Hits, Answer::Value);
    let world = filling.memory().world(SEED, profile()).unwrap();
    assert!(matches!(
        run.run(world),
        Err(farslot_bench::BenchError::WrongAnswers { .. })
    ));
}

#[test]
fn records_out_of_band_are_told_from_slots() {
    let records = Records::distinct(SEED, 5_000, 60);
    let fixed = FieldSize::Fixed;
    let layout = LinearOptions {
        slot: Some(SlotKind::Heap),
        ..LinearOptions::new(Sizing::new(10_000, fixed(4), fixed(60), SEED))
    }
    .layout()
    .unwrap();
    let mut filling = Filling::new(layout.clone()).unwrap();
    filling.fill_with(&records).unwrap();
    let table = SimulatedTable::by_policy(Scheme::Linear(layout), ReadPolicy::Fixed(16));
    let run = experiment(table, records, Ask::Hits, Answer::Value);
    let measured = run
        .run(filling.memory().world(SEED, profile()).unwrap())
        .unwrap();
    assert!((measured.heap_reads_per_lookup() - 1.0).abs() < 0.01);
    assert!((1.0..1.05).contains(&measured.table_reads_per_lookup()));
    // The seed decides.
    let again = run.run(filling.memory().world(SEED, profile()).unwrap());
    let again = again.unwrap();
    assert_eq!(
        (again.lookups, again.posted, again.span),
        (measured.lookups, measured.posted, measured.span)
    );
}

#[test]
fn a_sealed_table_reads_its_heap_for_matches_and_for_signatures_alike() {
    let records = Records::distinct(SEED, 10_000, 28);
    let fixed = FieldSize::Fixed;
    let options = SealedOptions {
        form: Some(SealedForm::OutOfBand),
        order: SlotOrder::Arrival,
        ..SealedOptions::new(Sizing {
            load_factor: Some(0.65),
            keys: KeyRule::Multi,
            ..Sizing::new(0, fixed(4), fixed(28), SEED)
        })
    };
    let built = BuiltSealed::new(&options, &records).unwrap();
    assert_eq!(built.layout.slot_bytes(), 5);
    assert_eq!(built.read_size(ReadPolicy::Fixed(29)).unwrap(), 29);
    let scheme = Scheme::Sealed(built.layout.clone());
    let table = SimulatedTable::by_policy(scheme, ReadPolicy::Fixed(29));
    let run = experiment(table, records, Ask::Hits, Answer::AllRecords);
    let measured = run
        .run(built.memory.world(SEED, profile()).unwrap())
        .unwrap();
    // One slot in 256 of those passed over has the key's signature by chance.
    let heap = measured.heap_reads_per_lookup();
    assert!((1.005..1.05).contains(&heap), "{heap}");
    let bytes = measured.posted.to_table * 29 * 5 + measured.posted.to_heap * 32;
    let short = bytes - measured.posted.bytes;
    assert!(short < bytes / 1000, "READs at the table's end are shorter");
}

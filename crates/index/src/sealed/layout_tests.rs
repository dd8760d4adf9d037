//! Which options make a table, and how large it is.

use super::*;
use crate::IndexError;
use crate::Sizing;
use proptest::prelude::*;

fn fixed(key: u32, value: u32) -> SealedOptions {
    SealedOptions::new(Sizing::new(
        0,
        FieldSize::Fixed(key),
        FieldSize::Fixed(value),
        1,
    ))
}

fn out(options: SealedOptions) -> SealedOptions {
    SealedOptions {
        form: Some(SealedForm::OutOfBand),
        ..options
    }
}

#[test]
fn slots_are_as_small_as_paper_000s() {
    for (key, value) in [(8, 0), (8, 24), (8, 120)] {
        let inline = SealedOptions {
            form: Some(SealedForm::Inline),
            ..fixed(key, value)
        };
        let layout = inline.holding(100, 0).layout().unwrap();
        assert_eq!(layout.slot_bytes(), (key + value) as usize);
        let arrival = SealedOptions {
            order: SlotOrder::Arrival,
            ..out(fixed(key, value))
        };
        assert_eq!(arrival.holding(100, 0).layout().unwrap().slot_bytes(), 5);
        assert_eq!(
            out(fixed(key, value))
                .holding(100, 0)
                .layout()
                .unwrap()
                .slot_bytes(),
            6
        );
    }
    let sized = SealedOptions::new(Sizing::new(0, FieldSize::UpTo(20), FieldSize::Fixed(8), 1));
    let layout = sized.holding(100, 1000).layout().unwrap();
    assert_eq!(
        (layout.form, layout.slot_bytes()),
        (SealedForm::OutOfBand, 7)
    );
}

#[test]
fn sizes_choose_the_form() {
    let form = |options: SealedOptions| options.holding(9, 0).layout().unwrap().form;
    assert_eq!(form(fixed(8, 24)), SealedForm::Inline);
    assert_eq!(form(fixed(8, 25)), SealedForm::OutOfBand);
}

#[test]
fn offsets_are_as_wide_as_the_heap_needs() {
    let width = |heap_bytes| {
        let sized = SealedOptions::new(Sizing::new(0, FieldSize::UpTo(20), FieldSize::UpTo(20), 1));
        sized.holding(9, heap_bytes).layout().unwrap().offset_bytes
    };
    let units = |bits: u32| (1u64 << bits) * 8;
    assert_eq!(width(units(32) - 8), 4);
    assert_eq!(width(units(32)), 5);
    assert_eq!(width(units(48)), 7);
    let wide = SealedOptions {
        offset_bytes: Some(7),
        ..out(fixed(8, 8))
    };
    let layout = wide.holding(9, 0).layout().unwrap();
    assert_eq!((layout.offset_bytes, layout.slot_bytes()), (7, 9));
}

#[test]
fn options_that_no_table_can_have_are_named() {
    let with = |change: fn(&mut SealedOptions)| {
        let mut options = fixed(8, 8);
        change(&mut options);
        options
    };
    let sized = FieldSize::UpTo(9);
    let refused = [
        (
            "load factor",
            with(|of| of.sizing.load_factor = Some(f64::NAN))
                .holding(9, 0)
                .layout(),
        ),
        (
            "load factor",
            with(|of| of.sizing.load_factor = Some(1.1))
                .holding(9, 0)
                .layout(),
        ),
        ("slots", fixed(8, 8).holding(1 << 33, 0).layout()),
        (
            "slots",
            with(|of| of.sizing.load_factor = Some(1e-9))
                .holding(1 << 10, 0)
                .layout(),
        ),
        ("capacity", fixed(8, 8).holding(u64::MAX, 0).layout()),
        ("key size", fixed(0, 8).holding(9, 0).layout()),
        ("key size", out(fixed(0, 0)).holding(9, 0).layout()),
        (
            "key and value size",
            fixed(8, u32::MAX).holding(9, 0).layout(),
        ),
        (
            "key and value size",
            out(fixed(u32::MAX, u32::MAX)).holding(9, 0).layout(),
        ),
        (
            "hash",
            with(|of| (of.sizing.hasher, of.sizing.key) = (Hasher::Knuth, FieldSize::Fixed(9)))
                .holding(9, 0)
                .layout(),
        ),
        (
            "offset bytes",
            SealedOptions {
                offset_bytes: Some(3),
                ..out(fixed(8, 8))
            }
            .holding(9, 0)
            .layout(),
        ),
        (
            "offset bytes",
            SealedOptions {
                offset_bytes: Some(8),
                ..out(fixed(8, 8))
            }
            .holding(9, 0)
            .layout(),
        ),
        (
            "heap bytes",
            SealedOptions {
                offset_bytes: Some(4),
                ..SealedOptions::new(Sizing::new(0, sized, sized, 1))
            }
            .holding(9, 1 << 35)
            .layout(),
        ),
        (
            "offset bytes",
            SealedOptions::new(Sizing::new(0, sized, sized, 1))
                .holding(9, u64::MAX)
                .layout(),
        ),
        (
            "form",
            SealedOptions {
                form: Some(SealedForm::Inline),
                ..SealedOptions::new(Sizing::new(0, sized, sized, 1))
            }
            .holding(9, 0)
            .layout(),
        ),
    ];
    for (named, layout) in refused {
        match layout {
            Err(IndexError::BadOption { option, .. }) => assert_eq!(option, named),
            other => panic!("{named}: {other:?}"),
        }
    }
}

#[test]
fn a_layout_that_no_options_give_is_refused() {
    let good = out(fixed(8, 8)).holding(9, 0).layout().unwrap();
    assert!(good.check().is_ok());
    let changes: [fn(&mut SealedLayout); 7] = [
        |of| of.homes = 0,
        |of| of.homes = of.slots + 1,
        |of| of.slots = u64::MAX,
        |of| of.offset_bytes = 0,
        |of| of.key = FieldSize::Fixed(0),
        |of| of.heap_bytes = u64::MAX,
        |of| of.form = SealedForm::Inline,
    ];
    for change in changes {
        let mut layout = good.clone();
        change(&mut layout);
        assert!(layout.check().is_err(), "{layout:?}");
    }
}

proptest! {
    /// No slot too few, none too many, whatever the keys hash to.
    #[test]
    fn a_layout_for_records_has_room_for_just_these(
        keys in proptest::collection::vec(0u8..60, 0..200),
        load in 0.05f64..=1.0,
    ) {
        let keys: Vec<[u8; 1]> = keys.into_iter().map(|key| [key]).collect();
        let records: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &[][..])).collect();
        let options = SealedOptions { sizing: Sizing { load_factor: Some(load), keys: KeyRule::Multi, ..fixed(1, 0).sizing }, ..fixed(1, 0) };
        let layout = options.layout_for(&records).unwrap();
        let mut homes: Vec<u64> = keys
            .iter()
            .map(|key| crate::hash::scale(layout.hasher.hash(key), layout.homes))
            .collect();
        homes.sort_unstable();
        let end = homes.iter().fold(0, |next, home| next.max(*home) + 1);
        prop_assert_eq!(layout.slots, end.max(layout.homes));
        prop_assert!(layout.homes as f64 * load >= records.len() as f64 - 1e-6);
    }
}

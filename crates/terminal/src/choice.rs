//! Options whose value is one of a few names, each with its help.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use farslot::SlotKind;

/// Reads one of these values by its name.
pub fn of<T: Copy + Send + Sync + 'static, const VALUES: usize>(
    values: [T; VALUES],
    name: fn(T) -> &'static str,
    help: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let named = values.map(|value| PossibleValue::new(name(value)).help(help(value)));
    PossibleValuesParser::new(named).map(move |given| {
        let chosen = values.into_iter().find(|value| name(*value) == given);
        chosen.expect("one of the possible values")
    })
}

/// Reads what a slot holds.
pub fn slots() -> impl TypedValueParser<Value = SlotKind> {
    of(SlotKind::ALL, SlotKind::name, |slots| match slots {
        SlotKind::Word => "Key and value in one word of 63 bits",
        SlotKind::Pair => "A word of key and a word of value",
        SlotKind::Inline => "Key and value of fixed sizes",
        SlotKind::Heap => "A reference to a record elsewhere",
        SlotKind::Hybrid => "Key and value of any sizes where they fit, else a reference",
        SlotKind::Signatures => {
            "Four signatures and a reference to four records elsewhere: of cuckoo tables"
        }
    })
}

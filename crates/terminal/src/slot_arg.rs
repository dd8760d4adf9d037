//! The option that says what a slot holds.

use clap::ValueEnum;
use farslot::SlotKind;

/// What a slot holds, as an option.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum SlotArg {
    /// Key and value in one word of 63 bits
    Word,
    /// A word of key and a word of value
    Pair,
    /// Key and value of fixed sizes
    Inline,
    /// A reference to a record elsewhere
    Heap,
    /// Key and value of any sizes where they fit, else a reference
    Hybrid,
    /// Four signatures and a reference to four records elsewhere: of cuckoo tables
    Signatures,
}

impl From<SlotArg> for SlotKind {
    fn from(slot: SlotArg) -> Self {
        match slot {
            SlotArg::Word => Self::Word,
            SlotArg::Pair => Self::Pair,
            SlotArg::Inline => Self::Inline,
            SlotArg::Heap => Self::Heap,
            SlotArg::Hybrid => Self::Hybrid,
            SlotArg::Signatures => Self::Signatures,
        }
    }
}

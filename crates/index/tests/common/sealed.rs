//! What the tests of sealed tables share: their shapes, keys and values, and tables on nodes of any
//! fabric.

use super::TABLE;
use farslot_fabric::{Executor, Rights};
use farslot_index::Sizing;
use farslot_index::sealed::{
    ReadPolicy, SealedForm, SealedLayout, SealedOptions, SealedTable, SlotOrder,
};
use farslot_index::{FieldSize, KeyRule};
use farslot_testbed::{AnyEndpoint, Fabric, TestNode};
use std::rc::Rc;

/// What a table's records and slots are like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    pub form: SealedForm,
    pub order: SlotOrder,
    pub keys: KeyRule,
    pub key: FieldSize,
    pub value: FieldSize,
    /// Whether clients keep a filter.
    pub filter: bool,
}

/// All combinations of forms, orders and key rules, with several sizes each.
pub fn shapes() -> Vec<Shape> {
    use FieldSize::{Fixed, UpTo};
    use SealedForm::{Inline, OutOfBand};
    let sizes = [
        (Inline, Fixed(8), Fixed(0)),
        (Inline, Fixed(8), Fixed(8)),
        (Inline, Fixed(8), Fixed(24)),
        (Inline, Fixed(2), Fixed(1)),
        (Inline, Fixed(13), Fixed(6)),
        (Inline, Fixed(7), Fixed(121)),
        (OutOfBand, Fixed(8), Fixed(8)),
        (OutOfBand, Fixed(3), Fixed(2)),
        (OutOfBand, Fixed(9), Fixed(119)),
        (OutOfBand, UpTo(40), UpTo(300)),
        (OutOfBand, UpTo(9), Fixed(4)),
        (OutOfBand, Fixed(4), UpTo(4000)),
    ];
    let mut shapes = Vec::new();
    for (form, key, value) in sizes {
        for order in [SlotOrder::Arrival, SlotOrder::ByHash] {
            for keys in [KeyRule::Unique, KeyRule::Multi] {
                shapes.push(Shape {
                    form,
                    order,
                    keys,
                    key,
                    value,
                    filter: false,
                });
            }
        }
    }
    // With one slot a key also records of variable size may be inline.
    let sized = [(Inline, UpTo(40), UpTo(30)), (Inline, UpTo(9), Fixed(4))];
    let word = (Inline, Fixed(3), Fixed(5));
    for (form, key, value) in sizes.into_iter().chain(sized).chain([word]) {
        for filter in [false, true] {
            shapes.push(Shape {
                form,
                order: SlotOrder::Perfect,
                keys: KeyRule::Unique,
                key,
                value,
                filter,
            });
        }
    }
    shapes
}

impl Shape {
    pub fn options(self, load_factor: f64) -> SealedOptions {
        let most_load = match self.order {
            SlotOrder::Perfect => 0.995,
            _ => 1.0,
        };
        SealedOptions {
            form: Some(self.form),
            order: self.order,
            filter: self.filter,
            ..SealedOptions::new(Sizing {
                load_factor: Some(load_factor.min(most_load)),
                keys: self.keys,
                ..Sizing::new(0, self.key, self.value, 11)
            })
        }
    }

    /// Key number `number`; all differ. Those of number 0 are all zeros.
    pub fn key(self, number: u16) -> Vec<u8> {
        let least = match self.key {
            FieldSize::Fixed(len) => len as usize,
            FieldSize::UpTo(most) => 2 + usize::from(number) * 7 % (most as usize - 1),
        };
        let mut key: Vec<u8> = (0..least)
            .map(|at| (usize::from(number) * at) as u8)
            .collect();
        key[..2].copy_from_slice(&number.to_le_bytes());
        key
    }

    /// The value that stands for `number`, as far as it fits.
    pub fn value(self, number: u64) -> Vec<u8> {
        let len = match self.value {
            FieldSize::Fixed(len) => len as usize,
            FieldSize::UpTo(most) => {
                (number.wrapping_mul(0x9e37_79b9) % u64::from(most + 1)) as usize
            }
        };
        let bytes = number.to_le_bytes();
        (0..len)
            .map(|at| bytes[at % 8].wrapping_add((at / 8) as u8))
            .collect()
    }
}

/// Bytes of a region that holds a table.
pub fn region_bytes(layout: &SealedLayout) -> u64 {
    TABLE.offset + u64::try_from(layout.table_bytes()).unwrap()
}

/// A node with room for the table.
pub fn new_node(fabric: Fabric, layout: &SealedLayout) -> TestNode {
    fabric.start(&[(region_bytes(layout), Rights::ALL)])
}

/// A client of its own, and the table that lies on the node.
pub fn new_client(
    node: &TestNode,
    layout: &SealedLayout,
    policy: ReadPolicy,
) -> (Executor<AnyEndpoint>, SealedTable<AnyEndpoint>) {
    let endpoint = node.connect(Fabric::limits());
    let executor = Executor::new(Rc::clone(&endpoint));
    let opening = SealedTable::open(endpoint, TABLE, layout.clone(), policy);
    let table = executor.block_on(opening).unwrap();
    (executor, table)
}

/// A table, its node and its only client.
pub fn new_table(
    fabric: Fabric,
    layout: &SealedLayout,
    policy: ReadPolicy,
) -> (TestNode, Executor<AnyEndpoint>, SealedTable<AnyEndpoint>) {
    let node = new_node(fabric, layout);
    let (executor, table) = new_client(&node, layout, policy);
    (node, executor, table)
}

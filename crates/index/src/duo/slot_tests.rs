//! What a reader makes of a slot whose words it has loaded at different moments.
//!
//! A READ may see its words in any order and last for as long as it likes, and a thread that copies
//! a slot may be descheduled between any two words. So every joining of the slot's states is looked
//! at, whatever use of the slot its words are of.

use super::records::{SlotReading, SlotToMeet};
use super::{DuoLayout, DuoOptions, DuoTable};
use crate::heap::BlockRef;
use crate::slot::SlotKind;
use crate::step::ReadPieces;
use crate::{FieldSize, IndexExt, Sizing};
use farslot_fabric::schedule::{self, Plan};
use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::{EndpointExt, Executor, Limits, NodeId, RegionId, RemoteAddr, Rights};
use std::ops::Range;
use std::rc::Rc;

const TABLE: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 4096,
};
const KEY: [u8; 8] = [7; 8];

/// The words of a slot.
type Words = Vec<u64>;

/// Words as a reader has loaded them.
struct Loaded(Words);

impl ReadPieces for Loaded {
    fn words(&self, _: usize) -> impl Fn(usize) -> u64 {
        |number| self.0[number]
    }

    fn bytes(&mut self, piece: usize, bytes: Range<usize>) -> &[u8] {
        self.bytes_again(piece, bytes)
    }

    fn bytes_again(&self, _: usize, bytes: Range<usize>) -> &[u8] {
        &bytemuck::cast_slice(&self.0)[bytes]
    }
}

/// What the slot has of the key.
#[derive(PartialEq, Eq, Debug)]
enum KeyPresence {
    Value(Vec<u8>),
    Block(BlockRef),
}

/// A table with one slot for the key, as good as.
struct Bed {
    layout: DuoLayout,
    node: Node,
}

impl Bed {
    fn new(slot: SlotKind) -> Self {
        let size = FieldSize::Fixed(8);
        let options = DuoOptions {
            slot,
            readers: true,
            ..DuoOptions::new(Sizing::new(16, size, size, 7))
        };
        let layout = options.layout().unwrap();
        let end = TABLE.offset + u64::try_from(layout.table_bytes()).unwrap();
        let region = RegionSpec {
            len: end,
            rights: Rights::ALL,
        };
        let node = Node::embedded(&[region]).unwrap();
        Self { layout, node }
    }

    fn client(&self) -> (Executor<ShmEndpoint>, DuoTable<ShmEndpoint>) {
        let endpoint = ShmEndpoint::new(vec![self.node.clone()], Limits::default());
        let endpoint = Rc::new(endpoint);
        let table = DuoTable::open(Rc::clone(&endpoint), TABLE, self.layout.clone());
        (Executor::new(endpoint), table.unwrap())
    }

    /// The owner puts, updates and removes the key, again and again, unless it stops before this
    /// access for good.
    fn write(&self, stop: Option<u64>) -> Option<()> {
        let plan = Plan {
            seed: 1,
            begins_at: 0,
            longest_turn: u64::MAX,
            stops: vec![stop],
            longest_jump: 0,
            swaps_blindly: false,
        };
        let ended = schedule::run(&plan, 1, |_| {
            let (executor, table) = self.client();
            executor.block_on(async {
                for round in [1, 4] {
                    table.put(&KEY, &[round; 8]).await.unwrap();
                    table.update(&KEY, &[round + 1; 8]).await.unwrap();
                    assert!(table.remove(&KEY).await.unwrap());
                }
                table.put(&KEY, &[9; 8]).await.unwrap();
            });
        });
        ended.results.into_iter().next().flatten()
    }

    /// What a reader makes of a slot with these words.
    fn look(&self, words: Words) -> Option<KeyPresence> {
        let (_, table) = self.client();
        let head = super::bytes::live_head(self.layout.hash_of(&KEY));
        let (mut slot, mut read) = (SlotToMeet::new(TABLE), Loaded(words));
        let heap = table.heap.as_ref();
        match slot.look(&self.layout, heap, (&KEY, head), &mut read) {
            SlotReading::Key(value) => Some(KeyPresence::Value(read.bytes(0, value).to_vec())),
            SlotReading::Named => self
                .layout
                .block_of(read.word(0, 1))
                .map(KeyPresence::Block),
            SlotReading::Other | SlotReading::Dead | SlotReading::Torn => None,
        }
    }

    /// All states that the key's slot has, in their order.
    fn states(slot: SlotKind) -> (Self, Vec<Words>) {
        let bed = Self::new(slot);
        assert!(bed.write(None).is_some());
        let (executor, _) = bed.client();
        let arrays = bed.layout.arrays();
        let slot_bytes = bed.layout.slot_bytes() as u64;
        let read = |executor: &Executor<ShmEndpoint>, at: u64| {
            let at = TABLE.plus(at);
            let read = executor.endpoint().read(at, slot_bytes as usize);
            executor.block_on(read).unwrap().words().to_vec()
        };
        let mut slots = arrays.step_by(slot_bytes as usize);
        let at = slots.find(|at| read(&executor, *at)[0] != 0).unwrap();
        let mut states: Vec<Words> = Vec::new();
        for stop in 1.. {
            let bed = Self::new(slot);
            let ended = bed.write(Some(stop)).is_some();
            let words = read(&bed.client().0, at);
            if states.last() != Some(&words) {
                states.push(words);
            }
            if ended {
                break;
            }
        }
        (bed, states)
    }
}

/// The head, the word behind it, and the rest, each from a state of its own: what is found so is
/// what the slot had in one of the states between the first and the last of them.
#[test]
fn words_of_different_uses_of_a_slot_join_to_no_record_that_was_not_there() {
    for slot in [SlotKind::Inline, SlotKind::Heap] {
        let (bed, states) = Bed::states(slot);
        let had: Vec<_> = states.iter().map(|words| bed.look(words.clone())).collect();
        let mut values: Vec<_> = had.iter().flatten().collect();
        values.dedup();
        assert_eq!(values.len(), 5, "{slot:?}: {values:?}");
        let all = 0..states.len();
        let (mut found, mut heads) = (0, 0);
        for (first, second) in all
            .clone()
            .flat_map(|one| all.clone().map(move |two| (one, two)))
        {
            for rest in all.clone() {
                let mut words = states[rest].clone();
                words[0] = states[first][0];
                words[1] = states[second][1];
                let Some(has) = bed.look(words) else {
                    continue;
                };
                let from = first.min(second).min(rest);
                let to = first.max(second).max(rest);
                let was_there = had[from..=to].contains(&Some(has));
                assert!(
                    was_there,
                    "{slot:?}: {first}, {second} and {rest}: {states:x?}"
                );
                found += 1;
                heads += u32::from(had[first] != had[second]);
            }
        }
        assert!(
            found > states.len() && heads > 0,
            "{slot:?}: {found}, {heads}"
        );
    }
}

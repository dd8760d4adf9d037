//! The set of states that were reached: a word each where they are short, compressed where not.

use crate::error::ExploreError;
use farslot_set::{
    MAX_WORD, Outcome, SetError, Spare, StateId, StateTree, StateTreeShape, TreeSet, WordSet,
};

/// Bits that fit into a bucket of a set of words.
const WORD_BITS: usize = 63;
/// Buckets of a set of words to begin with.
const FEW: u64 = 1 << 10;
/// A set of words is enlarged when more of it than this is in use.
const CROWDED: (u64, u64) = (9, 10);
/// States whose buckets are asked for before the first of them is looked at.
const AHEAD: usize = 16;

/// All states reached so far. A state is known by its *code*, a word from which it can be had back.
#[derive(Debug)]
pub(super) enum StateStore {
    Words(WordSet),
    StateTree(TreeSet),
}

/// What a thread encodes and decodes with.
#[derive(Debug)]
pub(super) struct Coder {
    tree: Option<StateTree>,
    spare: Spare,
}

impl StateStore {
    pub(super) fn new(bits: usize) -> Result<Self, SetError> {
        if bits <= WORD_BITS {
            return Ok(Self::Words(WordSet::alone(FEW)?));
        }
        let shape = StateTreeShape::new(bits.div_ceil(32) * 4);
        Ok(Self::StateTree(TreeSet::new(shape)?))
    }

    pub(super) fn coder(&self) -> Coder {
        let tree = match self {
            Self::Words(_) => None,
            Self::StateTree(set) => Some(set.tree()),
        };
        let spare = Spare::default();
        Coder { tree, spare }
    }

    /// The code of a state, which need not be in the set; `None` if the set must grow first.
    #[inline]
    pub(super) fn encode(&self, coder: &mut Coder, state: &[u64]) -> Option<u64> {
        match (self, &mut coder.tree) {
            (Self::StateTree(set), Some(tree)) => {
                let halves = tree.state().len();
                for (at, word) in state.iter().enumerate() {
                    tree.set(2 * at, *word as u32);
                    if 2 * at + 1 < halves {
                        tree.set(2 * at + 1, (word >> 32) as u32);
                    }
                }
                set.compress(&mut coder.spare, tree).map(StateId::to_bits)
            }
            _ => Some(state[0]),
        }
    }

    /// The state of a code.
    #[inline]
    pub(super) fn decode(
        &self,
        coder: &mut Coder,
        code: u64,
        state: &mut [u64],
    ) -> Result<(), SetError> {
        match (self, &mut coder.tree) {
            (Self::StateTree(set), Some(tree)) => {
                set.load(StateId::from_bits(code), tree)?;
                let halves = tree.state();
                for (word, pair) in state.iter_mut().zip(halves.chunks(2)) {
                    let high = pair.get(1).copied().unwrap_or_default();
                    *word = u64::from(pair[0]) | u64::from(high) << 32;
                }
            }
            _ => state[0] = code,
        }
        Ok(())
    }

    /// Finds or inserts states by their codes, and gives each outcome with its position to `done`.
    /// The cache misses of all overlap.
    pub(super) fn put_all(
        &self,
        codes: &[u64],
        mut done: impl FnMut(usize, Outcome<()>),
    ) -> Result<(), SetError> {
        let set = match self {
            Self::Words(set) => {
                return set.find_or_put_all(codes, |at, put| done(at, put.map(|_| ())));
            }
            Self::StateTree(set) => set,
        };
        for code in codes.iter().take(AHEAD) {
            set.prefetch(StateId::from_bits(*code));
        }
        let mut inserted = 0;
        for (at, code) in codes.iter().enumerate() {
            if let Some(later) = codes.get(at + AHEAD) {
                set.prefetch(StateId::from_bits(*later));
            }
            let put = set.put(StateId::from_bits(*code));
            inserted += u64::from(put.is_inserted());
            done(at, put.map(|_| ()));
        }
        set.count_inserted(inserted);
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Words(set) => set.segments().bytes(),
            Self::StateTree(set) => set.bytes(),
        }
    }

    pub(super) fn is_crowded(&self) -> bool {
        match self {
            Self::Words(set) => {
                set.segments().counted() * CROWDED.1 > set.segments().layout().buckets() * CROWDED.0
            }
            Self::StateTree(set) => set.is_crowded(),
        }
    }

    /// Makes room: all threads' codes and coders stay good.
    pub(super) fn grow(&mut self, limit: u64) -> Result<(), ExploreError> {
        // While it is copied, the old memory is there beside the new one, which is larger by an
        // eighth.
        let needed = self.bytes() / 8 * 17;
        if needed > limit {
            let states = match self {
                Self::Words(set) => set.segments().counted(),
                Self::StateTree(set) => set.len(),
            };
            return Err(ExploreError::OutOfMemory {
                needed,
                limit,
                states,
            });
        }
        match self {
            Self::Words(set) => {
                let buckets = set.segments().layout().buckets();
                let buckets = buckets + buckets / 8 + 1;
                *set = set.rebuilt(buckets, |_| true)?;
            }
            Self::StateTree(set) => set.grow()?,
        }
        Ok(())
    }
}

const _: () = assert!(MAX_WORD == (1 << WORD_BITS) - 1);

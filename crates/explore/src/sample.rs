//! Markings of a net from random walks: what places are sized by, and what they are spread by.

use crate::net::Net;

/// Random walks from the initial marking, and their longest length.
const WALKS: u64 = 64;
const STEPS: usize = 4_000;
/// Walks take no more than this many tests of transitions together, whatever the net's size.
const WALK_TESTS: usize = 20_000_000;
/// Of the markings on the walks, every so many-th is kept.
const EVERY: usize = 61;

/// What random walks have met: the same for the same net.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Samples {
    /// The most tokens that each place had.
    pub(crate) largest: Vec<u64>,
    /// Some of the markings.
    pub(crate) markings: Vec<Vec<u64>>,
}

impl Samples {
    pub(crate) fn of(net: &Net) -> Self {
        Self::walked(net, WALK_TESTS)
    }

    /// Of walks that take a fiftieth of the time.
    pub(crate) fn few(net: &Net) -> Self {
        Self::walked(net, WALK_TESTS / 50)
    }

    fn walked(net: &Net, tests: usize) -> Self {
        let initial: Vec<u64> = net.initial().into_iter().map(u64::from).collect();
        let mut samples = Self {
            largest: initial.clone(),
            markings: Vec::new(),
        };
        let effects: Vec<_> = net
            .transitions()
            .iter()
            .map(|transition| transition.effects())
            .collect();
        let mut chance = SplitMix::new(1);
        let mut tests_left = tests;
        let mut steps = 0;
        for _ in 0..WALKS {
            let mut marking = initial.clone();
            for _ in 0..STEPS {
                if tests_left < effects.len() || effects.is_empty() {
                    return samples;
                }
                // The first enabled one from a random start: every enabled transition has a chance.
                let start = chance.below(effects.len());
                let mut tried = (start..effects.len()).chain(0..start);
                let enabled = tried.find(|&number| {
                    tests_left = tests_left.saturating_sub(1);
                    effects[number]
                        .iter()
                        .all(|e| marking[e.place] >= u64::from(e.needs))
                });
                let Some(number) = enabled else { break };
                for effect in &effects[number] {
                    let tokens = &mut marking[effect.place];
                    *tokens = tokens.saturating_add_signed(effect.change);
                    if *tokens > u64::from(u32::MAX) {
                        return samples;
                    }
                    let most = &mut samples.largest[effect.place];
                    *most = (*most).max(*tokens);
                }
                steps += 1;
                if steps % EVERY == 0 {
                    samples.markings.push(marking.clone());
                }
            }
        }
        samples
    }
}

/// SplitMix64: walks need variety, and the same walks on every run.
#[derive(Debug)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

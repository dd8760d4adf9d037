//! A formula over a marking that is told level by level, a place or a few at a time: what is known
//! of it so far, in as few different values as will do to go on.

use super::{Comparison, Formula, Node, Sum};
use std::collections::BTreeMap;

/// A formula, and the levels by which a marking is told.
#[derive(Debug)]
pub(crate) struct Stepwise {
    /// The formula and its parts, each before its own parts.
    parts: Vec<FormulaPart>,
    /// By level: the comparisons in whose sums it is, and how.
    terms: Vec<Vec<(usize, Term)>>,
}

/// What a level adds to a sum.
#[derive(Debug)]
enum Term {
    /// For each token of its place.
    Factor(i128),
    /// By which of its places has the token.
    Values(Vec<i128>),
}

impl Term {
    fn of(&self, value: u32) -> i128 {
        match self {
            // No text is long enough for factors whose sum is above 2^94.
            Self::Factor(factor) => factor.saturating_mul(value.into()),
            Self::Values(values) => values.get(value as usize).copied().unwrap_or_default(),
        }
    }

    fn has(&self, sign: i128) -> bool {
        let values = match self {
            Self::Factor(factor) => std::slice::from_ref(factor),
            Self::Values(values) => values,
        };
        values.iter().any(|value| value.signum() == sign)
    }
}

#[derive(Debug)]
struct FormulaPart {
    kind: PartKind,
    /// The number behind those of its own parts.
    end: usize,
}

#[derive(Debug)]
enum PartKind {
    Compare(LinearComparison),
    And,
    Or,
    Not,
}

/// A comparison of a sum with 0.
#[derive(Debug)]
struct LinearComparison {
    comparison: Comparison,
    constant: i128,
    /// The levels from which on nothing adds to the sum, and nothing takes from it.
    adds_before: usize,
    takes_before: usize,
}

impl LinearComparison {
    /// Whether it holds with this sum before `level`, whatever comes.
    fn known(&self, sum: i128, level: usize) -> KnownOfPart {
        let most = if level >= self.adds_before {
            sum
        } else {
            i128::MAX
        };
        let least = if level >= self.takes_before {
            sum
        } else {
            i128::MIN
        };
        let (holds, fails) = match self.comparison {
            Comparison::Less => (most < 0, least >= 0),
            Comparison::LessOrEqual => (most <= 0, least > 0),
            Comparison::Equal => (most == 0 && least == 0, most < 0 || least > 0),
            Comparison::NotEqual => (most < 0 || least > 0, most == 0 && least == 0),
            Comparison::GreaterOrEqual => (least >= 0, most < 0),
            Comparison::Greater => (least > 0, most <= 0),
        };
        match (holds, fails) {
            (true, _) => KnownOfPart::Holds,
            (_, true) => KnownOfPart::Fails,
            _ => KnownOfPart::Open(sum),
        }
    }
}

/// What is known of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum KnownOfPart {
    Holds,
    /// Also of all parts of what is known.
    Fails,
    /// Nothing yet; of a comparison, the sum so far.
    Open(i128),
}

/// What is known of a formula, with all that matters for what comes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PartialTruth(Box<[KnownOfPart]>);

impl PartialTruth {
    /// Whether the formula holds, if that is known.
    pub(crate) fn holds(&self) -> Option<bool> {
        match self.0[0] {
            KnownOfPart::Holds => Some(true),
            KnownOfPart::Fails => Some(false),
            KnownOfPart::Open(_) => None,
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of::<Self>() + size_of_val::<[KnownOfPart]>(&self.0)) as u64
    }
}

impl Stepwise {
    /// `levels` has the places that are told at each: one, by its tokens, or several of which
    /// exactly one has a token, by the position of that one.
    pub(crate) fn new<'n>(formula: &Formula, levels: impl Iterator<Item = &'n [usize]>) -> Self {
        let levels: Vec<&[usize]> = levels.collect();
        let mut level_of = vec![(0, 0); levels.iter().map(|places| places.len()).sum()];
        for (level, places) in levels.iter().enumerate() {
            for (position, &place) in places.iter().enumerate() {
                level_of[place] = (level, position);
            }
        }
        let mut stepwise = Self {
            parts: Vec::new(),
            terms: levels.iter().map(|_| Vec::new()).collect(),
        };
        stepwise.add(&formula.0, &levels, &level_of);
        stepwise
    }

    fn add(&mut self, node: &Node, levels: &[&[usize]], level_of: &[(usize, usize)]) {
        let number = self.parts.len();
        let (kind, parts) = match node {
            Node::Compare(left, comparison, right) => {
                let terms = terms([left, right], levels, level_of);
                (
                    PartKind::Compare(self.linear(left, *comparison, right, terms)),
                    &[][..],
                )
            }
            Node::And(parts) => (PartKind::And, &parts[..]),
            Node::Or(parts) => (PartKind::Or, &parts[..]),
            Node::Not(part) => (PartKind::Not, std::slice::from_ref(&**part)),
        };
        self.parts.push(FormulaPart { kind, end: 0 });
        for part in parts {
            self.add(part, levels, level_of);
        }
        self.parts[number].end = self.parts.len();
    }

    /// The comparison that is the next part.
    fn linear(
        &mut self,
        left: &Sum,
        comparison: Comparison,
        right: &Sum,
        terms: BTreeMap<usize, Term>,
    ) -> LinearComparison {
        let behind = |sign: i128| {
            let mut last = terms.iter().rev();
            let last = last.find(|(_, term)| term.has(sign));
            last.map_or(0, |(level, _)| level + 1)
        };
        let linear = LinearComparison {
            comparison,
            constant: i128::from(left.constant) - i128::from(right.constant),
            adds_before: behind(1),
            takes_before: behind(-1),
        };
        let number = self.parts.len();
        for (level, term) in terms {
            if term.has(1) || term.has(-1) {
                self.terms[level].push((number, term));
            }
        }
        linear
    }

    /// What is known before any place is told.
    pub(crate) fn start(&self) -> PartialTruth {
        let parts = self.parts.iter();
        let known = parts.map(|part| match &part.kind {
            PartKind::Compare(linear) => linear.known(linear.constant, 0),
            _ => KnownOfPart::Open(0),
        });
        let mut known: Box<[KnownOfPart]> = known.collect();
        self.settle(0, &mut known);
        PartialTruth(known)
    }

    /// Whether a place of this level is in a comparison.
    pub(crate) fn asks(&self, level: usize) -> bool {
        !self.terms[level].is_empty()
    }

    /// What is known once the value of `level` is told.
    pub(crate) fn told(&self, before: &PartialTruth, level: usize, value: u32) -> PartialTruth {
        let mut known = before.0.clone();
        for (number, term) in &self.terms[level] {
            if let (KnownOfPart::Open(sum), PartKind::Compare(linear)) =
                (known[*number], &self.parts[*number].kind)
            {
                let sum = sum.saturating_add(term.of(value));
                known[*number] = linear.known(sum, level + 1);
            }
        }
        self.settle(0, &mut known);
        PartialTruth(known)
    }

    /// Whether a part holds, if that is known; then nothing is kept of its own parts.
    fn settle(&self, number: usize, known: &mut [KnownOfPart]) -> Option<bool> {
        let FormulaPart { kind, end } = &self.parts[number];
        match known[number] {
            KnownOfPart::Holds => return Some(true),
            KnownOfPart::Fails => return Some(false),
            KnownOfPart::Open(_) => {}
        }
        // What one part suffices to decide, and what is the case once all are known otherwise.
        let (decisive, decided, otherwise) = match kind {
            PartKind::Compare(_) => return None,
            PartKind::And => (false, false, true),
            PartKind::Or => (true, true, false),
            PartKind::Not => (true, false, true),
        };
        let mut all_known = true;
        let mut holds = None;
        let mut part = number + 1;
        while part < *end && holds.is_none() {
            match self.settle(part, known) {
                Some(value) if value == decisive => holds = Some(decided),
                value => all_known &= value.is_some(),
            }
            part = self.parts[part].end;
        }
        let holds = holds.or(all_known.then_some(otherwise))?;
        known[number..*end].fill(KnownOfPart::Fails);
        if holds {
            known[number] = KnownOfPart::Holds;
        }
        Some(holds)
    }
}

/// What each level adds to the difference of two sums.
fn terms(
    sums: [&Sum; 2],
    levels: &[&[usize]],
    level_of: &[(usize, usize)],
) -> BTreeMap<usize, Term> {
    let mut terms = BTreeMap::new();
    for (sum, sign) in sums.into_iter().zip([1, -1]) {
        for &(place, factor) in &sum.places {
            let (level, position) = level_of[place];
            let places = levels[level].len();
            let term = terms.entry(level).or_insert_with(|| match places {
                1 => Term::Factor(0),
                _ => Term::Values(vec![0; places]),
            });
            *match term {
                Term::Factor(sum) => sum,
                Term::Values(sums) => &mut sums[position],
            } += sign * i128::from(factor);
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Net, NetPlace};
    use crate::sample::SplitMix;
    use std::collections::HashSet;

    fn net() -> Net {
        let place = |id: &str| NetPlace {
            id: id.into(),
            initial: 0,
        };
        Net::new("n", ["a", "b", "c"].map(place).into(), vec![]).unwrap()
    }

    #[test]
    fn places_that_are_told_one_by_one_decide_as_all_at_once() {
        let net = net();
        for text in [
            "a + 2*b = c + 1",
            "a <= b and b <= c or c = 0",
            "not (a + b + c != 3) and (a > 1 or b > 1)",
            "a < 2 and not (b >= 2 and c + a > b + 1)",
            "a = a",
            "18446744073709551615*a <= 18446744073709551615*b + c",
            "0 = 1 or 3 > 2",
        ] {
            let formula = Formula::parse(text, &net).unwrap();
            for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
                let levels = order.iter().map(std::slice::from_ref);
                let stepwise = Stepwise::new(&formula, levels);
                for number in 0..64_u32 {
                    let tokens = [number % 4, number / 4 % 4, number / 16];
                    let holds = formula.holds(&|place| u64::from(tokens[place]));
                    let mut partial = stepwise.start();
                    for (level, place) in order.into_iter().enumerate() {
                        assert!(partial.holds().is_none_or(|known| known == holds), "{text}");
                        partial = stepwise.told(&partial, level, tokens[place]);
                    }
                    assert_eq!(partial.holds(), Some(holds), "{text} {tokens:?}");
                }
            }
        }
    }

    #[test]
    fn places_of_which_one_has_a_token_are_told_by_its_position() {
        let net = net();
        for text in [
            "2*a + c = 3",
            "a = b + c",
            "a < b or c > 2*b",
            "not (a + b >= c)",
        ] {
            let formula = Formula::parse(text, &net).unwrap();
            for levels in [[&[0, 1][..], &[2]], [&[2], &[1, 0]]] {
                let stepwise = Stepwise::new(&formula, levels.into_iter());
                for number in 0..8_u32 {
                    let (marked, tokens) = (number % 2, number / 2);
                    let mut marking = [0, 0, u64::from(tokens)];
                    let mut partial = stepwise.start();
                    for (level, places) in levels.into_iter().enumerate() {
                        let value = if places.len() > 1 { marked } else { tokens };
                        partial = stepwise.told(&partial, level, value);
                        if places.len() > 1 {
                            marking[places[marked as usize]] = 1;
                        }
                    }
                    let holds = formula.holds(&|place| marking[place]);
                    assert_eq!(partial.holds(), Some(holds), "{text} {marking:?}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_matter_any_more_is_not_told_apart() {
        let net = net();
        let formula = Formula::parse("a = 1 and b + 2*c = 5 or a + b + c > 2", &net).unwrap();
        let stepwise = Stepwise::new(&formula, [0, 1, 2].iter().map(std::slice::from_ref));
        let mut chance = SplitMix::new(1);
        let many = (0..1000).map(|_| {
            let mut partial = stepwise.start();
            for level in 0..2 {
                partial = stepwise.told(&partial, level, chance.below(100) as u32);
            }
            partial
        });
        let different: HashSet<PartialTruth> = many.collect();
        // It holds; or not yet, with 0, 1 or 2 tokens, and with one of them in `a`.
        assert!(different.len() <= 7, "{different:?}");
    }
}

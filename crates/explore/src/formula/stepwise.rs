//! A formula over a marking whose places are told one after the other: what is known of it so far,
//! in as few different values as will do to go on.

use super::{Comparison, Formula, Node, Sum};
use std::collections::BTreeMap;

/// A formula, and the order in which places are told.
#[derive(Debug)]
pub(crate) struct Stepwise {
    /// The formula and its parts, each before its own parts.
    parts: Vec<Part>,
    /// By level: the comparisons in whose sums its place is, and its factor there.
    factors: Vec<Vec<(usize, i128)>>,
}

#[derive(Debug)]
struct Part {
    kind: Kind,
    /// The number behind those of its own parts.
    end: usize,
}

#[derive(Debug)]
enum Kind {
    Compare(Linear),
    And,
    Or,
    Not,
}

/// A comparison of a sum with 0.
#[derive(Debug)]
struct Linear {
    comparison: Comparison,
    constant: i128,
    /// The levels from which on no place adds to the sum, and none takes from it.
    adds_before: usize,
    takes_before: usize,
}

impl Linear {
    /// Whether it holds with this sum before `level`, whatever comes.
    fn known(&self, sum: i128, level: usize) -> Known {
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
            (true, _) => Known::Holds,
            (_, true) => Known::Fails,
            _ => Known::Open(sum),
        }
    }
}

/// What is known of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Known {
    Holds,
    /// Also of all parts of what is known.
    Fails,
    /// Nothing yet; of a comparison, the sum so far.
    Open(i128),
}

/// What is known of a formula, with all that matters for what comes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Partial(Box<[Known]>);

impl Partial {
    /// Whether the formula holds, if that is known.
    pub(crate) fn holds(&self) -> Option<bool> {
        match self.0[0] {
            Known::Holds => Some(true),
            Known::Fails => Some(false),
            Known::Open(_) => None,
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of::<Self>() + size_of_val::<[Known]>(&self.0)) as u64
    }
}

impl Stepwise {
    /// `order` has the place that is told at each level.
    pub(crate) fn new(formula: &Formula, order: &[usize]) -> Self {
        let mut level_of = vec![0; order.len()];
        for (level, &place) in order.iter().enumerate() {
            level_of[place] = level;
        }
        let mut stepwise = Self {
            parts: Vec::new(),
            factors: vec![Vec::new(); order.len()],
        };
        stepwise.add(&formula.0, &level_of);
        stepwise
    }

    fn add(&mut self, node: &Node, level_of: &[usize]) {
        let number = self.parts.len();
        let (kind, parts) = match node {
            Node::Compare(left, comparison, right) => {
                let linear = self.linear(left, *comparison, right, level_of);
                (Kind::Compare(linear), &[][..])
            }
            Node::And(parts) => (Kind::And, &parts[..]),
            Node::Or(parts) => (Kind::Or, &parts[..]),
            Node::Not(part) => (Kind::Not, std::slice::from_ref(&**part)),
        };
        self.parts.push(Part { kind, end: 0 });
        for part in parts {
            self.add(part, level_of);
        }
        self.parts[number].end = self.parts.len();
    }

    /// The comparison that is the next part.
    fn linear(
        &mut self,
        left: &Sum,
        comparison: Comparison,
        right: &Sum,
        level_of: &[usize],
    ) -> Linear {
        let number = self.parts.len();
        let mut factors: BTreeMap<usize, i128> = BTreeMap::new();
        for (sum, sign) in [(left, 1), (right, -1)] {
            for &(place, factor) in &sum.places {
                *factors.entry(level_of[place]).or_default() += sign * i128::from(factor);
            }
        }
        let behind = |sign: i128| {
            let mut last = factors.iter().rev();
            let last = last.find(|(_, factor)| factor.signum() == sign);
            last.map_or(0, |(level, _)| level + 1)
        };
        let linear = Linear {
            comparison,
            constant: i128::from(left.constant) - i128::from(right.constant),
            adds_before: behind(1),
            takes_before: behind(-1),
        };
        for (level, factor) in factors.into_iter().filter(|(_, factor)| *factor != 0) {
            self.factors[level].push((number, factor));
        }
        linear
    }

    /// What is known before any place is told.
    pub(crate) fn start(&self) -> Partial {
        let parts = self.parts.iter();
        let known = parts.map(|part| match &part.kind {
            Kind::Compare(linear) => linear.known(linear.constant, 0),
            _ => Known::Open(0),
        });
        let mut known: Box<[Known]> = known.collect();
        self.settle(0, &mut known);
        Partial(known)
    }

    /// Whether the place of this level is in a comparison.
    pub(crate) fn asks(&self, level: usize) -> bool {
        !self.factors[level].is_empty()
    }

    /// What is known once the place of `level` is told to have so many tokens.
    pub(crate) fn told(&self, before: &Partial, level: usize, tokens: u32) -> Partial {
        let mut known = before.0.clone();
        for &(number, factor) in &self.factors[level] {
            if let (Known::Open(sum), Kind::Compare(linear)) =
                (known[number], &self.parts[number].kind)
            {
                // No text is long enough for factors whose sum is above 2^94.
                let sum = sum.saturating_add(factor * i128::from(tokens));
                known[number] = linear.known(sum, level + 1);
            }
        }
        self.settle(0, &mut known);
        Partial(known)
    }

    /// Whether a part holds, if that is known; then nothing is kept of its own parts.
    fn settle(&self, number: usize, known: &mut [Known]) -> Option<bool> {
        let Part { kind, end } = &self.parts[number];
        match known[number] {
            Known::Holds => return Some(true),
            Known::Fails => return Some(false),
            Known::Open(_) => {}
        }
        // What one part suffices to decide, and what is the case once all are known otherwise.
        let (decisive, decided, otherwise) = match kind {
            Kind::Compare(_) => return None,
            Kind::And => (false, false, true),
            Kind::Or => (true, true, false),
            Kind::Not => (true, false, true),
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
        known[number..*end].fill(Known::Fails);
        if holds {
            known[number] = Known::Holds;
        }
        Some(holds)
    }
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
                let stepwise = Stepwise::new(&formula, &order);
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
    fn what_does_not_matter_any_more_is_not_told_apart() {
        let net = net();
        let formula = Formula::parse("a = 1 and b + 2*c = 5 or a + b + c > 2", &net).unwrap();
        let stepwise = Stepwise::new(&formula, &[0, 1, 2]);
        let mut chance = SplitMix::new(1);
        let many = (0..1000).map(|_| {
            let mut partial = stepwise.start();
            for level in 0..2 {
                partial = stepwise.told(&partial, level, chance.below(100) as u32);
            }
            partial
        });
        let different: HashSet<Partial> = many.collect();
        // It holds; or not yet, with 0, 1 or 2 tokens, and with one of them in `a`.
        assert!(different.len() <= 7, "{different:?}");
    }
}

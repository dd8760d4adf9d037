//! Formulas over the tokens of places: what an invariant or a goal is written in.
//!
//! ```text
//! formula := and ("or" and)*            and := not ("and" not)*
//! not     := "not" not | "(" formula ")" | sum ("<" | "<=" | "=" | "!=" | ">=" | ">") sum
//! sum     := term ("+" term)*           term := number | [number "*"] place
//! place   := an id of letters, digits, "_", "." and "-", or any id in double quotes
//! ```
//! `|`, `||`, `&`, `&&`, `!` and `==` are other spellings.

mod stepwise;

pub(crate) use stepwise::{PartialTruth, Stepwise};

use crate::net::Net;
use std::str::FromStr;

/// Deepest nesting of a formula.
const DEPTH: usize = 200;

/// A condition on a marking.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Formula(Node);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Node {
    Compare(Sum, Comparison, Sum),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
}

/// A constant and places with their factors.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Sum {
    constant: u64,
    places: Vec<(usize, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
}

/// Why a text is not a formula.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormulaError {
    /// Something else was expected.
    #[error("at character {at} of the formula: expected {expected}, found {found}")]
    Expected {
        /// Where, counted from 1.
        at: usize,
        /// What would be right.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The net has no such place.
    #[error("at character {at} of the formula: the net has no place {place:?}")]
    NoSuchPlace {
        /// Where, counted from 1.
        at: usize,
        /// The id.
        place: String,
    },
    /// A number above 2^64 - 1.
    #[error("at character {at} of the formula: the number {number} is too large")]
    TooLarge {
        /// Where, counted from 1.
        at: usize,
        /// The number.
        number: String,
    },
    /// Nested too deeply.
    #[error("the formula is nested deeper than {DEPTH}")]
    TooDeep,
}

impl Formula {
    /// Reads a formula over the places of `net`.
    ///
    /// # Errors
    /// [`FormulaError`], with the place in the text.
    pub fn parse(text: &str, net: &Net) -> Result<Self, FormulaError> {
        let tokens = tokens(text)?;
        let mut parser = FormulaParser {
            tokens: &tokens,
            end: text.chars().count() + 1,
            net,
            depth: 0,
        };
        let node = parser.or()?;
        match parser.tokens.first() {
            None => Ok(Self(node)),
            Some(_) => Err(parser.expected("the end")),
        }
    }

    /// That these places together have at most so many tokens.
    pub(crate) fn at_most(most: u64, places: impl IntoIterator<Item = usize>) -> Self {
        let sum = |constant, places| Sum { constant, places };
        let places = places.into_iter().map(|place| (place, 1)).collect();
        let (left, right) = (sum(0, places), sum(most, Vec::new()));
        Self(Node::Compare(left, Comparison::LessOrEqual, right))
    }

    /// That this formula holds, or another.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(Node::Or(vec![self.0, other.0]))
    }

    /// The formula that holds where this one does not.
    #[must_use]
    pub fn negated(self) -> Self {
        Self(Node::Not(Box::new(self.0)))
    }

    /// Whether it holds in a marking, given as the tokens of each place.
    #[must_use]
    pub fn holds(&self, tokens: &impl Fn(usize) -> u64) -> bool {
        self.0.holds(tokens)
    }
}

impl Node {
    fn holds(&self, tokens: &impl Fn(usize) -> u64) -> bool {
        match self {
            Self::Compare(left, comparison, right) => {
                comparison.holds(left.value(tokens), right.value(tokens))
            }
            Self::And(parts) => parts.iter().all(|part| part.holds(tokens)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(tokens)),
            Self::Not(part) => !part.holds(tokens),
        }
    }
}

impl Sum {
    /// As a number that cannot overflow: each product is below 2^128, and sums stop there.
    fn value(&self, tokens: &impl Fn(usize) -> u64) -> u128 {
        let products = self.places.iter();
        let products =
            products.map(|&(place, factor)| u128::from(factor) * u128::from(tokens(place)));
        products.fold(u128::from(self.constant), u128::saturating_add)
    }
}

impl Comparison {
    fn holds(self, left: u128, right: u128) -> bool {
        match self {
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::GreaterOrEqual => left >= right,
            Self::Greater => left > right,
        }
    }
}

impl FromStr for Comparison {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            "=" | "==" => Self::Equal,
            "!=" => Self::NotEqual,
            ">=" => Self::GreaterOrEqual,
            ">" => Self::Greater,
            _ => return Err(()),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Number,
    /// A place's id, without its quotes, or a word such as `and`.
    Word,
    Quoted,
    Sign,
}

#[derive(Debug, Clone)]
struct Token {
    at: usize,
    kind: Kind,
    text: String,
}

fn tokens(text: &str) -> Result<Vec<Token>, FormulaError> {
    let characters: Vec<char> = text.chars().collect();
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&first) = characters.get(at) {
        let rest = &characters[at..];
        let (kind, skipped, length) = if first.is_whitespace() {
            at += 1;
            continue;
        } else if first == '"' {
            let Some(length) = rest[1..].iter().position(|&c| c == '"') else {
                return Err(FormulaError::Expected {
                    at: at + 1,
                    expected: "a closing quote",
                    found: "the end".into(),
                });
            };
            (Kind::Quoted, 1, length)
        } else if is_word(first) {
            let length = rest.iter().take_while(|&&c| is_word(c)).count();
            let digits = rest[..length].iter().all(char::is_ascii_digit);
            (if digits { Kind::Number } else { Kind::Word }, 0, length)
        } else {
            let second = rest.get(1);
            let double = match first {
                '<' | '>' | '=' | '!' => second == Some(&'='),
                '&' | '|' => second == Some(&first),
                _ => false,
            };
            (Kind::Sign, 0, 1 + usize::from(double))
        };
        let token: String = rest[skipped..skipped + length].iter().collect();
        tokens.push(Token {
            at: at + 1,
            kind,
            text: token,
        });
        at += length + 2 * skipped;
    }
    Ok(tokens)
}

struct FormulaParser<'t, 'n> {
    tokens: &'t [Token],
    end: usize,
    net: &'n Net,
    depth: usize,
}

impl FormulaParser<'_, '_> {
    fn or(&mut self) -> Result<Node, FormulaError> {
        let mut parts = vec![self.and()?];
        while self.accept(&["or", "|", "||"]) {
            parts.push(self.and()?);
        }
        Ok(single_or(parts, Node::Or))
    }

    fn and(&mut self) -> Result<Node, FormulaError> {
        let mut parts = vec![self.not()?];
        while self.accept(&["and", "&", "&&"]) {
            parts.push(self.not()?);
        }
        Ok(single_or(parts, Node::And))
    }

    fn not(&mut self) -> Result<Node, FormulaError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(FormulaError::TooDeep);
        }
        let node = if self.accept(&["not", "!"]) {
            Node::Not(Box::new(self.not()?))
        } else if self.accept(&["("]) {
            let inner = self.or()?;
            if !self.accept(&[")"]) {
                return Err(self.expected("a closing parenthesis"));
            }
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, FormulaError> {
        let left = self.sum()?;
        let sign = self.tokens.first().filter(|token| token.kind == Kind::Sign);
        let Some(Ok(comparison)) = sign.map(|token| token.text.parse()) else {
            return Err(self.expected("a comparison: <, <=, =, !=, >= or >"));
        };
        self.tokens = &self.tokens[1..];
        Ok(Node::Compare(left, comparison, self.sum()?))
    }

    fn sum(&mut self) -> Result<Sum, FormulaError> {
        let mut sum = Sum::default();
        loop {
            let Some((token, rest)) = self.tokens.split_first() else {
                return Err(self.expected("a number or a place"));
            };
            match token.kind {
                Kind::Number => {
                    let number: u64 = token.text.parse().map_err(|_| FormulaError::TooLarge {
                        at: token.at,
                        number: token.text.clone(),
                    })?;
                    self.tokens = rest;
                    if self.accept(&["*"]) {
                        sum.places.push((self.place()?, number));
                    } else {
                        sum.constant = sum.constant.saturating_add(number);
                    }
                }
                _ => sum.places.push((self.place()?, 1)),
            }
            if !self.accept(&["+"]) {
                return Ok(sum);
            }
        }
    }

    fn place(&mut self) -> Result<usize, FormulaError> {
        let Some((token, rest)) = self.tokens.split_first() else {
            return Err(self.expected("a place"));
        };
        if token.kind == Kind::Sign {
            return Err(self.expected("a place"));
        }
        let place = self.net.place(&token.text);
        let place = place.ok_or_else(|| FormulaError::NoSuchPlace {
            at: token.at,
            place: token.text.clone(),
        })?;
        self.tokens = rest;
        Ok(place)
    }

    fn accept(&mut self, texts: &[&str]) -> bool {
        let is_it =
            |token: &&Token| token.kind != Kind::Quoted && texts.contains(&token.text.as_str());
        let accepted = self.tokens.first().filter(is_it).is_some();
        if accepted {
            self.tokens = &self.tokens[1..];
        }
        accepted
    }

    fn expected(&self, expected: &'static str) -> FormulaError {
        let next = self.tokens.first();
        FormulaError::Expected {
            at: next.map_or(self.end, |token| token.at),
            expected,
            found: next.map_or("the end".into(), |token| format!("{:?}", token.text)),
        }
    }
}

fn single_or(mut parts: Vec<Node>, several: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match parts.len() {
        1 => parts.remove(0),
        _ => several(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::NetPlace;

    fn holds(text: &str, tokens: [u64; 3]) -> Result<bool, FormulaError> {
        let place = |id: &str| NetPlace {
            id: id.into(),
            initial: 0,
        };
        let places = vec![place("a"), place("b.1-x"), place("and so on")];
        let net = Net::new("n", places, vec![]).unwrap();
        Ok(Formula::parse(text, &net)?.holds(&|place| tokens[place]))
    }

    #[test]
    fn formulas_are_read_and_evaluated() {
        for (text, expected) in [
            ("a = 1", true),
            ("a + b.1-x >= 3", true),
            ("a + 2*b.1-x > 5", false),
            ("a=2 or a=1 and b.1-x=2", true),
            ("!(a=1) | not a<1 && \"and so on\" == 7", true),
            ("((a != 1))", false),
            (
                "a <= 1 & 18446744073709551615 * \"and so on\" > 18446744073709551615",
                true,
            ),
        ] {
            assert_eq!(holds(text, [1, 2, 7]), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors_say_where() {
        for (text, said) in [
            (
                "",
                "character 1 of the formula: expected a number or a place, found the end",
            ),
            (
                "a = ",
                "character 5 of the formula: expected a number or a place",
            ),
            ("a 1", "character 3 of the formula: expected a comparison"),
            (
                "zz = 1",
                "character 1 of the formula: the net has no place \"zz\"",
            ),
            ("(a=1", "character 5 of the formula: expected a closing"),
            ("a=1 b.1-x", "character 5 of the formula: expected the end"),
            (
                "\"a",
                "character 1 of the formula: expected a closing quote",
            ),
            ("a=18446744073709551616", "too large"),
        ] {
            let error = holds(text, [0; 3]).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert_eq!(
            holds(&"(".repeat(100_000), [0; 3]),
            Err(FormulaError::TooDeep)
        );
    }
}

//! What an exploration found, in one form for both ways.

use crate::explicit::Explored;
use crate::model::Tokens;
use crate::symbolic::SymbolicallyExplored;
use num_bigint::BigUint;

/// The numbers that an exploration is reported by.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The model's name.
    pub model: String,
    /// Reachable states.
    pub states: BigUint,
    /// Transitions between them.
    pub transitions: BigUint,
    /// Most tokens; `None` for models without.
    pub tokens: Option<Tokens>,
    /// States without successors.
    pub deadlocks: BigUint,
    /// The longest of all shortest paths from an initial state; saturation does not tell.
    pub depth: Option<u64>,
    /// Seconds that it took, and that its preparation took before.
    pub seconds: f64,
    /// See [`Explored::preparation`] and [`SymbolicallyExplored::preparation`].
    pub preparation: f64,
    /// Bytes of memory for the set of states, for each of them.
    pub bytes_per_state: f64,
}

impl Report {
    /// Of an explicit exploration.
    #[must_use]
    pub fn explicit(model: impl Into<String>, explored: &Explored) -> Self {
        Self {
            model: model.into(),
            states: explored.states.into(),
            transitions: explored.transitions.into(),
            tokens: explored.tokens,
            deadlocks: explored.deadlocks.into(),
            depth: Some(explored.depth),
            seconds: explored.seconds,
            preparation: explored.preparation,
            bytes_per_state: explored.bytes as f64 / explored.states.max(1) as f64,
        }
    }

    /// Of a symbolic exploration.
    #[must_use]
    pub fn symbolic(model: impl Into<String>, explored: SymbolicallyExplored) -> Self {
        // Beyond the range of floating point, a state costs nothing.
        let states: f64 = explored.states.to_string().parse().unwrap_or(f64::INFINITY);
        Self {
            model: model.into(),
            bytes_per_state: explored.bytes as f64 / states.max(1.0),
            states: explored.states,
            transitions: explored.transitions,
            tokens: Some(explored.tokens),
            deadlocks: explored.deadlocks,
            depth: None,
            seconds: explored.seconds,
            preparation: explored.preparation,
        }
    }

    /// One JSON object, whose numbers are exact however large.
    #[must_use]
    pub fn to_json(&self) -> String {
        let or_null =
            |number: Option<u64>| number.map_or("null".into(), |number| number.to_string());
        let in_place = or_null(self.tokens.map(|tokens| tokens.in_place));
        let in_state = or_null(self.tokens.map(|tokens| tokens.in_state));
        format!(
            "{{\"model\":{},\"states\":{},\"transitions\":{},\"max_token_in_place\":{in_place},\
             \"max_token_per_marking\":{in_state},\"deadlocks\":{},\"depth\":{},\"seconds\":{:.6},\
             \"preparation_seconds\":{:.6},\
             \"bytes_per_state\":{}}}",
            quoted(&self.model),
            self.states,
            self.transitions,
            self.deadlocks,
            or_null(self.depth),
            self.seconds,
            self.preparation,
            json_number(self.bytes_per_state),
        )
    }
}

/// At least six digits that count, also of what is much smaller than 1.
fn json_number(number: f64) -> String {
    if number >= 1e-3 {
        format!("{number:.6}")
    } else {
        format!("{number:e}")
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_are_written_whole() {
        let report = Report {
            model: "a \"net\"\n".into(),
            states: BigUint::from(u128::MAX),
            transitions: 0_u8.into(),
            tokens: None,
            deadlocks: 1_u8.into(),
            depth: None,
            seconds: 0.5,
            preparation: 0.25,
            bytes_per_state: 1e-30,
        };
        assert_eq!(
            report.to_json(),
            "{\"model\":\"a \\\"net\\\"\\u000a\",\"states\":340282366920938463463374607431768211455,\
             \"transitions\":0,\"max_token_in_place\":null,\"max_token_per_marking\":null,\"deadlocks\":1,\
             \"depth\":null,\"seconds\":0.500000,\"preparation_seconds\":0.250000,\"bytes_per_state\":1e-30}"
        );
    }
}

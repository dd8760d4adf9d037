//! What a measurement gives: rows of numbers, each beside what it is to be compared with.
//!
//! The types are the machine output: `serde` turns them into the objects that `--json` prints.

use serde::Serialize;

/// The rows of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchReport {
    /// Which benchmark.
    pub bench: &'static str,
    /// The fabric that it ran on: simulated, or real memory.
    pub fabric: String,
    /// What was measured.
    pub rows: Vec<BenchRow>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchRow {
    /// What was measured.
    pub name: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The ceiling, measured in the same run.
    pub limit: Option<f64>,
    /// The figure divided by its ceiling.
    pub ratio: Option<f64>,
    /// The paper's figure, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// What the exact model says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<f64>,
    /// Slots that a READ fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_size: Option<u64>,
    /// READs per lookup, as the endpoints counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_per_lookup: Option<f64>,
    /// Round trips per lookup, as the endpoints counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trips_per_lookup: Option<f64>,
    /// Bytes of payload per lookup, as the endpoints counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_lookup: Option<f64>,
}

impl BenchRow {
    /// A figure that has no ceiling.
    #[must_use]
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            limit: None,
            ratio: None,
            paper: None,
            model: None,
            read_size: None,
            reads_per_lookup: None,
            round_trips_per_lookup: None,
            bytes_per_lookup: None,
        }
    }

    /// The same under a ceiling.
    #[must_use]
    pub fn limited_by(self, limit: f64) -> Self {
        Self {
            limit: Some(limit),
            ratio: Some(self.value / limit),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_figure_without_a_ceiling_has_nulls() {
        let rows = vec![
            BenchRow::new("a", 2.0, "ns"),
            BenchRow::new("b", 2.0, "gets/s").limited_by(4.0),
        ];
        let report = BenchReport {
            bench: "lookup",
            fabric: "none".into(),
            rows,
        };
        let expected = json!({"bench": "lookup", "fabric": "none", "rows": [
            {"name": "a", "value": 2.0, "unit": "ns", "limit": null, "ratio": null},
            {"name": "b", "value": 2.0, "unit": "gets/s", "limit": 4.0, "ratio": 0.5},
        ]});
        assert_eq!(serde_json::to_value(&report).unwrap(), expected);
    }
}

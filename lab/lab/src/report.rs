//! What a reproduction gives: cells, each beside the paper's, and lines to draw.
//!
//! The types are the machine output: `serde` turns them into the objects that `--json` prints.

use serde::Serialize;

/// A table or figure of a paper, ours beside the paper's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproReport {
    /// Which one: the paper's number and the table or figure.
    pub id: &'static str,
    /// What was measured how, at which scale: sentences.
    pub setup: String,
    /// Its cells.
    pub rows: Vec<ReproRow>,
    /// The same as pictures; none where a picture would say no more than the cells do.
    pub plots: Vec<Plot>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproRow {
    /// What the cell is.
    pub cell: String,
    /// The paper's figure, where it has one.
    pub paper: Option<f64>,
    /// The paper's least and most, where it has a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper_range: Option<[f64; 2]>,
    /// Ours.
    pub ours: f64,
    /// Ours divided by the paper's; within a range 1, else by its nearer end.
    pub ratio: Option<f64>,
    /// What a model says, where the cell is a measurement: an exact one, or what the setup says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<f64>,
    /// The standard error of ours, where it is a mean of samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
    /// Whether ours was fitted to the paper's or follows from what was, where a paper's machines
    /// are emulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// Whether the paper's figure is a count by its published code, and no measurement of a NIC.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paper_is_count: bool,
}

/// What a figure of an emulation rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// A number of the emulation was chosen such that this is the paper's.
    Fitted,
    /// It follows from numbers that were fitted on other figures, and from what the machines do.
    Predicted,
    /// It follows from a fitted number alone.
    Follows,
}

impl ReproRow {
    /// A cell with its ratio.
    #[must_use]
    pub fn new(cell: impl Into<String>, paper: Option<f64>, ours: f64) -> Self {
        Self {
            cell: cell.into(),
            paper,
            paper_range: None,
            ours,
            ratio: paper.map(|paper| ours / paper),
            model: None,
            standard_error: None,
            basis: None,
            paper_is_count: false,
        }
    }

    /// A cell of which the paper has a range.
    #[must_use]
    pub fn in_range(cell: impl Into<String>, range: [f64; 2], ours: f64) -> Self {
        Self {
            paper_range: Some(range),
            ratio: Some(ours / ours.clamp(range[0], range[1])),
            ..Self::new(cell, None, ours)
        }
    }

    /// The same, where the paper's figure is a count by its published code.
    #[must_use]
    pub fn counted_by_its_code(self) -> Self {
        Self {
            paper_is_count: self.paper.is_some(),
            ..self
        }
    }

    /// The same, fitted to the paper's.
    #[must_use]
    pub fn fitted(self) -> Self {
        Self {
            basis: Some(Basis::Fitted),
            ..self
        }
    }

    /// The same, a consequence of what is fitted.
    #[must_use]
    pub fn following(self) -> Self {
        Self {
            basis: Some(Basis::Follows),
            ..self
        }
    }

    /// The same, predicted.
    #[must_use]
    pub fn predicted(self) -> Self {
        Self {
            basis: Some(Basis::Predicted),
            ..self
        }
    }
}

/// Lines over two axes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
}

/// An axis of a [`Plot`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// What it counts, in which unit.
    pub label: &'static str,
    /// Whether equal steps are equal ratios; else it starts at 0 where nothing is negative.
    pub is_logarithmic: bool,
}

/// A line of a [`Plot`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// What it stands for.
    pub name: String,
    /// Whose figures these are.
    pub source: Source,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Whose figures a [`Line`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Measured here.
    Ours,
    /// The paper's.
    Paper,
    /// Computed by the model.
    Model,
}

impl Axis {
    /// An axis of equal steps.
    #[must_use]
    pub const fn linear(label: &'static str) -> Self {
        Self {
            label,
            is_logarithmic: false,
        }
    }

    /// An axis of equal ratios.
    #[must_use]
    pub const fn logarithmic(label: &'static str) -> Self {
        Self {
            label,
            is_logarithmic: true,
        }
    }
}

impl Line {
    /// A line of what was measured here.
    #[must_use]
    pub fn ours(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            source: Source::Ours,
            points,
        }
    }

    /// A line of the paper's figures.
    #[must_use]
    pub fn paper(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            source: Source::Paper,
            ..Self::ours(name, points)
        }
    }

    /// A line of the model's figures.
    #[must_use]
    pub fn model(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            source: Source::Model,
            ..Self::ours(name, points)
        }
    }
}

/// How far a predicted figure may be off without being named.
const NEAR: f64 = 0.15;
/// Predicted figures that are named.
const NAMED: usize = 5;

impl ReproReport {
    /// A report of an emulation: its setup says which figures that are not fitted are not within
    /// 15 % of the paper's, or how many where they are more than five.
    pub(crate) fn emulated(
        id: &'static str,
        mut setup: String,
        rows: Vec<ReproRow>,
        plots: Vec<Plot>,
    ) -> Self {
        let predicted: Vec<_> = rows
            .iter()
            .filter(|row| matches!(row.basis, Some(Basis::Predicted | Basis::Follows)))
            .filter_map(|row| Some((row.cell.as_str(), (row.ratio? - 1.0).abs())))
            .collect();
        let off: Vec<_> = predicted
            .iter()
            .filter(|(_, error)| *error > NEAR)
            .collect();
        if off.len() > NAMED {
            setup += &format!(
                " {} of {} predicted figures are not within 15 % of the paper's.",
                off.len(),
                predicted.len()
            );
        } else if !off.is_empty() {
            let cells: Vec<_> = off.iter().map(|(cell, _)| *cell).collect();
            setup += &format!(
                " Predicted, and not within 15 % of the paper's: {}.",
                cells.join("; ")
            );
        }
        Self {
            id,
            setup,
            rows,
            plots,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_emulation_names_what_it_does_not_predict() {
        let row = |cell: &str, ours: f64| ReproRow::new(cell, Some(1.0), ours);
        let setup = |rows: Vec<ReproRow>| {
            ReproReport::emulated("000-table1", "Small.".into(), rows, Vec::new()).setup
        };
        let few = vec![
            row("a", 1.14).predicted(),
            row("b", 0.8).predicted(),
            row("c", 2.0).fitted(),
            row("d", 2.0),
            row("e", 1.2).following(),
            ReproRow::in_range("f", [1.0, 2.0], 1.5).predicted(),
            ReproRow::in_range("g", [1.0, 2.0], 4.0).predicted(),
        ];
        let named = " Predicted, and not within 15 % of the paper's: b; e; g.";
        assert_eq!(setup(few), format!("Small.{named}"));
        let many = vec![row("a", 1.2).predicted(); 6];
        let counted = " 6 of 6 predicted figures are not within 15 % of the paper's.";
        assert_eq!(setup(many), format!("Small.{counted}"));
        assert_eq!(setup(vec![row("a", 1.0).predicted()]), "Small.");
    }

    #[test]
    fn a_cell_without_a_paper_has_nulls() {
        let report = ReproReport {
            id: "000-table1",
            setup: "small".into(),
            rows: vec![
                ReproRow::new("a", None, 2.0),
                ReproRow::new("b", Some(2.0), 3.0).predicted(),
            ],
            plots: vec![Plot {
                title: "c".into(),
                x: Axis::linear("d"),
                y: Axis::logarithmic("e"),
                lines: vec![Line::paper("f", vec![(1.0, 2.0)])],
            }],
        };
        let plots = json!([{
            "title": "c",
            "x": {"label": "d", "is_logarithmic": false},
            "y": {"label": "e", "is_logarithmic": true},
            "lines": [{"name": "f", "source": "paper", "points": [[1.0, 2.0]]}],
        }]);
        let expected = json!({"id": "000-table1", "setup": "small", "plots": plots, "rows": [
            {"cell": "a", "paper": null, "ours": 2.0, "ratio": null},
            {"cell": "b", "paper": 2.0, "ours": 3.0, "ratio": 1.5, "basis": "predicted"},
        ]});
        assert_eq!(serde_json::to_value(&report).unwrap(), expected);
    }
}

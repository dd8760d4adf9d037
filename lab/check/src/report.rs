//! Counterexamples, and how they are printed.

use std::collections::BTreeSet;
use std::fmt;

use crate::{HistoryClient, OpId};

/// Columns of the timeline.
const WIDTH: usize = 40;
/// More rows than this, and the ones that do not matter are left out, then the oldest.
const MANY_ROWS: usize = 32;
/// Of a longer explanation, only the end is printed.
const MANY_STEPS: usize = 16;

/// The operations of one key that no order explains: the shortest beginning of its history, by
/// completions, that is not linearizable.
///
/// `Display` (and `Debug`, for the sake of `unwrap`) prints them as a timeline.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation {
    /// The key, as its `Debug` shows it.
    pub key: String,
    /// How many operations the whole history has on the key.
    pub recorded: usize,
    /// The operations of the failing beginning, by time of invocation.
    pub rows: Vec<Row>,
    /// The order of operations that explained most of them.
    pub order: Vec<OpId>,
    /// The state it led to, as its `Debug` shows it: no operation left fits there.
    pub state: String,
}

/// One operation of a [`Violation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The operation's name in the history.
    pub op: OpId,
    /// Who ran it.
    pub client: HistoryClient,
    /// The operation and its result.
    pub text: String,
    /// When it was invoked.
    pub start: u64,
    /// What became of it.
    pub fate: OperationFate,
    /// Whether its result is part of the contradiction: were all results but the essential ones
    /// unknown, there still were no explanation.
    pub essential: bool,
}

/// What became of an operation of a [`Violation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationFate {
    /// It returned.
    Returned {
        /// When it returned.
        end: u64,
    },
    /// It returned after the contradiction had come about.
    Later {
        /// When it returned.
        end: u64,
    },
    /// It failed, its effect unknown.
    InDoubt {
        /// When it failed.
        end: u64,
    },
    /// It never returned.
    Pending,
}

impl Row {
    /// The times as they are printed.
    fn span(&self) -> String {
        match self.fate {
            OperationFate::Returned { end } => format!("[{}..{end}]", self.start),
            _ => format!("[{}..", self.start),
        }
    }

    fn remark(&self) -> String {
        match self.fate {
            OperationFate::Returned { .. } => String::new(),
            OperationFate::Later { end } => format!(" (returned later, at {end})"),
            OperationFate::InDoubt { end } => format!(" -> failed at {end}, effect in doubt"),
            OperationFate::Pending => " -> never returned".to_owned(),
        }
    }

    /// The bar of the timeline, given the times that have a column.
    fn bar(&self, times: &[u64]) -> String {
        let column = |time: u64| {
            let rank = times.partition_point(|&other| other < time);
            // One column a time if they fit, else scaled.
            let last = times.len().saturating_sub(1).max(1);
            if last < WIDTH {
                rank * ((WIDTH - 1) / last)
            } else {
                rank * (WIDTH - 1) / last
            }
        };
        let start = column(self.start);
        let (end, cap) = match self.fate {
            OperationFate::Returned { end } => (column(end), '|'),
            _ => (WIDTH, '>'),
        };
        let mut bar = " ".repeat(start);
        bar.push('|');
        if end > start {
            bar.push_str(&"-".repeat(end - start - 1));
            bar.push(cap);
        }
        bar
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation {
            key,
            recorded,
            rows,
            ..
        } = self;
        writeln!(
            f,
            "key {key} is not linearizable: no order explains its first {} operations (of \
             {recorded})",
            rows.len()
        )?;
        let few = rows.len() <= MANY_ROWS;
        let mut shown: Vec<(usize, &Row)> = rows
            .iter()
            .enumerate()
            .filter(|(_, row)| few || row.essential)
            .collect();
        shown.drain(..shown.len().saturating_sub(MANY_ROWS));
        let times: BTreeSet<u64> = shown
            .iter()
            .flat_map(|(_, row)| match row.fate {
                OperationFate::Returned { end } => [row.start, end],
                _ => [row.start; 2],
            })
            .collect();
        let times: Vec<u64> = times.into_iter().collect();
        let span = shown
            .iter()
            .map(|(_, row)| row.span().len())
            .max()
            .unwrap_or(0);
        for (place, row) in &shown {
            writeln!(
                f,
                "{mark} #{number:<3} client {client:<3} {bar:<bars$} {span:<spans$} {text}{remark}",
                mark = if row.essential { '*' } else { ' ' },
                number = place + 1,
                client = row.client,
                bar = row.bar(&times),
                bars = WIDTH + 1,
                span = row.span(),
                spans = span,
                text = row.text,
                remark = row.remark(),
            )?;
        }
        if shown.len() < rows.len() {
            writeln!(f, "  ({} others left out)", rows.len() - shown.len())?;
        }
        write!(
            f,
            "* the results that contradict each other, whatever the others were"
        )?;
        if !self.state.is_empty() {
            let number = |op: &OpId| rows.iter().position(|row| row.op == *op);
            let order: Vec<usize> = self.order.iter().filter_map(number).collect();
            let end = order.len().saturating_sub(MANY_STEPS);
            let steps: Vec<String> = order[end..]
                .iter()
                .map(|at| format!("#{}", at + 1))
                .collect();
            let order = match (end, steps.join(" ")) {
                (0, steps) if steps.is_empty() => "nothing".to_owned(),
                (0, steps) => steps,
                (more, steps) => format!("{more} others, then {steps}"),
            };
            write!(
                f,
                "\nfarthest explanation: {order}, leading to {}",
                self.state
            )?;
        }
        Ok(())
    }
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}\n")
    }
}

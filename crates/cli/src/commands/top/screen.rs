//! What `farslot top` draws.

use super::look::{Node, StoreOverview, TableOverview};
use super::scrape::Scrape;
use farslot_terminal::output::{grouped, sized};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table};
use std::collections::VecDeque;
use std::time::Duration;

/// Looks whose rates are drawn.
const KEPT: usize = 400;
/// Cells of a bar.
const BAR: usize = 10;

/// The screen: the last two looks, and the rates of many.
pub(super) struct Screen {
    every: Duration,
    now: Option<StoreOverview>,
    before: Option<StoreOverview>,
    rates: VecDeque<u64>,
    /// The table at the top.
    first: usize,
}

/// A column: what is above it, how wide it is, whether it has numbers, and how wide the screen must
/// be for it to be shown.
type Column = (&'static str, Constraint, bool, u16);

impl Screen {
    pub(super) fn new(every: Duration) -> Self {
        Self {
            every,
            now: None,
            before: None,
            rates: VecDeque::new(),
            first: 0,
        }
    }

    /// Shows another look from now on.
    pub(super) fn take(&mut self, overview: StoreOverview) {
        self.before = self.now.replace(overview);
        if let Some(rate) = self.rate() {
            self.rates.push_back(rate as u64);
            if self.rates.len() > KEPT {
                self.rates.pop_front();
            }
        }
    }

    /// Shows tables further down, or up.
    pub(super) fn scroll(&mut self, by: isize) {
        let tables = self.now.as_ref().map_or(0, |now| now.tables.len());
        let first = self.first.saturating_add_signed(by);
        self.first = first.min(tables.saturating_sub(1));
    }

    /// What the lowest box draws: verbs a second, or records where no metrics are asked for.
    fn rate(&self) -> Option<f64> {
        let (now, before) = (self.now.as_ref()?, self.before.as_ref()?);
        let of = |overview: &StoreOverview| match has_metrics(now) {
            true => overview
                .nodes
                .iter()
                .filter_map(|node| node.scrape)
                .map(|of| of.verbs)
                .sum(),
            false => overview.tables.iter().map(records_of).sum::<f64>(),
        };
        Some((of(now) - of(before)).abs() / self.seconds()?)
    }

    /// Between the last two looks.
    fn seconds(&self) -> Option<f64> {
        let (now, before) = (self.now.as_ref()?, self.before.as_ref()?);
        let between = now.at.saturating_duration_since(before.at);
        Some(between.as_secs_f64().max(1e-3))
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let Some(now) = &self.now else {
            return frame.render_widget(Paragraph::new("asking the nodes ..."), frame.area());
        };
        let area = frame.area();
        let errors = now.errors.len().min(3) as u16;
        let nodes = (now.nodes.len().min(100) as u16 + 3).min(area.height / 2);
        let [head, of_nodes, of_tables, rates, below] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(nodes),
            Constraint::Min(4),
            Constraint::Length(5),
            Constraint::Length(errors),
        ])
        .areas(area);
        let title = Line::from(vec![
            "farslot top ".bold(),
            now.address.clone().into(),
            format!("  every {} s, q ends", self.every.as_secs()).dim(),
        ]);
        frame.render_widget(title, head);
        frame.render_widget(self.nodes(now, area.width), of_nodes);
        frame.render_widget(self.tables(now, area.width), of_tables);
        self.draw_rates(now, frame, rates);
        let errors = now
            .errors
            .iter()
            .map(|error| Line::from(error.clone()).red());
        frame.render_widget(Paragraph::new(errors.collect::<Vec<_>>()), below);
    }

    fn nodes(&self, now: &StoreOverview, width: u16) -> Table<'static> {
        let has_metrics = has_metrics(now);
        let [round_trip, bar] = if has_metrics { [100, 120] } else { [0, 0] };
        let mut columns: Vec<Column> = vec![
            ("node", Constraint::Fill(1), false, 0),
            ("state", Constraint::Length(15), false, 0),
            ("round trip", Constraint::Length(10), true, round_trip),
            ("memory taken", Constraint::Length(23), true, 0),
            ("", Constraint::Length(BAR as u16), false, bar),
        ];
        if has_metrics {
            columns.extend([
                ("clients", Constraint::Length(7), true, 90),
                ("verbs/s", Constraint::Length(10), true, 0),
                ("bytes/s", Constraint::Length(10), true, 0),
            ]);
        }
        let rows = now.nodes.iter().map(|node| self.node(node, has_metrics));
        table("nodes".into(), &columns, rows.collect(), width)
    }

    fn node(&self, node: &Node, has_metrics: bool) -> Vec<Cell<'static>> {
        let Node { report, scrape } = node;
        // The scheme stands above.
        let address = &report.address;
        let authority = address.split_once("://").map_or(&**address, |(_, of)| of);
        let state = match &report.error {
            Some(_) => Cell::from("down".red().bold()),
            None if report.restarted || !report.lost.is_empty() => {
                Cell::from("came back empty".yellow())
            }
            None => Cell::from("up".green()),
        };
        let round_trip = report.round_trip.map_or_else(String::new, |time| {
            format!("{:.1} us", time.as_nanos() as f64 / 1e3)
        });
        let memory = report.memory.as_ref();
        let taken = memory.map_or_else(String::new, |memory| {
            format!("{} of {}", sized(memory.taken), sized(memory.total))
        });
        let share = memory.map(|memory| memory.taken as f64 / memory.total.max(1) as f64);
        let mut cells = vec![
            Cell::from(authority.to_owned()),
            state,
            right(round_trip),
            right(taken),
            share.map_or_else(empty, bar),
        ];
        if has_metrics {
            let mut before = self.before.iter().flat_map(|before| &before.nodes);
            let before = before.find(|other| other.report.address == report.address);
            let rate = |of: fn(&Scrape) -> f64| {
                let more = of(scrape.as_ref()?) - of(before?.scrape.as_ref()?);
                Some((more.max(0.0) / self.seconds()?) as u64)
            };
            let clients = scrape.map(|scrape| scrape.connections as u64);
            let [clients, verbs] = [clients, rate(|scrape| scrape.verbs)]
                .map(|number| number.map_or_else(String::new, grouped));
            let bytes = rate(|scrape| scrape.bytes).map_or_else(String::new, sized);
            cells.extend([clients, verbs, bytes].map(right));
        }
        cells
    }

    fn tables(&self, now: &StoreOverview, width: u16) -> Table<'static> {
        let columns = [
            ("table", Constraint::Fill(1), false, 0),
            ("scheme", Constraint::Length(7), false, 0),
            ("records", Constraint::Length(13), true, 0),
            ("records/s", Constraint::Length(10), true, 0),
            ("load", Constraint::Length(5), true, 0),
            ("", Constraint::Length(BAR as u16), false, 100),
            ("heap", Constraint::Length(10), true, 0),
            ("memory", Constraint::Length(10), true, 0),
        ];
        let rows = now.tables.iter().skip(self.first);
        let rows = rows.map(|table| self.table(table)).collect();
        let title = match (now.tables.len(), self.first) {
            (all, 0) => format!("tables: {all}"),
            (all, first) => format!("tables: {} to {all} of {all}", first + 1),
        };
        table(title, &columns, rows, width)
    }

    fn table(&self, table: &TableOverview) -> Vec<Cell<'static>> {
        let Some(counts) = &table.counts else {
            return vec![
                Cell::from(table.name.clone()),
                Cell::from(table.scheme),
                right("not built".into()),
                empty(),
                empty(),
                empty(),
                empty(),
                right(sized(table.bytes)),
            ];
        };
        let mut before = self.before.iter().flat_map(|before| &before.tables);
        let before = before.find(|other| other.name == table.name);
        let change = before.zip(self.seconds()).map_or(0.0, |(before, seconds)| {
            ((records_of(table) - records_of(before)) / seconds).round()
        });
        let sign = match change {
            change if change > 0.0 => "+",
            change if change < 0.0 => "-",
            _ => "",
        };
        let heap = match counts.heap_bytes {
            0 => String::new(),
            _ => sized(counts.heap_used),
        };
        vec![
            Cell::from(table.name.clone()),
            Cell::from(table.scheme),
            right(grouped(counts.entries)),
            right(format!("{sign}{}", grouped(change.abs() as u64))),
            right(format!("{:.3}", counts.load_factor())),
            bar(counts.load_factor()),
            right(heap),
            right(sized(table.bytes)),
        ]
    }

    fn draw_rates(&self, now: &StoreOverview, frame: &mut Frame<'_>, area: Rect) {
        let note = match has_metrics(now) {
            true => "verbs a second",
            false => "records more or less a second",
        };
        let last = self.rates.back().copied().unwrap_or(0);
        let most = self.rates.iter().max().copied().unwrap_or(0);
        let title = format!("{note}: {}, at most {}", grouped(last), grouped(most));
        let width = usize::from(area.width.saturating_sub(2));
        let hidden = self.rates.len().saturating_sub(width);
        let shown: Vec<_> = self.rates.iter().skip(hidden).copied().collect();
        let drawn = Sparkline::default()
            .block(boxed(title))
            .style(Color::Cyan)
            .data(shown);
        frame.render_widget(drawn, area);
    }
}

fn has_metrics(overview: &StoreOverview) -> bool {
    overview.nodes.iter().any(|node| node.scrape.is_some())
}

fn records_of(table: &TableOverview) -> f64 {
    table
        .counts
        .as_ref()
        .map_or(0.0, |counts| counts.entries as f64)
}

fn boxed(title: String) -> Block<'static> {
    Block::bordered()
        .title(title)
        .border_style(Style::new().dim())
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

/// The default of a cell spans no column.
fn empty() -> Cell<'static> {
    Cell::from("")
}

/// A share of one, as a bar.
fn bar(share: f64) -> Cell<'static> {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let color = match share {
        share if share > 0.85 => Color::Yellow,
        _ => Color::Green,
    };
    Cell::from(Line::from(vec![
        Span::from("\u{2588}".repeat(full)).fg(color),
        Span::from("\u{2591}".repeat(BAR - full)).dim(),
    ]))
}

fn table(
    title: String,
    columns: &[Column],
    rows: Vec<Vec<Cell<'static>>>,
    width: u16,
) -> Table<'static> {
    let is_shown = |column: usize| columns.get(column).is_some_and(|column| column.3 <= width);
    let row = |cells: Vec<Cell<'static>>| {
        let shown = cells.into_iter().enumerate();
        Row::new(shown.filter_map(|(column, cell)| is_shown(column).then_some(cell)))
    };
    let head = columns
        .iter()
        .map(|(name, _, has_numbers, _)| match has_numbers {
            true => right((*name).into()),
            false => Cell::from(*name),
        });
    let shown = columns.iter().filter(|column| column.3 <= width);
    let widths = shown.map(|(_, width, ..)| *width);
    Table::new(rows.into_iter().map(row), widths)
        .header(row(head.collect()).bold())
        .block(boxed(title))
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;

//! Plots as SVG.

use crate::{Axis, Line, Plot, ReproReport, Source};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use std::error::Error;
use std::ops::Range;

const SIZE: (u32, u32) = (1020, 460);
/// Where the legend begins.
const LEGEND_AT: u32 = 720;

/// Colours that people with any colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(150, 150, 150),
];

type PlotArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawingResult = Result<(), Box<dyn Error>>;

/// One plot.
pub(super) fn svg(plot: &Plot) -> String {
    drawn(&[plot])
}

/// All plots of a report, one below the other; nothing if it has none.
pub(super) fn all_of(report: &ReproReport) -> Option<String> {
    let plots: Vec<&Plot> = report.plots.iter().collect();
    (!plots.is_empty()).then(|| drawn(&plots))
}

fn drawn(plots: &[&Plot]) -> String {
    let mut text = String::new();
    {
        let size = (SIZE.0, SIZE.1 * plots.len() as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let areas = root.split_evenly((plots.len(), 1));
        let drawing = root.fill(&WHITE).map_err(Into::into).and_then(|()| {
            let mut pairs = plots.iter().zip(&areas);
            pairs.try_for_each(|(plot, area)| draw(plot, area))
        });
        let drawing = drawing.and_then(|()| root.present().map_err(Into::into));
        drawing.expect("drawing into a string does not fail");
    }
    text
}

fn draw(plot: &Plot, area: &PlotArea<'_>) -> DrawingResult {
    let x = range(
        &plot.x,
        plot.lines
            .iter()
            .flat_map(|line| line.points.iter().map(|at| at.0)),
    );
    let y = range(
        &plot.y,
        plot.lines
            .iter()
            .flat_map(|line| line.points.iter().map(|at| at.1)),
    );
    match (plot.x.is_logarithmic, plot.y.is_logarithmic) {
        (false, false) => draw_on(plot, area, x, y),
        (false, true) => draw_on(plot, area, x, y.log_scale()),
        (true, false) => draw_on(plot, area, x.log_scale(), y),
        (true, true) => draw_on(plot, area, x.log_scale(), y.log_scale()),
    }
}

/// What an axis spans, with a little room at its ends.
fn range(axis: &Axis, values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    if least > most {
        return 0.0..1.0;
    }
    if axis.is_logarithmic {
        // Nothing at or below 0 has a place there.
        let least = least.max(f64::MIN_POSITIVE);
        return least / 1.15..most.max(least) * 1.15;
    }
    let room = ((most - least) * 0.05).max(1e-3 * most.abs()).max(1e-9);
    let is_load = least > 0.0 && most <= 1.0;
    let from = if least >= 0.0 && !is_load {
        0.0
    } else {
        least - room
    };
    from..most + room
}

fn draw_on<X, Y>(plot: &Plot, area: &PlotArea<'_>, x: X, y: Y) -> DrawingResult
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let (left, right) = area.split_horizontally(LEGEND_AT);
    let mut chart = ChartBuilder::on(&left)
        .caption(&plot.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_desc(plot.x.label)
        .y_desc(plot.y.label)
        .x_label_formatter(&|value| number(*value))
        .y_label_formatter(&|value| number(*value))
        .light_line_style(WHITE.mix(0.0))
        .draw()?;
    for (line, colour) in plot.lines.iter().zip(colours(&plot.lines)) {
        let style = ShapeStyle::from(&colour).stroke_width(2);
        let is_papers = line.source == Source::Paper;
        if !is_papers || line.points.len() > 1 {
            let points = line.points.iter().copied();
            if is_papers {
                chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?;
            } else {
                chart.draw_series(LineSeries::new(points, style))?;
            }
        }
        let radius = if line.points.len() > 40 { 0 } else { 3 };
        let dots = line.points.iter().map(|at| Circle::new(*at, radius, style));
        chart.draw_series(dots)?;
    }
    legend(plot, &right)
}

/// The names of the lines, beside the plot, where they hide none of it.
fn legend(plot: &Plot, area: &PlotArea<'_>) -> DrawingResult {
    for (row, (line, colour)) in plot.lines.iter().zip(colours(&plot.lines)).enumerate() {
        let style = ShapeStyle::from(&colour).stroke_width(2);
        let y = 56 + 20 * row as i32;
        let (label, dashes) = match line.source {
            Source::Ours => (line.name.clone(), &[(0, 20)][..]),
            Source::Paper => (
                format!("{} (paper)", line.name),
                &[(0, 5), (8, 13), (16, 20)][..],
            ),
            Source::Model => (format!("{} (model)", line.name), &[(0, 20)][..]),
        };
        for (from, to) in dashes {
            area.draw(&PathElement::new([(*from, y), (*to, y)], style))?;
        }
        let font = ("sans-serif", 13).into_font();
        area.draw(&Text::new(label, (28, y - 6), font))?;
    }
    Ok(())
}

/// A colour for each line. Lines of the same name have the same: ours and the paper's.
fn colours(lines: &[Line]) -> Vec<RGBColor> {
    let mut names: Vec<&str> = Vec::new();
    let mut colours = Vec::new();
    for line in lines {
        let known = names.iter().position(|name| *name == line.name);
        let number = known.unwrap_or(names.len());
        if known.is_none() {
            names.push(&line.name);
        }
        colours.push(COLOURS[number % COLOURS.len()]);
    }
    colours
}

fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-3..1e6).contains(&value.abs()) {
        return format!("{value:e}");
    }
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(y: Axis) -> Plot {
        Plot {
            title: "some title".into(),
            x: Axis::linear("load factor"),
            y,
            lines: vec![
                Line::ours("a line", vec![(0.25, 1.0), (0.5, 10.0), (0.95, 100.0)]),
                Line::paper("a line", vec![(0.25, 1.5)]),
            ],
        }
    }

    #[test]
    fn a_plot_has_its_words_and_a_dot_for_each_point() {
        for y in [Axis::linear("READs"), Axis::logarithmic("READs")] {
            let svg = svg(&plot(y));
            for word in [
                "some title",
                "load factor",
                "READs",
                "a line",
                "a line (paper)",
            ] {
                assert!(svg.contains(word), "{word}");
            }
            assert_eq!(svg.matches("<circle").count(), 4);
            assert_eq!(svg.matches("<svg").count(), 1);
        }
    }

    #[test]
    fn no_two_labels_of_a_logarithmic_axis_are_the_same() {
        let labels: Vec<_> = (-9..9).map(|power| number(10_f64.powi(power))).collect();
        assert_eq!(labels[5..9], ["1e-4", "0.001", "0.01", "0.1"]);
        let different: std::collections::HashSet<_> = labels.iter().collect();
        assert_eq!(different.len(), labels.len(), "{labels:?}");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(0.25), "0.25");
    }

    #[test]
    fn lines_of_one_name_have_one_colour() {
        let plot = plot(Axis::linear("y"));
        let other = Line::ours("another", Vec::new());
        let lines = [plot.lines.clone(), vec![other]].concat();
        let colours = colours(&lines);
        assert_eq!(colours[0], colours[1]);
        assert_ne!(colours[0], colours[2]);
    }

    #[test]
    fn ranges_hold_their_values() {
        for values in [vec![], vec![5.0], vec![-3.0, 4.0], vec![0.25, 0.95]] {
            for axis in [Axis::linear("x"), Axis::logarithmic("x")] {
                let range = range(&axis, values.iter().copied());
                assert!(range.start < range.end);
                let mut inside = values.iter().filter(|value| **value > 0.0);
                assert!(inside.all(|value| range.contains(value)), "{range:?}");
            }
        }
    }
}

//! Reports as one HTML page that needs nothing beside it.

use super::{plot, table};
use crate::repro::title;
use crate::{ReproReport, ReproRow};
use std::fmt::Write;
use std::time::Duration;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums }
th, td { padding: .15em .7em; border-bottom: 1px solid #ddd; text-align: right }
th:first-child, td:first-child { text-align: left }
svg { max-width: 100%; height: auto; display: block; margin: 1em 0 }
summary { cursor: pointer }
.note { color: #666 }
nav li { list-style: none }
";

/// A page with these reports, and how long each took.
pub(super) fn page(reports: &[(&ReproReport, Option<Duration>)]) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>farslot-lab repro</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Reproduced tables and figures</h1>\n\
         <p>Simulated: virtual time, the same in every run of a seed. Ratios are ours to the paper's; cells \
         of which the paper's text has no figure have none.</p>\n<nav><ul>\n"
    );
    for (report, _) in reports {
        let title = escaped(&title(report));
        let _ = writeln!(page, "<li><a href=\"#{}\">{title}</a></li>", report.id);
    }
    page.push_str("</ul></nav>\n");
    for (report, took) in reports {
        section(&mut page, report, *took);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn section(page: &mut String, report: &ReproReport, took: Option<Duration>) {
    let took = took.map_or_else(String::new, |took| {
        format!(" Took {:.0} s.", took.as_secs_f64())
    });
    let _ = writeln!(
        page,
        "<h2 id=\"{}\">{}</h2>\n<p class=\"note\">{}{took}</p>",
        report.id,
        escaped(&title(report)),
        escaped(&report.setup)
    );
    for plot in &report.plots {
        page.push_str(&plot::svg(plot));
    }
    let (with_paper, others): (Vec<_>, Vec<_>) =
        report.rows.iter().partition(|row| row.ratio.is_some());
    rows(page, &with_paper);
    if !others.is_empty() {
        let _ = writeln!(
            page,
            "<details><summary>{} more cells</summary>",
            others.len()
        );
        rows(page, &others);
        page.push_str("</details>\n");
    }
}

fn rows(page: &mut String, rows: &[&ReproRow]) {
    if rows.is_empty() {
        return;
    }
    page.push_str("<table>\n<tr>");
    for heading in table::HEADER {
        let _ = write!(page, "<th>{heading}</th>");
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str("<tr>");
        for cell in table::cells(row) {
            let _ = write!(page, "<td>{}</td>", escaped(&cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Line, Plot};

    #[test]
    fn a_page_has_everything_within_it() {
        let report = ReproReport {
            id: "000-table1",
            setup: "a < b & c".into(),
            rows: vec![
                ReproRow::new("with a paper", Some(2.0), 3.0),
                ReproRow::new("without", None, 4.25),
            ],
            plots: vec![Plot {
                title: "title".into(),
                x: Axis::linear("x"),
                y: Axis::logarithmic("y"),
                lines: vec![Line::ours("line", vec![(1.0, 2.0), (2.0, 30.0)])],
            }],
        };
        let page = page(&[(&report, Some(Duration::from_secs(7)))]);
        for part in [
            "a &lt; b &amp; c",
            "<svg",
            "<td>with a paper</td><td>2</td><td>3</td><td>1.500</td>",
            "1 more cells",
            "<td>4.250</td>",
            "Took 7 s.",
            "table 1: READs per lookup",
        ] {
            assert!(page.contains(part), "{part}");
        }
        // Nothing is fetched from elsewhere.
        assert!(!page.contains("src=") && !page.contains("href=\"http"));
    }
}

//! `farslot-lab repro`: tables and figures of the papers, ours beside theirs.

use super::{html, plot, table};
use crate::repro::{self, Options, title};
use crate::{LabError, ReproReport};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output::{self, on_spinner};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of `farslot-lab repro`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// What to reproduce: a table or a figure; or a paper, for all of its tables and figures
    id: Option<String>,
    /// Slots of each table [default: its own of each id]
    #[arg(long, value_name = "N")]
    slots: Option<u64>,
    /// Tables that are averaged over [default: its own of each id]
    #[arg(long, value_name = "N")]
    tables: Option<u32>,
    /// Lookups, in each table, behind each cell [default: its own of each id]
    #[arg(long, value_name = "N")]
    lookups: Option<u32>,
    /// What all chance derives from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Draw it, as SVG, into a file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write a report with tables and plots, as HTML, into a file
    #[arg(long, value_name = "FILE.html")]
    output: Option<PathBuf>,
}

/// Reproduces a table or figure, or all of a paper.
///
/// # Errors
/// A usage failure for an id that there is not; what the measurement or a file says.
pub(super) fn run(args: Args, context: &Context) -> Result<()> {
    let Some(id) = &args.id else {
        return list(context);
    };
    let options = Options {
        slots: args.slots,
        tables: args.tables,
        lookups: args.lookups,
        seed: args.seed,
    };
    let of_paper = repro::of_paper(id);
    if of_paper.is_empty() {
        return one(id, &options, &args, context);
    }
    if args.plot.is_some() {
        return Err(Failure::Usage(
            "--plot is for one table or figure; a paper's are all in --output".into(),
        ));
    }
    all(id, &of_paper, &options, &args, context)
}

/// One table or figure.
fn one(id: &str, options: &Options, args: &Args, context: &Context) -> Result<()> {
    for file in args.output.iter().chain(&args.plot) {
        output::check_writable(file)?;
    }
    let reproduced = on_spinner(|progress| repro::run(id, options, progress));
    let report = reproduced.map_err(with_ids)?;
    if let Some(file) = &args.output {
        write(file, &html::page(&[(&report, None)]))?;
    }
    if let Some(error) = table::largest_error(&report) {
        let percent = 100.0 * error;
        output::note(format_args!(
            "largest standard error of a cell: {percent:.2} %"
        ));
    }
    if context.json {
        output::json(&report)?;
    } else {
        output::line(table::of(&report).to_string())?;
        output::line(&report.setup)?;
    }
    // At last: what was measured is not lost where it cannot be drawn.
    let Some(file) = &args.plot else {
        return Ok(());
    };
    match plot::all_of(&report) {
        Some(svg) => write(file, &svg),
        None => Err(Failure::Usage(format!("{id} has nothing to draw"))),
    }
}

/// All of a paper's, one after the other.
fn all(paper: &str, ids: &[&str], options: &Options, args: &Args, context: &Context) -> Result<()> {
    // A file that cannot be written is told now, not after minutes.
    let page = args.output.as_deref();
    if let Some(file) = page {
        output::check_writable(file)?;
    }
    let bar = ProgressBar::new(ids.len() as u64);
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {prefix}: {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut reports = Vec::new();
    for id in ids {
        bar.set_prefix((*id).to_owned());
        let since = bar.elapsed();
        let report = repro::run(id, options, &|at| bar.set_message(at.to_owned()));
        bar.inc(1);
        match report {
            // The others do not need what this machine lacks.
            Err(error @ (LabError::NoCorpus { .. } | LabError::TooFewKeys { .. })) => {
                bar.suspend(|| output::note(format_args!("{id} is left out: {error}")));
            }
            report => reports.push((report?, bar.elapsed() - since)),
        }
    }
    bar.finish_and_clear();
    if let Some(file) = page {
        let timed = reports.iter();
        let timed: Vec<_> = timed.map(|(report, took)| (report, Some(*took))).collect();
        write(file, &html::page(&timed))?;
    }
    if context.json {
        let reports: Vec<&ReproReport> = reports.iter().map(|(report, _)| report).collect();
        return output::json(&serde_json::json!({ "paper": paper, "reports": reports }));
    }
    for (report, took) in &reports {
        output::line(format!(
            "\n{} ({:.0} s)\n",
            title(report),
            took.as_secs_f64()
        ))?;
        output::line(table::of(report).to_string())?;
        output::line(&report.setup)?;
    }
    Ok(())
}

/// What there is.
fn list(context: &Context) -> Result<()> {
    if !context.json {
        return output::line(ids());
    }
    let all = repro::all().map(|(id, title)| serde_json::json!({ "id": id, "title": title }));
    output::json(&serde_json::json!({ "reproductions": all.collect::<Vec<_>>() }))
}

fn with_ids(error: LabError) -> Failure {
    let is_unknown = matches!(error, LabError::UnknownId { .. });
    match Failure::from(error) {
        Failure::Usage(why) if is_unknown => Failure::Usage(format!("{why}\n{}", ids())),
        other => other,
    }
}

fn ids() -> String {
    let papers = repro::papers();
    let papers = papers.map(|paper| (paper, "all of the paper's"));
    let ids: Vec<_> = papers
        .chain(repro::all())
        .map(|(id, title)| format!("  farslot-lab repro {id:<14} {title}"))
        .collect();
    ids.join("\n")
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text)
        .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", file.display())))
}

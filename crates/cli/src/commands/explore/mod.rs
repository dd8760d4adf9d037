//! `farslot explore`: how many states a model can reach, and whether all of them are as they should
//! be.

mod ranks;
mod subject;

use farslot_explore::explicit::{self, Options, Progress};
use farslot_explore::formula::Formula;
use farslot_explore::models::{ModelNet, Named, steps_as_text};
use farslot_explore::net::Net;
use farslot_explore::report::Report;
use farslot_explore::symbolic::{
    SymbolicOptions, explore_symbolically, explore_symbolically_together, share_memory,
};
use farslot_explore::{ExploreError, Terms, pnml};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use farslot_terminal::output::escaped;
use indicatif::{ProgressBar, ProgressStyle};
use ranks::{ChildOptions, Fabric, RankArgs, StatePlacement};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use subject::{ExplorationOutcome, ExplorationSubject, FoundViolation};

/// The options of `farslot explore`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A place/transition net (FILE.pnml or FILE.pnml.gz), or a model by name: puzzle:RxC,
    /// philosophers:N, peterson, peterson:N, peterson-broken, dekker, dekker-broken, 2pc:N,
    /// 2pc-broken:N
    #[arg(value_name = "MODEL")]
    model: String,
    /// Explore sets of markings as decision diagrams instead of one marking after the other
    #[arg(long, conflicts_with = "journal")]
    symbolic: bool,
    /// Threads, of each process with --symbolic [default: one a processor; one with --symbolic]
    #[arg(short, long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Memory for the states, of all processes of --processes together [default: three quarters of
    /// the machine's]
    #[arg(long, value_name = "SIZE")]
    memory: Option<bytesize::ByteSize>,
    /// A condition that every marking of the net must meet, such as 'critical_1 + critical_2 <= 1';
    /// a marking that does not is reported with a shortest way to it, and ends the command with
    /// exit code 1
    #[arg(long, value_name = "FORMULA")]
    invariant: Option<String>,
    /// A condition for which a shortest way to a marking of the net is looked for that meets it; if
    /// there is none, the command ends with exit code 1
    #[arg(long, value_name = "FORMULA", conflicts_with = "invariant")]
    reach: Option<String>,
    /// Write every complete level to this file; an exploration goes on from a file that is there
    /// already. Of several processes each has a file of its own: FILE.0-of-2 and so on
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    ranks: RankArgs,
}

/// Bytes that the table of a simulated rank may take: the simulator's memory is there at once.
const SIMULATED: u64 = 16 << 20;

/// Explores a model and reports what was found.
///
/// # Errors
/// A model that cannot be read or explored; [`Failure::Reported`] where the invariant is violated.
pub fn run(args: Args, context: &Context) -> Result<()> {
    if args.ranks.table == StatePlacement::Shared && (args.symbolic || !args.ranks.are_given()) {
        let reason = "--table shared is for several processes that explore state by state";
        return Err(Failure::Usage(reason.into()));
    }
    let is_file = [".pnml", ".pnml.gz"]
        .iter()
        .any(|end| args.model.ends_with(end));
    let outcome = if is_file || Path::new(&args.model).is_file() {
        explore_file(&args)?
    } else {
        explore_named(&args)?
    };
    // Of several processes only rank 0 tells what they have found.
    let Some(ExplorationOutcome { report, violation }) = outcome else {
        return Ok(());
    };
    if context.json {
        output::line(report.to_json())?;
    } else {
        output::line(escaped(&summary(&report)))?;
    }
    let Some(violation) = violation else {
        return match args.reach {
            None => Ok(()),
            Some(_) => tell(
                context,
                "no marking that can be reached meets the condition".into(),
            )
            .and(Err(Failure::Reported)),
        };
    };
    let found = match args.reach {
        None => "the invariant is violated",
        Some(_) => "a marking that meets the condition is reached",
    };
    // With --json, standard output has one object and nothing else.
    let told = match violation {
        FoundViolation::Steps(trace) => {
            let steps = output::counted(trace.len() as u64 - 1, "step");
            let lines = trace.iter();
            let lines = lines.map(|(action, state)| format!("\n  {action}: {state}"));
            format!("{found} after {steps}:{}", lines.collect::<String>())
        }
        FoundViolation::State(state) => format!(
            "{found}, but the memory does not suffice to find a shortest way there:\n  {state}"
        ),
    };
    tell(context, told)?;
    match args.reach {
        None => Err(Failure::Reported),
        Some(_) => Ok(()),
    }
}

/// Tells people something beside the report.
fn tell(context: &Context, text: String) -> Result<()> {
    if context.json {
        output::note(text);
        return Ok(());
    }
    output::line(escaped(&text))
}

fn explore_file(args: &Args) -> Result<Option<ExplorationOutcome>> {
    let failed = |error: pnml::ReadError| Failure::Failed(format!("{}: {error}", args.model));
    let net = pnml::read(Path::new(&args.model)).map_err(failed)?;
    let invariant = invariant(args, &net)?;
    if args.symbolic {
        return explore_diagrams(args, &net, invariant.as_ref());
    }
    if args.ranks.are_given() {
        return explore_together(args, ExplorationSubject::Net(net, invariant));
    }
    let (explored, packed) = on_progress(true, |progress| {
        let journal = args.journal.as_deref();
        explicit::explore_net(&net, invariant.as_ref(), &options(args), journal, progress)
    })?;
    let trace = explored.violation.as_ref();
    let trace = trace.map(|steps| steps_as_text(&packed, steps));
    let report = Report::explicit(net.name(), &explored);
    Ok(Some(ExplorationOutcome::explicit(report, trace)))
}

fn explore_named(args: &Args) -> Result<Option<ExplorationOutcome>> {
    let usage = |reason: &str| Err(Failure::Usage(format!("{reason} is for nets: FILE.pnml")));
    let model: Named = match args.model.parse() {
        Ok(model) => model,
        Err(error) => return Err(Failure::Usage(format!("{error}"))),
    };
    if args.invariant.is_some() {
        return usage("--invariant");
    }
    if args.reach.is_some() {
        return usage("--reach");
    }
    if args.symbolic {
        let ModelNet { net, invariant } = model.as_net(&args.model);
        return explore_diagrams(args, &net, invariant.as_ref());
    }
    if args.ranks.are_given() {
        return explore_together(args, ExplorationSubject::Named(args.model.clone(), model));
    }
    let options = Options {
        check_invariant: true,
        ..options(args)
    };
    let found = on_progress(true, |progress| {
        model.explore(&options, args.journal.as_deref(), progress)
    })?;
    let report = Report::explicit(&args.model, &found.explored);
    Ok(Some(ExplorationOutcome::explicit(report, found.trace)))
}

/// Explores a net symbolically, alone or with other processes.
fn explore_diagrams(
    args: &Args,
    net: &Net,
    condition: Option<&Formula>,
) -> Result<Option<ExplorationOutcome>> {
    let options = SymbolicOptions {
        threads: args.threads.unwrap_or(NonZeroUsize::MIN),
        memory: memory(args) * args.ranks.sharing(),
    };
    let explored = if args.ranks.are_given() {
        if args.ranks.over.is_some_and(|over| over != Fabric::Shm) {
            let reason = "with --symbolic, processes share one machine's memory: --over shm";
            return Err(Failure::Usage(reason.into()));
        }
        let (mut job, _children) = args.ranks.join(&child_options(args, options.memory))?;
        let failed = |error: ExploreError| Failure::Failed(error.to_string());
        let terms = Terms::of_net(net, condition_text(args).as_deref());
        let memory = share_memory(&mut job, &options, terms).map_err(failed)?;
        let explored = on_progress(job.rank() == 0, |progress| {
            explore_symbolically_together(net, condition, &memory, progress)
        })?;
        // Until then the others may use this process's memory.
        let ended = job.barrier();
        ended.map_err(|error| Failure::Failed(error.to_string()))?;
        explored
    } else {
        Some(on_progress(true, |progress| {
            explore_symbolically(net, condition, &options, progress)
        })?)
    };
    Ok(explored.map(|explored| {
        let violation = explored.violation.as_ref();
        let violation = violation.map(|found| match found.path_as_text(net) {
            Some(steps) => FoundViolation::Steps(steps),
            None => FoundViolation::State(found.marking_as_text(net)),
        });
        ExplorationOutcome {
            violation,
            report: Report::symbolic(net.name(), explored),
        }
    }))
}

/// What the processes are told that this one starts.
fn child_options(args: &Args, memory: u64) -> ChildOptions<'_> {
    ChildOptions {
        model: &args.model,
        invariant: args.invariant.as_deref(),
        reach: args.reach.as_deref(),
        memory,
        journal: args.journal.as_deref(),
        symbolic: args.symbolic,
        threads: args.threads,
    }
}

/// Explores with other processes. Nothing is to be told but by rank 0.
fn explore_together(
    args: &Args,
    subject: ExplorationSubject,
) -> Result<Option<ExplorationOutcome>> {
    if args.threads.is_some() {
        let reason = "several processes have one thread each: without --threads";
        return Err(Failure::Usage(reason.into()));
    }
    let options = options(args);
    if args.ranks.over == Some(Fabric::Sim) {
        if args.journal.is_some() {
            return Err(Failure::Usage("the simulator writes no --journal".into()));
        }
        let (Some(ranks), None) = (args.ranks.processes, &args.ranks.rendezvous) else {
            let reason = "the simulator has all ranks in one process: --processes N --over sim";
            return Err(Failure::Usage(reason.into()));
        };
        let table = args.ranks.shared(ranks, options.memory.min(SIMULATED));
        return subject
            .simulated(ranks, table, args.ranks.seed, &options)
            .map(Some);
    }
    let (job, _children) = args.ranks.join(&child_options(args, options.memory))?;
    let shape = subject.rings(job.ranks())?;
    let journal = match args.journal {
        Some(_) => "written",
        None => "none",
    };
    let condition = condition_text(args);
    let terms = subject.terms(condition.as_deref()).and("journal", journal);
    let table = args.ranks.shared(job.ranks(), options.memory);
    let team = ranks::meet(job, &args.ranks.over(), shape, table, terms)?;
    let (first, journal) = (team.rank() == 0, args.journal.as_deref());
    let outcome = on_progress(first, |progress| {
        team.run(async |exchange| subject.part(&options, exchange, journal, progress).await)
    })?;
    Ok(first.then_some(outcome))
}

/// The condition as it was given, which all processes must have alike.
fn condition_text(args: &Args) -> Option<String> {
    let invariant = args.invariant.as_ref();
    let goal = args.reach.as_ref();
    let invariant = invariant.map(|formula| format!("--invariant {formula}"));
    invariant.or_else(|| goal.map(|formula| format!("--reach {formula}")))
}

/// What every marking must meet: of `--reach` the contrary, so that a goal is found as a violation
/// is.
fn invariant(args: &Args, net: &Net) -> Result<Option<Formula>> {
    let parse = |text: &String| Formula::parse(text, net);
    let formula = args.invariant.as_ref().map(parse);
    let goal = args.reach.as_ref().map(parse);
    let goal = goal.map(|formula| formula.map(Formula::negated));
    let formula = formula.or(goal).transpose();
    formula.map_err(|error| Failure::Usage(error.to_string()))
}

fn options(args: &Args) -> Options {
    let defaults = Options::default();
    Options {
        threads: args.threads.unwrap_or(defaults.threads),
        memory: memory(args),
        ..defaults
    }
}

/// Three quarters of the machine's memory, where the user has not said how much; a process's share
/// of it.
fn memory(args: &Args) -> u64 {
    let given = args.memory.map(|size| size.as_u64());
    let all = given.unwrap_or_else(|| farslot_explore::machine_memory() / 4 * 3);
    all / args.ranks.sharing()
}

/// Runs an exploration; where standard error is a terminal, it shows how far it is if that is to be
/// `seen`.
fn on_progress<T>(
    seen: bool,
    exploration: impl FnOnce(&Progress) -> std::result::Result<T, ExploreError>,
) -> Result<T> {
    let bar = match seen {
        true => ProgressBar::new_spinner(),
        false => ProgressBar::hidden(),
    };
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    let progress = Progress::default();
    let ended = std::sync::atomic::AtomicBool::new(false);
    let explored = std::thread::scope(|scope| {
        let shown = scope.spawn(|| {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                bar.set_message(shown(&progress, bar.elapsed()));
                bar.tick();
                std::thread::park_timeout(Duration::from_millis(200));
            }
        });
        let explored = exploration(&progress);
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        shown.thread().unpark();
        explored
    });
    bar.finish_and_clear();
    explored.map_err(|error| Failure::Failed(error.to_string()))
}

fn shown(progress: &Progress, elapsed: Duration) -> String {
    let states = progress.states();
    let bytes = progress.bytes();
    if states == 0 {
        return format!("level {}, {}", progress.depth(), output::sized(bytes));
    }
    format!(
        "depth {}, {}, {} transitions, {:.2} M states/s, {:.1} bytes a state",
        progress.depth(),
        output::counted(states, "state"),
        output::grouped(progress.transitions()),
        states as f64 / elapsed.as_secs_f64().max(1e-9) / 1e6,
        bytes as f64 / states as f64,
    )
}

fn summary(report: &Report) -> String {
    // There may be more than a word holds.
    let counted = |number: &str, noun: &str| {
        let plural = if number == "1" { "" } else { "s" };
        format!("{number} {noun}{plural}")
    };
    let mut lines = vec![
        format!(
            "{}: {}, {}",
            report.model,
            counted(&report.states.to_string(), "state"),
            counted(&report.transitions.to_string(), "transition")
        ),
        format!("deadlocks: {}", report.deadlocks),
    ];
    if let Some(depth) = report.depth {
        lines.push(format!("depth: {depth}"));
    }
    if let Some(tokens) = report.tokens {
        let (place, marking) = (tokens.in_place, tokens.in_state);
        lines.push(format!(
            "most tokens: {place} in a place, {marking} in a marking"
        ));
    }
    let (seconds, bytes) = (report.seconds, report.bytes_per_state);
    lines.push(format!(
        "{seconds:.3} s after {:.3} s of preparation, {bytes:.3} bytes a state",
        report.preparation
    ));
    lines.join("\n")
}

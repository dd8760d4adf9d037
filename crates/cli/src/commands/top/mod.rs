//! `farslot top`: nodes, tables and rates, in the terminal.

mod look;
mod scrape;
mod screen;

use self::look::{StoreOverview, StoreWatch};
use self::screen::Screen;
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The options of `farslot top`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Seconds between two looks
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    every: u64,
    /// Where the nodes serve their metrics (farslot serve --metrics), in the order of the nodes,
    /// with commas between them: their connections, verbs and bytes are shown then
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    metrics: Vec<String>,
}

/// How long a key may wait to be answered, and a look to be shown.
const TICK: Duration = Duration::from_millis(100);

/// Shows the store until q is pressed.
///
/// # Errors
/// That there is no terminal, or no store; what the terminal says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "farslot top draws on a terminal\n  try:  farslot stat --json".into(),
        ));
    }
    // What fails here is told before the screen is drawn over.
    let watch = StoreWatch::new(context.store()?, args.metrics);
    let every = Duration::from_secs(args.every);
    let overviews = overviews_of(watch, every)?;
    let mut terminal = ratatui::init();
    let shown = show(&mut terminal, &overviews, every);
    ratatui::restore();
    shown
}

/// Looks at the store from a thread of its own: one that waits for a node which is down does not
/// keep keys from being answered.
fn overviews_of(watch: StoreWatch, every: Duration) -> Result<mpsc::Receiver<StoreOverview>> {
    let (tell, overviews) = mpsc::channel();
    let thread = std::thread::Builder::new().name("farslot-top".into());
    let started = thread.spawn(move || {
        let mut tables = Vec::new();
        loop {
            let since = Instant::now();
            if tell.send(watch.look(&mut tables)).is_err() {
                return;
            }
            std::thread::sleep(every.saturating_sub(since.elapsed()));
        }
    });
    started.map_err(Failure::io("a thread"))?;
    Ok(overviews)
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    overviews: &mpsc::Receiver<StoreOverview>,
    every: Duration,
) -> Result<()> {
    let failed = || Failure::io("the terminal");
    let mut screen = Screen::new(every);
    loop {
        overviews
            .try_iter()
            .for_each(|overview| screen.take(overview));
        let draw = |frame: &mut ratatui::Frame<'_>| screen.draw(frame);
        terminal.draw(draw).map_err(failed())?;
        if !event::poll(TICK).map_err(failed())? {
            continue;
        }
        let Event::Key(key) = event::read().map_err(failed())? else {
            continue;
        };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
            KeyCode::Down | KeyCode::Char('j') => screen.scroll(1),
            KeyCode::Up | KeyCode::Char('k') => screen.scroll(-1),
            _ => {}
        }
    }
}

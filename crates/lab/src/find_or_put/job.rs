//! The processes of a measurement.

use super::{Options, Timed, rank};
use crate::{LabError, Result};
use farslot_set::job::{Job, Launch};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// Which process of a measurement this is, for those that another has started.
#[derive(clap::Args, Clone, Debug)]
pub struct Meeting {
    /// Where rank 0 listens
    #[arg(long, hide = true, requires = "rank", requires = "ranks")]
    pub rendezvous: Option<String>,
    /// This process's rank
    #[arg(long, hide = true)]
    pub rank: Option<u32>,
    /// How many there are
    #[arg(long, hide = true)]
    pub ranks: Option<u32>,
}

impl Meeting {
    /// Takes part in a measurement if this process is one that another has started; returns whether it is.
    ///
    /// # Errors
    /// As [`run`](super::run).
    pub fn take_part(&self, options: &Options) -> Result<bool> {
        let (Some(rank), Some(ranks)) = (self.rank, self.ranks) else {
            return Ok(false);
        };
        options.check()?;
        let mut job = Job::join(Launch {
            rank,
            ranks,
            rendezvous: self.rendezvous.clone(),
            ..Launch::alone()
        })?;
        rank::measure(options, &mut job)?;
        Ok(true)
    }
}

/// Processes that end with this one, however it ends.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Measures with so many processes, of which this is the first.
pub(super) fn measure(options: &Options, ranks: u32) -> Result<Vec<Timed>> {
    let failed = |error: std::io::Error| LabError::Checker {
        checker: "a process of find-or-put".into(),
        reason: error.to_string(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?.to_string();
    let program = std::env::current_exe().map_err(failed)?;
    let mut children = Children(Vec::new());
    let list = |numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        numbers.join(",")
    };
    for rank in 1..ranks {
        let mut command = Command::new(&program);
        command.args(["find-or-put", "--rendezvous", &address]);
        for (option, value) in [
            ("--rank", rank.to_string()),
            ("--ranks", ranks.to_string()),
            ("--buckets", options.buckets.to_string()),
            ("--found", list(&options.found)),
            ("--rounds", options.rounds.to_string()),
            ("--seed", options.seed.to_string()),
        ] {
            command.args([option, &value]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        children.0.push(command.spawn().map_err(failed)?);
    }
    let mut job = Job::join_over(
        Launch {
            rank: 0,
            ranks,
            rendezvous: Some(address),
            ..Launch::alone()
        },
        Some(listener),
    )?;
    let timed = rank::measure(options, &mut job)?;
    for child in &mut children.0 {
        child.wait().map_err(failed)?;
    }
    Ok(timed)
}

//! Processes of this program that this one starts and that meet as a job.

use farslot_set::job::{Job, Launch};
use farslot_terminal::failure::{Failure, Result};
use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Starts ranks 1 and up, each by the command that `command` makes of its rank and the address to
/// meet at, and joins them as rank 0.
///
/// # Errors
/// A process that cannot be started, or that does not come.
pub fn start(
    ranks: u32,
    command: impl Fn(u32, &str) -> Result<Command>,
) -> Result<(Job, Children)> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Failure::io("127.0.0.1"))?;
    let address = listener.local_addr();
    let address = address.map_err(Failure::io("127.0.0.1"))?.to_string();
    let mut children = Children::default();
    for rank in 1..ranks {
        let child = command(rank, &address)?.spawn();
        children
            .0
            .push(child.map_err(Failure::io("another process of farslot"))?);
    }
    let launch = Launch {
        rank: 0,
        ranks,
        rendezvous: Some(address),
        ..Launch::alone()
    };
    let joined = Job::join_over(launch, Some(listener));
    let job = joined.map_err(|error| Failure::Failed(error.to_string()))?;
    Ok((job, children))
}

/// The processes that this one has started. They end by themselves, also when this one has failed
/// or was killed: those that do not soon are killed when this is dropped.
#[derive(Debug, Default)]
pub struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        // Long enough for them to say what went wrong.
        let until = Instant::now() + Duration::from_secs(2);
        for child in &mut self.0 {
            while matches!(child.try_wait(), Ok(None)) {
                if Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                }
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

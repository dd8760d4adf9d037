//! The owner's event loop: in a thread of the fabric, or in threads of the application.
//!
//! A fabric that answers calls for a node does it in rounds: it answers what has come, and sleeps
//! where nothing has. A thread of its own runs them (`Shift::run`), so that progress depends on
//! nobody's polling. The application may take them over ([`EventLoop`]), to choose the processor,
//! or to do its own work between them, and gives them back whenever it likes.

use crate::Result;
use crate::error::os;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is done again and again for a node's clients, by one thread at a time.
pub(crate) trait ServeLoop: Send {
    /// Serves what has come; returns whether anything had. If nothing had, it may sleep for `most`
    /// at the longest, or, where there is no such limit, until something comes.
    ///
    /// # Errors
    /// What the system says: nothing can be served any more then.
    fn round(&mut self, most: Option<Duration>) -> Result<bool>;
}

/// Rounds, and whose they are.
pub(crate) struct Shift {
    /// Nothing while somebody runs them.
    rounds: Mutex<Option<Box<dyn ServeLoop>>>,
    changed: Condvar,
    /// Whether the application wants or has them: a look that takes no lock.
    is_lent: AtomicBool,
    /// Whether there is nothing to serve any more. It is set under the lock, for those who wait.
    is_over: AtomicBool,
    /// Ends the sleep of whoever runs a round.
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Shift {
    /// Rounds that nobody runs yet.
    pub(crate) fn new(
        rounds: impl ServeLoop + 'static,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            rounds: Mutex::new(Some(Box::new(rounds))),
            changed: Condvar::new(),
            is_lent: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            wake: Box::new(wake),
        })
    }

    fn rounds(&self) -> MutexGuard<'_, Option<Box<dyn ServeLoop>>> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Runs the rounds until they are over, but for those that the application runs. A panic of
    /// theirs ends them, whoever runs them.
    pub(crate) fn run(&self) {
        let _over = LoopEndGuard(self);
        while let Some(mut rounds) = self.take_unless_lent() {
            while !self.is_lent.load(Ordering::Acquire) {
                if self.is_over() {
                    return;
                }
                if let Err(error) = rounds.round(None) {
                    log::error!("clients cannot be served any more: {error}");
                    return;
                }
            }
            self.put(rounds);
        }
    }

    /// The rounds, once the application does not have them; nothing if they are over.
    fn take_unless_lent(&self) -> Option<Box<dyn ServeLoop>> {
        self.take_when(|| !self.is_lent.load(Ordering::Acquire))
    }

    /// The rounds, once they are there and it may; nothing if they are over.
    fn take_when(&self, may: impl Fn() -> bool) -> Option<Box<dyn ServeLoop>> {
        let taken = self.changed.wait_while(self.rounds(), |rounds| {
            !self.is_over() && (rounds.is_none() || !may())
        });
        let mut rounds = taken.unwrap_or_else(PoisonError::into_inner);
        rounds.take_if(|_| !self.is_over())
    }

    fn put(&self, rounds: Box<dyn ServeLoop>) {
        *self.rounds() = Some(rounds);
        self.changed.notify_all();
    }

    /// Hands the rounds to the application once the round that is under way has ended; nothing if
    /// it has them already, or they are over.
    pub(crate) fn lend<'a>(self: &Arc<Self>) -> Option<EventLoop<'a>> {
        if self.is_over() || self.is_lent.swap(true, Ordering::AcqRel) {
            return None;
        }
        (self.wake)();
        let rounds = self.take_when(|| true)?;
        Some(EventLoop {
            shift: Arc::clone(self),
            rounds: Some(rounds),
            agent: PhantomData,
        })
    }

    /// Has nobody wait for the rounds any more.
    pub(crate) fn end(&self) {
        let rounds = self.rounds();
        self.is_over.store(true, Ordering::Release);
        drop(rounds);
        self.changed.notify_all();
        (self.wake)();
    }
}

/// Ends the rounds when it is dropped.
struct LoopEndGuard<'s>(&'s Shift);

impl Drop for LoopEndGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A thread of the fabric that runs rounds, unless the application does. Dropping it ends them.
pub(crate) struct OwnThread {
    pub(crate) shift: Arc<Shift>,
    /// Nothing once it is joined.
    handle: Option<JoinHandle<()>>,
}

impl OwnThread {
    /// Starts it. `wake` is to end the sleep of whoever runs a round.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn start(
        name: impl Into<String>,
        rounds: impl ServeLoop + 'static,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self> {
        let shift = Shift::new(rounds, wake);
        let of_thread = Arc::clone(&shift);
        let handle = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || of_thread.run())
            .map_err(os("spawning a thread"))?;
        Ok(Self {
            shift,
            handle: Some(handle),
        })
    }

    /// Whether it serves nobody any more: its rounds have failed or panicked.
    pub(crate) fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        // It wakes the thread too. An event loop that was forgotten is not waited for.
        self.shift.end();
        // A handler may have held the last of what holds this: then this is the thread itself,
        // which ends as soon as the handler has. A panic of a thread has been printed already.
        let thread = std::thread::current().id();
        if let Some(handle) = self.handle.take_if(|handle| handle.thread().id() != thread) {
            let _ = handle.join();
        }
    }
}

/// The event loop of a node's owner in the hands of the application: calls, and over TCP all
/// verbs, are answered in the thread that gives it its [turns](EventLoop::turn), and in no other.
/// Dropping it gives it back to the fabric's own thread, which goes on where it was.
///
/// While it is held nothing else serves its clients: who gives it no turns lets them wait. Handlers
/// must not ask for the loop that they run in.
///
/// ```
/// use farslot_fabric::shm::{Node, RegionSpec};
/// use farslot_fabric::tcp::{Agent, AgentOptions};
/// use farslot_fabric::Rights;
/// use std::time::Duration;
///
/// let region = RegionSpec { len: 4096, rights: Rights::ALL };
/// let agent = Agent::start(Node::embedded(&[region])?, &AgentOptions::default())?;
/// let mut event_loop = agent.event_loop().expect("the agent has a thread");
/// // It has but one.
/// assert!(agent.event_loop().is_none());
/// // Between other work: without waiting, and as long as that work can wait.
/// while event_loop.turn(Duration::ZERO)? {}
/// event_loop.turn(Duration::from_millis(1))?;
/// drop(event_loop);
/// assert!(agent.event_loop().is_some());
/// # Ok::<(), farslot_fabric::FabricError>(())
/// ```
pub struct EventLoop<'a> {
    shift: Arc<Shift>,
    /// Nothing during a round, and behind one that has failed.
    rounds: Option<Box<dyn ServeLoop>>,
    /// It goes before the agent does.
    agent: PhantomData<&'a ()>,
}

impl fmt::Debug for EventLoop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop").finish_non_exhaustive()
    }
}

impl EventLoop<'_> {
    /// Serves what has come. If nothing has, it waits for something for so long. Returns whether
    /// anything had come, calls or what else there is to do for clients.
    ///
    /// # Errors
    /// What the system says: the clients cannot be served any more.
    pub fn turn(&mut self, wait: Duration) -> Result<bool> {
        let until = Instant::now().checked_add(wait);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            // Away during the round: what has panicked is not given back.
            let Some(mut rounds) = self.rounds.take() else {
                return Ok(false);
            };
            let has_come = rounds.round(left);
            if has_come.is_ok() {
                self.rounds = Some(rounds);
            }
            if has_come? {
                return Ok(true);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }
}

impl Drop for EventLoop<'_> {
    fn drop(&mut self) {
        match self.rounds.take() {
            Some(rounds) => {
                self.shift.is_lent.store(false, Ordering::Release);
                self.shift.put(rounds);
            }
            None => self.shift.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FabricError;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::ThreadId;

    /// A round takes up one thing, and says in which thread; 0 fails, 1 panics.
    struct QueueRounds {
        things: Receiver<u64>,
        taken: Sender<(u64, ThreadId)>,
    }

    impl ServeLoop for QueueRounds {
        fn round(&mut self, most: Option<Duration>) -> Result<bool> {
            let most = most.unwrap_or(Duration::from_millis(1));
            let Ok(thing) = self.things.recv_timeout(most) else {
                return Ok(false);
            };
            assert!(thing != 1, "as it was told to");
            let taken = (thing, std::thread::current().id());
            self.taken.send(taken).unwrap();
            match thing {
                0 => Err(FabricError::TimedOut {
                    node: crate::NodeId(0),
                    after: 0,
                }),
                _ => Ok(true),
            }
        }
    }

    struct Bench {
        shift: Arc<Shift>,
        things: Sender<u64>,
        taken: Receiver<(u64, ThreadId)>,
        wakes: Arc<AtomicU64>,
        thread: std::thread::JoinHandle<()>,
    }

    fn bench() -> Bench {
        let (things, of_rounds) = channel();
        let (of_taken, taken) = channel();
        let wakes = Arc::<AtomicU64>::default();
        let rounds = QueueRounds {
            things: of_rounds,
            taken: of_taken,
        };
        let counted = Arc::clone(&wakes);
        let shift = Shift::new(rounds, move || {
            counted.fetch_add(1, Ordering::AcqRel);
        });
        let of_thread = Arc::clone(&shift);
        Bench {
            shift,
            things,
            taken,
            wakes,
            thread: std::thread::spawn(move || of_thread.run()),
        }
    }

    #[test]
    fn rounds_are_the_threads_or_the_applications_and_never_both() {
        let bench = bench();
        let fabrics = bench.thread.thread().id();
        let thread = std::thread::current().id();
        bench.things.send(7).unwrap();
        assert_eq!(bench.taken.recv(), Ok((7, fabrics)));
        for thing in 10..60 {
            let mut lent = bench.shift.lend().unwrap();
            assert!(bench.shift.lend().is_none());
            assert_eq!(lent.turn(Duration::ZERO), Ok(false));
            bench.things.send(thing).unwrap();
            bench.things.send(thing + 100).unwrap();
            assert_eq!(lent.turn(Duration::MAX), Ok(true));
            assert_eq!(bench.taken.try_recv(), Ok((thing, thread)));
            drop(lent);
            assert_eq!(bench.taken.recv(), Ok((thing + 100, fabrics)));
        }
        assert_eq!(bench.wakes.load(Ordering::Acquire), 50);
        bench.shift.end();
        bench.thread.join().unwrap();
        assert!(bench.shift.lend().is_none());
    }

    #[test]
    fn what_fails_or_panics_is_over_for_all() {
        for (thing, in_application) in [(0, true), (0, false), (1, true), (1, false)] {
            let bench = bench();
            if in_application {
                let mut lent = bench.shift.lend().unwrap();
                bench.things.send(thing).unwrap();
                let turn = std::panic::AssertUnwindSafe(|| lent.turn(Duration::MAX));
                let turned = std::panic::catch_unwind(turn);
                assert_eq!(turned.is_err(), thing == 1);
                assert!(turned.is_err() || turned.unwrap().is_err());
                assert_eq!(lent.turn(Duration::ZERO), Ok(false));
                drop(lent);
            } else {
                bench.things.send(thing).unwrap();
            }
            let joined = bench.thread.join();
            assert_eq!(joined.is_err(), thing == 1 && !in_application);
            assert!(bench.shift.lend().is_none());
        }
    }
}

//! The sessions of an agent: which connections may still execute verbs.
//!
//! A client that lost its connection reconnects. What it sent over the old connection may still lie
//! in the agent's socket, or arrive later. It must not be executed once the client knows that it
//! failed and has moved on: on a queue pair, too, nothing takes effect behind a lost verb. So every
//! connection is a session with a random number. A client that reconnects names its last session,
//! and the agent ends that session before it admits the client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All sessions, by number.
#[derive(Default)]
pub(crate) struct SessionRegistry(Mutex<HashMap<u64, Arc<LivenessFlag>>>);

/// Whether a session goes on. Locked while verbs of it are executed.
type LivenessFlag = Mutex<bool>;

/// A session, for as long as its connection is held.
pub(crate) struct Session {
    all: Arc<SessionRegistry>,
    number: u64,
    going: Arc<LivenessFlag>,
}

impl SessionRegistry {
    fn by_number(&self) -> MutexGuard<'_, HashMap<u64, Arc<LivenessFlag>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one, with a number of its own that is not 0.
    pub(crate) fn begin(self: &Arc<Self>) -> Session {
        let going = Arc::new(Mutex::new(true));
        let mut sessions = self.by_number();
        let number = loop {
            let number = rand::random();
            if number != 0 && !sessions.contains_key(&number) {
                break number;
            }
        };
        sessions.insert(number, Arc::clone(&going));
        drop(sessions);
        Session {
            all: Arc::clone(self),
            number,
            going,
        }
    }

    /// Ends a session, if it still goes on: no verb of it is executed after this has returned.
    pub(crate) fn end(&self, number: u64) {
        let going = self.by_number().remove(&number);
        if let Some(going) = going {
            *going.lock().unwrap_or_else(PoisonError::into_inner) = false;
        }
    }
}

impl Session {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Leave to execute verbs while the result is held; nothing once the session has ended.
    #[inline]
    pub(crate) fn go_on(&self) -> Option<MutexGuard<'_, bool>> {
        let going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        going.then_some(going)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.all.by_number().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_session_that_is_ended_executes_nothing_more_and_is_forgotten() {
        let sessions = Arc::new(SessionRegistry::default());
        let [first, second] = [sessions.begin(), sessions.begin()];
        assert!(first.number() != second.number() && first.number() != 0);
        let executing = first.go_on().unwrap();
        std::thread::scope(|scope| {
            let ending = scope.spawn(|| sessions.end(first.number()));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!ending.is_finished(), "its verbs are executed to the end");
            drop(executing);
        });
        assert!(first.go_on().is_none());
        assert!(second.go_on().is_some());
        sessions.end(first.number());
        drop([first, second]);
        assert!(sessions.by_number().is_empty());
    }
}

//! A way between a client and an agent that can be cut, closed and led elsewhere.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Forwards connections until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    target: Mutex<Option<SocketAddr>>,
    forwarded: Mutex<Vec<Forwarded>>,
    ended: AtomicBool,
}

/// A connection: its end at the client, its end at the agent, and whether what the client sends is
/// kept.
struct Forwarded {
    ends: [TcpStream; 2],
    held: Arc<AtomicBool>,
}

#[allow(dead_code, reason = "not every file that has this uses all of it")]
impl Proxy {
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target: Mutex::new(Some(target)),
            forwarded: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.ended.load(Ordering::Acquire) {
                    return;
                }
                forward(&serving, stream.unwrap());
            }
        });
        Self { address, shared }
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Leads connections made from now on to there, or, without a target, nowhere: they are closed
    /// at once.
    pub fn lead_to(&self, target: Option<SocketAddr>) {
        *self.shared.target.lock().unwrap() = target;
    }

    /// Ends all connections that there are, and forgets them.
    pub fn cut(&self) {
        for Forwarded { ends, .. } in self.shared.forwarded.lock().unwrap().drain(..) {
            for end in ends {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }

    /// Keeps what clients send over the connections that there are; others are not held up.
    pub fn hold(&self) {
        self.set_held(true);
    }

    /// Delivers what was kept.
    pub fn let_go(&self) {
        self.set_held(false);
    }

    fn set_held(&self, held: bool) {
        for one in &*self.shared.forwarded.lock().unwrap() {
            one.held.store(held, Ordering::Release);
        }
    }

    /// The ends of the connections that there are: at the client, and at the agent.
    pub fn ends(&self) -> Vec<[TcpStream; 2]> {
        let forwarded = self.shared.forwarded.lock().unwrap();
        let clone = |end: &TcpStream| end.try_clone().unwrap();
        forwarded
            .iter()
            .map(|one| one.ends.each_ref().map(clone))
            .collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.let_go();
        self.cut();
        let _ = TcpStream::connect(self.address);
    }
}

fn forward(shared: &Arc<Shared>, client: TcpStream) {
    let target = *shared.target.lock().unwrap();
    let Some(Ok(agent)) = target.map(TcpStream::connect) else {
        return;
    };
    for stream in [&client, &agent] {
        stream.set_nodelay(true).unwrap();
    }
    let clones = || [&client, &agent].map(|end| end.try_clone().unwrap());
    let held = Arc::new(AtomicBool::new(false));
    shared.forwarded.lock().unwrap().push(Forwarded {
        ends: clones(),
        held: Arc::clone(&held),
    });
    let [to_client, to_agent] = clones();
    std::thread::spawn(move || copy(&client, &to_agent, &held));
    std::thread::spawn(move || copy(&agent, &to_client, &AtomicBool::new(false)));
}

/// Copies until either side ends, and then ends the other; waits while what it has read is held.
fn copy(mut from: &TcpStream, mut to: &TcpStream, held: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while held.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

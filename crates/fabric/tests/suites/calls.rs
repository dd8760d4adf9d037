//! Calls that processors answer, over every fabric that carries them so.

use crate::bed::{Asking, Fabric, Network, PATIENT, at, client_as};
use farslot_fabric::tcp::{Audit, Grant, ServeOptions, VerbFailure};
use farslot_fabric::*;
use std::sync::{Arc, Mutex};

const REGION: (NodeId, RegionId) = (NodeId(0), RegionId(0));

fn patient() -> Limits {
    Limits {
        verb_timeout: PATIENT,
        ..Limits::default()
    }
}

/// Adds the request's bytes to a word, and replies them, doubled, behind what the word was.
struct Adder;

impl Handler for Adder {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        let sum = call
            .request
            .iter()
            .map(|byte| u64::from(*byte))
            .sum::<u64>();
        let was = call.memory.load(64).unwrap();
        call.memory.store(64, was + sum).unwrap();
        let doubled = call.request.iter().chain(call.request);
        let reply = was.to_le_bytes();
        let reply: Vec<_> = reply.iter().chain(doubled).copied().collect();
        let bytes = reply.len().min(call.reply.len());
        call.reply[..bytes].copy_from_slice(&reply[..bytes]);
        // More than there is room for is cut.
        CallAnswer::Now(reply.len())
    }
}

pub fn a_call_is_answered_with_what_its_handler_says<F: Fabric>() {
    let owner = F::node(4096, Rights::READ.and(Rights::CALL));
    let silent = F::node(4096, Rights::ALL);
    let closed = F::node(4096, Rights::READ);
    owner.serve_calls(Arc::new(Adder));
    closed.serve_calls(Arc::new(Adder));
    let executor = F::executor(&[&owner, &silent, &closed], patient());
    let endpoint = executor.endpoint();
    let call = |node, request: &[u8], room| {
        let request = endpoint.core().buffers.copy_of(request).unwrap();
        let call = endpoint.call((NodeId(node), RegionId(0)), request, room);
        executor.block_on(call).map(|reply| reply.to_vec())
    };
    assert_eq!(
        call(0, &[3, 4], 99).unwrap(),
        b"\0\0\0\0\0\0\0\0\x03\x04\x03\x04"
    );
    assert_eq!(call(0, &[], 8).unwrap(), b"\x07\0\0\0\0\0\0\0");
    assert_eq!(
        call(0, &[5; 100], 11).unwrap(),
        b"\x07\0\0\0\0\0\0\0\x05\x05\x05"
    );
    assert!(call(0, &[1], 0).unwrap().is_empty());
    let read = executor.block_on(endpoint.read(at(64), 8)).unwrap();
    assert_eq!(read.words(), [7 + 500 + 1]);
    for len in [1000, 1001, 60_000] {
        let reply = call(0, &vec![0; len], 200_000).unwrap();
        assert_eq!(reply.len(), 8 + 2 * len);
        assert!(reply[8..].iter().all(|byte| *byte == 0));
    }
    assert_eq!(
        call(1, &[], 8).unwrap_err(),
        FabricError::NoHandler {
            node: NodeId(1),
            region: RegionId(0)
        }
    );
    let denied = call(2, &[], 8).unwrap_err();
    assert!(
        matches!(
            denied,
            FabricError::AccessDenied {
                needed: Rights::CALL,
                ..
            }
        ),
        "{denied}"
    );
    let request = endpoint.core().buffers.take(0).unwrap();
    let unknown = executor.block_on(endpoint.call((NodeId(0), RegionId(1)), request, 8));
    assert!(matches!(
        unknown.unwrap_err(),
        FabricError::UnknownRegion { .. }
    ));
    let counters = endpoint.core().counters.snapshot();
    assert_eq!(counters.bytes_written, 2 + 100 + 1 + 1000 + 1001 + 60_000);
}

/// Notes every request, and replies how many there were before.
#[derive(Default)]
struct Notes(Mutex<Vec<[u32; 2]>>);

impl Handler for Notes {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        let mut notes = self.0.lock().unwrap();
        call.reply
            .copy_from_slice(&(notes.len() as u64).to_le_bytes());
        let number = |at: usize| u32::from_le_bytes(call.request[at..at + 4].try_into().unwrap());
        notes.push([number(0), number(4)]);
        CallAnswer::Now(8)
    }
}

pub fn calls_of_several_clients_are_each_executed_once_in_the_order_of_each<F: Fabric>() {
    const EACH: u32 = 2000;
    let owner = F::node(4096, Rights::CALL);
    let notes = Arc::new(Notes::default());
    owner.serve_calls(Arc::<Notes>::clone(&notes));
    std::thread::scope(|scope| {
        for client in 0..3u32 {
            let owner = &owner;
            scope.spawn(move || {
                let executor = F::executor(&[owner], patient());
                let endpoint = executor.endpoint();
                let calls = (0..EACH).map(|number| {
                    let request = [client, number].map(u32::to_le_bytes).concat();
                    let request = endpoint.core().buffers.copy_of(&request).unwrap();
                    endpoint.call(REGION, request, 8)
                });
                let mut newest = None;
                executor.block_on(window(1 + 16 * client as usize, calls, |_, reply| {
                    let before = reply.unwrap().words()[0];
                    if client == 0 {
                        assert!(newest < Some(before), "one at a time they come in order");
                        newest = Some(before);
                    }
                }));
            });
        }
    });
    let notes = notes.0.lock().unwrap();
    for client in 0..3 {
        let own = notes.iter().filter(|[of, _]| *of == client);
        assert!(own.map(|[_, number]| *number).eq(0..EACH), "{client}");
    }
}

pub fn calls_and_other_verbs_complete_with_their_own_answers<F: Fabric>() {
    let owner = F::node(1 << 16, Rights::ALL);
    owner.serve_calls(Arc::new(Adder));
    let executor = F::executor(&[&owner], patient());
    let endpoint = executor.endpoint();
    executor.block_on(async {
        let verbs = (0..600u64).map(async |number| {
            let buffers = &endpoint.core().buffers;
            let len = (number % 90) as usize;
            match number % 4 {
                0 => {
                    let request = buffers.copy_of(&vec![number as u8; len]).unwrap();
                    let room = 8 + len * (number % 3) as usize;
                    let reply = endpoint.call(REGION, request, room).await.unwrap();
                    assert_eq!(reply.len(), room.min(8 + 2 * len), "{number}");
                    assert!(reply[8..].iter().all(|byte| *byte == number as u8));
                }
                1 => {
                    let data = buffers.copy_of(&[number as u8; 90]).unwrap();
                    endpoint.write(at(1024 + 96 * number), data).await.unwrap();
                    let read = endpoint.read(at(1024 + 96 * number), 90).await.unwrap();
                    assert!(read.iter().all(|byte| *byte == number as u8));
                }
                2 => drop(endpoint.fetch_add(at(0), 1).await.unwrap()),
                // A call that nobody waits for is executed all the same.
                _ => {
                    let request = buffers.copy_of(&[]).unwrap();
                    let call = endpoint.call(REGION, request, 64);
                    let _ = endpoint.timeout(number % 7 * 1000, call).await;
                }
            }
        });
        window(40, verbs, |_, ()| ()).await;
        assert_eq!(endpoint.read(at(0), 8).await.unwrap().words(), [150]);
    });
}

/// What was written.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Refuses every caller a key.
struct Refusing;

impl Handler for Refusing {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        call.caller.refused();
        CallAnswer::Now(0)
    }

    fn checks_callers(&self) -> bool {
        true
    }
}

pub fn calls_that_are_refused_are_counted_and_told<N: Network>() {
    let node = N::node(4096, Rights::ALL);
    let kept = Kept::default();
    let serve = ServeOptions {
        grants: vec![
            Grant::everything(None),
            Grant::limited("reading", None, node.info(), Rights::READ),
        ],
        audit: Some(Audit::to(kept.clone())),
        ..ServeOptions::default()
    };
    let agent = N::serve_with(&node, serve);
    let asking = Asking {
        grant: "reading".into(),
        ..Asking::default()
    };
    let executor = client_as::<N>(&agent, &asking);
    let endpoint = executor.endpoint();
    let call = || {
        let request = endpoint.core().buffers.take(5).unwrap();
        executor.block_on(endpoint.call(REGION, request, 8))
    };
    let told = || -> Vec<String> {
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let refused = |line: &&str| line.contains(r#""event":"verb_refused""#);
        text.lines().filter(refused).map(str::to_owned).collect()
    };
    let is_told = |told: &[String], of: usize, action: &str| {
        assert_eq!(told.len(), of, "{told:?}");
        let last = told.last().unwrap();
        let by = [r#""grant":"reading""#, r#""address":"127.0.0.1:"#, action];
        assert!(by.iter().all(|part| last.contains(part)), "{last}");
    };
    let count = |failure| N::counters(&agent).failed_by[failure as usize];

    let error = call().unwrap_err();
    assert!(matches!(error, FabricError::NoHandler { .. }), "{error}");
    is_told(&told(), 1, &error.to_string());
    node.serve_calls(Arc::new(Adder));
    let error = call().unwrap_err();
    assert!(matches!(error, FabricError::AccessDenied { .. }), "{error}");
    is_told(&told(), 2, &error.to_string());
    assert_eq!(count(VerbFailure::AccessDenied), 1);
    node.serve_calls(Arc::new(Refusing));
    assert!(call().unwrap().is_empty());
    let refused = FabricError::KeyRefused { node: NodeId(0) };
    is_told(&told(), 3, &refused.to_string());
    assert_eq!(count(VerbFailure::AccessDenied), 2);
    assert_eq!(count(VerbFailure::NoHandler), 1);
    assert_eq!(N::counters(&agent).failed_verbs, 3);
    // What is not refused is no line.
    node.serve_calls(Arc::new(Adder));
    let executor = client_as::<N>(&agent, &Asking::default());
    let endpoint = executor.endpoint();
    let request = endpoint.core().buffers.take(5).unwrap();
    let reply = executor.block_on(endpoint.call(REGION, request, 8));
    assert_eq!(reply.unwrap().len(), 8);
    assert_eq!(told().len(), 3);
}

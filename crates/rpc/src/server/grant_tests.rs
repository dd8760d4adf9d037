//! Clients of several grants: each has its own sessions, and its share of them.

use super::{Effect, RpcServerOptions, Server};
use crate::method::{Request, put};
use crate::wire::{NO_SESSION, REPLY_HEADER, RequestHeader, RequestStatus, SessionGrant};
use farslot_fabric::{Call, CallAnswer, Caller, Handler, Nanos, RegionId, Result, Rights};
use farslot_testbed::PlainMemory;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

struct Of(&'static str);

impl Caller for Of {
    fn check(&self, _: Range<u64>, _: Rights) -> Result<()> {
        Ok(())
    }
    fn grant(&self) -> Option<&str> {
        Some(self.0)
    }
}

const METHOD: u16 = 9;

fn server(options: RpcServerOptions) -> (Server, Arc<AtomicU32>) {
    let mut server = Server::new(options);
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    server.register(
        METHOD,
        Effect::Once,
        move |_: Request<'_>, reply: &mut [u8]| {
            counted.fetch_add(1, Relaxed);
            put(reply, &[7; 100])
        },
    );
    (server, runs)
}

fn send(server: &Server, of: &Of, header: RequestHeader, now: Nanos) -> (RequestStatus, Vec<u8>) {
    let mut reply = [0; 256];
    let answer = server.handle(Call {
        region: RegionId(0),
        now,
        request: &header.encode(),
        memory: &mut PlainMemory::of(0),
        reply: &mut reply,
        caller: of,
    });
    let CallAnswer::Now(bytes) = answer else {
        panic!("sessions have no answers that come later");
    };
    let (status, _, body) = RequestStatus::decode(&reply[..bytes]).expect("a reply");
    assert_eq!(body.len() + REPLY_HEADER, bytes);
    (status, body.to_vec())
}

fn open(server: &Server, of: &Of, now: Nanos) -> Option<u64> {
    let header = RequestHeader {
        session: NO_SESSION,
        number: 0,
        slot: 0,
        method: 0,
    };
    let (status, body) = send(server, of, header, now);
    (status == RequestStatus::Done).then(|| SessionGrant::decode(&body).expect("a grant").session)
}

fn request(session: u64, number: u32) -> RequestHeader {
    RequestHeader {
        session,
        number,
        slot: 0,
        method: METHOD,
    }
}

#[test]
fn a_session_is_for_its_own_grant_alone() {
    let (server, runs) = server(RpcServerOptions::default());
    let (holder, other) = (Of("own"), Of("other"));
    let session = open(&server, &holder, 1).unwrap();
    assert_eq!(
        send(&server, &holder, request(session, 1), 2).0,
        RequestStatus::Done
    );
    // Neither the reply that is kept nor the next number of its slot is another's.
    for number in [1, 2] {
        let end = send(&server, &other, request(session, number), 3);
        assert_eq!(end.0, RequestStatus::NoSession);
    }
    assert_eq!(runs.load(Relaxed), 1);
    assert_eq!(
        send(&server, &holder, request(session, 1), 4),
        (RequestStatus::Done, vec![7; 100])
    );
    assert_eq!(
        send(&server, &holder, request(session, 2), 5).0,
        RequestStatus::Done
    );
    assert_eq!(runs.load(Relaxed), 2);
}

#[test]
fn a_grant_that_has_most_sessions_gives_some_to_others() {
    let options = RpcServerOptions {
        sessions: 4,
        ..RpcServerOptions::default()
    };
    let (server, _) = server(options);
    let (many, few) = (Of("many"), Of("few"));
    let taken: Vec<_> = (1..5)
        .map(|now| open(&server, &many, now).unwrap())
        .collect();
    assert_eq!(open(&server, &many, 5), None, "nobody else's are left");
    // The others get places until both have as many.
    let first = open(&server, &few, 6).unwrap();
    let second = open(&server, &few, 7).unwrap();
    assert_eq!(open(&server, &few, 8), None);
    for (session, of, lives) in [
        (taken[0], &many, false),
        (taken[1], &many, false),
        (taken[2], &many, true),
        (taken[3], &many, true),
        (first, &few, true),
        (second, &few, true),
    ] {
        let (status, _) = send(&server, of, request(session, 1), 9);
        assert_eq!(status == RequestStatus::Done, lives, "{session}");
    }
    // One that has ended, most likely, makes room for another of its grant.
    let later = 6_000_000_000;
    let kept = send(&server, &few, request(second, 2), later).0;
    assert_eq!(kept, RequestStatus::Done);
    assert!(open(&server, &few, later + 1).is_some());
    assert_eq!(
        send(&server, &few, request(first, 2), later + 2).0,
        RequestStatus::NoSession
    );
    assert_eq!(
        send(&server, &few, request(second, 3), later + 2).0,
        RequestStatus::Done
    );
}

#[test]
fn what_is_too_much_to_keep_is_executed_once_and_said_to_be_in_doubt() {
    let options = RpcServerOptions {
        most_kept: 150,
        ..RpcServerOptions::default()
    };
    let (server, runs) = server(options);
    let holder = Of("own");
    let sessions = [1, 2].map(|now| open(&server, &holder, now).unwrap());
    for session in sessions {
        assert_eq!(
            send(&server, &holder, request(session, 1), 3).0,
            RequestStatus::Done
        );
    }
    assert_eq!(
        send(&server, &holder, request(sessions[0], 1), 4).0,
        RequestStatus::Done
    );
    assert_eq!(
        send(&server, &holder, request(sessions[1], 1), 5).0,
        RequestStatus::NotKept
    );
    assert_eq!(runs.load(Relaxed), 2);
}

#[test]
fn a_method_without_sessions_gets_all_of_the_call() {
    struct Echo;
    impl Handler for Echo {
        fn handle(&self, call: Call<'_>) -> CallAnswer {
            call.reply[..call.request.len()].copy_from_slice(call.request);
            CallAnswer::Now(call.request.len())
        }
    }
    let (mut server, _) = server(RpcServerOptions::default());
    server.register_without_session(0x0203, Arc::new(Echo));
    let sent = [3, 2, 5, 6];
    let mut reply = [0; 8];
    let mut call = |request: &[u8]| {
        let answer = server.handle(Call {
            region: RegionId(0),
            now: 1,
            request,
            memory: &mut PlainMemory::of(0),
            reply: &mut reply,
            caller: &Of("own"),
        });
        let CallAnswer::Now(bytes) = answer else {
            panic!("the method answers at once");
        };
        reply[..bytes].to_vec()
    };
    assert_eq!(call(&sent), sent);
    // What is too short for a number, or has one that nobody has, makes no sense.
    for wrong in [
        &[][..],
        &[3],
        &[4, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let reply = call(wrong);
        let (status, ..) = RequestStatus::decode(&reply).expect("a reply");
        assert_eq!(status, RequestStatus::Malformed, "{wrong:?}");
    }
}

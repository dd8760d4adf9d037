//! Sessions over the simulated fabric: requests executed at most once under faults, credit, limits,
//! eviction.

use farslot_fabric::sim::{
    Chance, ClientId, ClientStop, FaultPlan, FaultTime, HostId, NicProfile, NodePause, NodeStop,
    Partition, RunEnd, Side, SimEndpoint, Simulation, World,
};
use farslot_fabric::{
    Endpoint, EndpointExt, Executor, Limits, NodeId, RegionId, Rights, VerbKind, window,
};
use farslot_rpc::{
    Client, ClientOptions, Effect, Fault, Request, RpcError, RpcServerOptions, Server, put,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

const NODE: (NodeId, RegionId) = (NodeId(0), RegionId(0));
const NOTE: u16 = 1;
const ECHO: u16 = 2;
const REFUSE: u16 = 3;
const BREAK: u16 = 4;
const LONG: u16 = 5;

/// How often each request was executed.
type Executed = Arc<Mutex<HashMap<u64, u32>>>;

fn served(seed: u64, options: RpcServerOptions) -> (World, Executed) {
    let world = World::new(seed, NicProfile::connectx5_edr());
    let node = world.add_node(&[(4096, Rights::ALL)]);
    let executed = Executed::default();
    let noted = Arc::clone(&executed);
    world.node_handle(node).serve_calls(move || {
        let noted = Arc::clone(&noted);
        let mut server = Server::new(options);
        let note = move |request: Request<'_>, reply: &mut [u8]| {
            let name = u64::from_le_bytes(request.body.try_into().map_err(|_| Fault::Refused(1))?);
            *noted.lock().unwrap().entry(name).or_insert(0) += 1;
            let count = request.memory.load(0)? + 1;
            request.memory.store(0, count)?;
            put(reply, &[count, name].map(u64::to_le_bytes).concat())
        };
        server.register(NOTE, Effect::Once, note);
        let echo = |request: Request<'_>, reply: &mut [u8]| put(reply, request.body);
        server.register(ECHO, Effect::None, echo);
        let refuse = |_: Request<'_>, _: &mut [u8]| Err(Fault::Refused(77));
        server.register(REFUSE, Effect::Once, refuse);
        let stray = |request: Request<'_>, _: &mut [u8]| Ok(request.memory.load(1 << 40)? as usize);
        server.register(BREAK, Effect::Once, stray);
        // More bytes than there are: the server takes what there is.
        server.register(LONG, Effect::Once, |_: Request<'_>, _: &mut [u8]| {
            Ok(usize::MAX / 2)
        });
        Arc::new(server)
    });
    (world, executed)
}

fn client(endpoint: &Rc<SimEndpoint>, options: ClientOptions) -> Client<SimEndpoint> {
    Client::new(Rc::clone(endpoint), NODE, options)
}

#[test]
fn every_end_of_a_request_has_its_error() {
    let options = RpcServerOptions {
        sessions: 1,
        largest_request: 100,
        largest_reply: 50,
        ..RpcServerOptions::default()
    };
    let (world, _) = served(1, options);
    let endpoint = world.endpoint(Limits::default());
    let executor = Executor::new(Rc::clone(&endpoint));
    let one = client(&endpoint, ClientOptions::default());
    let call = |method, body: &[u8], room| executor.block_on(one.call(method, body, room));
    assert_eq!(&*call(ECHO, b"echo", 9).unwrap(), b"echo");
    assert_eq!(call(ECHO, &[], 0).unwrap().len(), 0);
    assert_eq!(call(NOTE, &9u64.to_le_bytes(), 16).unwrap().words(), [1, 9]);
    assert_eq!(
        call(REFUSE, &[], 0).unwrap_err(),
        RpcError::Refused {
            method: REFUSE,
            reason: 77
        }
    );
    let method = 9;
    assert_eq!(call(9, &[], 0).unwrap_err(), RpcError::NoMethod { method });
    let broken = call(BREAK, &[], 0).unwrap_err();
    assert_eq!(broken, RpcError::Damaged { method: BREAK });
    assert_eq!(
        call(ECHO, &[0; 101], 200).unwrap_err(),
        RpcError::RequestTooLong {
            bytes: 101,
            limit: 100
        }
    );
    let (bytes, room) = (60, 59);
    let too_long = call(ECHO, &[0; 60], 59).unwrap_err();
    assert_eq!(too_long, RpcError::NoRoom { bytes, room });
    let over_the_servers = call(ECHO, &[0; 60], 200).unwrap_err();
    assert!(matches!(over_the_servers, RpcError::NoRoom { .. }));
    assert_eq!(call(LONG, &[], 200).unwrap().len(), 50);
    let other = client(&endpoint, ClientOptions::default());
    assert_eq!(
        executor.block_on(other.call(ECHO, &[], 0)).unwrap_err(),
        RpcError::NoVacancy { sessions: 1 }
    );
}

#[test]
fn no_bytes_of_a_request_break_the_server() {
    let (world, _) = served(1, RpcServerOptions::default());
    let endpoint = world.endpoint(Limits::default());
    let executor = Executor::new(Rc::clone(&endpoint));
    executor.block_on(async {
        for len in [0, 1, 7, 8, 15, 16, 17, 40, 70_000] {
            for fill in [0, 1, 0x80, 0xff] {
                for room in [0, 7, 8, 64] {
                    let mut request = endpoint.core().buffers.take(len).unwrap();
                    request.fill(fill);
                    let reply = endpoint.call(NODE, request, room).await.unwrap();
                    assert!(reply.len() <= room);
                    assert!(reply.len() == 8 || room < 8 || fill == 0, "{len} {fill}");
                }
            }
        }
    });
}

#[test]
fn a_client_has_no_more_requests_under_way_than_its_credit() {
    let slots = 3;
    let options = RpcServerOptions {
        slots,
        ..RpcServerOptions::default()
    };
    let (world, executed) = served(1, options);
    let endpoint = world.endpoint(Limits::default());
    let executor = Executor::new(Rc::clone(&endpoint));
    let client = Rc::new(client(&endpoint, ClientOptions::default()));
    executor.block_on(async {
        let most = Cell::new(0);
        let answered = Cell::new(0);
        let calls = (0..200u64).map(|name| {
            let (client, most, answered) = (Rc::clone(&client), &most, &answered);
            let endpoint = &endpoint;
            async move {
                let body = name.to_le_bytes();
                let call = client.call(NOTE, &body, 16);
                // Some give up while they wait for a slot, or after they have one.
                if name % 7 == 3 {
                    let _ = endpoint.timeout(name * 20, call).await;
                    return;
                }
                assert_eq!(call.await.unwrap().words()[1], name);
                answered.set(answered.get() + 1);
                most.set(most.get().max(endpoint.world().verbs_under_way()));
            }
        });
        window(50, calls, |_, ()| ()).await;
        // Those that were given up may still be under way.
        assert!(most.get() <= usize::from(slots) + 29, "{}", most.get());
        assert_eq!(answered.get(), 200 - 29 + 1 - 1);
    });
    assert!(executed.lock().unwrap().values().all(|times| *times == 1));
}

/// Faults that lose verbs and answers, for shorter than clients are patient. Some requests come
/// behind those that were sent in their place.
fn faults(seed: u64) -> FaultPlan {
    let mut plan = FaultPlan::chaos(seed, 0.8);
    plan.refuse_at_once = seed.is_multiple_of(2);
    for round in 0..4 {
        let from = 20_000 + 150_000 * round;
        plan.partitions.push(Partition {
            side: Side::Client(ClientId((seed + round) as u32 % 4)),
            node: NODE.0,
            from,
            until: from + 40_000 + seed % 5 * 10_000,
        });
    }
    if seed % 5 == 2 {
        plan.late_calls = Chance {
            probability: 0.1,
            up_to_ns: 300_000,
        };
        plan.node_pauses.push(NodePause {
            node: NODE.0,
            from: 100_000,
            until: 250_000,
        });
    }
    if seed % 3 == 1 {
        plan.client_stops.push(ClientStop {
            client: ClientId(1),
            when: FaultTime::AfterVerbs(20 + seed % 7),
        });
    }
    if seed % 4 == 3 {
        plan.node_stops.push(NodeStop {
            node: NODE.0,
            when: FaultTime::At(300_000),
            back_after: Some(50_000),
        });
    }
    plan
}

#[derive(Default)]
struct Ends {
    replies: u32,
    repeated: u32,
    errors: u32,
}

fn run(seed: u64, ends: &Rc<Cell<Ends>>) -> u64 {
    let options = RpcServerOptions {
        slots: 4,
        ..RpcServerOptions::default()
    };
    let (world, executed) = served(seed, options);
    world.set_faults(faults(seed));
    let mut sim = Simulation::new(world);
    for index in 0..4u64 {
        let limits = Limits {
            verb_timeout: 100_000,
            ..Limits::default()
        };
        let id = sim.add_client(HostId(0), limits);
        let (ends, executed) = (Rc::clone(ends), Arc::clone(&executed));
        sim.spawn(id, async move |endpoint| {
            let options = ClientOptions {
                patience: 1_000_000,
                first_pause: 1000,
            };
            let client = &client(&endpoint, options);
            let calls = (0..60u64).map(|number| {
                let name = index << 32 | number;
                let (endpoint, ends, executed) = (&endpoint, &ends, &executed);
                async move {
                    let end = client.call(NOTE, &name.to_le_bytes(), 16).await;
                    let mut all = ends.take();
                    match end {
                        Ok(reply) => {
                            assert_eq!(reply.words()[1], name);
                            assert_eq!(executed.lock().unwrap()[&name], 1, "{seed}: {name:#x}");
                            all.replies += 1;
                        }
                        Err(error) => {
                            assert!(error.may_have_taken_effect(), "{seed}: {error}");
                            all.errors += 1;
                            let _ = endpoint.adopt(NODE.0);
                        }
                    }
                    ends.set(all);
                    endpoint.sleep(50_000).await;
                }
            });
            window(6, calls, |_, ()| ()).await;
            let sent = endpoint.core().counters.snapshot();
            let mut all = ends.take();
            all.repeated += sent.verbs_of(VerbKind::Call).saturating_sub(66) as u32;
            ends.set(all);
        });
    }
    assert_eq!(sim.run(), RunEnd::Done, "seed {seed}");
    for (name, times) in &*executed.lock().unwrap() {
        assert_eq!(
            *times, 1,
            "seed {seed}: request {name:#x} ran more than once"
        );
    }
    sim.world().digest()
}

#[test]
fn under_faults_no_request_is_executed_twice_and_an_answered_one_once() {
    let ends = Rc::default();
    let digests: Vec<_> = (0..100).map(|seed| run(seed, &ends)).collect();
    let again: Vec<_> = (0..5).map(|seed| run(seed, &ends)).collect();
    assert_eq!(digests[..5], again, "the same seed is the same run");
    let Ends {
        replies,
        errors,
        repeated,
    } = ends.take();
    assert!(repeated > 500, "{repeated}");
    assert!(replies > 100 * 200, "{replies}");
    assert!(errors > 50, "{errors}");
}

#[test]
fn a_client_whose_place_was_given_away_gets_another_and_no_wrong_answer() {
    let options = RpcServerOptions {
        sessions: 1,
        lease: 1_000_000,
        ..RpcServerOptions::default()
    };
    let (world, executed) = served(1, options);
    let endpoint = world.endpoint(Limits::default());
    let executor = Executor::new(Rc::clone(&endpoint));
    let first = client(&endpoint, ClientOptions::default());
    let second = client(&endpoint, ClientOptions::default());
    let call = |client: &Client<_>, name: u64| {
        let reply = executor.block_on(client.call(NOTE, &name.to_le_bytes(), 16));
        reply.map(|reply| reply.words().to_vec())
    };
    for turn in 0..10 {
        assert_eq!(call(&first, turn).unwrap(), [2 * turn + 1, turn]);
        assert!(matches!(call(&second, 99), Err(RpcError::NoVacancy { .. })));
        world.advance_to(world.now() + 2_000_000);
        assert_eq!(call(&second, 50 + turn).unwrap()[0], 2 * turn + 2);
        world.advance_to(world.now() + 2_000_000);
    }
    assert_eq!(executed.lock().unwrap().len(), 20);
}

//! Many clients, and several gateways over one store.

use crate::client::{Client, Reply, gateway, gateway_with, request};
use farslot_gateway::{Gateway, GatewayOptions};

/// No count is lost, and none is counted twice, however many gateways and other programs there are.
#[test]
fn counters_count_every_client_once() {
    let (store, first) = gateway_with(|options| options.threads = 2);
    let second = Gateway::start(&store, &GatewayOptions::at("127.0.0.1:0")).unwrap();
    let (clients, rounds, pipeline) = (6, 20, 16);
    std::thread::scope(|scope| {
        for client in 0..clients {
            let gateway = if client % 2 == 0 { &first } else { &second };
            scope.spawn(move || {
                let mut client = Client::of(gateway);
                for _ in 0..rounds {
                    let one = [
                        request(&["INCR", "shared"]),
                        request(&["INCRBY", "other", "2"]),
                    ];
                    client.send(&one.concat().repeat(pipeline)).unwrap();
                    let mut last = 0;
                    for reply in 0..2 * pipeline {
                        let Reply::Integer(number) = client.reply().unwrap() else {
                            panic!("no number");
                        };
                        if reply % 2 == 0 {
                            assert!(number > last, "{number} after {last}");
                            last = number;
                        }
                    }
                }
            });
        }
    });
    let sum = clients * rounds * pipeline;
    let mut client = Client::of(&second);
    assert_eq!(client.ask("GET shared"), format!("\"{sum}\""));
    assert_eq!(client.ask("GET other"), format!("\"{}\"", 2 * sum));
}

/// Of those who set a key only if it is absent, one is told that it has; through expiries too.
#[test]
fn one_of_many_gets_a_lock() {
    let (store, first) = gateway();
    let second = Gateway::start(&store, &GatewayOptions::at("127.0.0.1:0")).unwrap();
    for round in 0..30 {
        Client::of(&first).ask(&format!("SET lock-{round} old PX 1"));
        let winners = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4)
                .map(|client| {
                    let gateway = if client % 2 == 0 { &first } else { &second };
                    scope.spawn(move || {
                        let mut client = Client::of(gateway);
                        // Until somebody has it, which may take the old one's millisecond.
                        loop {
                            let won = client.ask(&format!("SET lock-{round} new NX")) == "OK";
                            let there = client.ask(&format!("GET lock-{round}"));
                            if won || there == "\"new\"" {
                                return u32::from(won);
                            }
                        }
                    })
                })
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).sum::<u32>()
        });
        assert_eq!(winners, 1, "round {round}");
    }
}

#[test]
fn long_pipelines_are_answered_in_order() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    let all = 10_000;
    let bytes: Vec<u8> = (0..all)
        .flat_map(|n| request(&["ECHO", &n.to_string()]))
        .collect();
    let mut sender = Client::of(&gateway);
    sender.send(b"SET before 1\r\n").unwrap();
    client.send(&bytes).unwrap();
    for number in 0..all {
        assert_eq!(client.reply().unwrap().shown(), format!("\"{number}\""));
    }
    // Commands that were sent before the end of a connection are done.
    let bytes: Vec<u8> = (0..1_000)
        .flat_map(|_| request(&["INCR", "last"]))
        .collect();
    sender.send(&bytes).unwrap();
    sender.finish();
    let since = std::time::Instant::now();
    while client.ask("GET last") != "\"1000\"" {
        assert!(since.elapsed().as_secs() < 60, "{}", client.ask("GET last"));
    }
}

/// Requests of one connection that take long keep nobody waiting whose requests are short, however
/// many connections have sent such.
#[test]
fn short_requests_are_done_before_long_ones() {
    const LONG: usize = 20;
    let (_store, gateway) = gateway();
    let mut good = Client::of(&gateway);
    let mut others: Vec<Client> = (0..LONG).map(|_| Client::of(&gateway)).collect();
    let names = ["get"; 20_000];
    let long = request(&[&["COMMAND", "INFO"], &names[..]].concat());
    let (most, last) = long.split_at(long.len() - 1);
    let mut done = || {
        let info = good.ask("INFO stats");
        let (_, rest) = info.split_once("total_commands_processed:").unwrap();
        let digits = rest.split_once("\\r").unwrap().0;
        digits.parse::<usize>().unwrap()
    };
    // A machine may keep this thread from its processor between the requests: then once more.
    let least = (0..100)
        .map(|_| {
            for other in &mut others {
                other.send(most).unwrap();
            }
            let before = done();
            for other in &mut others {
                other.send(last).unwrap();
            }
            // Besides the INFO before.
            let between = done() - before - 1;
            for other in &mut others {
                assert!(matches!(other.reply(), Ok(Reply::Array(_))));
            }
            between
        })
        .find(|between| *between <= LONG / 4);
    assert!(least.is_some(), "long requests are done first");
}

/// A connection whose requests are long and short by turns goes from one thread to another and
/// back: they are done in their order, and what one thread has put counts in the other.
#[test]
fn long_and_short_requests_of_a_connection_are_done_in_their_order() {
    let (_store, gateway) = gateway();
    let mut client = Client::of(&gateway);
    for number in 0..20 {
        let long = vec![b'v'; 40_000 + number];
        let put = client.run(&[b"SET", format!("long-{number}").as_bytes(), &long]);
        assert_eq!(put.shown(), "OK");
        assert_eq!(client.ask("DBSIZE"), format!(":{}", number + 1));
    }
    std::thread::scope(|scope| {
        for number in 0..4 {
            let gateway = &gateway;
            scope.spawn(move || {
                let mut client = Client::of(gateway);
                let [long, short] = ["long", "short"].map(|of| format!("{of}-of-{number}"));
                for round in 0..40_usize {
                    // Some fit into a tick of short ones, and some do not.
                    let value = vec![b'a' + (round % 26) as u8; 5_000 * (round % 9)];
                    let said = format!("{round}");
                    let all = [
                        request(&[b"SET", long.as_bytes(), &value]),
                        request(&["SET", &short, &said]),
                        request(&["GET", &long]),
                        request(&["GET", &short]),
                        request(&["APPEND", &long, "!"]),
                        request(&["STRLEN", &long]),
                    ];
                    let length = value.len() as i64 + 1;
                    let expected = [
                        Reply::Status("OK".into()),
                        Reply::Status("OK".into()),
                        Reply::Bulk(value),
                        Reply::Bulk(said.into_bytes()),
                        Reply::Integer(length),
                        Reply::Integer(length),
                    ];
                    match round % 2 {
                        0 => client.send(&all.concat()).unwrap(),
                        _ => all.iter().for_each(|one| client.send(one).unwrap()),
                    }
                    for expected in expected {
                        assert_eq!(client.reply().unwrap(), expected, "round {round}");
                    }
                }
            });
        }
    });
}

/// What another client has set stays, though it is what an MSETNX has put that takes its keys back.
#[test]
fn a_value_that_was_acknowledged_is_not_taken_back_by_an_msetnx_that_fails() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let (_store, gateway) = gateway_with(|options| options.threads = 2);
    let mut client = Client::of(&gateway);
    client.ask("SET z 1");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut other = Client::of(&gateway);
                while !is_over.load(Relaxed) {
                    other.ask("MSETNX a 1 z 1");
                }
            });
        }
        let mut lost = 0;
        for _ in 0..3_000 {
            assert_eq!(client.ask("SET a 1"), "OK");
            lost += u32::from(client.ask("GET a") == "nil");
            client.ask("DEL a");
        }
        is_over.store(true, Relaxed);
        assert_eq!(lost, 0);
    });
}

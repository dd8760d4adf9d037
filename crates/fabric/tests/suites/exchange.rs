//! What an agent and its clients do, in one process.

use crate::bed::{Asking, Network, at, client, client_as, node, served, wait_until};
use farslot_fabric::endpoint::Inbox;
use farslot_fabric::tcp::{Grant, Refusal, Secret};
use farslot_fabric::*;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

fn secret(byte: u8) -> Option<Secret> {
    Some(Secret::new([byte; 32]).unwrap())
}

fn asking(grant: &str, secret: Option<Secret>) -> Asking {
    Asking {
        grant: grant.into(),
        secret,
        ..Asking::default()
    }
}

pub fn a_batch_of_large_verbs_arrives_whole<N: Network>() {
    const EACH: u64 = 512 << 10;
    // More than all buffers of a connection hold.
    const COUNT: u64 = 48;
    let (_node, agent) = served::<N>(EACH * COUNT);
    let executor = client::<N>(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    let value = |index: u64, word: usize| index << 32 | word as u64;
    executor.block_on(async {
        let writes = (0..COUNT).map(|index| {
            let mut data = endpoint.core().buffers.take(EACH as usize).unwrap();
            for (number, word) in data.words_mut().iter_mut().enumerate() {
                *word = value(index, number);
            }
            endpoint.write(at(index * EACH), data)
        });
        window(COUNT as usize, writes, |_, written| written.unwrap()).await;
        assert_eq!(endpoint.core().counters.snapshot().doorbells, 1);
        let reads = (0..COUNT).map(|index| endpoint.read(at(index * EACH), EACH as usize));
        window(COUNT as usize, reads, |index, read| {
            let read = read.unwrap();
            let mut words = read.words().iter().enumerate();
            assert!(words.all(|(number, word)| *word == value(index as u64, number)));
        })
        .await;
        let reads =
            (0..COUNT / 8).map(|index| endpoint.read(at(index * 8 * EACH), 8 * EACH as usize));
        window(COUNT as usize, reads, |index, read| {
            let read = read.unwrap();
            let mut words = read.words().iter().enumerate();
            let words_each = EACH as usize / 8;
            assert!(words.all(|(number, word)| {
                *word
                    == value(
                        index as u64 * 8 + (number / words_each) as u64,
                        number % words_each,
                    )
            }));
        })
        .await;
    });
}

pub fn verbs_of_all_kinds_complete_in_the_order_of_their_posting<N: Network>() {
    let (_node, agent) = served::<N>(1 << 16);
    let executor = client::<N>(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        for round in 0..N::cases(100) {
            let before = round * 40;
            // Each of them sees exactly those before it.
            let adds = (0..40u64).map(|index| {
                let endpoint = Rc::clone(&endpoint);
                async move {
                    let added = endpoint.fetch_add(at(64), 1);
                    let read = endpoint.read(at(64), 8);
                    let data = endpoint.core().buffers.copy_of(&index.to_le_bytes());
                    let write = endpoint.write(at(128), data.unwrap());
                    let ((added, read), written) = both(both(added, read), write).await;
                    written.unwrap();
                    (index, added.unwrap(), read.unwrap().words()[0])
                }
            });
            window(40, adds, |_, (index, added, read)| {
                assert_eq!((added, read), (before + index, before + index + 1));
            })
            .await;
            assert_eq!(endpoint.read(at(128), 8).await.unwrap().words(), [39]);
        }
    });
}

pub fn atomics_are_atomic_against_those_of_all_clients<N: Network>() {
    let each = N::cases(5_000);
    let (node, agent) = served::<N>(4096);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let executor = client::<N>(&agent);
                let endpoint = executor.endpoint();
                executor.block_on(async {
                    let adds = (0..each).map(|_| endpoint.fetch_add(at(8), 1));
                    window(32, adds, |_, added| assert!(added.is_ok())).await;
                });
            });
        }
        scope.spawn(|| {
            let executor = N::beside(&node, &agent);
            let endpoint = executor.endpoint();
            executor.block_on(async {
                for _ in 0..each {
                    let mut seen = 0;
                    loop {
                        match endpoint.compare_swap(at(8), seen, seen + 1).await.unwrap() {
                            found if found == seen => break,
                            found => seen = found,
                        }
                    }
                }
            });
        });
    });
    let executor = client::<N>(&agent);
    let sum = executor.block_on(executor.endpoint().fetch_add(at(8), 0));
    assert_eq!(sum, Ok(4 * each));
}

pub fn words_are_read_and_written_whole<N: Network>() {
    let (_node, agent) = served::<N>(1 << 13);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let executor = client::<N>(&agent);
            let endpoint = executor.endpoint();
            executor.block_on(async {
                for turn in 0..2_000u64 {
                    let mut data = endpoint.core().buffers.take(2048).unwrap();
                    data.words_mut().fill((turn % 2).wrapping_neg());
                    endpoint.write(at(0), data).await.unwrap();
                }
            });
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let executor = client::<N>(&agent);
            let endpoint = executor.endpoint();
            executor.block_on(async {
                while !done.load(Ordering::Acquire) {
                    let read = endpoint.read(at(0), 2048).await.unwrap();
                    let mut words = read.words().iter();
                    assert!(words.all(|word| *word == 0 || *word == u64::MAX));
                }
            });
        });
    });
}

pub fn messages_of_several_clients_arrive_once_in_the_order_of_each<N: Network>() {
    const EACH: u32 = 1_500;
    let (node, agent) = served::<N>(4096);
    let taken = std::thread::scope(|scope| {
        for sender in 0..2u32 {
            let agent = &agent;
            scope.spawn(move || {
                let executor = client::<N>(agent);
                let endpoint = executor.endpoint();
                executor.block_on(async {
                    let sends = (0..EACH).map(|number| {
                        let bytes = number.to_le_bytes();
                        let data = endpoint
                            .core()
                            .buffers
                            .copy_of(&bytes[..number as usize % 5]);
                        let to = at(u64::from(sender) * 64);
                        endpoint.write_imm(to, data.unwrap(), sender << 16 | number)
                    });
                    window(64, sends, |_, sent| sent.unwrap()).await;
                });
            });
        }
        let mut taken = Vec::new();
        while taken.len() < 2 * EACH as usize {
            match node.take_message() {
                Some(message) => taken.push(message),
                None => std::thread::yield_now(),
            }
        }
        taken
    });
    assert_eq!(node.take_message(), None);
    for sender in 0..2u32 {
        let of_sender = taken.iter().filter(|message| message.imm >> 16 == sender);
        let numbers: Vec<_> = of_sender
            .map(|message| (message.imm & 0xffff, message.len))
            .collect();
        let sent: Vec<_> = (0..EACH).map(|number| (number, number % 5)).collect();
        assert_eq!(numbers, sent);
    }
}

pub fn messages_that_nobody_took_outlast_their_sender_and_the_agent<N: Network>() {
    let (node, agent) = served::<N>(4096);
    let executor = client::<N>(&agent);
    let endpoint = executor.endpoint();
    executor.block_on(async {
        for imm in 0..10 {
            let data = endpoint.core().buffers.copy_of(b"call").unwrap();
            endpoint.write_imm(at(0), data, imm).await.unwrap();
        }
    });
    drop(executor);
    assert_eq!(node.take_message(), Some(Message { imm: 0, len: 4 }));
    drop(agent);
    let again = N::serve(&node, "127.0.0.1:0", vec![Grant::everything(None)]);
    let executor = client::<N>(&again);
    let endpoint = executor.endpoint();
    executor.block_on(async {
        let data = endpoint.core().buffers.copy_of(b"").unwrap();
        endpoint.write_imm(at(0), data, 10).await.unwrap();
    });
    for imm in 1..10 {
        assert_eq!(node.take_message(), Some(Message { imm, len: 4 }));
    }
    assert_eq!(node.take_message(), Some(Message { imm: 10, len: 0 }));
    assert_eq!(node.take_message(), None);
}

pub fn dropped_reads_write_into_nobody_elses_buffer<N: Network>() {
    let (_node, agent) = served::<N>(1 << 20);
    let executor = client::<N>(&agent);
    let endpoint = Rc::clone(executor.endpoint());
    executor.block_on(async {
        let mut data = endpoint.core().buffers.take(1 << 20).unwrap();
        data.words_mut().fill(u64::MAX);
        endpoint.write(at(0), data).await.unwrap();
        for _ in 0..50 {
            // Posted, sent off, and dropped before it can have completed.
            let into = endpoint.core().buffers.take(64 << 10).unwrap();
            let posted = endpoint.post_read(at(0), into);
            endpoint.ring_doorbell();
            drop(posted);
            let mut mine = endpoint.core().buffers.take(64 << 10).unwrap();
            mine.words_mut().fill(7);
            endpoint.read(at(0), 8).await.unwrap();
            assert!(mine.words().iter().all(|word| *word == 7));
        }
    });
}

pub fn only_those_who_know_the_secret_are_let_in_and_the_others_are_told_why<N: Network>() {
    let node = node(4096, Rights::ALL);
    let agent = N::serve(&node, "127.0.0.1:0", vec![Grant::everything(secret(1))]);
    let address = N::address(&agent).to_string();
    let refusal = |asking: &Asking| {
        let refused = N::connect(std::slice::from_ref(&address), asking, false);
        match refused.map(drop).unwrap_err() {
            FabricError::NotAdmitted { reason, .. } => reason,
            other => panic!("{other}"),
        }
    };
    assert_eq!(refusal(&asking("default", secret(2))), Refusal::WrongSecret);
    assert_eq!(refusal(&asking("default", None)), Refusal::SecretNeeded);
    assert_eq!(refusal(&asking("other", secret(1))), Refusal::WrongSecret);
    let executor = client_as::<N>(&agent, &asking("default", secret(1)));
    let added = executor.block_on(executor.endpoint().fetch_add(at(0), 1));
    assert_eq!(added, Ok(0));
    // That a secret is needed the client says itself.
    wait_until("counted", || N::refused(&agent) == 2);
}

pub fn a_revoked_grant_ends_at_once_for_those_who_have_it_and_for_nobody_else<N: Network>() {
    let (_node, agent) = served::<N>(4096);
    let other = Grant {
        name: "other".into(),
        ..Grant::everything(secret(1))
    };
    N::grant(&agent, &other);
    let revoked = client::<N>(&agent);
    let kept = client_as::<N>(&agent, &asking("other", secret(1)));
    let node = NodeId(0);
    let add =
        |client: &Executor<N::Endpoint>| client.block_on(client.endpoint().fetch_add(at(0), 1));
    assert_eq!(add(&revoked), Ok(0));
    assert!(N::revoke(&agent, "default"));
    assert!(!N::revoke(&agent, "default"));
    for _ in 0..3 {
        assert_eq!(add(&revoked), Err(FabricError::GrantRevoked { node }));
    }
    assert_eq!(add(&kept), Ok(1));
    let address = N::address(&agent).to_string();
    let reason = Refusal::GrantRevoked;
    let again = N::connect(std::slice::from_ref(&address), &Asking::default(), false);
    assert_eq!(
        again.map(drop),
        Err(FabricError::NotAdmitted { address, reason })
    );
}

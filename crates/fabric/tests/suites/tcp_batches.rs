//! Batches of all kinds of verbs against a model: an agent executes READs in bursts, and nobody may
//! notice.

use crate::raw::{RawClient, frame};
use farslot_fabric::shm::{Node, RegionSpec};
use farslot_fabric::tcp::wire::{self, FAILURE_WORDS, FrameKind, Header, decode_failure};
use farslot_fabric::tcp::{Agent, AgentOptions, ConnectOptions};
use farslot_fabric::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::Read;
use std::time::Duration;

const LEN: u64 = 4096;

#[derive(Clone, Debug)]
enum Sent {
    Read { offset: u64, len: u32 },
    WrongKey { offset: u64 },
    Write { word: u64, value: u64 },
    Add { word: u64, value: u64 },
}

#[derive(Debug)]
enum Answer {
    Bytes(Vec<u8>),
    Word(u64),
    Placed,
    WrongKey(u64),
}

/// Mostly READs, in runs shorter and longer than a burst.
fn sent() -> impl Strategy<Value = Sent> {
    let word = 0..LEN / 8;
    prop_oneof![
        40 => (0..LEN - 300, 0u32..300).prop_map(|(offset, len)| Sent::Read { offset, len }),
        20 => (0..LEN / 64).prop_map(|line| Sent::Read { offset: line * 64, len: 64 }),
        1 => (0..LEN).prop_map(|offset| Sent::WrongKey { offset }),
        2 => (word.clone(), any::<u64>()).prop_map(|(word, value)| Sent::Write { word, value }),
        1 => (word, any::<u64>()).prop_map(|(word, value)| Sent::Add { word, value }),
    ]
}

fn put(out: &mut Vec<u64>, client: &RawClient, verb: &Sent) {
    match *verb {
        Sent::Read { offset, len } => wire::put_read(out, client.span(0, offset, len)),
        Sent::WrongKey { offset } => {
            let mut span = client.span(0, offset, 0);
            span.key ^= 1;
            wire::put_read(out, span);
        }
        Sent::Write { word, value } => {
            wire::put_write(out, client.span(0, word * 8, 8), &[value]);
        }
        Sent::Add { word, value } => {
            wire::put_fetch_add(out, client.span(0, word * 8, 0), value);
        }
    }
}

/// What the verb is to be answered with, and what it leaves.
fn expected(memory: &mut [u8], verb: &Sent) -> Answer {
    let word_at = |word: u64| word as usize * 8..word as usize * 8 + 8;
    match *verb {
        Sent::Read { offset, len } => {
            Answer::Bytes(memory[offset as usize..offset as usize + len as usize].to_vec())
        }
        Sent::WrongKey { offset } => Answer::WrongKey(offset),
        Sent::Write { word, value } => {
            memory[word_at(word)].copy_from_slice(&value.to_le_bytes());
            Answer::Placed
        }
        Sent::Add { word, value } => {
            let place = &mut memory[word_at(word)];
            let before = u64::from_le_bytes((&*place).try_into().unwrap());
            place.copy_from_slice(&before.wrapping_add(value).to_le_bytes());
            Answer::Word(before)
        }
    }
}

/// Receives the answers in their order.
fn check_answers(client: &mut RawClient, answers: &[Answer]) {
    let mut left = 0;
    for answer in answers {
        if left == 0 {
            let header = Header::decode(client.words(1)[0]).unwrap();
            if header.kind == FrameKind::Failure {
                let failure = client.words(FAILURE_WORDS - 1).try_into().unwrap();
                let error = decode_failure(failure, NodeId(0)).unwrap();
                let Answer::WrongKey(offset) = answer else {
                    panic!("{error} in place of {answer:?}");
                };
                let at = RemoteAddr {
                    node: NodeId(0),
                    region: RegionId(0),
                    offset: *offset,
                };
                assert_eq!(error, FabricError::WrongKey { at });
                continue;
            }
            assert_eq!(header.kind, FrameKind::Completions);
            left = header.count;
        }
        left -= 1;
        match answer {
            Answer::Bytes(bytes) => {
                let words = client.words(bytes.len().div_ceil(8));
                let got: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                assert_eq!(&got[..bytes.len()], bytes);
            }
            Answer::Word(word) => assert_eq!(client.words(1), [*word]),
            Answer::Placed => {}
            Answer::WrongKey(offset) => panic!("a READ of {offset} with a wrong key was answered"),
        }
    }
    assert_eq!(left, 0, "answers that nobody waits for");
}

fn agent(options: &AgentOptions) -> Agent {
    let region = RegionSpec {
        len: LEN,
        rights: Rights::ALL,
    };
    Agent::start(Node::embedded(&[region]).unwrap(), options).unwrap()
}

fn client(agent: &Agent) -> RawClient {
    let client = RawClient::connect(agent, &ConnectOptions::default());
    let stream = client.tcp();
    stream.set_nonblocking(false).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    client
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With little room for answers as well, so that bursts end for want of it.
    #[test]
    fn every_verb_of_a_batch_sees_those_before_it(
        batches in vec(vec(sent(), 1..200), 1..4),
        unsent_bytes in prop_oneof![Just(1usize), 1usize..2048, Just(256 << 10)],
    ) {
        let agent = agent(&AgentOptions { unsent_bytes, ..AgentOptions::default() });
        let mut client = client(&agent);
        let whole = client.span(0, 0, LEN as u32);
        let pattern: Vec<u64> = (1..=LEN / 8).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let mut memory: Vec<u8> = pattern.iter().flat_map(|word| word.to_le_bytes()).collect();
        client.ask(|out| wire::put_write(out, whole, &pattern)).unwrap();
        for batch in &batches {
            let mut words = Vec::new();
            batch.iter().for_each(|verb| put(&mut words, &client, verb));
            client.send(&frame(batch.len() as u16, &words));
            let answers: Vec<_> = batch.iter().map(|verb| expected(&mut memory, verb)).collect();
            check_answers(&mut client, &answers);
        }
        prop_assert_eq!(agent.counters().malformed, 0);
    }
}

/// The connection ends at the last verb, whose frame does not end with it: those before it were
/// executed.
#[test]
fn a_frame_of_reads_that_is_too_long_ends_its_connection() {
    for reads in [1u16, 2, 31, 32, 33, 64] {
        let agent = agent(&AgentOptions::default());
        let mut client = client(&agent);
        let mut words = Vec::new();
        for _ in 0..reads {
            wire::put_read(&mut words, client.span(0, 64, 8));
        }
        words.push(0);
        client.send(&frame(reads, &words));
        let answered = (1..reads).map(|_| Answer::Bytes(vec![0; 8]));
        check_answers(&mut client, &answered.collect::<Vec<_>>());
        assert_eq!(client.tcp().read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(agent.counters().malformed, 1);
    }
}

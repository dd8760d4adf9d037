//! What is fuzzed, as functions of bytes that panic where something is not as it must be: the
//! bodies of the targets in `fuzz/`, and of a test that runs them over mutated seeds.

use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::tcp::admission::handshake::{
    self, CHALLENGE_WORDS, HELLO_WORDS, HandshakeSide, Hello, Welcome, prove,
};
use farslot_fabric::tcp::wire::{self, FAILURE_WORDS, FrameKind, Header};
use farslot_fabric::tcp::{AgentOptions, Area, Conversation, Grant, ServeOptions};
use farslot_fabric::*;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of each region. Region 0 may be read, written and changed in [`OPEN`] only, region 1 read
/// only, and region 2 is not granted.
pub const LEN: u64 = 4096;
/// What is opened of region 0.
pub const OPEN: Range<u64> = 1024..3072;
/// Stands for the key of a region in what is fuzzed, for the true ones are drawn anew each time.
pub const KEYS: [u64; 3] = [u64::MAX - 0x10, u64::MAX - 0x11, u64::MAX - 0x12];

const SENTINEL: u64 = 0x5eed_5eed_5eed_5eed;
/// What closed memory is full of: no answer may have it.
const HIDDEN: u64 = 0x0dd5_0dd5_0dd5_0dd5;
const FRAME_BYTES: usize = 1 << 16;
const UNSENT_BYTES: usize = 1 << 14;

fn words_of(data: &[u8]) -> Vec<u64> {
    let words = data.chunks_exact(8);
    words
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        .collect()
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Frames with verbs and their answers: nothing panics, and what is decoded lies in what there is.
pub fn frames(data: &[u8]) {
    let words = words_of(data);
    if let Some(&first) = words.first() {
        if let Ok(header) = Header::decode(first) {
            assert_eq!(header.encode(), first);
        }
        if let Ok(needed) = wire::request_words(first)
            && let Ok(Some((_, used))) = wire::decode_request(&words)
        {
            assert!(used <= words.len() && used == needed, "{used} of {needed}");
        }
    }
    // As the verbs of a frame follow one another.
    let mut rest = &words[..];
    while let Ok(Some((_, used))) = wire::decode_request(rest) {
        assert!(used > 0);
        rest = &rest[used..];
    }
    if let Some(failure) = words.first_chunk::<{ FAILURE_WORDS - 1 }>()
        && let Ok(error) = wire::decode_failure(*failure, NodeId(0))
    {
        let again = wire::encode_failure(&error);
        let words = again[1..].try_into().expect("the words of a failure");
        assert_eq!(wire::decode_failure(words, NodeId(0)), Ok(error));
    }
}

/// Frames of the handshake: nothing panics, and each has one form.
pub fn handshakes(data: &[u8]) {
    let mut words = words_of(data);
    if let Some(frame) = words.first_chunk::<HELLO_WORDS>()
        && let Ok(hello) = Hello::decode(frame)
    {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Some(refusal) = handshake::decode_refused(&words) {
        let again = handshake::refused(refusal);
        assert_eq!(handshake::decode_refused(&again), Some(refusal));
    }
    if let Some(proof) = handshake::take_proof(&mut words) {
        handshake::set_proof(&mut words, proof);
    }
    if let Ok(welcome) = Welcome::decode(&words) {
        assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
    }
}

/// A node whose memory is full of sentinels.
struct Guarded {
    node: Node,
    owner: Executor<ShmEndpoint>,
}

impl Guarded {
    fn new() -> Self {
        let region = RegionSpec {
            len: LEN,
            rights: Rights::ALL,
        };
        let node = Node::embedded(&[region; 3]).expect("a few pages");
        let endpoint = ShmEndpoint::new(vec![node.clone()], Limits::default());
        let owner = Executor::new(Rc::new(endpoint));
        let guarded = Self { node, owner };
        guarded.fill(0, 0..LEN, HIDDEN);
        guarded.fill(0, OPEN, SENTINEL);
        guarded.fill(1, 0..LEN, SENTINEL);
        guarded.fill(2, 0..LEN, HIDDEN);
        guarded
    }

    fn at(region: u16, offset: u64) -> RemoteAddr {
        RemoteAddr {
            node: NodeId(0),
            region: RegionId(region),
            offset,
        }
    }

    fn fill(&self, region: u16, bytes: Range<u64>, word: u64) {
        let endpoint = self.owner.endpoint();
        let len = (bytes.end - bytes.start) as usize;
        let mut data = endpoint.core().buffers.take(len).expect("a small buffer");
        data.words_mut().fill(word);
        let written = endpoint.write(Self::at(region, bytes.start), data);
        self.owner.block_on(written).expect("it is the owner's");
    }

    /// Checks that nothing outside of what was opened has changed, and restores what was opened.
    fn check(&self) {
        for region in 0..3 {
            let read = self
                .owner
                .endpoint()
                .read(Self::at(region, 0), LEN as usize);
            let read = self.owner.block_on(read).expect("it is the owner's");
            for (offset, word) in (0..).step_by(8).zip(read.words()) {
                let expected = match region {
                    0 if OPEN.contains(&offset) => continue,
                    1 => SENTINEL,
                    _ => HIDDEN,
                };
                assert_eq!(*word, expected, "region {region}, byte {offset}");
            }
        }
        self.fill(0, OPEN, SENTINEL);
    }
}

/// A whole connection to an agent: the first byte says whether it is admitted first, the second how
/// long the pieces are in which the rest arrives. No more than a bounded answer comes back, and
/// memory that is not granted is neither read nor written.
pub fn connection(data: &[u8]) {
    thread_local! {
        static GUARDED: RefCell<Option<Guarded>> = const { RefCell::new(None) };
    }
    let [admitted, piece, rest @ ..] = data else {
        return;
    };
    GUARDED.with_borrow_mut(|guarded| {
        let guarded = guarded.get_or_insert_with(Guarded::new);
        converse(
            guarded,
            !admitted.is_multiple_of(4),
            usize::from(*piece) + 1,
            rest,
        );
        guarded.check();
    });
}

/// The words that an agent answers to an input of [`connection`].
#[allow(dead_code, reason = "the fuzz targets need no answers")]
pub fn answers_to(data: &[u8]) -> Vec<u64> {
    let guarded = Guarded::new();
    converse(
        &guarded,
        !data[0].is_multiple_of(4),
        usize::from(data[1]) + 1,
        &data[2..],
    )
}

/// Says all of it to an agent, in pieces of so many words; returns what it answers.
fn converse(guarded: &Guarded, admitted: bool, piece: usize, data: &[u8]) -> Vec<u64> {
    let grant = Grant {
        name: "fuzz".into(),
        areas: Some(vec![
            Area {
                region: RegionId(0),
                bytes: OPEN,
                rights: Rights::ALL,
            },
            Area::of_region(RegionId(1), Rights::READ),
        ]),
        ..Grant::everything(None)
    };
    let options = AgentOptions {
        serve: ServeOptions {
            grants: vec![grant],
            receiver_wait: Duration::ZERO,
            ..ServeOptions::default()
        },
        frame_bytes: FRAME_BYTES,
        unsent_bytes: UNSENT_BYTES,
        ..AgentOptions::default()
    };
    let node = guarded.node.clone();
    let mut agent = Conversation::new(node, &options).expect("good options");
    let mut said = data.to_vec();
    if admitted {
        let keys = be_admitted(&mut agent);
        for word in said.chunks_exact_mut(8) {
            let value = u64::from_le_bytes((&*word).try_into().expect("8 bytes"));
            if let Some(region) = KEYS.iter().position(|key| *key == value) {
                word.copy_from_slice(&keys[region].to_le_bytes());
            }
        }
    }
    // What it says itself it may be told, at any place of a word.
    let hidden = [HIDDEN, HIDDEN.rotate_left(8)];
    let starts = hidden.map(|word| [word as u8, (word >> 8) as u8]);
    let says_it = said
        .windows(2)
        .any(|pair| starts.contains(&[pair[0], pair[1]]));
    let mut told = Vec::new();
    for piece in said.chunks(piece * 8) {
        let Ok(answers) = agent.hear(piece) else {
            assert_eq!(agent.hear(&said), Ok(Vec::new()), "it is over");
            break;
        };
        // A verb has at least 16 bytes, and its answer is at most a frame.
        let most = (piece.len() / 16 + 2) * FRAME_BYTES;
        assert!(answers.len() <= most, "{} bytes", answers.len());
        let answers = words_of(&answers);
        check_answers(&answers, admitted);
        let shows_it = answers.iter().any(|word| hidden.contains(word));
        assert!(!shows_it || says_it, "closed memory was read");
        told.extend(answers);
    }
    while endpoint::Inbox::take_message(&guarded.node).is_some() {}
    told
}

/// Checks that answers are frames of the kinds that an agent may send.
fn check_answers(answers: &[u64], admitted: bool) {
    let mut rest = answers;
    while let Some(&first) = rest.first() {
        let header = Header::decode(first).expect("an agent sends frames");
        let is_answer = matches!(header.kind, FrameKind::Completions | FrameKind::Failure);
        let is_handshake = matches!(
            header.kind,
            FrameKind::Challenge | FrameKind::Welcome | FrameKind::Refused
        );
        assert!(if admitted { is_answer } else { is_handshake });
        rest = &rest[header.words as usize..];
    }
}

/// Goes through the handshake; returns the keys.
fn be_admitted(agent: &mut Conversation) -> Vec<u64> {
    let hello = Hello {
        carrier: handshake::Carrier::Tcp,
        grant: "fuzz".into(),
        rights: Rights::ALL,
        receiver_wait: 0,
        nonce: [1, 2, 3, 4],
    }
    .encode();
    let challenge = agent.hear(&bytes_of(&hello)).expect("a good HELLO");
    let challenge = words_of(&challenge);
    assert_eq!(challenge.len(), CHALLENGE_WORDS);
    let proof = prove(None, HandshakeSide::Client, &[&hello, &challenge, &[0]]);
    let proof = handshake::proof(proof, 0);
    let welcome = agent.hear(&bytes_of(&proof)).expect("a good PROOF");
    let welcome = Welcome::decode(&words_of(&welcome)).expect("a WELCOME");
    welcome.keys
}

/// Inputs that are as they should be, for each of the bodies: what fuzzing starts from.
pub fn seeds() -> [Vec<Vec<u8>>; 3] {
    let span = |region: u16, offset, len| wire::Span {
        region,
        offset,
        len,
        key: KEYS[usize::from(region)],
    };
    let mut verbs: Vec<Vec<u64>> = Vec::new();
    let mut verb = |put: &dyn Fn(&mut Vec<u64>)| {
        let mut words = Vec::new();
        put(&mut words);
        verbs.push(words);
    };
    verb(&|out| wire::put_read(out, span(0, 1024, 64)));
    verb(&|out| wire::put_read(out, span(1, 0, 4096)));
    verb(&|out| wire::put_read_many(out, [span(0, 2048, 8), span(1, 8, 100)].into_iter()));
    verb(&|out| wire::put_write(out, span(0, 3064, 8), &[7]));
    verb(&|out| wire::put_compare_swap(out, span(0, 1032, 8), SENTINEL, 1));
    verb(&|out| wire::put_fetch_add(out, span(0, 1040, 8), 1));
    verb(&|out| wire::put_write_imm(out, span(0, 2000, 16), 9, &[1, 2]));
    let frame = |verbs: &[Vec<u64>]| {
        let words: Vec<u64> = verbs.concat();
        let header = Header {
            kind: FrameKind::Verbs,
            count: verbs.len() as u16,
            words: words.len() as u32 + 1,
        };
        let mut frame = vec![header.encode()];
        frame.extend(words);
        frame
    };
    let hello = Hello {
        carrier: handshake::Carrier::Tcp,
        grant: "fuzz".into(),
        rights: Rights::ALL,
        receiver_wait: 1_000,
        nonce: [5; 4],
    };
    let refused = handshake::refused(tcp::Refusal::TooSlow { after_ms: 5 });
    let welcome = Welcome {
        node: NodeInfo {
            incarnation: 1,
            regions: vec![RegionInfo {
                len: LEN,
                rights: Rights::ALL,
            }],
            page_bytes: 4096,
        },
        keys: vec![3],
        frame_words: 1 << 13,
        session: 4,
    };
    let failure = wire::encode_failure(&FabricError::Misaligned {
        at: Guarded::at(1, 12),
    });
    let mut frames: Vec<Vec<u8>> = verbs.iter().map(|words| bytes_of(words)).collect();
    frames.push(bytes_of(&frame(&verbs)));
    frames.push(bytes_of(&failure[1..]));
    let handshakes = vec![
        bytes_of(&hello.encode()),
        bytes_of(&refused),
        bytes_of(&welcome.encode()),
    ];
    let behind = |start: [u8; 2], words: &[u64]| [&start[..], &bytes_of(words)].concat();
    let mut connections: Vec<Vec<u8>> = verbs
        .iter()
        .map(|verb| behind([1, 255], &frame(std::slice::from_ref(verb))))
        .collect();
    connections.push(behind(
        [1, 2],
        &[frame(&verbs), frame(&verbs[2..])].concat(),
    ));
    let hello = hello.encode();
    connections.push(behind(
        [0, 0],
        &[&hello[..], &handshake::proof([6; 4], 7)].concat(),
    ));
    [frames, handshakes, connections]
}

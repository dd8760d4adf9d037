use super::*;
use crate::{FabricError, NodeId, RegionId, RemoteAddr, Rights};
use proptest::collection::vec;
use proptest::prelude::*;

fn spans(longest: u32) -> impl Strategy<Value = Span> {
    (any::<u16>(), any::<u64>(), 0..=longest, any::<u64>()).prop_map(
        |(region, offset, len, key)| Span {
            region,
            offset,
            len,
            key,
        },
    )
}

/// What [`decode_reads`] says.
fn reads(words: &[u64]) -> Option<(Vec<Span>, usize)> {
    decode_reads(words).map(|(pieces, used)| {
        assert_eq!(pieces.len(), pieces.count());
        (pieces.collect(), used)
    })
}

/// What it has to say.
fn reads_of_request(words: &[u64]) -> Option<(Vec<Span>, usize)> {
    match decode_request(words) {
        Ok(Some((Request::Read(from), used))) => Some((vec![from], used)),
        Ok(Some((Request::ReadMany(pieces), used))) => {
            Some((pieces.collect::<Vec<_>>(), used)).filter(|(pieces, _)| !pieces.is_empty())
        }
        _ => None,
    }
}

/// A verb as it is sent: what the decoder borrows, owned.
#[derive(Clone, Debug)]
enum Sent {
    Read(Span),
    ReadMany(Vec<Span>),
    Write(Span, Vec<u64>),
    CompareSwap(Span, u64, u64),
    FetchAdd(Span, u64),
    WriteImm(Span, u32, Vec<u64>),
    Call(Span, Vec<u64>),
    Fence(Span, u64),
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        spans(u32::MAX).prop_map(Sent::Read),
        vec(spans(u32::MAX), 0..5).prop_map(Sent::ReadMany),
        (spans(40), vec(any::<u64>(), 5)).prop_map(|(to, words)| Sent::Write(to, words)),
        (spans(0), any::<u64>(), any::<u64>()).prop_map(|(at, a, b)| Sent::CompareSwap(at, a, b)),
        (spans(0), any::<u64>()).prop_map(|(at, add)| Sent::FetchAdd(at, add)),
        (spans(0), any::<u64>()).prop_map(|(word, holds)| Sent::Fence(word, holds)),
        (spans(40), any::<u32>(), vec(any::<u64>(), 5))
            .prop_map(|(to, imm, words)| Sent::WriteImm(to, imm, words)),
        (spans(40), vec(any::<u64>(), 5)).prop_map(|(to, words)| Sent::Call(to, words)),
    ]
}

fn put(out: &mut Vec<u64>, verb: &Sent) {
    match verb {
        Sent::Read(from) => put_read(out, *from),
        Sent::ReadMany(pieces) => put_read_many(out, pieces.iter().copied()),
        Sent::Write(to, words) => put_write(out, *to, words),
        Sent::CompareSwap(at, expected, new) => put_compare_swap(out, *at, *expected, *new),
        Sent::FetchAdd(at, add) => put_fetch_add(out, *at, *add),
        Sent::WriteImm(to, imm, words) => put_write_imm(out, *to, *imm, words),
        Sent::Call(to, words) => put_call(out, *to, words),
        Sent::Fence(word, holds) => put_fence(out, *word, *holds),
    }
}

fn bytes(words: &[u64], len: u32) -> &[u8] {
    &bytemuck::cast_slice(words)[..len as usize]
}

fn is_same(sent: &Sent, got: Request<'_>) -> bool {
    match (sent, got) {
        (Sent::Read(from), Request::Read(got)) => *from == got,
        (Sent::ReadMany(pieces), Request::ReadMany(got)) => got.eq(pieces.iter().copied()),
        (Sent::Write(to, words), Request::Write(got, payload)) => {
            *to == got && bytes(words, to.len) == bytes(payload, to.len)
        }
        (
            Sent::CompareSwap(at, a, b),
            Request::CompareSwap {
                at: got,
                expected,
                new,
            },
        ) => *at == got && (*a, *b) == (expected, new),
        (Sent::FetchAdd(at, a), Request::FetchAdd { at: got, add }) => *at == got && *a == add,
        (Sent::Fence(word, a), Request::Fence { word: got, holds }) => *word == got && *a == holds,
        (
            Sent::WriteImm(to, n, words),
            Request::WriteImm {
                to: got,
                imm,
                payload,
            },
        ) => *to == got && *n == imm && bytes(words, to.len) == bytes(payload, to.len),
        (Sent::Call(to, words), Request::Call { to: got, request }) => {
            *to == got && bytes(words, to.len) == bytes(request, to.len)
        }
        _ => false,
    }
}

proptest! {
    #[test]
    fn verbs_arrive_as_they_were_sent_and_incomplete_ones_wait(batch in vec(sent(), 1..8)) {
        let mut words = Vec::new();
        batch.iter().for_each(|verb| put(&mut words, verb));
        let mut rest = &words[..];
        for verb in &batch {
            let needed = request_words(rest[0]).unwrap();
            prop_assert_eq!(decode_request(&rest[..needed - 1]).unwrap(), None);
            let (got, used) = decode_request(rest).unwrap().unwrap();
            prop_assert_eq!(used, needed);
            prop_assert!(is_same(verb, got), "{:?} as {:?}", verb, got);
            prop_assert_eq!(reads(rest), reads_of_request(rest));
            prop_assert_eq!(reads(&rest[..needed - 1]), None);
            rest = &rest[used..];
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn no_words_panic_and_none_are_read_past_the_end(words in vec(any::<u64>(), 0..12), verb in 0u64..9) {
        let _ = decode_request(&words);
        // Words whose first is nearly right get further.
        let mut near = words;
        if let Some(first) = near.first_mut() {
            *first = *first & 0xf | verb << 48;
        }
        if let Ok(Some((_, used))) = decode_request(&near) {
            prop_assert!(used <= near.len());
        }
        let _ = near.first().map(|word| (Header::decode(*word), Header::decode_any_version(*word)));
        prop_assert_eq!(reads(&near), reads_of_request(&near));
        if let Some(failure) = near.first_chunk() {
            let _ = decode_failure(*failure, NodeId(0));
        }
    }

    #[test]
    fn what_lies_behind_a_payload_in_its_buffer_is_not_sent(len in 0u32..=16, words in vec(any::<u64>(), 2)) {
        let mut out = Vec::new();
        put_write(&mut out, Span { region: 0, offset: 0, len, key: 0 }, &words);
        let payload: &[u8] = bytemuck::cast_slice(&out[WRITE_WORDS..]);
        prop_assert_eq!(payload.len(), (len as usize).next_multiple_of(8));
        prop_assert!(payload[len as usize..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn errors_arrive_as_they_were_sent(region: u16, offset: u64, a: u64, b: u64, rights in 0u8..8) {
        let node = NodeId(3);
        let region = RegionId(region);
        let at = RemoteAddr { node, region, offset };
        let (needed, granted) = (Rights::from_bits(rights), Rights::READ);
        let (small, large) = (a as usize, b as usize);
        for error in [
            FabricError::AccessDenied { at, needed, granted },
            FabricError::OutOfBounds { at, len: a, region_len: b },
            FabricError::Misaligned { at },
            FabricError::UnknownRegion { node, region, regions: small },
            FabricError::WrongKey { at },
            FabricError::GrantRevoked { node },
            FabricError::ReceiverNotReady { node, capacity: small },
            FabricError::BufferTooLarge { requested: small, limit: large },
        ] {
            let [header, rest @ ..] = encode_failure(&error);
            let header = Header::decode(header).unwrap();
            prop_assert_eq!((header.kind, header.words as usize), (FrameKind::Failure, FAILURE_WORDS));
            prop_assert_eq!(decode_failure(rest, node), Ok(error));
        }
    }
}

#[test]
fn headers_round_trip_and_what_is_wrong_is_named() {
    let header = Header {
        kind: FrameKind::Completions,
        count: 65535,
        words: u32::MAX,
    };
    assert_eq!(Header::decode(header.encode()), Ok(header));
    let word = header.encode();
    assert_eq!(
        Header::decode(word & !(0xff << 56)),
        Err(Malformed::Version {
            found: 0,
            supported: VERSION
        })
    );
    assert_eq!(
        Header::decode(word & !(0xff << 48)),
        Err(Malformed::Kind { found: 0 })
    );
    assert!(matches!(
        Header::decode(word >> 32 << 32),
        Err(Malformed::Length { words: 0, .. })
    ));
}

#[test]
fn bits_that_must_be_zero_are_checked() {
    let refused = |words: &[u64]| decode_request(words).unwrap_err();
    let span = Span {
        region: 1,
        offset: 8,
        len: 8,
        key: 2,
    };
    let mut words = Vec::new();
    put_fetch_add(&mut words, span, 1);
    words[0] |= 8;
    assert_eq!(refused(&words), Malformed::Reserved { found: 8 });
    words[0] |= 1 << 60;
    assert!(matches!(refused(&words), Malformed::Reserved { .. }));

    words.clear();
    put_write_imm(&mut words, span, 1, &[0]);
    words[3] |= 1 << 40;
    assert_eq!(refused(&words), Malformed::Reserved { found: 1 << 8 });

    words.clear();
    put_read_many(&mut words, [span].into_iter());
    words[1] ^= 3 << 48;
    assert_eq!(refused(&words), Malformed::Verb { found: 2 });
}

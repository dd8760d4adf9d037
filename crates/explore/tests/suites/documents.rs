//! PNML: what is read, and how what is wrong is refused.

use crate::nets::{kanban, manufacturing, philosophers, to_pnml};
use farslot_explore::pnml::{PnmlError, Problem, ReadError, limits, parse, read};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::Write;

const TYPE: &str = "http://www.pnml.org/version-2009/grammar/ptnet";

/// A document with this content of its page, which begins in line 4.
fn document(content: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<pnml>\n<net id=\"n\" type=\"{TYPE}\"><page id=\"g\">\n{content}\n</page></net></pnml>"
    )
}

fn error(text: &str) -> PnmlError {
    parse(text.as_bytes()).expect_err(text)
}

#[test]
fn nets_are_read_as_they_were_written() {
    for net in [philosophers(5), kanban(4_000_000_000), manufacturing(3)] {
        assert_eq!(parse(to_pnml(&net).as_bytes()).unwrap(), net);
    }
}

#[test]
fn pages_references_parallel_arcs_and_foreign_parts_are_understood() {
    let net = parse(document(
        "<name><text>any &lt;name&gt;</text></name>
        <place id='p'><graphics><position x='1' y='2'/></graphics>
          <initialMarking><graphics/><text> &#x32; </text></initialMarking></place>
        <toolspecific tool='nupn' version='1.1'><structure units='1' root='r' safe='true'><unit id='p'>
          <places>p</places><subunits/></unit></structure></toolspecific>
        <page id='inner'><referencePlace id='q' ref='r'/><referencePlace id='r' ref='p'/>
          <transition id='t'/><referenceTransition id='u' ref='t'/>
          <arc id='a' source='q' target='u'><inscription><text><![CDATA[2]]></text></inscription></arc>
          <arc id='b' source='p' target='t'/><arc id='c' source='t' target='q'/></page>",
    ).as_bytes()).unwrap();
    assert_eq!(net.initial(), [2]);
    let transition = &net.transitions()[0];
    assert_eq!(
        (transition.takes[0].weight, transition.puts[0].weight),
        (3, 1)
    );
}

#[test]
fn errors_name_the_line() {
    let long = "x".repeat(limits::TEXT + 1);
    let cases = [
        (4, "<place id='p'/><place id='p'/>", "the id \"p\" is taken"),
        (
            6,
            "<place id='p'/>\n\n<transition id='p'/>",
            "taken since line 4",
        ),
        (
            5,
            "<place id='p'/>\n<arc id='a' source='p' target='nowhere'/>",
            "target names \"nowhere\"",
        ),
        (
            4,
            "<place id='p'/><place id='q'/><arc source='p' target='q'/>",
            "from a place to a place",
        ),
        (
            5,
            "<place id='p'>\n<initialMarking><text>4294967296</text></initialMarking></place>",
            "above 4294967295",
        ),
        (
            5,
            "<place id='p'>\n<initialMarking><text>-1</text></initialMarking></place>",
            "not a marking",
        ),
        (
            4,
            "<place id='p'/><transition id='t'/><arc source='p' target='t'><inscription><text>0</text></inscription></arc>",
            "weight 0",
        ),
        (
            4,
            "<place id='p'/><transition id='t'/><arc source='p' target='t'><type value='inhibitor'/></arc>",
            "\"inhibitor\"",
        ),
        (
            5,
            "\n<referencePlace id='p' ref='q'/><referencePlace id='q' ref='p'/>",
            "refers to itself",
        ),
        (
            4,
            "<transition id='t'/><referencePlace id='p' ref='t'/>",
            "other kind",
        ),
        (
            4,
            "<referencePlace id='p' ref='t'/>",
            "\"t\", which is no place",
        ),
        (5, "\n<place/>", "no attribute \"id\""),
        (4, "<place id='&bomb;'/>", "malformed XML"),
        (
            5,
            "<name>\n<text>&bomb;</text></name>",
            "unknown entity &bomb;",
        ),
        (4, "<place id='p'></transition>", "malformed XML"),
        (4, "<place id='p' id='q'/>", "malformed XML"),
        (4, "<places/>", "<page> with <places>"),
        (5, "\n<place id='p'", "malformed XML"),
    ];
    for (line, content, said) in cases {
        let error = error(&document(content));
        assert!(error.to_string().contains(said), "{content}: {error}");
        assert_eq!(error.line, line, "{content}: {error}");
    }
    let weight = |weight: &str| {
        let arc = format!(
            "<arc source='p' target='t'><inscription><text>{weight}</text></inscription></arc>"
        );
        error(&document(&format!(
            "<place id='p'/><transition id='t'/>{arc}{arc}"
        )))
        .problem
    };
    assert!(matches!(weight("4294967295"), Problem::TooLarge { text, .. } if text == "8589934590"));
    assert_eq!(weight(&long), Problem::LongText("number"));
    let attributes = document(&format!("<place id='{long}'/>"));
    assert_eq!(
        error(&attributes).problem,
        Problem::LongText("list of attributes")
    );
}

#[test]
fn documents_that_are_no_nets_are_refused() {
    for (text, said) in [
        ("", "no <pnml>"),
        ("nothing", "text outside"),
        ("<html/>", "root is not one <pnml>"),
        ("<pnml/>", "has no net"),
        ("<pnml/><pnml/>", "root is not one <pnml>"),
        (
            "<pnml>\n<net id='n'/></pnml>",
            "line 2: <net> has no attribute \"type\"",
        ),
        (
            "<pnml><net id='n' type='http://www.pnml.org/version-2009/grammar/symmetricnet'/></pnml>",
            "symmetricnet",
        ),
        (
            "<!DOCTYPE pnml [<!ENTITY a \"b\">]><pnml/>",
            "document type",
        ),
        ("<pnml><net id='n' type='x'", "line 1"),
    ] {
        let error = error(text).to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
    let two = format!("<pnml><net id='n' type='{TYPE}'/>\n<net id='m' type='{TYPE}'/></pnml>");
    assert_eq!(
        (error(&two).line, error(&two).problem),
        (2, Problem::Nets("more than one net"))
    );
    assert_eq!(parse(b"<pnml>\n\xFF</pnml>").unwrap_err().line, 2);
}

#[test]
fn documents_are_read_in_the_encodings_that_are_known() {
    let name = |text: &str| {
        let content = format!("<place id='{text}'/>");
        document(&content).replacen("\"1.0\"", "\"1.0\" encoding='ISO-8859-1'", 1)
    };
    let places = |bytes: &[u8]| parse(bytes).map(|net| net.places()[0].id.clone());
    assert_eq!(places(name("é").as_bytes()).unwrap(), "é");
    let latin1 = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
    assert_eq!(places(&latin1(&name("é"))).unwrap(), "é");
    let other = name("é").replacen("8859-1", "8859-15", 1);
    let error = places(&latin1(&other)).unwrap_err();
    assert_eq!((error.line, error.problem), (4, Problem::Encoding));
    let marked = [b"\xEF\xBB\xBF", document("<place id='p'/>").as_bytes()].concat();
    assert_eq!(places(&marked).unwrap(), "p");
    // Two bytes a character, of either order, with a mark and without one.
    let text = document("<place id='p'/>");
    for (mark, swapped) in [(true, false), (true, true), (false, false), (false, true)] {
        let mark = if mark { "\u{feff}" } else { "" };
        let words = mark.encode_utf16().chain(text.encode_utf16());
        let bytes = words.flat_map(|word| match swapped {
            true => word.to_be_bytes(),
            false => word.to_le_bytes(),
        });
        let error = parse(&bytes.collect::<Vec<u8>>()).unwrap_err();
        assert_eq!(error.line, 1, "{error}");
    }
}

#[test]
fn documents_that_are_too_large_are_refused() {
    let deep = document(&"<page id='x'>".repeat(100));
    assert_eq!(error(&deep).problem, Problem::TooDeep);
    let deep = document(&"<name>".repeat(100_000));
    assert_eq!(error(&deep).problem, Problem::TooDeep);
    let places: Vec<String> = (0..=limits::PLACES)
        .map(|p| format!("<place id='{p}'/>\n"))
        .collect();
    let error = error(&document(&places.concat()));
    let limit = limits::PLACES;
    assert_eq!(
        error.problem,
        Problem::TooMany {
            subject: "places",
            limit
        }
    );
    assert_eq!(error.line, limit as u64 + 4);
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// What comes of a file with these bytes, which says nothing by its name.
fn read_from(bytes: &[u8]) -> Result<farslot_explore::net::Net, ReadError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    read(file.path())
}

#[test]
fn compressed_documents_are_read_and_damaged_ones_refused() {
    let net = kanban(3);
    let text = to_pnml(&net).into_bytes();
    let (one, two) = text.split_at(text.len() / 2);
    let packed = gzipped(&text);
    for whole in [
        text.clone(),
        packed.clone(),
        // As `cat` joins two files.
        [gzipped(one), gzipped(two)].concat(),
    ] {
        assert_eq!(read_from(&whole).unwrap(), net);
    }
    for cut in 2..packed.len() {
        let end = read_from(&packed[..cut]);
        assert!(matches!(end, Err(ReadError::Gzip(_))), "{cut}: {end:?}");
    }
    for at in [2, 20, packed.len() / 2, packed.len() - 6] {
        let mut damaged = packed.clone();
        damaged[at] ^= 0x55;
        let end = read_from(&damaged);
        assert!(matches!(end, Err(ReadError::Gzip(_))), "{at}: {end:?}");
    }
    let end = read_from(&[&packed[..], b"and more"].concat());
    assert!(matches!(end, Err(ReadError::Gzip(_))), "{end:?}");
    // One byte of a file is no more than that.
    let end = read_from(&packed[..1]);
    assert!(matches!(end, Err(ReadError::Document(_))), "{end:?}");
}

#[test]
fn what_unpacks_to_too_much_is_refused() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let spaces = vec![b' '; 1 << 20];
    for _ in 0..limits::BYTES >> 20 {
        packed.write_all(&spaces).unwrap();
    }
    packed.write_all(b" ").unwrap();
    let packed = packed.finish().unwrap();
    assert!((packed.len() as u64) < limits::BYTES / 100);
    let Err(ReadError::Document(error)) = read_from(&packed) else {
        panic!("refused");
    };
    assert_eq!(error.problem, Problem::TooLong);
}

/// Parts of documents, to be put where they do not belong.
const PARTS: [&str; 14] = [
    "<",
    ">",
    "&",
    "&lt;",
    "&#0;",
    "\"",
    "</page>",
    "<page id='z'>",
    "<place id='fork0'/>",
    "<!--",
    "]]>",
    "<![CDATA[",
    "<!DOCTYPE x>",
    "4294967296",
];

proptest! {
    #[test]
    fn mutated_documents_are_read_or_refused(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize, 0..PARTS.len()), 1..6),
    ) {
        let mut bytes = to_pnml(&philosophers(2)).into_bytes();
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        for (at, length, part) in cuts {
            let at = at.index(bytes.len());
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, PARTS[part].bytes());
        }
        if let Err(error) = parse(&bytes) {
            prop_assert!((1..=lines).contains(&error.line), "{error}");
        }
    }

    #[test]
    fn any_bytes_behind_the_mark_of_gzip_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let _ = read_from(&[&[0x1f, 0x8b, 8], &bytes[..]].concat());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }
}

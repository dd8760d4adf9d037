//! Why a document is not a net that can be explored, with the line.

use super::limits;

/// Why a file gives no net.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The file begins as gzip writes it, and does not go on so: it is damaged, or its end is
    /// missing.
    #[error("cannot be unpacked: {0}")]
    Gzip(std::io::Error),
    /// The document is not a net that can be explored.
    #[error(transparent)]
    Document(#[from] PnmlError),
}

/// An error in a PNML document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct PnmlError {
    /// Where in the document, counted from 1.
    pub line: u64,
    /// What is wrong there.
    pub problem: Problem,
}

impl PnmlError {
    pub(super) fn too_long() -> Self {
        let problem = Problem::TooLong;
        Self { line: 1, problem }
    }
}

/// What is wrong with a PNML document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Larger than [`limits::BYTES`].
    #[error("the document is longer than {} bytes", limits::BYTES)]
    TooLong,
    /// Neither UTF-8 nor declared as ISO-8859-1.
    #[error("the document is neither UTF-8 nor ISO-8859-1 that is declared so")]
    Encoding,
    /// The document is not well-formed XML.
    #[error("malformed XML: {0}")]
    Xml(String),
    /// A document type declaration, which PNML has no use for.
    #[error(
        "a document type declaration (<!DOCTYPE>) is refused: PNML has none, and entities can be bombs"
    )]
    Doctype,
    /// An entity other than the five of XML.
    #[error("unknown entity &{};", shortened(.0))]
    Entity(String),
    /// Elements nested deeper than [`limits::DEPTH`].
    #[error("elements are nested deeper than {}", limits::DEPTH)]
    TooDeep,
    /// More of something than its limit.
    #[error("more than {limit} {subject}")]
    TooMany {
        /// What.
        subject: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A text or an attribute longer than [`limits::TEXT`].
    #[error("a {0} of more than {max} bytes", max = limits::TEXT)]
    LongText(&'static str),
    /// The root element is not `<pnml>`, or the document ends before it begins or ends.
    #[error("not a PNML document: {0}")]
    NotPnml(&'static str),
    /// There is no net, or a second one.
    #[error("the document has {0}; exactly one can be explored")]
    Nets(&'static str),
    /// The net is of another type than place/transition nets.
    #[error("nets of type {:?} cannot be explored, only place/transition nets", shortened(.0))]
    NetType(String),
    /// An element that would change the net's meaning and is not known, such as an inhibitor arc.
    #[error("{0} cannot be explored")]
    Unsupported(String),
    /// An element that may be there once, for a second time.
    #[error("a second <{0}>")]
    Twice(&'static str),
    /// A label that must have one text, such as a marking.
    #[error("<{0}> has {1}")]
    Texts(&'static str, &'static str),
    /// An attribute is missing.
    #[error("<{element}> has no attribute {attribute:?}")]
    Missing {
        /// The element.
        element: &'static str,
        /// The attribute.
        attribute: &'static str,
    },
    /// Two objects have one id.
    #[error("the id {:?} is taken since line {first}", shortened(.id))]
    DuplicateId {
        /// The id.
        id: String,
        /// Where it was first.
        first: u64,
    },
    /// A marking or a weight that is no number.
    #[error("{text:?} is not a {subject}")]
    NotANumber {
        /// What it should be.
        subject: &'static str,
        /// What is there.
        text: String,
    },
    /// A marking or a weight above 2^32 - 1.
    #[error("the {subject} {text} is above {max}", max = u32::MAX)]
    TooLarge {
        /// What it is.
        subject: &'static str,
        /// The number as it is written, or the sum of parallel arcs.
        text: String,
    },
    /// An arc with weight 0.
    #[error("an arc has weight 0")]
    ZeroWeight,
    /// An arc or a reference names a node that the document does not have.
    #[error("{subject} names {:?}, which is no place and no transition of the document", shortened(.id))]
    NoSuchNode {
        /// Which end of an arc, or a reference.
        subject: &'static str,
        /// The name.
        id: String,
    },
    /// An arc between two places or two transitions.
    #[error("an arc from {0} to {0}: arcs join a place and a transition")]
    SameKind(&'static str),
    /// A reference place that refers to a transition, or the other way round.
    #[error("the reference {:?} refers to a node of the other kind", shortened(.0))]
    WrongReference(String),
    /// References that refer to each other in a circle.
    #[error("the reference {:?} refers to itself in the end", shortened(.0))]
    ReferenceCircle(String),
}

/// What a message shows of a text that may be long.
pub(super) fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        return text.into();
    }
    let start: String = text.chars().take(SHOWN).collect();
    format!("{start}...")
}

//! The elements of a document, by a pull parser: what a net is made of, with lines.

use super::error::{PnmlError, Problem};
use super::limits;
use super::text::Lines;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// What a document has, in its order, before names are resolved.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) name: String,
    pub(super) nodes: Vec<Node>,
    pub(super) arcs: Vec<RawArc>,
    /// Ids of pages, which are in one name space with those of nodes and arcs.
    pub(super) pages: Vec<(String, u64)>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) line: u64,
    pub(super) kind: NodeKind,
}

#[derive(Debug)]
pub(super) enum NodeKind {
    Place { initial: u32 },
    Transition,
    ReferencePlace { to: String },
    ReferenceTransition { to: String },
}

#[derive(Debug)]
pub(super) struct RawArc {
    pub(super) id: Option<String>,
    pub(super) line: u64,
    pub(super) source: String,
    pub(super) target: String,
    pub(super) weight: u32,
}

/// Which element is open. Its children are known by their parent alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Pnml,
    Net,
    Page,
    Place,
    Transition,
    Reference,
    Arc,
    Marking,
    Inscription,
    /// The text of a marking or an inscription.
    Number,
}

pub(super) fn read(text: &str) -> Result<Document, PnmlError> {
    let mut parser = Parser {
        reader: Reader::from_str(text),
        lines: Lines::new(text),
        line: 1,
        open: Vec::new(),
        begun: false,
        nets: 0,
        number: String::new(),
        document: Document::default(),
        places: 0,
        transitions: 0,
    };
    // So that `<place id="p"/>` needs no case of its own.
    parser.reader.config_mut().expand_empty_elements = true;
    match parser.run() {
        Ok(()) => Ok(parser.document),
        Err(problem) => Err(PnmlError {
            line: parser.line,
            problem,
        }),
    }
}

struct Parser<'a> {
    reader: Reader<&'a [u8]>,
    lines: Lines<'a>,
    /// Where the last event began.
    line: u64,
    open: Vec<Open>,
    begun: bool,
    nets: usize,
    /// Text of the marking or weight that is open.
    number: String,
    document: Document,
    places: usize,
    transitions: usize,
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), Problem> {
        loop {
            self.line = self.lines.at(self.reader.buffer_position());
            let event = match self.reader.read_event() {
                Ok(event) => event,
                Err(error) => {
                    self.line = self.lines.at(self.reader.error_position());
                    return Err(Problem::Xml(error.to_string()));
                }
            };
            match event {
                Event::Start(element) => self.start(&element)?,
                Event::End(_) => self.end()?,
                Event::Text(text) => self.text(&text.xml10_content())?,
                Event::CData(text) => self.text(&text.xml10_content())?,
                Event::GeneralRef(entity) => {
                    let resolved = resolve_entity(&entity)?;
                    self.text(resolved.encode_utf8(&mut [0; 4]))?;
                }
                Event::DocType(_) => return Err(Problem::Doctype),
                Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
                Event::Eof => return self.finish(),
                // An element without content, which the configuration turns into two events.
                Event::Empty(_) => {}
            }
        }
    }

    fn finish(&self) -> Result<(), Problem> {
        match (self.begun, self.open.is_empty(), self.nets) {
            (false, ..) => Err(Problem::NotPnml("there is no <pnml> element")),
            (_, false, _) => Err(Problem::NotPnml("it ends within an element")),
            (_, _, 0) => Err(Problem::Nets("no net")),
            _ => Ok(()),
        }
    }

    fn start(&mut self, element: &BytesStart<'_>) -> Result<(), Problem> {
        if self.open.len() >= limits::DEPTH {
            return Err(Problem::TooDeep);
        }
        if element.attributes_raw().len() > limits::TEXT {
            return Err(Problem::LongText("list of attributes"));
        }
        let name = element.local_name();
        let name = name.as_ref();
        let open = match (self.open.last(), name) {
            (None, "pnml") if !self.begun => Open::Pnml,
            (None, _) => return Err(Problem::NotPnml("its root is not one <pnml> element")),
            (Some(Open::Pnml), "net") => self.net(element)?,
            (Some(Open::Net | Open::Page), _) => match self.node(name, element)? {
                Some(open) => open,
                None => return self.skip(),
            },
            (Some(Open::Place), "initialMarking") => Open::Marking,
            (Some(Open::Arc), "inscription") => Open::Inscription,
            (Some(Open::Arc), "type") => return self.arc_type(element),
            (Some(Open::Marking | Open::Inscription), "text") => {
                self.number.clear();
                Open::Number
            }
            _ => return self.skip(),
        };
        self.begun = true;
        self.open.push(open);
        Ok(())
    }

    fn net(&mut self, element: &BytesStart<'_>) -> Result<Open, Problem> {
        self.nets += 1;
        if self.nets > 1 {
            return Err(Problem::Nets("more than one net"));
        }
        let kind = required(element, "net", "type")?;
        let short = kind.trim_end_matches('/').rsplit('/').next();
        let known =
            |short: &str| matches!(short.trim_end_matches(".pntd"), "ptnet" | "PTNet" | "T net");
        if !short.is_some_and(known) {
            return Err(Problem::NetType(kind));
        }
        self.document.name = required(element, "net", "id")?;
        Ok(Open::Net)
    }

    /// A child of a net or a page; `None` for what has no meaning to exploration.
    fn node(&mut self, name: &str, element: &BytesStart<'_>) -> Result<Option<Open>, Problem> {
        let (open, kind) = match name {
            "page" => {
                let id = required(element, "page", "id")?;
                self.document.pages.push((id, self.line));
                return Ok(Some(Open::Page));
            }
            "arc" => {
                self.arc(element)?;
                return Ok(Some(Open::Arc));
            }
            "place" => (Open::Place, NodeKind::Place { initial: 0 }),
            "transition" => (Open::Transition, NodeKind::Transition),
            "referencePlace" => {
                let to = required(element, "referencePlace", "ref")?;
                (Open::Reference, NodeKind::ReferencePlace { to })
            }
            "referenceTransition" => {
                let to = required(element, "referenceTransition", "ref")?;
                (Open::Reference, NodeKind::ReferenceTransition { to })
            }
            "name" | "graphics" | "toolspecific" => return Ok(None),
            other => {
                return Err(Problem::Unsupported(format!(
                    "a net with <{}>",
                    shortened(other)
                )));
            }
        };
        match kind {
            NodeKind::Place { .. } | NodeKind::ReferencePlace { .. } => {
                self.places += 1;
                at_most(self.places, limits::PLACES, "places")?;
            }
            NodeKind::Transition | NodeKind::ReferenceTransition { .. } => {
                self.transitions += 1;
                at_most(self.transitions, limits::TRANSITIONS, "transitions")?;
            }
        }
        let element_name = match open {
            Open::Place => "place",
            Open::Transition => "transition",
            _ => "reference",
        };
        let id = required(element, element_name, "id")?;
        self.document.nodes.push(Node {
            id,
            line: self.line,
            kind,
        });
        Ok(Some(open))
    }

    fn arc(&mut self, element: &BytesStart<'_>) -> Result<(), Problem> {
        at_most(self.document.arcs.len() + 1, limits::ARCS, "arcs")?;
        if let Some(kind) = attribute(element, "type")?
            && kind != "normal"
        {
            return Err(unsupported_arc(&kind));
        }
        self.document.arcs.push(RawArc {
            id: attribute(element, "id")?,
            line: self.line,
            source: required(element, "arc", "source")?,
            target: required(element, "arc", "target")?,
            weight: 1,
        });
        Ok(())
    }

    /// Several tools mark inhibitor, reset and read arcs so.
    fn arc_type(&mut self, element: &BytesStart<'_>) -> Result<(), Problem> {
        match attribute(element, "value")? {
            Some(kind) if kind != "normal" => Err(unsupported_arc(&kind)),
            _ => self.skip(),
        }
    }

    /// Skips an element with all that is in it.
    fn skip(&mut self) -> Result<(), Problem> {
        let mut depth = self.open.len();
        loop {
            let event = match self.reader.read_event() {
                Ok(event) => event,
                Err(error) => {
                    self.line = self.lines.at(self.reader.error_position());
                    return Err(Problem::Xml(error.to_string()));
                }
            };
            match event {
                Event::Start(_) => {
                    depth += 1;
                    if depth >= limits::DEPTH {
                        self.line = self.lines.at(self.reader.buffer_position());
                        return Err(Problem::TooDeep);
                    }
                }
                Event::End(_) if depth == self.open.len() => return Ok(()),
                Event::End(_) => depth -= 1,
                Event::DocType(_) => return Err(Problem::Doctype),
                Event::GeneralRef(entity) => {
                    self.line = self.lines.at(self.reader.buffer_position());
                    resolve_entity(&entity)?;
                }
                Event::Eof => {
                    self.line = self.lines.at(self.reader.buffer_position());
                    return Err(Problem::NotPnml("it ends within an element"));
                }
                _ => {}
            }
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Problem> {
        if self.open.last() == Some(&Open::Number) {
            if self.number.len() + text.len() > limits::TEXT {
                return Err(Problem::LongText("number"));
            }
            self.number.push_str(text);
        } else if self.open.is_empty() && !text.trim().is_empty() {
            return Err(Problem::NotPnml("there is text outside of its root"));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Problem> {
        // The reader has checked that ends match starts.
        if self.open.pop() != Some(Open::Number) {
            return Ok(());
        }
        match self.open.last() {
            Some(Open::Marking) => {
                let tokens = number(&self.number, "marking")?;
                if let Some(Node {
                    kind: NodeKind::Place { initial },
                    ..
                }) = self.document.nodes.last_mut()
                {
                    *initial = tokens;
                }
            }
            _ => {
                let weight = number(&self.number, "weight")?;
                if weight == 0 {
                    return Err(Problem::ZeroWeight);
                }
                if let Some(arc) = self.document.arcs.last_mut() {
                    arc.weight = weight;
                }
            }
        }
        Ok(())
    }
}

fn unsupported_arc(kind: &str) -> Problem {
    Problem::Unsupported(format!("an arc of type {:?}", shortened(kind)))
}

fn at_most(count: usize, limit: usize, what: &'static str) -> Result<(), Problem> {
    if count > limit {
        return Err(Problem::TooMany { what, limit });
    }
    Ok(())
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Result<Option<String>, Problem> {
    let malformed = |error: &dyn std::fmt::Display| Problem::Xml(error.to_string());
    let mut value = None;
    // To the last one, so that doubles are noticed: a quadratic check, of a list of bounded length.
    for found in element.attributes() {
        let found = found.map_err(|error| malformed(&error))?;
        if found.key.local_name().as_ref() == name {
            let found = found.normalized_value(XmlVersion::Implicit1_0);
            value = Some(found.map_err(|error| malformed(&error))?.into_owned());
        }
    }
    Ok(value)
}

fn required(
    element: &BytesStart<'_>,
    element_name: &'static str,
    name: &'static str,
) -> Result<String, Problem> {
    attribute(element, name)?.ok_or(Problem::Missing {
        element: element_name,
        attribute: name,
    })
}

fn resolve_entity(entity: &BytesRef<'_>) -> Result<char, Problem> {
    let malformed = |error: quick_xml::Error| Problem::Xml(error.to_string());
    if let Some(resolved) = entity.resolve_char_ref().map_err(malformed)? {
        return Ok(resolved);
    }
    let name = entity.xml10_content();
    match name.as_ref() {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "apos" => Ok('\''),
        "quot" => Ok('"'),
        other => Err(Problem::Entity(shortened(other))),
    }
}

/// A number of tokens. Whitespace around it is skipped, and a plus sign allowed.
fn number(text: &str, what: &'static str) -> Result<u32, Problem> {
    let text = text.trim();
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let text = shortened(text);
        return Err(Problem::NotANumber { what, text });
    }
    digits.parse().map_err(|_| Problem::TooLarge {
        what,
        text: shortened(digits),
    })
}

/// What a message shows of a text that may be long.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        return text.into();
    }
    let start: String = text.chars().take(SHOWN).collect();
    format!("{start}...")
}

//! The elements of a document, by a pull parser: what a net is made of, with lines.

use super::error::{PnmlError, Problem, shortened};
use super::labels::{Child, Label, Likeness, OpenElement, TOKEN_CLASS, child};
use super::limits;
use super::text::Lines;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::ResolveResult;
use quick_xml::{NsReader, XmlVersion};

/// How the name spaces begin that the standard has had.
const PNML_SPACES: &str = "http://www.pnml.org/";

/// Words by which tools say that an arc is no normal one.
const ARC_TYPES: [&str; 2] = ["inhibitor", "reset"];

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

pub(super) fn read(text: &str) -> Result<Document, PnmlError> {
    let mut parser = DocumentParser {
        reader: NsReader::from_str(text),
        lines: Lines::new(text),
        line: 1,
        space: None,
        open: Vec::new(),
        begun: false,
        nets: 0,
        label: String::new(),
        texts: 0,
        labels: Vec::new(),
        likeness: Likeness::default(),
        token_classes: 0,
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

struct DocumentParser<'a> {
    reader: NsReader<&'a [u8]>,
    lines: Lines<'a>,
    /// Where the last event began.
    line: u64,
    /// The root's name space.
    space: Option<String>,
    open: Vec<OpenElement>,
    begun: bool,
    nets: usize,
    /// The text of the label that is open, and how many it has.
    label: String,
    texts: usize,
    /// The labels of the node or arc that is open.
    labels: Vec<Label>,
    likeness: Likeness,
    /// Classes of tokens, which PIPE declares.
    token_classes: usize,
    document: Document,
    places: usize,
    transitions: usize,
}

impl DocumentParser<'_> {
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
        self.check_space(element)?;
        self.check_attributes(element)?;
        let name = element.local_name();
        let name = name.as_ref();
        let open = match self.open.last().copied() {
            None if name == "pnml" && !self.begun => OpenElement::Pnml,
            None => return Err(Problem::NotPnml("its root is not one <pnml> element")),
            Some(OpenElement::Pnml) if name == "net" => self.net(element)?,
            Some(parent) => match child(parent, name) {
                Child::Skipped => {
                    let may_be_type = parent == OpenElement::Arc && name == "toolspecific";
                    if may_be_type {
                        no_arc_type(element)?;
                    }
                    return self.skip(may_be_type);
                }
                Child::Unknown => return Err(unknown_child(parent, name)),
                Child::Node => self.node(name, element)?,
                Child::Label(label) => self.label(label, element)?,
                Child::Text(label) => self.label_text(label, element)?,
                Child::ArcType => arc_type(element)?,
                Child::TokenClass => self.token_class()?,
            },
        };
        self.begun = true;
        self.open.push(open);
        Ok(())
    }

    /// All elements are of the root's name space, or of one of PNML's: what a foreign one means is
    /// not known, whatever its local name is.
    fn check_space(&mut self, element: &BytesStart<'_>) -> Result<(), Problem> {
        let space = match self.reader.resolver().resolve_element(element.name()).0 {
            ResolveResult::Unbound => None,
            ResolveResult::Bound(space) => Some(space.0),
            ResolveResult::Unknown(prefix) => return Err(unknown_prefix(&prefix)),
        };
        if self.open.is_empty() {
            self.space = space.map(String::from);
        } else if space != self.space.as_deref()
            && !space.is_some_and(|space| space.starts_with(PNML_SPACES))
        {
            return Err(Problem::Unsupported(format!(
                "<{}> of the name space {:?}",
                shortened(element.name().as_ref()),
                shortened(space.unwrap_or_default()),
            )));
        }
        Ok(())
    }

    /// Attributes with a prefix are foreign and have no meaning, unless the prefix is one of
    /// PNML's: no attribute of PNML has any, and what it would mean is not known.
    fn check_attributes(&self, element: &BytesStart<'_>) -> Result<(), Problem> {
        for found in element.attributes() {
            let found = found.map_err(|error| Problem::Xml(error.to_string()))?;
            let key = found.key;
            if !key.as_ref().contains(':') || key.as_namespace_binding().is_some() {
                continue;
            }
            match self.reader.resolver().resolve_attribute(key).0 {
                ResolveResult::Unknown(prefix) => return Err(unknown_prefix(&prefix)),
                ResolveResult::Bound(space)
                    if self.space.as_deref() == Some(space.0)
                        || space.0.starts_with(PNML_SPACES) =>
                {
                    return Err(Problem::Unsupported(format!(
                        "<{}> with an attribute {:?} of PNML's name space",
                        shortened(element.name().as_ref()),
                        shortened(key.as_ref()),
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn net(&mut self, element: &BytesStart<'_>) -> Result<OpenElement, Problem> {
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
        known_attributes(element, "net", &["id", "type"])?;
        self.document.name = required(element, "net", "id")?;
        Ok(OpenElement::Net)
    }

    /// A page, or what is on one.
    fn node(&mut self, name: &str, element: &BytesStart<'_>) -> Result<OpenElement, Problem> {
        self.labels.clear();
        let (open, kind) = match name {
            "page" => {
                known_attributes(element, "page", &["id"])?;
                let id = required(element, "page", "id")?;
                self.document.pages.push((id, self.line));
                return Ok(OpenElement::Page);
            }
            "arc" => {
                self.arc(element)?;
                return Ok(OpenElement::Arc);
            }
            "place" => (OpenElement::Place, NodeKind::Place { initial: 0 }),
            "transition" => (OpenElement::Transition, NodeKind::Transition),
            "referencePlace" => {
                let to = required(element, "referencePlace", "ref")?;
                (OpenElement::Reference, NodeKind::ReferencePlace { to })
            }
            _ => {
                let to = required(element, "referenceTransition", "ref")?;
                (OpenElement::Reference, NodeKind::ReferenceTransition { to })
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
        let known: &[&str] = match open {
            OpenElement::Reference => &["id", "ref"],
            _ => &["id"],
        };
        known_attributes(element, open.name(), known)?;
        let id = required(element, open.name(), "id")?;
        self.document.nodes.push(Node {
            id,
            line: self.line,
            kind,
        });
        Ok(open)
    }

    fn arc(&mut self, element: &BytesStart<'_>) -> Result<(), Problem> {
        at_most(self.document.arcs.len() + 1, limits::ARCS, "arcs")?;
        known_attributes(element, "arc", &["id", "source", "target", "type"])?;
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

    fn label(&mut self, label: Label, element: &BytesStart<'_>) -> Result<OpenElement, Problem> {
        if self.labels.contains(&label) {
            return Err(Problem::Twice(label.name()));
        }
        known_attributes(element, label.name(), &[])?;
        self.labels.push(label);
        self.texts = 0;
        self.label.clear();
        Ok(OpenElement::Label(label))
    }

    fn label_text(
        &mut self,
        label: Label,
        element: &BytesStart<'_>,
    ) -> Result<OpenElement, Problem> {
        known_attributes(element, "text", &[])?;
        self.texts += 1;
        match self.texts {
            1 => Ok(OpenElement::Text(label)),
            _ => Err(Problem::Texts(label.name(), "more than one text")),
        }
    }

    /// Tokens of one class are tokens without classes.
    fn token_class(&mut self) -> Result<OpenElement, Problem> {
        self.token_classes += 1;
        match self.token_classes {
            1 => Ok(OpenElement::Empty("token")),
            _ => Err(Problem::Unsupported(
                "a net with more than one class of tokens".into(),
            )),
        }
    }

    /// Skips an element with all that is in it. Some tools write there that an arc is no normal
    /// one, which is refused if it `may_be_type`.
    fn skip(&mut self, may_be_type: bool) -> Result<(), Problem> {
        let mut depth = self.open.len();
        loop {
            let before = self.reader.buffer_position();
            let event = match self.reader.read_event() {
                Ok(event) => event,
                Err(error) => {
                    self.line = self.lines.at(self.reader.error_position());
                    return Err(Problem::Xml(error.to_string()));
                }
            };
            if may_be_type && let Event::Start(_) | Event::Text(_) | Event::CData(_) = event {
                self.line = self.lines.at(before);
                no_arc_type(&event)?;
            }
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
        let open = self.open.last();
        if let Some(OpenElement::Text(_)) = open {
            if self.label.len() + text.len() > limits::TEXT {
                return Err(Problem::LongText("number"));
            }
            self.label.push_str(text);
        } else if !text.trim().is_empty() {
            let before = &text[..text.len() - text.trim_start().len()];
            self.line += before.matches('\n').count() as u64;
            return Err(match open {
                None => Problem::NotPnml("there is text outside of its root"),
                Some(open) => Problem::Unsupported(format!(
                    "the text {:?} in <{}>",
                    shortened(text.trim()),
                    open.name()
                )),
            });
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Problem> {
        // The reader has checked that ends match starts.
        match self.open.pop() {
            Some(OpenElement::Transition) => self.likeness.end_transition(),
            Some(OpenElement::Label(label)) if self.texts == 0 => {
                Err(Problem::Texts(label.name(), "no text"))
            }
            Some(OpenElement::Label(label)) => self.end_label(label),
            _ => Ok(()),
        }
    }

    fn end_label(&mut self, label: Label) -> Result<(), Problem> {
        let text = self.label.trim();
        match label {
            Label::Marking => {
                let tokens = number(text, "marking")?;
                if let Some(Node {
                    kind: NodeKind::Place { initial },
                    ..
                }) = self.document.nodes.last_mut()
                {
                    *initial = tokens;
                }
                Ok(())
            }
            Label::Weight => {
                let weight = number(text, "weight")?;
                if weight == 0 {
                    return Err(Problem::ZeroWeight);
                }
                if let Some(arc) = self.document.arcs.last_mut() {
                    arc.weight = weight;
                }
                Ok(())
            }
            label => self.likeness.note(label, text),
        }
    }
}

fn unknown_prefix(prefix: &str) -> Problem {
    let prefix = shortened(prefix);
    Problem::Xml(format!("no name space has the prefix {prefix:?}"))
}

fn unknown_child(parent: OpenElement, name: &str) -> Problem {
    let (parent, name) = (parent.name(), shortened(name));
    Problem::Unsupported(format!("<{parent}> with <{name}>"))
}

/// Several tools mark inhibitor, reset and read arcs so.
fn arc_type(element: &BytesStart<'_>) -> Result<OpenElement, Problem> {
    known_attributes(element, "type", &["value"])?;
    match required(element, "type", "value")? {
        kind if kind != "normal" => Err(unsupported_arc(&kind)),
        _ => Ok(OpenElement::Empty("type")),
    }
}

/// Refuses attributes that are not known: several tools write markings and capacities so. Those of
/// other name spaces have no meaning here.
fn known_attributes(
    element: &BytesStart<'_>,
    name: &'static str,
    known: &[&str],
) -> Result<(), Problem> {
    for found in element.attributes() {
        let found = found.map_err(|error| Problem::Xml(error.to_string()))?;
        let key = found.key.as_ref();
        if key != "xmlns" && !key.contains(':') && !known.contains(&key) {
            let key = shortened(key);
            return Err(Problem::Unsupported(format!(
                "<{name}> with an attribute {key:?}"
            )));
        }
    }
    Ok(())
}

/// Refuses what a tool says of an arc if that is its type.
fn no_arc_type(said: &str) -> Result<(), Problem> {
    let said = said.to_ascii_lowercase();
    match ARC_TYPES.iter().find(|kind| said.contains(**kind)) {
        Some(kind) => Err(unsupported_arc(kind)),
        None => Ok(()),
    }
}

fn unsupported_arc(kind: &str) -> Problem {
    Problem::Unsupported(format!("an arc of type {:?}", shortened(kind)))
}

fn at_most(count: usize, limit: usize, subject: &'static str) -> Result<(), Problem> {
    if count > limit {
        return Err(Problem::TooMany { subject, limit });
    }
    Ok(())
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Result<Option<String>, Problem> {
    let malformed = |error: &dyn std::fmt::Display| Problem::Xml(error.to_string());
    let mut value = None;
    // To the last one, so that doubles are noticed: a quadratic check, of a list of bounded length.
    for found in element.attributes() {
        let found = found.map_err(|error| malformed(&error))?;
        if found.key.as_ref() == name {
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

/// A number of tokens. A plus sign is allowed, and the name that PIPE gives to its one class of
/// tokens.
fn number(text: &str, subject: &'static str) -> Result<u32, Problem> {
    let text = text.strip_prefix(TOKEN_CLASS).unwrap_or(text).trim();
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let text = shortened(text);
        return Err(Problem::NotANumber { subject, text });
    }
    digits.parse().map_err(|_| Problem::TooLarge {
        subject,
        text: shortened(digits),
    })
}

//! Which elements may be where, and what those mean that hold one text.

use super::error::{Problem, shortened};

/// What PIPE writes before numbers of tokens of its one class.
pub(super) const TOKEN_CLASS: &str = "Default,";

/// An element that holds one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    Marking,
    Weight,
    // These are PIPE's.
    Capacity,
    Priority,
    Timed,
    Tagged,
}

impl Label {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Marking => "initialMarking",
            Self::Weight => "inscription",
            Self::Capacity => "capacity",
            Self::Priority => "priority",
            Self::Timed => "timed",
            Self::Tagged => "tagged",
        }
    }
}

/// Which element is open. Its children are known by their parent alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenElement {
    Pnml,
    Net,
    Page,
    Place,
    Transition,
    Reference,
    Arc,
    Label(Label),
    /// The text of a label.
    Text(Label),
    /// An element whose attributes say all.
    Empty(&'static str),
}

impl OpenElement {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pnml => "pnml",
            Self::Net => "net",
            Self::Page => "page",
            Self::Place => "place",
            Self::Transition => "transition",
            Self::Reference => "reference",
            Self::Arc => "arc",
            Self::Label(label) => label.name(),
            Self::Text(_) => "text",
            Self::Empty(name) => name,
        }
    }
}

/// What an element is to its parent.
pub(super) enum Child {
    /// It has no meaning to exploration.
    Skipped,
    /// A page, a place, a transition, a reference or an arc.
    Node,
    Label(Label),
    /// The text of a label.
    Text(Label),
    ArcType,
    TokenClass,
    /// It could mean anything.
    Unknown,
}

pub(super) fn child(parent: OpenElement, name: &str) -> Child {
    let label = match (parent, name) {
        // Numbers have no parts, and neither has what stands in attributes.
        (OpenElement::Text(_) | OpenElement::Empty(_), _) => return Child::Unknown,
        (_, "name" | "graphics" | "toolspecific") => return Child::Skipped,
        (OpenElement::Label(label), "text" | "value") => return Child::Text(label),
        (
            OpenElement::Net | OpenElement::Page,
            "page" | "place" | "transition" | "arc" | "referencePlace" | "referenceTransition",
        ) => return Child::Node,
        (OpenElement::Net, "token") => return Child::TokenClass,
        (OpenElement::Arc, "type") => return Child::ArcType,
        // What PIPE draws, and how often and how fast transitions fire that can.
        (OpenElement::Net, "labels")
        | (OpenElement::Transition, "orientation" | "rate" | "infiniteServer")
        | (OpenElement::Arc, "arcpath") => return Child::Skipped,
        (OpenElement::Place, "initialMarking") => Label::Marking,
        (OpenElement::Place, "capacity") => Label::Capacity,
        (OpenElement::Transition, "priority") => Label::Priority,
        (OpenElement::Transition, "timed") => Label::Timed,
        (OpenElement::Arc, "inscription") => Label::Weight,
        (OpenElement::Arc, "tagged") => Label::Tagged,
        _ => return Child::Unknown,
    };
    Child::Label(label)
}

/// Labels that mean nothing as long as all have the same: which transition fires first where some
/// have another priority, or need no time.
#[derive(Debug, Default)]
pub(super) struct Likeness {
    open: TransitionLabels,
    first: Option<TransitionLabels>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct TransitionLabels {
    priority: Option<String>,
    timed: Option<String>,
}

impl Likeness {
    /// Takes the text of a label of the element that is open.
    pub(super) fn note(&mut self, label: Label, text: &str) -> Result<(), Problem> {
        let is_meaningless = match label {
            Label::Capacity => text.strip_prefix(TOKEN_CLASS).unwrap_or(text) == "0",
            Label::Tagged => text == "false",
            Label::Priority => {
                self.open.priority = Some(text.into());
                true
            }
            Label::Timed => {
                self.open.timed = Some(text.into());
                true
            }
            Label::Marking | Label::Weight => true,
        };
        if is_meaningless {
            return Ok(());
        }
        let (name, text) = (label.name(), shortened(text));
        Err(Problem::Unsupported(format!("<{name}> of {text:?}")))
    }

    /// Compares the transition that ends with the first one.
    pub(super) fn end_transition(&mut self) -> Result<(), Problem> {
        let ended = std::mem::take(&mut self.open);
        let Some(first) = &self.first else {
            self.first = Some(ended);
            return Ok(());
        };
        let differing = match () {
            () if first.priority != ended.priority => "their priority",
            () if first.timed != ended.timed => "whether they are timed",
            () => return Ok(()),
        };
        Err(Problem::Unsupported(format!(
            "a net whose transitions differ in {differing}"
        )))
    }
}

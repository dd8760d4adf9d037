//! From a document's names to a net.

use super::document::{Document, Node, NodeKind, RawArc};
use super::error::{PnmlError, Problem};
use crate::net::{Arc, Net, NetPlace, Transition};
use std::collections::HashMap;

/// What an id stands for in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReferenceTarget {
    Place(usize),
    Transition(usize),
}

impl ReferenceTarget {
    fn kind(self) -> &'static str {
        match self {
            Self::Place(_) => "a place",
            Self::Transition(_) => "a transition",
        }
    }
}

pub(super) fn net(document: Document) -> Result<Net, PnmlError> {
    check_ids(&document)?;
    let targets = targets(&document.nodes)?;
    let mut places = Vec::new();
    let mut transitions = Vec::new();
    for node in &document.nodes {
        let id = node.id.clone();
        match node.kind {
            NodeKind::Place { initial } => places.push(NetPlace { id, initial }),
            NodeKind::Transition => transitions.push(Transition {
                id,
                takes: Vec::new(),
                puts: Vec::new(),
            }),
            _ => {}
        }
    }
    for arc in &document.arcs {
        add_arc(arc, &targets, &mut transitions)?;
    }
    for (transition, lines) in transitions.iter_mut().zip(lines_of_transitions(&document)) {
        join_parallel(&mut transition.takes, lines)?;
        join_parallel(&mut transition.puts, lines)?;
    }
    // Arcs are in order and have weights by now, and places are resolved.
    let unexpected = |error: crate::net::NetError| PnmlError {
        line: 1,
        problem: Problem::Unsupported(error.to_string()),
    };
    Net::new(document.name, places, transitions).map_err(unexpected)
}

fn lines_of_transitions(document: &Document) -> impl Iterator<Item = u64> + '_ {
    let transitions = document.nodes.iter();
    let transitions = transitions.filter(|node| matches!(node.kind, NodeKind::Transition));
    transitions.map(|node| node.line)
}

/// Ids are unique among all objects of a document.
fn check_ids(document: &Document) -> Result<(), PnmlError> {
    let nodes = document.nodes.iter().map(|node| (&node.id, node.line));
    let arcs = document.arcs.iter();
    let arcs = arcs.filter_map(|arc| arc.id.as_ref().map(|id| (id, arc.line)));
    let pages = document.pages.iter().map(|(id, line)| (id, *line));
    let mut seen: HashMap<&str, u64> = HashMap::with_capacity(document.nodes.len());
    for (id, line) in nodes.chain(arcs).chain(pages) {
        if let Some(other) = seen.insert(id, line) {
            return Err(PnmlError {
                line: line.max(other),
                problem: Problem::DuplicateId {
                    id: id.clone(),
                    first: line.min(other),
                },
            });
        }
    }
    Ok(())
}

/// Every node's id with its place or transition; references are followed to their end.
fn targets(nodes: &[Node]) -> Result<HashMap<&str, ReferenceTarget>, PnmlError> {
    let by_id: HashMap<&str, &Node> = nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let mut targets = HashMap::with_capacity(nodes.len());
    let (mut places, mut transitions) = (0, 0);
    for node in nodes {
        match node.kind {
            NodeKind::Place { .. } => {
                targets.insert(node.id.as_str(), ReferenceTarget::Place(places));
                places += 1;
            }
            NodeKind::Transition => {
                targets.insert(node.id.as_str(), ReferenceTarget::Transition(transitions));
                transitions += 1;
            }
            _ => {}
        }
    }
    let mut chain = Vec::new();
    for node in nodes {
        follow(node, &by_id, &mut targets, &mut chain)?;
    }
    Ok(targets)
}

/// Gives every reference on the way from `node` its target. Each is passed once over all calls.
fn follow<'a>(
    node: &'a Node,
    by_id: &HashMap<&'a str, &'a Node>,
    targets: &mut HashMap<&'a str, ReferenceTarget>,
    chain: &mut Vec<&'a Node>,
) -> Result<(), PnmlError> {
    chain.clear();
    let mut at = node;
    let target = loop {
        if let Some(&target) = targets.get(at.id.as_str()) {
            break target;
        }
        // A chain longer than all nodes passes one twice.
        if chain.len() >= by_id.len() {
            return Err(PnmlError {
                line: node.line,
                problem: Problem::ReferenceCircle(node.id.clone()),
            });
        }
        chain.push(at);
        let (NodeKind::ReferencePlace { to } | NodeKind::ReferenceTransition { to }) = &at.kind
        else {
            unreachable!("places and transitions have their targets already");
        };
        at = by_id.get(to.as_str()).ok_or_else(|| PnmlError {
            line: at.line,
            problem: Problem::NoSuchNode {
                subject: "a reference",
                id: to.clone(),
            },
        })?;
    };
    for reference in chain.drain(..) {
        let fits = match reference.kind {
            NodeKind::ReferencePlace { .. } => matches!(target, ReferenceTarget::Place(_)),
            _ => matches!(target, ReferenceTarget::Transition(_)),
        };
        if !fits {
            return Err(PnmlError {
                line: reference.line,
                problem: Problem::WrongReference(reference.id.clone()),
            });
        }
        targets.insert(reference.id.as_str(), target);
    }
    Ok(())
}

fn add_arc(
    arc: &RawArc,
    targets: &HashMap<&str, ReferenceTarget>,
    transitions: &mut [Transition],
) -> Result<(), PnmlError> {
    let at_arc = |problem| PnmlError {
        line: arc.line,
        problem,
    };
    let end = |id: &String, subject| {
        let target = targets.get(id.as_str()).copied();
        target.ok_or_else(|| {
            let id = id.clone();
            at_arc(Problem::NoSuchNode { subject, id })
        })
    };
    let source = end(&arc.source, "an arc's source")?;
    let target = end(&arc.target, "an arc's target")?;
    let weight = arc.weight;
    match (source, target) {
        (ReferenceTarget::Place(place), ReferenceTarget::Transition(transition)) => {
            transitions[transition].takes.push(Arc { place, weight });
        }
        (ReferenceTarget::Transition(transition), ReferenceTarget::Place(place)) => {
            transitions[transition].puts.push(Arc { place, weight });
        }
        _ => return Err(at_arc(Problem::SameKind(source.kind()))),
    }
    Ok(())
}

/// Sorts a transition's arcs; the weights of parallel ones add up.
fn join_parallel(arcs: &mut Vec<Arc>, line: u64) -> Result<(), PnmlError> {
    arcs.sort_by_key(|arc| arc.place);
    let mut overflow = None;
    arcs.dedup_by(|next, kept| {
        let same = next.place == kept.place;
        if same {
            match kept.weight.checked_add(next.weight) {
                Some(sum) => kept.weight = sum,
                None => overflow = Some(u64::from(kept.weight) + u64::from(next.weight)),
            }
        }
        same
    });
    match overflow {
        None => Ok(()),
        Some(sum) => Err(PnmlError {
            line,
            problem: Problem::TooLarge {
                subject: "weight of parallel arcs",
                text: sum.to_string(),
            },
        }),
    }
}

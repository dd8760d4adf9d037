//! Markings by their distance from the initial one, and a shortest path to one that violates a
//! condition.
//!
//! Saturation does not tell how far a marking is. Layers do: layer 0 has the initial marking, layer
//! d + 1 all markings that one firing leads to from layer d, and that are in no layer before. The
//! path is found backwards from a marking of the last layer, one marking at a time: one of those
//! from which a firing leads to it is in the layer before.

use super::nodes::{EMPTY, END, Halt};
use super::saturate::{LevelEffect, Saturation};
use super::search::ViolationSearch;
use crate::error::ExploreError;
use crate::explicit::Progress;

/// A transition by its number, and the tokens at each level that it leads to.
pub(super) type Firing = (Option<usize>, Vec<u32>);

/// What going layer by layer has found.
#[derive(Debug)]
pub(super) struct Layered {
    /// The diagram of all markings of all layers.
    pub(super) all: u32,
    /// A shortest path to the violation, from the initial marking on.
    pub(super) path: Option<Vec<Firing>>,
}

/// Goes on until a layer has a violation, or there are no more markings. The diagrams of `kept`
/// stay.
pub(super) fn explore(
    saturation: &mut Saturation<'_>,
    search: &mut ViolationSearch,
    kept: u32,
    progress: &Progress,
) -> Result<Layered, Halt> {
    let mut last = END;
    for tokens in saturation.initial().into_iter().rev() {
        last = saturation.nodes_mut().make(&[(tokens, last)])?;
    }
    let mut all = last;
    let mut layers = Vec::new();
    while last != EMPTY {
        progress.at_level(layers.len() as u64, saturation.bytes());
        layers.push(last);
        if let Some(violation) = search.find(saturation.nodes(), last)? {
            let path = Some(path_to(saturation, &layers, violation));
            return Ok(Layered { all, path });
        }
        let mut next = EMPTY;
        for transition in 0..saturation.effects().len() {
            let roots = |next| layers.iter().copied().chain([all, next, kept]);
            let with = |saturation: &mut Saturation<'_>| {
                let fired = saturation.fire_once(transition as u32, 0, last, 0)?;
                let nodes = saturation.nodes_mut();
                let new = nodes.difference(fired, all)?;
                nodes.union(next, new, 0)
            };
            let mut more = with(saturation);
            if let Err(Halt::Failed(ExploreError::OutOfMemory { .. })) = more {
                // Most of it may be garbage.
                let nodes = saturation.nodes_mut();
                nodes.give_up();
                nodes.collect(&roots(next).collect::<Vec<_>>())?;
                more = with(saturation);
            }
            next = more?;
            if saturation.nodes().is_due() {
                let roots: Vec<u32> = roots(next).collect();
                saturation.nodes_mut().collect(&roots)?;
            }
        }
        all = saturation.nodes_mut().union(all, next, 0)?;
        last = next;
    }
    Ok(Layered { all, path: None })
}

/// A path of one firing a layer to a marking of the last one.
fn path_to(saturation: &Saturation<'_>, layers: &[u32], violation: Vec<u32>) -> Vec<Firing> {
    let mut backwards = Vec::new();
    let mut marking = violation;
    for &layer in layers.iter().rev().skip(1) {
        let transitions = saturation.effects().iter().enumerate();
        let mut before = transitions.filter_map(|(transition, effects)| {
            let before = |effect: &LevelEffect| {
                let value = i64::from(marking[effect.level]) - effect.change;
                let value = u32::try_from(value).ok();
                value.filter(|value| effect.allows(*value))
            };
            let tokens: Option<Vec<u32>> = effects.iter().map(before).collect();
            let mut before = marking.clone();
            for (effect, tokens) in effects.iter().zip(tokens?) {
                before[effect.level] = tokens;
            }
            let is_there = saturation.nodes().contains(layer, &before);
            is_there.then_some((transition, before))
        });
        // Each marking of a layer but the first one comes from the layer before.
        let Some((transition, before)) = before.next() else {
            break;
        };
        backwards.push((Some(transition), std::mem::replace(&mut marking, before)));
    }
    backwards.push((None, marking));
    backwards.reverse();
    backwards
}

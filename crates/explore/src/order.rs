//! An order of a net's places, or variables, in which those of a transition are near each other.
//!
//! FORCE (Aloul, Markov and Sakallah, GLSVLSI 2003): every transition pulls its places towards
//! their centre of gravity, until the order settles. It finds local minima, so it starts from
//! several orders, of which the result with the smallest sum of spans is taken.

use crate::net::Net;
use crate::variables::Variables;
use std::collections::VecDeque;

/// Rounds from one start, at most, and rounds without gain after which it ends.
const ROUNDS: usize = 200;
const PATIENCE: usize = 12;
/// Place visits of all rounds together, at most: a bound on the time for large nets.
const MOST_VISITS: usize = 50_000_000;

/// The places of a net in one order that is likely good.
#[must_use]
pub fn places_in_order(net: &Net) -> Vec<usize> {
    orders(net, &Variables::single(net)).swap_remove(0)
}

/// Several orders of a net's variables, different from each other, the likely best first. Which one
/// is best for decision diagrams only trying them tells.
pub(crate) fn orders(net: &Net, variables: &Variables) -> Vec<Vec<usize>> {
    let mut visits_left = MOST_VISITS;
    let mut as_written: Vec<usize> = (0..variables.len()).collect();
    as_written.sort_by_key(|&variable| variables.places(variable)[0]);
    let mut orders: Vec<Vec<usize>> = Vec::new();
    // Places that change together belong together, more than those that a transition only looks at.
    for only_changed in [true, false] {
        let edges = edges(net, variables, only_changed);
        let of_place = edges_of_places(&edges, variables.len());
        let walked = breadth_first(&edges, &of_place, 0);
        // From the place that is farthest from the first one, as Cuthill and McKee start.
        let far = walked.last().copied().unwrap_or_default();
        let from_far = breadth_first(&edges, &of_place, far);
        let deep = depth_first(&edges, &of_place, far);
        let starts = [as_written.clone(), walked, from_far, deep];
        let settled = starts.into_iter();
        let settled = settled.map(|start| settle(start, &edges, &of_place, &mut visits_left));
        let best = settled.min_by_key(|(cost, _)| *cost);
        let (_, order) = best.unwrap_or_default();
        orders.extend(both_ways(order, &edges));
    }
    orders.extend(both_ways(as_written, &edges(net, variables, false)));
    let mut distinct: Vec<Vec<usize>> = Vec::new();
    for order in orders {
        if !distinct.contains(&order) {
            distinct.push(order);
        }
    }
    distinct
}

/// The variables of each transition, or those that it changes.
fn edges(net: &Net, variables: &Variables, only_changed: bool) -> Vec<Vec<usize>> {
    let places = net.transitions().iter().map(|transition| {
        let effects = variables.effects(transition).into_iter();
        let effects = effects.filter(|effect| !only_changed || effect.change != 0);
        effects.map(|effect| effect.variable).collect::<Vec<_>>()
    });
    places.filter(|places| places.len() > 1).collect()
}

fn edges_of_places(edges: &[Vec<usize>], places: usize) -> Vec<Vec<usize>> {
    let mut of_place = vec![Vec::new(); places];
    for (number, edge) in edges.iter().enumerate() {
        for &place in edge {
            of_place[place].push(number);
        }
    }
    of_place
}

fn positions(order: &[usize]) -> Vec<usize> {
    let mut positions = vec![0; order.len()];
    for (position, &place) in order.iter().enumerate() {
        positions[place] = position;
    }
    positions
}

/// The sum over all transitions of the distance between their first and last place.
fn cost(edges: &[Vec<usize>], positions: &[usize]) -> u64 {
    let span = |edge: &Vec<usize>| {
        let places = edge.iter().map(|&place| positions[place]);
        let (least, most) = (places.clone().min(), places.max());
        (most.unwrap_or_default() - least.unwrap_or_default()) as u64
    };
    edges.iter().map(span).sum()
}

fn settle(
    start: Vec<usize>,
    edges: &[Vec<usize>],
    of_place: &[Vec<usize>],
    visits_left: &mut usize,
) -> (u64, Vec<usize>) {
    let visits: usize = of_place.iter().map(Vec::len).sum::<usize>() * 2;
    let mut order = start;
    let mut best = (cost(edges, &positions(&order)), order.clone());
    let mut without_gain = 0;
    for _ in 0..ROUNDS {
        if without_gain >= PATIENCE || *visits_left < visits {
            break;
        }
        *visits_left -= visits;
        let places = positions(&order);
        let centre = |edge: &Vec<usize>| {
            let sum: usize = edge.iter().map(|&place| places[place]).sum();
            sum as f64 / edge.len() as f64
        };
        let centres: Vec<f64> = edges.iter().map(centre).collect();
        let pulled = |place: usize| {
            let near = &of_place[place];
            let sum: f64 = near.iter().map(|&edge| centres[edge]).sum();
            if near.is_empty() {
                places[place] as f64
            } else {
                sum / near.len() as f64
            }
        };
        let mut moved: Vec<(f64, usize)> =
            order.iter().map(|&place| (pulled(place), place)).collect();
        moved.sort_by(|one, two| one.0.total_cmp(&two.0));
        order = moved.into_iter().map(|(_, place)| place).collect();
        let now = cost(edges, &positions(&order));
        without_gain += 1;
        if now < best.0 {
            best = (now, order.clone());
            without_gain = 0;
        }
    }
    best
}

/// An order and its reverse; first the one whose transitions begin deeper: in a decision diagram
/// they then work on smaller parts.
fn both_ways(order: Vec<usize>, edges: &[Vec<usize>]) -> [Vec<usize>; 2] {
    let places = positions(&order);
    let last = order.len().saturating_sub(1);
    let (mut tops, mut reversed) = (0, 0);
    for edge in edges {
        let at = edge.iter().map(|&place| places[place]);
        tops += at.clone().min().unwrap_or_default();
        reversed += last - at.max().unwrap_or_default();
    }
    let backwards = order.iter().rev().copied().collect();
    if reversed > tops {
        return [backwards, order];
    }
    [order, backwards]
}

/// All places, those joined by transitions before those farther away.
fn breadth_first(edges: &[Vec<usize>], of_place: &[Vec<usize>], start: usize) -> Vec<usize> {
    let mut visited = VisitedPlaces::new(edges.len(), of_place.len());
    let mut order = Vec::with_capacity(of_place.len());
    for root in std::iter::once(start).chain(0..of_place.len()) {
        let mut waiting: VecDeque<usize> = visited.place(root).into_iter().collect();
        while let Some(place) = waiting.pop_front() {
            order.push(place);
            for &edge in &of_place[place] {
                waiting.extend(visited.edge(edge, edges));
            }
        }
    }
    order
}

/// All places, along paths.
fn depth_first(edges: &[Vec<usize>], of_place: &[Vec<usize>], start: usize) -> Vec<usize> {
    let mut visited = VisitedPlaces::new(edges.len(), of_place.len());
    let mut order = Vec::with_capacity(of_place.len());
    for root in std::iter::once(start).chain(0..of_place.len()) {
        let mut waiting: Vec<usize> = visited.place(root).into_iter().collect();
        while let Some(place) = waiting.pop() {
            order.push(place);
            for &edge in &of_place[place] {
                waiting.extend(visited.edge(edge, edges));
            }
        }
    }
    order
}

/// Which places and transitions a walk has passed.
struct VisitedPlaces {
    edges: Vec<bool>,
    places: Vec<bool>,
}

impl VisitedPlaces {
    fn new(edges: usize, places: usize) -> Self {
        Self {
            edges: vec![false; edges],
            places: vec![false; places],
        }
    }

    /// The place, if it is there and new.
    fn place(&mut self, place: usize) -> Option<usize> {
        let visited = self.places.get_mut(place)?;
        (!std::mem::replace(visited, true)).then_some(place)
    }

    /// The new places of a transition, which is passed once.
    fn edge(&mut self, edge: usize, edges: &[Vec<usize>]) -> Vec<usize> {
        if std::mem::replace(&mut self.edges[edge], true) {
            return Vec::new();
        }
        let places = edges[edge].iter();
        places.filter_map(|&place| self.place(place)).collect()
    }
}

//! Cycles of a graph.

use std::collections::{BTreeMap, VecDeque};

/// A shortest cycle through some node of a strongly connected component; nothing if there is no
/// cycle.
pub(super) fn shortest_cycle<T>(out: &[BTreeMap<usize, T>]) -> Option<Vec<usize>> {
    let component = component_with_cycle(out)?;
    let mut inside = vec![false; out.len()];
    component.iter().for_each(|node| inside[*node] = true);
    // One search for each node would take a time in the square of a large component.
    const MOST_SEARCHES: usize = 256;
    component
        .iter()
        .take(MOST_SEARCHES)
        .filter_map(|start| cycle_through(out, &inside, *start))
        .min_by_key(Vec::len)
}

fn cycle_through<T>(
    out: &[BTreeMap<usize, T>],
    inside: &[bool],
    start: usize,
) -> Option<Vec<usize>> {
    let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for next in out[node].keys().copied().filter(|next| inside[*next]) {
            if next == start {
                let mut cycle = vec![node];
                while let Some(before) = came_from.get(cycle.last()?) {
                    cycle.push(*before);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if next != start && !came_from.contains_key(&next) {
                came_from.insert(next, node);
                queue.push_back(next);
            }
        }
    }
    None
}

/// The first strongly connected component of several nodes: Tarjan's algorithm, with a stack of its
/// own in place of recursion.
fn component_with_cycle<T>(out: &[BTreeMap<usize, T>]) -> Option<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let mut number = vec![NEW; out.len()];
    let mut low = vec![0; out.len()];
    let mut on_stack = vec![false; out.len()];
    let (mut stack, mut count) = (Vec::new(), 0);
    for root in 0..out.len() {
        if number[root] != NEW {
            continue;
        }
        let mut path = vec![(root, out[root].keys())];
        number[root] = count;
        low[root] = count;
        count += 1;
        stack.push(root);
        on_stack[root] = true;
        while let Some((node, rest)) = path.last_mut() {
            let node = *node;
            match rest.next() {
                Some(next) if number[*next] == NEW => {
                    number[*next] = count;
                    low[*next] = count;
                    count += 1;
                    stack.push(*next);
                    on_stack[*next] = true;
                    path.push((*next, out[*next].keys()));
                }
                Some(next) if on_stack[*next] => low[node] = low[node].min(number[*next]),
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((parent, _)) = path.last() {
                        low[*parent] = low[*parent].min(low[node]);
                    }
                    if low[node] == number[node] {
                        let at = stack.iter().rposition(|other| *other == node)?;
                        let component = stack.split_off(at);
                        component
                            .iter()
                            .for_each(|member| on_stack[*member] = false);
                        if component.len() > 1 {
                            return Some(component);
                        }
                    }
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn graph(nodes: usize, edges: &[(usize, usize)]) -> Vec<BTreeMap<usize, ()>> {
        let mut out = vec![BTreeMap::new(); nodes];
        for (from, to) in edges {
            if from != to {
                out[*from].insert(*to, ());
            }
        }
        out
    }

    /// Whether nodes without predecessors can be taken away until none is left.
    fn is_acyclic(out: &[BTreeMap<usize, ()>]) -> bool {
        let mut left: Vec<usize> = (0..out.len()).collect();
        loop {
            let free = left
                .iter()
                .position(|node| left.iter().all(|from| !out[*from].contains_key(node)));
            match free {
                Some(at) => left.swap_remove(at),
                None => return left.is_empty(),
            };
        }
    }

    proptest! {
        #[test]
        fn finds_a_cycle_where_there_is_one(
            nodes in 1_usize..9,
            edges in proptest::collection::vec((0_usize..9, 0_usize..9), 0..20),
        ) {
            let edges: Vec<_> = edges.iter().map(|(from, to)| (from % nodes, to % nodes)).collect();
            let out = graph(nodes, &edges);
            match shortest_cycle(&out) {
                None => prop_assert!(is_acyclic(&out)),
                Some(cycle) => {
                    let next = cycle.iter().cycle().skip(1);
                    for (from, to) in cycle.iter().zip(next) {
                        prop_assert!(out[*from].contains_key(to), "{cycle:?}");
                    }
                }
            }
        }
    }
}

//! Edges between nodes alone, for formats whose groups have no way in or out of their own.

use crate::graph::{Graph, Spot, Way};
use std::collections::BTreeSet;

/// An edge whose ends are nodes, or groups with nothing in them that the edge could lead to.
pub(crate) struct Flat<'g> {
    pub(crate) from: Spot,
    pub(crate) to: Spot,
    pub(crate) kind: Way,
    pub(crate) label: Option<&'g str>,
}

/// All edges, those at groups led on to the nodes where the group's own edges begin and end.
pub(crate) fn edges(graph: &Graph) -> Vec<Flat<'_>> {
    let mut flat = Vec::new();
    let mut seen = BTreeSet::new();
    for edge in graph.edges.iter().filter(|edge| !is_port(graph, edge.from, edge.to)) {
        // Errors come from anywhere in a group, so these edges keep it as their start.
        let from = if edge.kind == Way::Next { inner(graph, edge.from, false) } else { vec![edge.from] };
        for from in from {
            for to in inner(graph, edge.to, true) {
                if seen.insert((from, to, edge.kind)) {
                    flat.push(Flat { from, to, kind: edge.kind, label: edge.label.as_deref() });
                }
            }
        }
    }
    flat
}

/// True if one end is the group that holds the other.
fn is_port(graph: &Graph, from: Spot, to: Spot) -> bool {
    let holds = |outer: Spot, inner: Spot| matches!(outer, Spot::Group(id) if graph.home(inner) == Some(id));
    holds(from, to) || holds(to, from)
}

/// The nodes at which a group is entered, or left.
fn inner(graph: &Graph, spot: Spot, entered: bool) -> Vec<Spot> {
    let Spot::Group(id) = spot else { return vec![spot] };
    let ends = graph.edges.iter().filter_map(|edge| match entered {
        true => (edge.from == spot && graph.home(edge.to) == Some(id)).then_some(edge.to),
        false => (edge.to == spot && graph.home(edge.from) == Some(id)).then_some(edge.from),
    });
    let found: Vec<Spot> = ends.flat_map(|end| inner(graph, end, entered)).collect();
    if found.is_empty() { vec![spot] } else { found }
}

//! Two versions of a definition in one graph: the newer one, with what is gone put back in and marked.
//!
//! Which step is which is said by [`machine::version::diff`]; what has no step of its own (joins, handlers, ends) goes by
//! its path, which is its id without positions.

use crate::{
    flow,
    graph::{Edge, Graph, GroupId, Spot},
    overlay::{Change, Mark, Overlay},
};
use machine::{ir, version};
use std::collections::{BTreeMap, BTreeSet};

/// The graph of both versions, and what changed between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub graph: Graph,
    pub overlay: Overlay,
}

/// What changed from `old` to `new`, as a graph.
pub fn diff(old: &ir::Workflow, new: &ir::Workflow) -> Difference {
    let before = flow::graph(old);
    let mut union = Union { graph: flow::graph(new), overlay: Overlay::default(), spots: BTreeMap::new() };
    let steps = version::diff(old, new).steps;
    union.pair(&before, &steps);
    union.mark(&steps);
    union.put_back(&before);
    union.edges(&before);
    Difference { graph: union.graph, overlay: union.overlay }
}

struct Union {
    graph: Graph,
    overlay: Overlay,
    /// What each node and group of the older version is here.
    spots: BTreeMap<Spot, Spot>,
}

impl Union {
    /// Finds what is there in both.
    fn pair(&mut self, before: &Graph, steps: &[version::StepChange]) {
        let here: BTreeMap<String, Spot> =
            spots(&self.graph).into_iter().map(|spot| (path(self.graph.id(spot)), spot)).collect();
        let moved: BTreeMap<&str, &str> =
            steps.iter().filter_map(|step| Some((step.from.as_deref()?, step.to.as_deref()?))).collect();
        let gone: BTreeSet<&str> =
            steps.iter().filter(|step| step.to.is_none()).filter_map(|step| step.from.as_deref()).collect();
        for spot in spots(before) {
            let id = before.id(spot);
            let target = moved.get(id).copied().unwrap_or(id);
            let found = here.get(&path(target)).filter(|_| !gone.contains(id));
            // A step that has become a group, or the other way round, is another one to look at.
            let same = |other: &&Spot| matches!(spot, Spot::Node(_)) == matches!(other, Spot::Node(_));
            if let Some(found) = found.filter(same) {
                self.spots.insert(spot, *found);
            }
        }
    }

    fn mark(&mut self, steps: &[version::StepChange]) {
        for step in steps {
            let Some(to) = &step.to else { continue };
            let change = if step.from.is_none() { Change::Added } else { Change::Changed };
            let members: Vec<&str> = step.changes.iter().map(|change| change.what.as_str()).collect();
            let note = match (step.change, members.is_empty()) {
                ("added", _) => None,
                (word, true) => Some(word.to_owned()),
                (word, false) => Some(format!("{word}: {}", members.join(", "))),
            };
            *self.overlay.entry(to) = Mark { change: Some(change), note, ..Mark::default() };
        }
    }

    /// Puts back what is gone, where it was.
    fn put_back(&mut self, before: &Graph) {
        let mut order: Vec<(usize, Spot)> =
            spots(before).into_iter().map(|spot| (rank(before, spot), spot)).collect();
        order.sort();
        let mut last = 0;
        for (_, spot) in order {
            if let Some(found) = self.spots.get(&spot) {
                last = last.max(rank(&self.graph, *found).min(rank_max(&self.graph)));
                continue;
            }
            let group: Option<GroupId> = before.home(spot).and_then(|home| self.group(Spot::Group(home)));
            let id = format!("removed:{}", before.id(spot));
            let put = match spot {
                Spot::Node(node) => {
                    let node = before.nodes[node].clone();
                    self.graph.nodes.push(crate::Node {
                        id: id.clone(),
                        step: None,
                        group,
                        rank: last,
                        ..node
                    });
                    Spot::Node(self.graph.nodes.len() - 1)
                }
                Spot::Group(inner) => {
                    let inner = before.groups[inner].clone();
                    self.graph.groups.push(crate::Group {
                        id: id.clone(),
                        step: None,
                        group,
                        rank: last,
                        ..inner
                    });
                    Spot::Group(self.graph.groups.len() - 1)
                }
            };
            self.overlay.entry(&id).change = Some(Change::Removed);
            self.spots.insert(spot, put);
        }
    }

    fn group(&self, spot: Spot) -> Option<GroupId> {
        match self.spots.get(&spot) {
            Some(Spot::Group(group)) => Some(*group),
            _ => None,
        }
    }

    /// Puts back edges that are gone, and marks these and the new ones.
    fn edges(&mut self, before: &Graph) {
        let mut old: BTreeSet<(Spot, Spot)> = BTreeSet::new();
        let here: BTreeSet<(Spot, Spot)> = self.graph.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        let mut gone: Vec<Edge> = Vec::new();
        for edge in &before.edges {
            let (Some(from), Some(to)) = (self.spots.get(&edge.from), self.spots.get(&edge.to)) else {
                continue;
            };
            old.insert((*from, *to));
            if !here.contains(&(*from, *to)) {
                gone.push(Edge { from: *from, to: *to, ..edge.clone() });
            }
        }
        let ends = |edge: &Edge| (self.graph.id(edge.from).to_owned(), self.graph.id(edge.to).to_owned());
        let added = self.graph.edges.iter().filter(|edge| !old.contains(&(edge.from, edge.to)));
        let added: Vec<_> = added.map(|edge| (ends(edge), Change::Added)).collect();
        let removed: Vec<_> = gone.iter().map(|edge| (ends(edge), Change::Removed)).collect();
        self.overlay.edges.extend(added.into_iter().chain(removed));
        self.graph.edges.extend(gone);
    }
}

fn spots(graph: &Graph) -> Vec<Spot> {
    let nodes = (0..graph.nodes.len()).map(Spot::Node);
    nodes.chain((0..graph.groups.len()).map(Spot::Group)).collect()
}

fn rank(graph: &Graph, spot: Spot) -> usize {
    match spot {
        Spot::Node(id) => graph.nodes[id].rank,
        Spot::Group(id) => graph.groups[id].rank,
    }
}

/// The last place in the document; ends inside of groups come after it.
fn rank_max(graph: &Graph) -> usize {
    graph.nodes.len() + graph.groups.len()
}

/// An id without positions: `/do/0/a/try/1/b` becomes `/do/a/try/b`.
fn path(id: &str) -> String {
    let mut path = String::new();
    let mut segments = id.split('/');
    path.push_str(segments.next().unwrap_or_default());
    while let Some(segment) = segments.next() {
        // After a position comes a name, which may look like a number.
        let kept = match segment.bytes().all(|byte| byte.is_ascii_digit()) {
            true => segments.next().unwrap_or_default(),
            false => segment,
        };
        path.push('/');
        path.push_str(kept);
    }
    path
}

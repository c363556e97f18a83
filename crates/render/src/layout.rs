//! A place for everything: groups from the inside out, each as one layered graph (Sugiyama's method).
//!
//! [`layout`] is the way in. It is a pure function over whole numbers: the same graph has the same drawing everywhere.
//! Inner groups are laid out first and are items with a size after that, so that nothing of the outside can run through
//! them. Two axes are used until the end: *along* the flow and *across* it.

mod cycle;
mod draw;
mod grid;
mod layer;
mod level;
mod order;
mod place;
mod route;
pub(crate) mod size;
#[cfg(test)]
mod tests;

use crate::{
    drawing::{Drawing, Point},
    graph::{Graph, GroupId, Spot, Way},
};
use level::{Item, Level, Link, Pin};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which way the flow goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    #[default]
    LeftRight,
    TopBottom,
}

/// How long to look for an order with few crossings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    Draft,
    #[default]
    Balanced,
    Best,
}

/// How a graph is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub direction: Direction,
    pub effort: Effort,
}

/// Around the whole drawing.
const MARGIN: i32 = 16;
/// Between a group's border and what is in it.
const PADDING: i32 = 10;
/// Height of a group's header.
const HEADER: i32 = 24;
/// Between a group's header and its border, and a line that passes the header.
const HEADER_MARGIN: i32 = 8;
/// From a group's far corner to where its errors leave it.
const SIDE: i32 = 12;

/// Lays a graph out.
pub fn layout(graph: &Graph, options: &Options) -> Drawing {
    let mut layout = Layout::new(graph, options);
    let mut order: Vec<GroupId> = (0..graph.groups.len()).collect();
    order.sort_by_key(|group| std::cmp::Reverse(graph.path(Spot::Group(*group)).len()));
    for group in order {
        layout.arranged[group] = layout.arrange(Some(group));
    }
    let root = layout.arrange(None);
    layout.draw(&root)
}

/// One group's inside, in its own coordinates.
#[derive(Clone, Debug, Default)]
struct Arranged {
    placed: level::Placed,
    /// By item of the level; none for the group's way in and out.
    spots: Vec<Option<Spot>>,
    /// By link of the level.
    edges: Vec<usize>,
    /// From the group's corner to the inside's.
    offset: Point,
    /// Size of the group.
    along: i32,
    across: i32,
    /// Where the flow comes in and goes out, across.
    entry: i32,
    exit: i32,
    /// Where the header begins: from the group's corner.
    header: Point,
}

struct Layout<'g> {
    graph: &'g Graph,
    options: Options,
    /// Where each edge is drawn, and its ends there; none is the group's own way in or out.
    levels: Vec<(Option<GroupId>, Option<Spot>, Option<Spot>)>,
    /// The edges of each level; the last is the root.
    edges: Vec<Vec<usize>>,
    /// Groups whose way in goes on inside.
    opens: Vec<bool>,
    members: Vec<Vec<Spot>>,
    sizes: Vec<Point>,
    titles: Vec<(String, i32)>,
    arranged: Vec<Arranged>,
}

impl<'g> Layout<'g> {
    fn new(graph: &'g Graph, options: &Options) -> Layout<'g> {
        // The last list is that of the root.
        let mut members: Vec<Vec<(usize, Spot)>> = vec![Vec::new(); graph.groups.len() + 1];
        let root = graph.groups.len();
        for (id, node) in graph.nodes.iter().enumerate() {
            members[node.group.unwrap_or(root)].push((node.rank, Spot::Node(id)));
        }
        for (id, group) in graph.groups.iter().enumerate() {
            members[group.group.unwrap_or(root)].push((group.rank, Spot::Group(id)));
        }
        members.iter_mut().for_each(|members| members.sort());
        let members = members.into_iter().map(|list| list.into_iter().map(|(_, spot)| spot).collect());
        let levels: Vec<_> = graph.edges.iter().map(|edge| level_of(graph, edge.from, edge.to)).collect();
        let (mut edges, mut opens) = (vec![Vec::new(); root + 1], vec![false; root]);
        for (edge, (level, from, _)) in levels.iter().enumerate() {
            edges[level.unwrap_or(root)].push(edge);
            if let (Some(group), None) = (level, from) {
                opens[*group] = true;
            }
        }
        Layout {
            graph,
            options: *options,
            levels,
            edges,
            opens,
            members: members.collect(),
            sizes: graph.nodes.iter().map(size::node).collect(),
            titles: graph.groups.iter().map(size::header).collect(),
            arranged: vec![Arranged::default(); graph.groups.len()],
        }
    }

    /// Width and height as along and across, or the other way round.
    fn turned(&self, (x, y): Point) -> Point {
        match self.options.direction {
            Direction::LeftRight => (x, y),
            Direction::TopBottom => (y, x),
        }
    }

    fn item(&self, spot: Spot) -> Item {
        match spot {
            Spot::Node(id) => {
                let (along, across) = self.turned(self.sizes[id]);
                let before = across / 2;
                Item { along, before, after: across - before, side: across / 4, ..Item::default() }
            }
            Spot::Group(id) => {
                let inner = &self.arranged[id];
                let (before, after) = (inner.entry, inner.across - inner.entry);
                // Errors leave at the far corner, away from where the flow goes on.
                let side = match (after - SIDE) - (inner.exit - inner.entry) {
                    room if room >= SIDE => after - SIDE,
                    _ => SIDE - before,
                };
                Item {
                    along: inner.along,
                    before,
                    after,
                    exit: inner.exit - inner.entry,
                    side,
                    pin: Pin::Free,
                }
            }
        }
    }

    /// Lays out what is in a group, or at the top.
    fn arrange(&self, group: Option<GroupId>) -> Arranged {
        let at = group.unwrap_or(self.graph.groups.len());
        let (members, here) = (&self.members[at], self.edges[at].clone());
        let starts = here.iter().any(|edge| self.levels[*edge].1.is_none());
        let ends = here.iter().any(|edge| self.levels[*edge].2.is_none());
        let port = |pin: Pin| Item { before: 3, after: 3, pin, ..Item::default() };
        let mut level = Level::default();
        let mut spots = Vec::new();
        if starts {
            level.items.push(port(Pin::In));
            spots.push(None);
        }
        for spot in members {
            level.items.push(self.item(*spot));
            spots.push(Some(*spot));
        }
        if ends {
            level.items.push(port(Pin::Out));
            spots.push(None);
        }
        let last = level.items.len().saturating_sub(1);
        let places: BTreeMap<Option<Spot>, usize> =
            spots.iter().copied().zip(0..).filter(|(spot, _)| spot.is_some()).collect();
        let index = |spot: Option<Spot>, other: usize| places.get(&spot).copied().unwrap_or(other);
        for edge in &here {
            let (_, from, to) = self.levels[*edge];
            let (kind, label) = (self.graph.edges[*edge].kind, self.graph.edges[*edge].label.as_ref());
            let label = label.map(|label| self.turned(size::label(label)));
            let side = kind != Way::Next && from.is_some();
            level.links.push(Link { from: index(from, 0), to: index(to, last), side, label });
        }
        let placed = level.place(self.options.effort);
        let border = |at: usize, there: bool| there.then(|| placed.items[at].1);
        let (entry, exit) = (border(0, starts), border(last, ends));
        self.framed(group, Arranged { spots, edges: here, placed, ..Arranged::default() }, entry, exit)
    }

    /// Puts the frame of a group around its inside.
    fn framed(
        &self,
        group: Option<GroupId>,
        mut inner: Arranged,
        entry: Option<i32>,
        exit: Option<i32>,
    ) -> Arranged {
        let Some(group) = group else {
            (inner.along, inner.across) = (inner.placed.along, inner.placed.across);
            return inner;
        };
        let title = self.titles[group].1;
        let (along, across) = (inner.placed.along, inner.placed.across);
        let entry = entry.unwrap_or(across / 2);
        let exit = exit.unwrap_or(entry);
        match self.options.direction {
            Direction::LeftRight => {
                let least = title + 2 * HEADER_MARGIN;
                inner.along = (along + 2 * PADDING).max(least);
                inner.across = HEADER + across + PADDING;
                inner.offset = ((inner.along - along) / 2, HEADER);
                inner.header = (HEADER_MARGIN, 0);
            }
            Direction::TopBottom => {
                inner.along = HEADER + along + PADDING;
                inner.offset = (HEADER, PADDING);
                // The line that comes in must not run through the header: it is beside it, left if there is room.
                let line = PADDING + entry;
                let left = line >= title + 2 * HEADER_MARGIN;
                let start = if left { HEADER_MARGIN } else { line + HEADER_MARGIN };
                inner.across = (across + 2 * PADDING).max(start + title + HEADER_MARGIN);
                inner.header = (0, start);
            }
        }
        inner.entry = inner.offset.1 + entry;
        inner.exit = inner.offset.1 + exit;
        inner
    }
}

/// The group in which an edge is drawn, and its ends there: what of the group holds them, or its own way in or out.
fn level_of(graph: &Graph, from: Spot, to: Spot) -> (Option<GroupId>, Option<Spot>, Option<Spot>) {
    let (above, below) = (graph.path(from), graph.path(to));
    let lifted = |spot: Spot, path: &[GroupId], depth: usize| match path.get(depth) {
        Some(group) => Spot::Group(*group),
        None => spot,
    };
    if let Spot::Group(group) = from
        && let Some(depth) = below.iter().position(|around| *around == group)
    {
        return (Some(group), None, Some(lifted(to, &below, depth + 1)));
    }
    if let Spot::Group(group) = to
        && let Some(depth) = above.iter().position(|around| *around == group)
    {
        return (Some(group), Some(lifted(from, &above, depth + 1)), None);
    }
    let shared = above.iter().zip(&below).take_while(|(above, below)| above == below).count();
    let level = shared.checked_sub(1).map(|last| above[last]);
    (level, Some(lifted(from, &above, shared)), Some(lifted(to, &below, shared)))
}

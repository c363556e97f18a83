//! A drawing as JSON, for the console: places of nodes, edges, labels and groups, and their marks.

use crate::{
    drawing::{Box, Drawing},
    graph::{Frame, Kind, Spot, Way},
    layout::{Direction, size},
    overlay::{Change, Mark, Overlay},
};
use serde::Serialize;

/// Describes a drawing and its overlay.
pub fn json(drawing: &Drawing, overlay: &Overlay) -> serde_json::Value {
    let graph = &drawing.graph;
    let page = Page {
        name: &graph.name,
        title: &graph.title,
        summary: &graph.summary,
        direction: drawing.direction,
        width: drawing.width,
        height: drawing.height,
        nodes: (0..graph.nodes.len()).map(|id| node(drawing, overlay, id)).collect(),
        edges: (0..graph.edges.len()).map(|id| edge(drawing, overlay, id)).collect(),
        groups: (0..graph.groups.len()).map(|id| group(drawing, overlay, id)).collect(),
    };
    serde_json::to_value(page).expect("a drawing is plain JSON")
}

#[derive(Serialize)]
struct Page<'d> {
    name: &'d str,
    title: &'d str,
    summary: &'d str,
    direction: Direction,
    width: i32,
    height: i32,
    nodes: Vec<Node<'d>>,
    edges: Vec<Edge<'d>>,
    groups: Vec<Group<'d>>,
}

#[derive(Serialize)]
struct Node<'d> {
    id: &'d str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'d str>,
    kind: Kind,
    name: &'d str,
    /// As it is written: the name, then what it does.
    lines: Vec<String>,
    #[serde(flatten)]
    place: Box,
    /// Groups around it, outermost first.
    path: Vec<&'d str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<&'d Mark>,
}

#[derive(Serialize)]
struct Edge<'d> {
    from: &'d str,
    to: &'d str,
    kind: Way,
    points: &'d [(i32, i32)],
    arrow: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<Label<'d>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Change>,
}

#[derive(Serialize)]
struct Label<'d> {
    text: &'d str,
    /// As it is written.
    line: String,
    #[serde(flatten)]
    place: Box,
}

#[derive(Serialize)]
struct Group<'d> {
    id: &'d str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'d str>,
    kind: Frame,
    name: &'d str,
    /// The header as it is written, and where.
    title: &'d str,
    header: Box,
    #[serde(flatten)]
    place: Box,
    path: Vec<&'d str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<&'d Mark>,
}

fn node<'d>(drawing: &'d Drawing, overlay: &'d Overlay, id: usize) -> Node<'d> {
    let node = &drawing.graph.nodes[id];
    let step = node.step.as_deref();
    Node {
        id: &node.id,
        step,
        kind: node.kind,
        name: &node.name,
        lines: std::iter::once(size::name(node)).chain(size::details(node)).collect(),
        place: drawing.nodes[id],
        path: drawing.path(Spot::Node(id)),
        mark: overlay.mark(&node.id, step),
    }
}

fn edge<'d>(drawing: &'d Drawing, overlay: &'d Overlay, id: usize) -> Edge<'d> {
    let (edge, line) = (&drawing.graph.edges[id], &drawing.edges[id]);
    let (from, to) = (drawing.graph.id(edge.from), drawing.graph.id(edge.to));
    let label = line.label.zip(edge.label.as_deref());
    Edge {
        from,
        to,
        kind: edge.kind,
        points: &line.points,
        arrow: line.arrow,
        label: label.map(|(place, text)| Label { text, line: size::label_text(text), place }),
        change: overlay.edges.get(&(from.to_owned(), to.to_owned())).copied(),
    }
}

fn group<'d>(drawing: &'d Drawing, overlay: &'d Overlay, id: usize) -> Group<'d> {
    let (group, placed) = (&drawing.graph.groups[id], &drawing.groups[id]);
    let step = group.step.as_deref();
    Group {
        id: &group.id,
        step,
        kind: group.kind,
        name: &group.name,
        title: &placed.title,
        header: placed.header,
        place: placed.frame,
        path: drawing.path(Spot::Group(id)),
        mark: overlay.mark(&group.id, step),
    }
}

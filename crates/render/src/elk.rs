//! A graph as JSON for the Eclipse Layout Kernel, for those who lay it out themselves.

use crate::{
    flat,
    graph::{Graph, GroupId, Spot},
    layout::{Direction, size},
};
use serde_json::{Value, json};

/// Writes a graph as ELK JSON: nodes have sizes and no places.
pub fn elk(graph: &Graph, direction: Direction) -> Value {
    let way = match direction {
        Direction::LeftRight => "RIGHT",
        Direction::TopBottom => "DOWN",
    };
    let edges = flat::edges(graph).into_iter().enumerate().map(|(at, edge)| {
        let labels: Vec<Value> = edge.label.iter().map(|text| label(text, size::label(text))).collect();
        json!({
            "id": format!("e{at}"),
            "sources": [graph.id(edge.from)],
            "targets": [graph.id(edge.to)],
            "labels": labels,
        })
    });
    json!({
        "id": graph.name,
        "layoutOptions": {
            "elk.algorithm": "layered",
            "elk.direction": way,
            "elk.edgeRouting": "ORTHOGONAL",
            "elk.hierarchyHandling": "INCLUDE_CHILDREN",
        },
        "children": children(graph, None),
        "edges": edges.collect::<Vec<_>>(),
    })
}

fn children(graph: &Graph, group: Option<GroupId>) -> Vec<Value> {
    let nodes = graph.nodes.iter().filter(|node| node.group == group).map(|node| {
        let (width, height) = size::node(node);
        json!({ "id": node.id, "width": width, "height": height, "labels": [{ "text": node.name }] })
    });
    let groups = graph.groups.iter().enumerate().filter(|(_, inner)| inner.group == group);
    let groups = groups.map(|(at, inner)| {
        json!({
            "id": graph.id(Spot::Group(at)),
            "labels": [{ "text": inner.name }],
            "children": children(graph, Some(at)),
        })
    });
    nodes.chain(groups).collect()
}

fn label(text: &str, (width, height): (i32, i32)) -> Value {
    json!({ "text": text, "width": width, "height": height })
}

//! A graph as a Mermaid flowchart, for pages that draw it themselves.

use crate::{
    flat,
    graph::{Graph, GroupId, Kind, Node, Spot, Way},
    layout::Direction,
};
use std::fmt::Write;

/// Writes a graph as a Mermaid flowchart.
pub fn mermaid(graph: &Graph, direction: Direction) -> String {
    let way = match direction {
        Direction::LeftRight => "LR",
        Direction::TopBottom => "TB",
    };
    let mut out = format!("flowchart {way}\n");
    list(graph, None, 1, &mut out);
    for edge in flat::edges(graph) {
        let arrow = if edge.kind == Way::Next { "-->" } else { "-.->" };
        let label = match (edge.label, edge.kind) {
            (Some(label), _) => format!("|{}|", quoted(label)),
            (None, Way::Undo) => "|\"undo\"|".to_owned(),
            _ => String::new(),
        };
        writeln!(out, "  {} {arrow}{label} {}", id(edge.from), id(edge.to))
            .expect("a string takes everything");
    }
    out
}

/// The nodes and groups of one group.
fn list(graph: &Graph, group: Option<GroupId>, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    for (at, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.group == group) {
        let (open, close) = shape(node);
        let text = quoted(&text(node));
        writeln!(out, "{indent}{}{open}{text}{close}", id(Spot::Node(at)))
            .expect("a string takes everything");
    }
    for (at, inner) in graph.groups.iter().enumerate().filter(|(_, inner)| inner.group == group) {
        let title: Vec<&str> =
            std::iter::once(inner.name.as_str()).chain(inner.details.iter().map(String::as_str)).collect();
        let title = quoted(&title.join(" · "));
        writeln!(out, "{indent}subgraph {}[{title}]", id(Spot::Group(at)))
            .expect("a string takes everything");
        list(graph, Some(at), depth + 1, out);
        out.push_str(&indent);
        out.push_str("end\n");
    }
}

fn id(spot: Spot) -> String {
    match spot {
        Spot::Node(id) => format!("n{id}"),
        Spot::Group(id) => format!("g{id}"),
    }
}

fn text(node: &Node) -> String {
    match node.kind {
        Kind::Start if node.details.is_empty() => "start".to_owned(),
        Kind::Start => node.details.join(", "),
        _ => std::iter::once(node.name.as_str())
            .chain(node.details.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn shape(node: &Node) -> (&'static str, &'static str) {
    match node.kind {
        Kind::Start => ("([", "])"),
        Kind::End => ("(((", ")))"),
        Kind::Switch => ("{", "}"),
        Kind::Split | Kind::Join => ("{{", "}}"),
        Kind::Child => ("[[", "]]"),
        Kind::Wait | Kind::Listen | Kind::Emit => ("([", "])"),
        Kind::Raise => ("[/", "/]"),
        _ => ("(", ")"),
    }
}

/// A text in quotes, with what Mermaid or HTML would read as something else replaced by entities of Mermaid.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\n' => out.push_str("<br/>"),
            '"' | '<' | '>' | '&' | '#' | '|' | '`' | '\\' => {
                write!(out, "#{};", u32::from(c)).expect("a string takes everything")
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

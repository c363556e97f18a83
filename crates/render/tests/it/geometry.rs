//! What must hold of every drawing: nothing overlaps, nothing runs through anything else.

use render::{Box, Drawing, GroupId, Point, Spot};

/// Everything that is wrong with a drawing.
pub(crate) fn problems(drawing: &Drawing) -> Vec<String> {
    let mut found = Vec::new();
    nodes(drawing, &mut found);
    groups(drawing, &mut found);
    labels(drawing, &mut found);
    (0..drawing.edges.len()).for_each(|edge| line(drawing, edge, &mut found));
    found
}

fn page(drawing: &Drawing) -> Box {
    Box { x: 0, y: 0, w: drawing.width, h: drawing.height }
}

fn nodes(drawing: &Drawing, found: &mut Vec<String>) {
    for (id, place) in drawing.nodes.iter().enumerate() {
        if !page(drawing).contains(*place) {
            found.push(format!("node {} is outside of the page", drawing.graph.nodes[id].id));
        }
        for (other, there) in drawing.nodes.iter().enumerate().skip(id + 1) {
            if place.overlaps(*there) {
                let (a, b) = (&drawing.graph.nodes[id].id, &drawing.graph.nodes[other].id);
                found.push(format!("nodes {a} and {b} overlap"));
            }
        }
    }
}

fn groups(drawing: &Drawing, found: &mut Vec<String>) {
    let graph = &drawing.graph;
    for (id, group) in drawing.groups.iter().enumerate() {
        let name = &graph.groups[id].id;
        if !page(drawing).contains(group.frame) || !group.frame.contains(group.header) {
            found.push(format!("group {name} or its header is outside"));
        }
        for (node, place) in drawing.nodes.iter().enumerate() {
            let inside = graph.path(Spot::Node(node)).contains(&id);
            let node = &graph.nodes[node].id;
            match inside {
                true if !group.frame.contains(*place) => found.push(format!("{node} is not in {name}")),
                true if group.header.overlaps(*place) => {
                    found.push(format!("{node} is on the header of {name}"))
                }
                false if group.frame.overlaps(*place) => found.push(format!("{node} is on {name}")),
                _ => {}
            }
        }
        for (other, there) in drawing.groups.iter().enumerate() {
            let inside = graph.path(Spot::Group(other)).contains(&id);
            let around = graph.path(Spot::Group(id)).contains(&other);
            let fits = match (inside, around || id == other) {
                (true, _) => group.frame.contains(there.frame) && !group.header.overlaps(there.frame),
                (_, true) => true,
                _ => !group.frame.overlaps(there.frame),
            };
            if !fits {
                found.push(format!("groups {name} and {} overlap", graph.groups[other].id));
            }
        }
    }
}

fn labels(drawing: &Drawing, found: &mut Vec<String>) {
    let labels: Vec<(usize, Box)> =
        drawing.edges.iter().enumerate().filter_map(|(id, edge)| Some((id, edge.label?))).collect();
    for (at, (id, label)) in labels.iter().enumerate() {
        let name = drawing.graph.edges[*id].label.as_deref().unwrap_or_default();
        if !page(drawing).contains(*label) {
            found.push(format!("label {name} is outside"));
        }
        if drawing.nodes.iter().any(|node| node.overlaps(*label)) {
            found.push(format!("label {name} is on a node"));
        }
        if labels[at + 1..].iter().any(|(_, other)| other.overlaps(*label)) {
            found.push(format!("label {name} is on another"));
        }
        for (group, placed) in drawing.groups.iter().enumerate() {
            let around = drawing.graph.path(drawing.graph.edges[*id].from).contains(&group)
                || ends(drawing, *id).contains(&Spot::Group(group));
            if placed.header.overlaps(*label) || (!around && placed.frame.overlaps(*label)) {
                found.push(format!("label {name} is on group {}", drawing.graph.groups[group].id));
            }
        }
    }
}

fn ends(drawing: &Drawing, edge: usize) -> [Spot; 2] {
    [drawing.graph.edges[edge].from, drawing.graph.edges[edge].to]
}

fn line(drawing: &Drawing, id: usize, found: &mut Vec<String>) {
    let graph = &drawing.graph;
    let name = format!("{} → {}", graph.id(graph.edges[id].from), graph.id(graph.edges[id].to));
    let points = &drawing.edges[id].points;
    if points.len() < 2 {
        return found.push(format!("{name} has no line"));
    }
    for pair in points.windows(2) {
        if pair[0].0 != pair[1].0 && pair[0].1 != pair[1].1 {
            found.push(format!("{name} is slanted"));
        }
        if !page(drawing).contains(around(pair[0], pair[1])) {
            found.push(format!("{name} leaves the page"));
        }
        for (node, place) in drawing.nodes.iter().enumerate() {
            if runs_through(pair, *place) {
                found.push(format!("{name} runs through {}", graph.nodes[node].id));
            }
        }
        for (other, edge) in drawing.edges.iter().enumerate().filter(|(other, _)| *other != id) {
            if edge.label.is_some_and(|label| runs_through(pair, label)) {
                let label = graph.edges[other].label.as_deref().unwrap_or_default();
                found.push(format!("{name} runs through the label {label}"));
            }
        }
        for (group, placed) in drawing.groups.iter().enumerate() {
            if runs_through(pair, placed.header) {
                found.push(format!("{name} runs through the header of {}", graph.groups[group].id));
            }
            if !is_inside(drawing, id, group) && runs_through(pair, placed.frame) {
                found.push(format!("{name} runs through the group {}", graph.groups[group].id));
            }
        }
    }
    for (point, spot) in [(points[0], graph.edges[id].from), (points[points.len() - 1], graph.edges[id].to)] {
        let place = match spot {
            Spot::Node(id) => drawing.nodes[id],
            Spot::Group(id) => drawing.groups[id].frame,
        };
        if !is_on_border(point, place) {
            found.push(format!("{name} does not end at the border of {}", graph.id(spot)));
        }
    }
}

/// True if an edge is drawn within a group.
fn is_inside(drawing: &Drawing, edge: usize, group: GroupId) -> bool {
    let [from, to] = ends(drawing, edge);
    let within = |spot: Spot| drawing.graph.path(spot).contains(&group);
    let itself = Spot::Group(group);
    let both = within(from) && within(to);
    both || (from == itself && within(to)) || (to == itself && within(from))
}

fn around(from: Point, to: Point) -> Box {
    let (x, y) = (from.0.min(to.0), from.1.min(to.1));
    Box { x, y, w: (from.0 - to.0).abs(), h: (from.1 - to.1).abs() }
}

/// True if a piece of a line has a point strictly inside of a box.
fn runs_through(pair: &[Point], place: Box) -> bool {
    let piece = around(pair[0], pair[1]);
    piece.x < place.right() && piece.right() > place.x && piece.y < place.bottom() && piece.bottom() > place.y
}

fn is_on_border((x, y): Point, place: Box) -> bool {
    let on_side = (x == place.x || x == place.right()) && (place.y..=place.bottom()).contains(&y);
    let on_end = (y == place.y || y == place.bottom()) && (place.x..=place.right()).contains(&x);
    on_side || on_end
}

//! Edges: lines with round corners, arrowheads, labels.

use super::{Ink, Move, Part, Shape, rectangle};
use crate::{
    drawing::{Drawing, Point},
    graph::Way,
    layout::size,
    overlay::{Change, Overlay},
    text::LABEL,
    theme::{Role, Tone},
};

const WIDTH: f32 = 1.4;
/// Radius of corners.
const ROUND: f32 = 6.0;
/// Length and half the breadth of an arrowhead.
const ARROW: (f32, f32) = (7.0, 3.6);

pub(super) fn part(drawing: &Drawing, overlay: &Overlay, id: usize) -> Part {
    let (edge, line) = (&drawing.graph.edges[id], &drawing.edges[id]);
    let (from, to) = (drawing.graph.id(edge.from), drawing.graph.id(edge.to));
    let change = overlay.edges.get(&(from.to_owned(), to.to_owned())).copied();
    let role = match (change, edge.kind) {
        (Some(change), _) => Role::Mark(Tone::from(change)),
        (None, Way::Next) => Role::Line,
        (None, Way::Catch) => Role::Mark(Tone::Red),
        (None, Way::Undo) => Role::Mark(Tone::Violet),
    };
    let dashed = edge.kind != Way::Next || change == Some(Change::Removed);
    let ink = Ink::stroke(role, WIDTH).dashed(dashed);
    let mut shapes = vec![Shape::Path { path: rounded(&line.points, line.arrow), ink }];
    if line.arrow {
        shapes.extend(arrow(&line.points).map(|path| Shape::Path { path, ink: Ink::fill(role) }));
    }
    if let (Some(label), Some(text)) = (line.label, &edge.label) {
        let (x, y) = (label.x as f32, label.y as f32);
        let (w, h) = (label.w as f32, label.h as f32);
        shapes.push(Shape::Path {
            path: rectangle((x, y, w, h), 3.0),
            ink: Ink::fill(surface(drawing, edge.from)),
        });
        let role = if edge.kind == Way::Next { Role::Quiet } else { role };
        let text = size::label_text(text);
        shapes.push(Shape::Text {
            x: x + w / 2.0,
            y: y + h / 2.0 + 4.0,
            font: LABEL,
            role,
            middle: true,
            text,
        });
    }
    let words: Vec<String> =
        change.map(|change| change.word().to_owned()).into_iter().chain(edge.label.clone()).collect();
    Part {
        class: "edge",
        id: format!("{from} {to}"),
        title: drawing.words(id),
        about: words.join(", "),
        shapes,
    }
}

/// What a label stands on.
fn surface(drawing: &Drawing, from: crate::graph::Spot) -> Role {
    super::group::surface(drawing.graph.path(from).len())
}

/// The line, ending where its arrowhead begins.
fn rounded(points: &[Point], arrow: bool) -> Vec<Move> {
    let mut points: Vec<(f32, f32)> = points.iter().map(|(x, y)| (*x as f32, *y as f32)).collect();
    if let (true, [.., before, last]) = (arrow, points.as_mut_slice()) {
        let (dx, dy) = direction(*before, *last);
        *last = (last.0 - dx * (ARROW.0 - 1.0), last.1 - dy * (ARROW.0 - 1.0));
    }
    let Some(first) = points.first() else { return Vec::new() };
    let mut path = vec![Move::To(first.0, first.1)];
    for three in points.windows(3) {
        let (before, corner, after) = (three[0], three[1], three[2]);
        let round = ROUND.min(length(before, corner) / 2.0).min(length(corner, after) / 2.0);
        let ((ax, ay), (bx, by)) = (direction(before, corner), direction(corner, after));
        path.push(Move::Line(corner.0 - ax * round, corner.1 - ay * round));
        path.push(Move::Curve(corner.0, corner.1, corner.0 + bx * round, corner.1 + by * round));
    }
    if let (Some(last), true) = (points.last(), points.len() > 1) {
        path.push(Move::Line(last.0, last.1));
    }
    path
}

fn arrow(points: &[Point]) -> Option<Vec<Move>> {
    let [.., before, last] = points else { return None };
    let (x, y) = (last.0 as f32, last.1 as f32);
    let (dx, dy) = direction((before.0 as f32, before.1 as f32), (x, y));
    let (bx, by) = (x - dx * ARROW.0, y - dy * ARROW.0);
    let (sx, sy) = (dy * ARROW.1, dx * ARROW.1);
    Some(super::polygon(&[(x, y), (bx - sx, by + sy), (bx + sx, by - sy)]))
}

/// Of pieces that are horizontal or vertical.
fn direction(from: (f32, f32), to: (f32, f32)) -> (f32, f32) {
    let sign = |length: f32| {
        if length > 0.0 {
            1.0
        } else if length < 0.0 {
            -1.0
        } else {
            0.0
        }
    };
    (sign(to.0 - from.0), sign(to.1 - from.1))
}

fn length(from: (f32, f32), to: (f32, f32)) -> f32 {
    (to.0 - from.0).abs() + (to.1 - from.1).abs()
}

//! A picture as a list of shapes, before it is written as SVG or PNG.
//!
//! [`scene`] turns a drawing and its overlay into parts, one for each group, edge and node, in the order in which they
//! are painted. Nothing here knows a file format.

mod group;
mod icon;
mod line;
mod node;

use crate::{
    drawing::Drawing,
    graph::Spot,
    overlay::{Mark, Overlay},
    text::Font,
    theme::{Role, Tone},
};

/// Everything that is painted.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) width: i32,
    pub(crate) height: i32,
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) parts: Vec<Part>,
}

/// One thing with a name of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// `group`, `edge` or `node`.
    pub(crate) class: &'static str,
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) shapes: Vec<Shape>,
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Path { path: Vec<Move>, ink: Ink },
    Text { x: f32, y: f32, font: Font, role: Role, middle: bool, text: String },
}

/// One piece of a path. Coordinates are pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Move {
    To(f32, f32),
    Line(f32, f32),
    /// A quadratic curve: control point, end.
    Curve(f32, f32, f32, f32),
    Close,
}

/// How a path is painted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ink {
    pub(crate) fill: Option<Role>,
    pub(crate) stroke: Option<Role>,
    pub(crate) width: f32,
    pub(crate) dashed: bool,
}

/// Lengths of a dash and of the gap after it.
pub(crate) const DASH: (f32, f32) = (5.0, 4.0);

impl Ink {
    pub(crate) fn fill(role: Role) -> Ink {
        Ink { fill: Some(role), ..Ink::default() }
    }

    pub(crate) fn stroke(role: Role, width: f32) -> Ink {
        Ink { stroke: Some(role), width, ..Ink::default() }
    }

    pub(crate) fn and_fill(self, role: Role) -> Ink {
        Ink { fill: Some(role), ..self }
    }

    pub(crate) fn dashed(self, dashed: bool) -> Ink {
        Ink { dashed, ..self }
    }
}

pub(crate) fn scene(drawing: &Drawing, overlay: &Overlay) -> Scene {
    let graph = &drawing.graph;
    let mut groups: Vec<usize> = (0..graph.groups.len()).collect();
    groups.sort_by_key(|group| graph.path(Spot::Group(*group)).len());
    let mut parts: Vec<Part> = groups.iter().map(|group| group::part(drawing, overlay, *group)).collect();
    parts.extend((0..graph.edges.len()).map(|edge| line::part(drawing, overlay, edge)));
    parts.extend((0..graph.nodes.len()).map(|node| node::part(drawing, overlay, node)));
    let steps = graph.nodes.iter().filter(|node| node.step.is_some()).count();
    let counted = match steps {
        1 => "1 step".to_owned(),
        _ => format!("{steps} steps"),
    };
    let about = match graph.summary.trim() {
        "" => format!("{}: {counted}.", graph.name),
        summary => format!("{}: {counted}. {summary}", graph.name),
    };
    Scene { width: drawing.width, height: drawing.height, title: graph.title.clone(), about, parts }
}

/// The colour that a mark asks for.
fn tone(mark: &Mark) -> Option<Tone> {
    mark.change.map(Tone::from).or(mark.state.map(Tone::from))
}

/// A rectangle with round corners.
fn rectangle((x, y, w, h): (f32, f32, f32, f32), r: f32) -> Vec<Move> {
    use Move::*;
    let r = r.min(w / 2.0).min(h / 2.0);
    vec![
        To(x + r, y),
        Line(x + w - r, y),
        Curve(x + w, y, x + w, y + r),
        Line(x + w, y + h - r),
        Curve(x + w, y + h, x + w - r, y + h),
        Line(x + r, y + h),
        Curve(x, y + h, x, y + h - r),
        Line(x, y + r),
        Curve(x, y, x + r, y),
        Close,
    ]
}

/// A circle of eight curves.
fn circle(x: f32, y: f32, r: f32) -> Vec<Move> {
    // tan and cos of 22.5 and 45 degrees.
    const T: f32 = 0.414_213_57;
    const D: f32 = std::f32::consts::FRAC_1_SQRT_2;
    let (t, d) = (r * T, r * D);
    use Move::*;
    vec![
        To(x + r, y),
        Curve(x + r, y + t, x + d, y + d),
        Curve(x + t, y + r, x, y + r),
        Curve(x - t, y + r, x - d, y + d),
        Curve(x - r, y + t, x - r, y),
        Curve(x - r, y - t, x - d, y - d),
        Curve(x - t, y - r, x, y - r),
        Curve(x + t, y - r, x + d, y - d),
        Curve(x + r, y - t, x + r, y),
        Close,
    ]
}

fn polygon(points: &[(f32, f32)]) -> Vec<Move> {
    let mut path: Vec<Move> = points.iter().map(|(x, y)| Move::Line(*x, *y)).collect();
    if let (Some(first), Some((x, y))) = (path.first_mut(), points.first()) {
        *first = Move::To(*x, *y);
    }
    path.push(Move::Close);
    path
}

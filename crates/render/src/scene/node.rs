//! Nodes: a shape for the kind, an icon, the name and what it does, and the mark of the overlay.

use super::{Ink, Move, Part, Shape, circle, icon, polygon, rectangle, tone};
use crate::{
    drawing::{Box, Drawing},
    graph::{Kind, Node},
    layout::size,
    overlay::{Change, Mark, Overlay},
    text::{self, DETAIL, Font, NAME},
    theme::{HEATS, Role, Tone},
};

/// What is written on the lower border of a node.
const FIGURE: Font = Font { size: 10, bold: true };

pub(super) fn part(drawing: &Drawing, overlay: &Overlay, id: usize) -> Part {
    let (node, place) = (&drawing.graph.nodes[id], drawing.nodes[id]);
    let mark = overlay.mark(&node.id, node.step.as_deref());
    let tone = mark.and_then(tone);
    let mut shapes = body(node, place, mark, tone);
    shapes.extend(texts(node, place));
    if let Some(figures) = mark.and_then(figures) {
        shapes.extend(pill(&figures, tone, (place.right() - 8) as f32, place.bottom() as f32));
    }
    if let (Some(mark), Some(tone)) = (mark, tone) {
        let (x, y) = match node.kind {
            Kind::Switch => (place.centre().0 + place.w / 4, place.y + place.h / 4),
            _ => (place.right() - 3, place.y + 3),
        };
        shapes.extend(icon::badge(mark, tone, (x as f32, y as f32)));
    }
    let words = mark.map(Mark::words).unwrap_or_default();
    let about: Vec<String> =
        std::iter::once(node.kind.word().to_owned()).chain(node.details.clone()).chain(words).collect();
    Part { class: "node", id: node.id.clone(), title: node.name.clone(), about: about.join(", "), shapes }
}

/// The shape itself.
fn body(node: &Node, place: Box, mark: Option<&Mark>, tone: Option<Tone>) -> Vec<Shape> {
    let heat = mark.and_then(|mark| mark.heat);
    let fill = match (heat, tone) {
        (Some(heat), _) => {
            Role::Heat((u32::from(heat.level) * u32::from(HEATS - 1)).div_ceil(100).min(4) as u8)
        }
        (None, Some(tone)) => Role::Tint(tone),
        (None, None) => Role::Node,
    };
    let stroke = match (tone, node.kind) {
        (Some(tone), _) => Role::Mark(tone),
        (None, Kind::Raise) => Role::Mark(Tone::Red),
        _ => Role::Border,
    };
    let removed = mark.is_some_and(|mark| mark.change == Some(Change::Removed));
    let dashed = removed || matches!(node.kind, Kind::Unsupported | Kind::Empty);
    let ink = Ink::stroke(stroke, if tone.is_some() { 1.8 } else { 1.2 }).and_fill(fill).dashed(dashed);
    let mut shapes = vec![Shape::Path { path: outline(node, place), ink }];
    let (x, y, w, h) = inset(place, 0.6);
    match node.kind {
        // An instance of its own: a second line inside.
        Kind::Child => {
            let inner = rectangle((x + 3.0, y + 3.0, w - 6.0, h - 6.0), 4.0);
            shapes.push(Shape::Path { path: inner, ink: Ink::stroke(stroke, 0.8) });
        }
        Kind::End => {
            let dot = circle(x + w / 2.0, y + h / 2.0, 5.5);
            shapes.push(Shape::Path { path: dot, ink: Ink::fill(stroke) });
        }
        _ => {}
    }
    shapes
}

fn inset(place: Box, by: f32) -> (f32, f32, f32, f32) {
    (place.x as f32 + by, place.y as f32 + by, place.w as f32 - 2.0 * by, place.h as f32 - 2.0 * by)
}

fn outline(node: &Node, place: Box) -> Vec<Move> {
    let (x, y, w, h) = inset(place, 0.6);
    let (cx, cy) = (x + w / 2.0, y + h / 2.0);
    match node.kind {
        Kind::Start | Kind::End if node.details.is_empty() => circle(cx, cy, w / 2.0),
        Kind::Start | Kind::End => rectangle((x, y, w, h), h / 2.0),
        Kind::Switch => polygon(&[(x, cy), (cx, y), (x + w, cy), (cx, y + h)]),
        Kind::Split | Kind::Join => {
            let cut = w / 4.0;
            polygon(&[
                (x, cy),
                (x + cut, y),
                (x + w - cut, y),
                (x + w, cy),
                (x + w - cut, y + h),
                (x + cut, y + h),
            ])
        }
        Kind::Wait | Kind::Listen | Kind::Emit => rectangle((x, y, w, h), 14.0),
        _ => rectangle((x, y, w, h), 6.0),
    }
}

/// The icon and the lines of text.
fn texts(node: &Node, place: Box) -> Vec<Shape> {
    let (cx, cy) = (place.centre().0 as f32, place.centre().1 as f32);
    let glyph = |at: (f32, f32), role: Role| {
        let path = icon::path(icon::of_node(node.kind), at, 1.0);
        Shape::Path { path, ink: Ink::stroke(role, 1.4) }
    };
    match node.kind {
        Kind::End => return Vec::new(),
        Kind::Join if node.name == "first" => {
            let text = "1".to_owned();
            let font = Font { size: 12, bold: true };
            return vec![Shape::Text { x: cx, y: cy + 4.5, font, role: Role::Icon, middle: true, text }];
        }
        Kind::Start | Kind::Split | Kind::Join if node.details.is_empty() => {
            return vec![glyph((cx - 8.0, cy - 8.0), Role::Icon)];
        }
        Kind::Switch => {
            let (text, role) = (size::name(node), Role::Text);
            return vec![Shape::Text { x: cx, y: cy + 4.5, font: NAME, role, middle: true, text }];
        }
        _ => {}
    }
    let role = if node.kind == Kind::Raise { Role::Mark(Tone::Red) } else { Role::Icon };
    let mut shapes = vec![glyph(((place.x + size::MARGIN_SIDE - 2) as f32, cy - 8.0), role)];
    let x = (place.x + size::MARGIN_SIDE + size::ICON - 2) as f32;
    let details = size::details(node);
    let mut y = place.y + size::MARGIN;
    if node.kind == Kind::Start {
        y = place.centre().1 - size::DETAIL_LINE / 2;
    } else {
        let (text, role) = (size::name(node), Role::Text);
        shapes.push(Shape::Text { x, y: y as f32 + 13.5, font: NAME, role, middle: false, text });
        y += size::NAME_LINE;
    }
    for text in details {
        shapes.push(Shape::Text {
            x,
            y: y as f32 + 11.0,
            font: DETAIL,
            role: Role::Quiet,
            middle: false,
            text,
        });
        y += size::DETAIL_LINE;
    }
    shapes
}

/// Attempts, durations and heat as a short text.
pub(super) fn figures(mark: &Mark) -> Option<String> {
    let heat = mark.heat.map(|heat| format!("{} %", heat.level));
    let parts: Vec<String> = heat.into_iter().chain(mark.figures()).collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

/// A short text on a lower border, ending at `right`; mostly below the border, so that it covers nothing inside.
pub(super) fn pill(figures: &str, tone: Option<Tone>, right: f32, bottom: f32) -> Vec<Shape> {
    const HEIGHT: f32 = 14.0;
    const BELOW: f32 = 10.0;
    let width = pill_width(figures);
    let bounds = (right - width, bottom + BELOW - HEIGHT, width, HEIGHT);
    let ink = Ink::stroke(tone.map_or(Role::Border, Role::Mark), 1.0).and_fill(Role::Page);
    let (x, y, text) = (right - width / 2.0, bottom + BELOW - 3.5, figures.to_owned());
    vec![
        Shape::Path { path: rectangle(bounds, HEIGHT / 2.0), ink },
        Shape::Text { x, y, font: FIGURE, role: Role::Text, middle: true, text },
    ]
}

pub(super) fn pill_width(figures: &str) -> f32 {
    text::width(figures, FIGURE) as f32 + 10.0
}

//! Groups: a frame, a header, a badge.

use super::{Ink, Part, Shape, icon, node, rectangle, tone};
use crate::{
    drawing::Drawing,
    graph::{Frame, Spot},
    overlay::{Change, Overlay},
    text::HEADER,
    theme::{Role, Tone},
};

/// What is inside of so many groups is painted on this.
pub(super) fn surface(depth: usize) -> Role {
    if depth.is_multiple_of(2) { Role::Page } else { Role::Group }
}

pub(super) fn part(drawing: &Drawing, overlay: &Overlay, id: usize) -> Part {
    let (group, placed) = (&drawing.graph.groups[id], &drawing.groups[id]);
    let mark = overlay.mark(&group.id, group.step.as_deref());
    let tone = mark.and_then(tone);
    let border = match (tone, group.kind) {
        (Some(tone), _) => Role::Mark(tone),
        (None, Frame::Catch) => Role::Mark(Tone::Red),
        _ => Role::GroupBorder,
    };
    let removed = mark.is_some_and(|mark| mark.change == Some(Change::Removed));
    let dashed = removed || matches!(group.kind, Frame::Catch | Frame::Extended);
    let frame = placed.frame;
    let depth = drawing.graph.path(Spot::Group(id)).len();
    let bounds = (frame.x as f32 + 0.5, frame.y as f32 + 0.5, frame.w as f32 - 1.0, frame.h as f32 - 1.0);
    let ink = Ink::stroke(border, if tone.is_some() { 1.6 } else { 1.0 }).dashed(dashed);
    let mut shapes =
        vec![Shape::Path { path: rectangle(bounds, 8.0), ink: ink.and_fill(surface(depth + 1)) }];
    let (x, y) = (placed.header.x as f32, placed.header.y as f32);
    let glyph = icon::path(icon::of_group(group.kind), (x, y + 3.0), 0.75);
    shapes.push(Shape::Path { path: glyph, ink: Ink::stroke(Role::Quiet, 1.2) });
    let (text, role) = (placed.title.clone(), Role::Quiet);
    shapes.push(Shape::Text { x: x + 18.0, y: y + 13.0, font: HEADER, role, middle: false, text });
    if let (Some(mark), Some(tone)) = (mark, tone) {
        shapes.extend(icon::badge(mark, tone, ((frame.right() - 3) as f32, (frame.y + 3) as f32)));
    }
    if let Some(figures) = mark.and_then(node::figures) {
        // At the other end than those of nodes, which may stand right above.
        let right = (frame.x + 10) as f32 + node::pill_width(&figures);
        shapes.extend(node::pill(&figures, tone, right, frame.bottom() as f32));
    }
    let words = mark.map(|mark| mark.words()).unwrap_or_default();
    let about: Vec<String> =
        std::iter::once(group.kind.word().to_owned()).chain(group.details.clone()).chain(words).collect();
    Part { class: "group", id: group.id.clone(), title: group.name.clone(), about: about.join(", "), shapes }
}

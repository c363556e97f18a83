//! Sizes of nodes, headers and labels, from their texts.

use crate::{
    drawing::Point,
    graph::{Group, Kind, Node},
    text::{self, DETAIL, HEADER, LABEL, NAME},
};

/// Texts are cut to these widths.
const NAME_MAX: i32 = 190;
const DETAIL_MAX: i32 = 200;
const HEADER_MAX: i32 = 320;
const LABEL_MAX: i32 = 150;
/// Height of a name, and of a line below it.
pub(crate) const NAME_LINE: i32 = 18;
pub(crate) const DETAIL_LINE: i32 = 15;
/// Above and below the lines.
pub(crate) const MARGIN: i32 = 7;
/// Beside the texts: enough for fonts that are wider than ours.
pub(crate) const MARGIN_SIDE: i32 = 12;
/// The icon, with what is between it and the texts.
pub(crate) const ICON: i32 = 24;
/// Starts, ends and joins.
const MARK: i32 = 24;
const LABEL_HEIGHT: i32 = 16;
const LABEL_MARGIN: i32 = 4;

/// The name as it is written.
pub(crate) fn name(node: &Node) -> String {
    text::fit(&text::line(&node.name), NAME, NAME_MAX)
}

/// The lines below the name as they are written.
pub(crate) fn details(node: &Node) -> Vec<String> {
    node.details.iter().map(|line| text::fit(&text::line(line), DETAIL, DETAIL_MAX)).collect()
}

/// Width and height.
pub(crate) fn node(node: &Node) -> Point {
    let name_width = text::width(&name(node), NAME);
    let details = details(node);
    let widest = details.iter().map(|line| text::width(line, DETAIL)).max().unwrap_or(0);
    let (width, height) = match node.kind {
        Kind::Split | Kind::Join => (MARK, MARK),
        Kind::Start | Kind::End if node.details.is_empty() => (MARK, MARK),
        Kind::Start | Kind::End => (2 * MARGIN_SIDE + ICON + widest, 30),
        // The text fits into the middle of the diamond.
        Kind::Switch => ((name_width + 16) * 3 / 2, 56),
        _ => {
            let lines = NAME_LINE + DETAIL_LINE * details.len() as i32;
            (2 * MARGIN_SIDE + ICON + name_width.max(widest), lines + 2 * MARGIN)
        }
    };
    (width + width % 2, height + height % 2)
}

/// The text of a group's header and its width.
pub(crate) fn header(group: &Group) -> (String, i32) {
    let parts = std::iter::once(group.name.as_str()).chain(group.details.iter().map(String::as_str));
    let title = parts.filter(|part| !part.is_empty()).map(text::line).collect::<Vec<_>>().join(" · ");
    let title = text::fit(&title, HEADER, HEADER_MAX);
    // The icon, the text, and room for a badge.
    let width = 20 + text::width(&title, HEADER) + 24;
    (title, width)
}

/// Width and height of an edge's label.
pub(crate) fn label(label: &str) -> Point {
    let width = text::width(&text::fit(label, LABEL, LABEL_MAX), LABEL) + 2 * LABEL_MARGIN;
    (width + width % 2, LABEL_HEIGHT)
}

/// An edge's label as it is written.
pub(crate) fn label_text(label: &str) -> String {
    text::fit(label, LABEL, LABEL_MAX)
}

//! Widths of texts, and how they are made to fit.
//!
//! The embedded font is what PNG is drawn with; SVG names fonts of the reader's system, which are about as wide. Boxes
//! have margins for those that are wider.

use std::sync::OnceLock;
use ttf_parser::Face;

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Font {
    pub(crate) size: i32,
    pub(crate) bold: bool,
}

/// Names of nodes.
pub(crate) const NAME: Font = Font { size: 13, bold: true };
/// What stands below a name.
pub(crate) const DETAIL: Font = Font { size: 11, bold: false };
/// Headers of groups.
pub(crate) const HEADER: Font = Font { size: 11, bold: true };
/// Labels of edges.
pub(crate) const LABEL: Font = Font { size: 11, bold: false };

/// A face of the embedded font.
pub(crate) fn face(bold: bool) -> &'static Face<'static> {
    static FACES: OnceLock<[Face<'static>; 2]> = OnceLock::new();
    let faces = FACES.get_or_init(|| {
        [include_bytes!("../font/regular.ttf").as_slice(), include_bytes!("../font/semibold.ttf")]
            .map(|bytes| Face::parse(bytes, 0).expect("the embedded font can be read"))
    });
    &faces[usize::from(bold)]
}

/// How far a character advances, in units of which an em has [`UNITS`].
pub(crate) fn advance(c: char, bold: bool) -> i32 {
    let face = face(bold);
    match face.glyph_index(c).and_then(|glyph| face.glyph_hor_advance(glyph)) {
        Some(advance) => i32::from(advance),
        // Scripts that the font lacks: ideographs are as wide as high, most others narrower.
        None => UNITS,
    }
}

/// Units of an em.
pub(crate) const UNITS: i32 = 2048;

/// The width of a line in pixels, rounded up.
pub(crate) fn width(text: &str, font: Font) -> i32 {
    let units: i32 = text.chars().map(|c| advance(c, font.bold)).sum();
    (units * font.size + UNITS - 1) / UNITS
}

/// The text itself if it is no wider than `width_max`, otherwise its beginning and an ellipsis.
pub(crate) fn fit(text: &str, font: Font, width_max: i32) -> String {
    if width(text, font) <= width_max {
        return text.to_owned();
    }
    let room = width_max * UNITS / font.size - advance('…', font.bold);
    let mut used = 0;
    let kept = text.chars().take_while(|c| {
        used += advance(*c, font.bold);
        used <= room
    });
    let kept: String = kept.collect();
    format!("{}…", kept.trim_end())
}

/// One line: every run of white space and control characters becomes a single space.
pub(crate) fn line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_wide_ends_in_an_ellipsis() {
        assert_eq!(fit("short", DETAIL, 200), "short");
        let cut = fit("a name that nobody would give to a step", NAME, 80);
        assert!(cut.ends_with('…') && width(&cut, NAME) <= 80, "{cut}");
    }

    #[test]
    fn a_line_has_no_line_breaks() {
        assert_eq!(line(" a\n\tb\u{0}c "), "a b c");
    }

    #[test]
    fn every_font_unit_is_known() {
        assert_eq!(i32::from(face(false).units_per_em()), UNITS);
        assert_eq!(i32::from(face(true).units_per_em()), UNITS);
    }
}

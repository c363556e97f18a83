//! A scene as SVG that needs nothing else: no script, no font file, no link.
//!
//! Colours are attributes, so that the picture is right where styles are refused; only a picture that follows the
//! reader's system has a style, which turns it dark.

use crate::{
    drawing::Drawing,
    overlay::Overlay,
    scene::{DASH, Ink, Move, Part, Shape, scene},
    theme::{Role, Theme},
};
use std::fmt::Write;

/// Fonts that are about as wide as the one that texts are measured with.
const FONTS: &str = "Inter,'Segoe UI',Roboto,'Helvetica Neue',Arial,'Noto Sans','Liberation Sans',sans-serif";

/// Writes a drawing as SVG.
pub fn svg(drawing: &Drawing, overlay: &Overlay, theme: Theme) -> String {
    let scene = scene(drawing, overlay);
    let mut writer = Writer { out: String::new(), theme };
    let (w, h) = (scene.width, scene.height);
    writer.put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" \
         font-family=\"{FONTS}\" stroke-linecap=\"round\" stroke-linejoin=\"round\">\n"
    ));
    writer.names(&scene.title, &scene.about);
    if theme == Theme::Auto {
        writer.style();
    }
    let page = writer.fill(Role::Page);
    writer.put(format_args!("\n<rect width=\"{w}\" height=\"{h}\"{page}/>\n"));
    scene.parts.iter().for_each(|part| writer.part(part));
    writer.out.push_str("</svg>\n");
    writer.out
}

struct Writer {
    out: String,
    theme: Theme,
}

impl Writer {
    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.out.write_fmt(arguments).expect("a string takes everything");
    }

    fn names(&mut self, title: &str, about: &str) {
        self.put(format_args!("<title>{}</title>", escape(title)));
        if !about.is_empty() {
            self.put(format_args!("<desc>{}</desc>", escape(about)));
        }
    }

    /// Dark colours for readers whose system is dark.
    fn style(&mut self) {
        self.out.push_str("\n<style>@media (prefers-color-scheme:dark){");
        for role in Role::all() {
            let (class, colour) = (role.class(), role.colour(true));
            self.put(format_args!(".f-{class}{{fill:#{colour:06x}}}.s-{class}{{stroke:#{colour:06x}}}"));
        }
        self.out.push_str("}</style>");
    }

    /// The attributes of a colour that fills.
    fn fill(&self, role: Role) -> String {
        let colour = role.colour(self.theme == Theme::Dark);
        match self.theme {
            Theme::Auto => format!(" class=\"f-{}\" fill=\"#{colour:06x}\"", role.class()),
            _ => format!(" fill=\"#{colour:06x}\""),
        }
    }

    fn part(&mut self, part: &Part) {
        self.put(format_args!("<g class=\"{}\" data-id=\"{}\">", part.class, escape(&part.id)));
        self.names(&part.title, &part.about);
        part.shapes.iter().for_each(|shape| self.shape(shape));
        self.out.push_str("</g>\n");
    }

    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Path { path, ink } => {
                let data = data(path);
                let ink = self.ink(ink);
                self.put(format_args!("<path d=\"{data}\"{ink}/>"));
            }
            Shape::Text { x, y, font, role, middle, text } => {
                let paint = self.fill(*role);
                let anchor = if *middle { " text-anchor=\"middle\"" } else { "" };
                let weight = if font.bold { " font-weight=\"600\"" } else { "" };
                let (x, y, size) = (number(*x), number(*y), font.size);
                let text = escape(text);
                self.put(format_args!(
                    "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{weight}{anchor}{paint}>{text}</text>"
                ));
            }
        }
    }

    fn ink(&self, ink: &Ink) -> String {
        let mut out = String::new();
        if self.theme == Theme::Auto {
            let fill = ink.fill.map(|role| format!("f-{}", role.class()));
            let stroke = ink.stroke.map(|role| format!("s-{}", role.class()));
            let classes: Vec<String> = fill.into_iter().chain(stroke).collect();
            out.push_str(&format!(" class=\"{}\"", classes.join(" ")));
        }
        let colour = |role: Role| format!("#{:06x}", role.colour(self.theme == Theme::Dark));
        out.push_str(&format!(" fill=\"{}\"", ink.fill.map_or_else(|| "none".to_owned(), colour)));
        if let Some(role) = ink.stroke {
            out.push_str(&format!(" stroke=\"{}\" stroke-width=\"{}\"", colour(role), number(ink.width)));
        }
        if ink.dashed {
            out.push_str(&format!(" stroke-dasharray=\"{} {}\"", number(DASH.0), number(DASH.1)));
        }
        out
    }
}

fn data(path: &[Move]) -> String {
    let mut out = String::new();
    for piece in path {
        let piece = match *piece {
            Move::To(x, y) => format!("M{} {}", number(x), number(y)),
            Move::Line(x, y) => format!("L{} {}", number(x), number(y)),
            Move::Curve(cx, cy, x, y) => {
                format!("Q{} {} {} {}", number(cx), number(cy), number(x), number(y))
            }
            Move::Close => "Z".to_owned(),
        };
        out.push_str(&piece);
    }
    out
}

/// At most one place behind the point.
fn number(value: f32) -> String {
    let tenths = (value * 10.0).round() as i64;
    match tenths % 10 {
        0 => format!("{}", tenths / 10),
        rest => format!("{}{}.{}", if tenths < 0 { "-" } else { "" }, (tenths / 10).abs(), rest.abs()),
    }
}

/// Text for XML; what XML cannot hold is replaced.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' | '\r' => out.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_is_replaced() {
        assert_eq!(escape("a<b>&\"'\u{1}\n"), "a&lt;b&gt;&amp;&quot;&#39;\u{fffd} ");
    }

    #[test]
    fn numbers_are_short() {
        let texts = [1.0, -0.5, 12.25, -3.0].map(number);
        assert_eq!(texts, ["1", "-0.5", "12.3", "-3"]);
    }
}

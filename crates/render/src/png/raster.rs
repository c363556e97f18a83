//! Paints shapes: every path becomes polygons, every polygon the share of each pixel it covers.
//!
//! The share is summed up along rows from the signed areas of edges, as font rasterisers do it. Strokes are one polygon
//! per piece and one per joint, all wound the same way, so that where they overlap nothing is lost.

use super::area::Area;
use crate::{
    scene::{DASH, Move, Scene, Shape},
    text::{self, Font, UNITS},
    theme::Role,
};
use ttf_parser::OutlineBuilder;

/// Pieces of a curve.
const CURVE_STEPS: usize = 6;

/// Rows that are filled at once.
const BAND: usize = 64;

/// Rows of red, green, blue.
pub(super) struct Canvas {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pixels: Vec<u8>,
}

type Point = (f32, f32);

pub(super) fn paint(scene: &Scene, dark: bool, scale: u32) -> Canvas {
    let side = |length: i32| length.max(1) as usize * scale as usize;
    let (width, height) = (side(scene.width), side(scene.height));
    let page = rgb(Role::Page.colour(dark));
    let mut canvas = Canvas { width, height, pixels: page.repeat(width * height) };
    let scale = scale as f32;
    for shape in scene.parts.iter().flat_map(|part| &part.shapes) {
        match shape {
            Shape::Path { path, ink } => {
                let lines = flatten(path, scale);
                if let Some(role) = ink.fill {
                    let closed: Vec<Vec<Point>> = lines.iter().map(|(line, _)| line.clone()).collect();
                    canvas.fill(&closed, rgb(role.colour(dark)));
                }
                if let Some(role) = ink.stroke {
                    let lines = if ink.dashed { dashes(&lines, scale) } else { lines };
                    for piece in outlines(&lines, ink.width * scale) {
                        canvas.fill(&piece, rgb(role.colour(dark)));
                    }
                }
            }
            Shape::Text { x, y, font, role, middle, text } => {
                let start = if *middle { x - text::width(text, *font) as f32 / 2.0 } else { *x };
                let glyphs = glyphs(text, *font, (start * scale, y * scale), scale);
                canvas.fill(&glyphs, rgb(role.colour(dark)));
            }
        }
    }
    canvas
}

fn rgb(colour: u32) -> [u8; 3] {
    [(colour >> 16) as u8, (colour >> 8) as u8, colour as u8]
}

/// Lines of a path, and whether each is closed.
fn flatten(path: &[Move], scale: f32) -> Vec<(Vec<Point>, bool)> {
    let mut lines: Vec<(Vec<Point>, bool)> = Vec::new();
    for piece in path {
        match *piece {
            Move::To(x, y) => lines.push((vec![(x * scale, y * scale)], false)),
            Move::Line(x, y) => {
                if let Some((line, _)) = lines.last_mut() {
                    line.push((x * scale, y * scale));
                }
            }
            Move::Curve(cx, cy, x, y) => {
                if let Some((line, _)) = lines.last_mut() {
                    curve(line, (cx * scale, cy * scale), (x * scale, y * scale));
                }
            }
            Move::Close => {
                if let Some((_, closed)) = lines.last_mut() {
                    *closed = true;
                }
            }
        }
    }
    lines
}

fn curve(line: &mut Vec<Point>, control: Point, end: Point) {
    let Some(start) = line.last().copied() else { return };
    for step in 1..=CURVE_STEPS {
        let t = step as f32 / CURVE_STEPS as f32;
        let (a, b, c) = ((1.0 - t) * (1.0 - t), 2.0 * t * (1.0 - t), t * t);
        line.push((a * start.0 + b * control.0 + c * end.0, a * start.1 + b * control.1 + c * end.1));
    }
}

/// Cuts lines into dashes.
fn dashes(lines: &[(Vec<Point>, bool)], scale: f32) -> Vec<(Vec<Point>, bool)> {
    let lengths = [DASH.0 * scale, DASH.1 * scale];
    let mut cut = Vec::new();
    for (line, closed) in lines {
        let mut line = line.clone();
        line.extend(line.first().copied().filter(|_| *closed));
        let (mut on, mut left) = (true, lengths[0]);
        let mut dash: Vec<Point> = line.first().copied().into_iter().collect();
        for pair in line.windows(2) {
            let (mut from, to) = (pair[0], pair[1]);
            let mut rest = length(from, to);
            while rest > left {
                let share = left / rest;
                from = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
                rest -= left;
                dash.push(from);
                if on {
                    cut.push((std::mem::take(&mut dash), false));
                }
                on = !on;
                left = lengths[usize::from(!on)];
                dash = vec![from];
            }
            left -= rest;
            dash.push(to);
        }
        if on && dash.len() > 1 {
            cut.push((dash, false));
        }
    }
    cut
}

fn length(from: Point, to: Point) -> f32 {
    ((to.0 - from.0) * (to.0 - from.0) + (to.1 - from.1) * (to.1 - from.1)).sqrt()
}

/// The polygons of a stroke, in pieces that are filled one after the other: long straight ones alone, so that what is
/// looked at for a line across the page is no larger than the line.
fn outlines(lines: &[(Vec<Point>, bool)], width: f32) -> Vec<Vec<Vec<Point>>> {
    const LONG: f32 = 24.0;
    let half = width / 2.0;
    let mut pieces: Vec<Vec<Vec<Point>>> = Vec::new();
    for (line, closed) in lines {
        let back = line.first().copied().filter(|_| *closed);
        let points: Vec<Point> = line.iter().copied().chain(back).collect();
        let mut piece: Vec<Vec<Point>> =
            points.first().map(|point| joint(*point, half)).into_iter().collect();
        for pair in points.windows(2) {
            let length = length(pair[0], pair[1]);
            if length > 0.0 {
                let (nx, ny) = normal(pair[0], pair[1], half / length);
                let (from, to) = (pair[0], pair[1]);
                let bar = vec![
                    (from.0 - nx, from.1 - ny),
                    (to.0 - nx, to.1 - ny),
                    (to.0 + nx, to.1 + ny),
                    (from.0 + nx, from.1 + ny),
                ];
                if length > LONG {
                    pieces.push(std::mem::take(&mut piece));
                    pieces.push(vec![bar]);
                } else {
                    piece.push(bar);
                }
            }
            piece.push(joint(pair[1], half));
        }
        pieces.push(piece);
    }
    pieces
}

/// At a right angle to a line.
fn normal(from: Point, to: Point, factor: f32) -> Point {
    ((to.1 - from.1) * factor, (from.0 - to.0) * factor)
}

/// An octagon is round enough for joints of two or three pixels.
fn joint((x, y): Point, r: f32) -> Vec<Point> {
    let d = r * std::f32::consts::FRAC_1_SQRT_2;
    let ring = [(r, 0.0), (d, -d), (0.0, -r), (-d, -d), (-r, 0.0), (-d, d), (0.0, r), (d, d)];
    ring.map(|(dx, dy)| (x + dx, y + dy)).to_vec()
}

/// The outlines of a text.
fn glyphs(text: &str, font: Font, (x, y): Point, scale: f32) -> Vec<Vec<Point>> {
    let face = text::face(font.bold);
    let size = font.size as f32 * scale / UNITS as f32;
    let mut pen = Pen { lines: Vec::new(), x, y, size };
    for c in text.chars() {
        match face.glyph_index(c) {
            Some(glyph) => {
                face.outline_glyph(glyph, &mut pen);
            }
            None => pen.unknown(),
        }
        pen.x += text::advance(c, font.bold) as f32 * size;
    }
    pen.lines
}

/// Collects the outlines of glyphs.
struct Pen {
    lines: Vec<Vec<Point>>,
    x: f32,
    y: f32,
    size: f32,
}

impl Pen {
    fn place(&self, x: f32, y: f32) -> Point {
        (self.x + x * self.size, self.y - y * self.size)
    }

    /// A frame for a character that the font lacks.
    fn unknown(&mut self) {
        let frame =
            |low: f32, high: f32| [(low, low - 100.0), (high, low - 100.0), (high, high), (low, high)];
        let outer = frame(150.0, 1500.0).map(|(x, y)| self.place(x, y)).to_vec();
        let mut inner = frame(270.0, 1380.0).map(|(x, y)| self.place(x, y)).to_vec();
        inner.reverse();
        self.lines.extend([outer, inner]);
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.lines.push(vec![self.place(x, y)]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let point = self.place(x, y);
        if let Some(line) = self.lines.last_mut() {
            line.push(point);
        }
    }

    fn quad_to(&mut self, cx: f32, cy: f32, x: f32, y: f32) {
        let (control, end) = (self.place(cx, cy), self.place(x, y));
        if let Some(line) = self.lines.last_mut() {
            curve(line, control, end);
        }
    }

    // Faces of this kind have no cubic curves; the end is what is left of one.
    fn curve_to(&mut self, _: f32, _: f32, _: f32, _: f32, x: f32, y: f32) {
        self.line_to(x, y);
    }

    fn close(&mut self) {}
}

impl Canvas {
    /// Fills closed polygons; where those wound the same way overlap, they count once.
    fn fill(&mut self, polygons: &[Vec<Point>], colour: [u8; 3]) {
        let points = || polygons.iter().flatten();
        let bound = |low: f32, high: f32, end: usize| {
            (low.floor().clamp(0.0, end as f32) as usize, high.ceil().clamp(0.0, end as f32) as usize)
        };
        let range = |part: fn(&Point) -> f32| {
            points().map(part).fold((f32::MAX, f32::MIN), |(low, high), at| (low.min(at), high.max(at)))
        };
        let ((left, right), (top, bottom)) = (range(|point| point.0), range(|point| point.1));
        if left > right {
            return;
        }
        let ((left, right), (top, bottom)) =
            (bound(left, right, self.width), bound(top, bottom, self.height));
        for top in (top..bottom).step_by(BAND) {
            let mut area = Area::new(left, top, right - left, BAND.min(bottom - top));
            for polygon in polygons {
                let ends = polygon.iter().cycle().skip(1);
                polygon.iter().zip(ends).for_each(|(from, to)| area.edge(*from, *to));
            }
            self.cover(&area, (left, top), colour);
        }
    }

    fn cover(&mut self, area: &Area, (left, top): (usize, usize), colour: [u8; 3]) {
        for y in 0..area.height {
            let mut sum = 0.0;
            for x in 0..area.width {
                sum += area.shares[y * area.stride + x];
                let share = sum.abs().min(1.0);
                if share > 0.002 {
                    self.blend(left + x, top + y, colour, share);
                }
            }
        }
    }

    fn blend(&mut self, x: usize, y: usize, colour: [u8; 3], share: f32) {
        let at = (y * self.width + x) * 3;
        for (pixel, wanted) in self.pixels[at..at + 3].iter_mut().zip(colour) {
            let mixed = f32::from(*pixel) + (f32::from(wanted) - f32::from(*pixel)) * share;
            *pixel = (mixed + 0.5) as u8;
        }
    }
}

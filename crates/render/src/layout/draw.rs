//! From what is arranged group by group to places on the page, from the outside in.

use super::{Arranged, HEADER, Layout, MARGIN, size};
use crate::{
    drawing::{Box, Drawing, Line, Placed, Point},
    graph::{GroupId, Spot},
};

impl Layout<'_> {
    pub(super) fn draw(&self, root: &Arranged) -> Drawing {
        let graph = self.graph;
        let mut drawing = Drawing {
            graph: graph.clone(),
            direction: self.options.direction,
            width: 0,
            height: 0,
            nodes: vec![Box::default(); graph.nodes.len()],
            groups: vec![Placed::default(); graph.groups.len()],
            edges: vec![Line::default(); graph.edges.len()],
        };
        (drawing.width, drawing.height) = self.turned((root.along + 2 * MARGIN, root.across + 2 * MARGIN));
        self.draw_level(root, (MARGIN, MARGIN), &mut drawing);
        drawing
    }

    /// Draws a level whose frame begins at `corner`.
    fn draw_level(&self, level: &Arranged, corner: Point, drawing: &mut Drawing) {
        let origin = (corner.0 + level.offset.0, corner.1 + level.offset.1);
        for (spot, (along, anchor)) in level.spots.iter().zip(&level.placed.items) {
            let (along, anchor) = (origin.0 + along, origin.1 + anchor);
            match *spot {
                Some(Spot::Node(id)) => {
                    let (w, h) = self.sizes[id];
                    let (x, y) = self.turned((along, anchor - self.turned((w, h)).1 / 2));
                    drawing.nodes[id] = Box { x, y, w, h };
                }
                Some(Spot::Group(id)) => {
                    let inner = &self.arranged[id];
                    self.draw_group(id, (along, anchor - inner.entry), drawing);
                }
                None => {}
            }
        }
        for (edge, route) in level.edges.iter().zip(&level.placed.routes) {
            let place = |(along, across): Point| self.turned((origin.0 + along, origin.1 + across));
            let mut points: Vec<Point> = route.points.iter().map(|point| place(*point)).collect();
            let (_, from, to) = self.levels[*edge];
            self.to_border(level, corner, (from.is_none(), to.is_none()), &mut points);
            let text = self.graph.edges[*edge].label.as_deref().map(size::label);
            let label = route.label.zip(text).map(|(at, (w, h))| {
                let (x, y) = place(at);
                Box { x, y, w, h }
            });
            let arrow = match to {
                None => false,
                Some(Spot::Node(_)) => true,
                Some(Spot::Group(id)) => !self.opens[id],
            };
            drawing.edges[*edge] = Line { points, label, arrow };
        }
    }

    /// Leads a line that begins or ends at the way in or out of its group to the group's border.
    fn to_border(&self, level: &Arranged, corner: Point, ends: (bool, bool), points: &mut [Point]) {
        let set = |point: &mut Point, along: i32| {
            let (_, across) = self.turned(*point);
            *point = self.turned((along, across));
        };
        if let (true, Some(first)) = (ends.0, points.first_mut()) {
            set(first, corner.0);
        }
        if let (true, Some(last)) = (ends.1, points.last_mut()) {
            set(last, corner.0 + level.along);
        }
    }

    fn draw_group(&self, id: GroupId, corner: Point, drawing: &mut Drawing) {
        let inner = &self.arranged[id];
        let ((x, y), (w, h)) = (self.turned(corner), self.turned((inner.along, inner.across)));
        let (title, width) = &self.titles[id];
        let header = self.turned(inner.header);
        let header = Box { x: x + header.0, y: y + header.1 + 3, w: *width, h: HEADER - 6 };
        drawing.groups[id] = Placed { frame: Box { x, y, w, h }, header, title: title.clone() };
        self.draw_level(inner, corner, drawing);
    }
}

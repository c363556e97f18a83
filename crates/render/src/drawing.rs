//! What a layout comes to: a graph with a place for everything, in pixels, ready to be written in any form.

use crate::graph::{GroupId, Spot, Way};

/// A graph with places. Coordinates are whole pixels from the upper left corner.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    pub graph: crate::Graph,
    pub direction: crate::Direction,
    pub width: i32,
    pub height: i32,
    /// By node.
    pub nodes: Vec<Box>,
    /// By group.
    pub groups: Vec<Placed>,
    /// By edge.
    pub edges: Vec<Line>,
}

/// A rectangle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Box {
    pub x: i32,
    pub y: i32,
    pub w: i32,
    pub h: i32,
}

impl Box {
    pub fn right(self) -> i32 {
        self.x + self.w
    }

    pub fn bottom(self) -> i32 {
        self.y + self.h
    }

    pub fn centre(self) -> Point {
        (self.x + self.w / 2, self.y + self.h / 2)
    }

    /// True if both have some area in common.
    pub fn overlaps(self, other: Box) -> bool {
        self.x < other.right() && other.x < self.right() && self.y < other.bottom() && other.y < self.bottom()
    }

    /// True if the other one is inside.
    pub fn contains(self, other: Box) -> bool {
        self.x <= other.x
            && self.y <= other.y
            && self.right() >= other.right()
            && self.bottom() >= other.bottom()
    }
}

/// x and y.
pub type Point = (i32, i32);

/// A group's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    pub frame: Box,
    /// Where its header is written.
    pub header: Box,
    /// The header as it is written.
    pub title: String,
}

/// An edge's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Corners of horizontal and vertical pieces, from the start to the end.
    pub points: Vec<Point>,
    pub label: Option<Box>,
    /// False if the line goes on inside a group, so that it has no arrowhead here.
    pub arrow: bool,
}

impl Drawing {
    /// The ids of the groups around a spot, outermost first.
    pub fn path(&self, spot: Spot) -> Vec<&str> {
        let groups = self.graph.path(spot);
        groups.into_iter().map(|group: GroupId| self.graph.groups[group].id.as_str()).collect()
    }

    /// The edge as `from → to`, for people.
    pub(crate) fn words(&self, edge: usize) -> String {
        let edge = &self.graph.edges[edge];
        let name = |spot: Spot| match spot {
            Spot::Node(id) => self.graph.nodes[id].name.as_str(),
            Spot::Group(id) => self.graph.groups[id].name.as_str(),
        };
        let kind = match edge.kind {
            Way::Next => "to",
            Way::Catch => "on an error to",
            Way::Undo => "undone by",
        };
        format!("{} {kind} {}", name(edge.from), name(edge.to))
    }
}

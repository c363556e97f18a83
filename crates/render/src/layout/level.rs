//! One group's inside as a layered graph, in two axes: *along* the flow and *across* it.
//!
//! [`Level::place`] is the whole of it: cycles, layers, order, positions across, routes and positions along. Nothing here
//! knows which way the flow is drawn, nor what items stand for; an inner group is an item with a size.

use super::{Effort, cycle, grid::Grid, layer, order, place, route};

/// Items and the links between them. Items stand in the order of the document.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    pub(super) items: Vec<Item>,
    pub(super) links: Vec<Link>,
}

/// Something with a size. Links reach it at its anchor, in the middle of `before` and `after`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Item {
    pub(super) along: i32,
    /// Extent across, from the anchor back.
    pub(super) before: i32,
    pub(super) after: i32,
    /// Where links leave it, from the anchor.
    pub(super) exit: i32,
    /// Where links of the other kind leave it.
    pub(super) side: i32,
    pub(super) pin: Pin,
}

/// Where an item has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pin {
    #[default]
    Free,
    /// On the border where the flow comes in.
    In,
    /// On the border where the flow goes out.
    Out,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Leaves at [`Item::side`].
    pub(super) side: bool,
    /// Size of the label, along and across.
    pub(super) label: Option<(i32, i32)>,
}

/// A point: along, across.
pub(super) type Point = (i32, i32);

/// Where everything is. The smallest coordinate on either axis is 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Placed {
    /// Where each item begins, and its anchor.
    pub(super) items: Vec<Point>,
    pub(super) routes: Vec<Route>,
    pub(super) along: i32,
    pub(super) across: i32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Route {
    pub(super) points: Vec<Point>,
    /// Where the label begins, on both axes.
    pub(super) label: Option<Point>,
}

impl Level {
    pub(super) fn place(&self, effort: Effort) -> Placed {
        if self.items.is_empty() {
            return Placed::default();
        }
        let (back, layers) = self.layered(effort);
        let mut grid = Grid::new(self, &back, &layers);
        order::untangle(&mut grid, effort);
        let across = place::across(&grid, effort);
        route::route(self, &grid, &across)
    }

    /// Layers, and the links that lead back in them. One that leads up the document may still lead on in the layers; it
    /// is then a link like any other, and the layers are made again with room for it.
    fn layered(&self, effort: Effort) -> (Vec<bool>, Vec<usize>) {
        let mut back = cycle::back(self);
        loop {
            let layers = layer::layers(self, &back, effort);
            let on = |link: &Link| layers[link.to] > layers[link.from];
            let next: Vec<bool> =
                self.links.iter().zip(&back).map(|(link, back)| *back && !on(link)).collect();
            if next == back {
                return (back, layers);
            }
            back = next;
        }
    }
}

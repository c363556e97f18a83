//! Draws. The graph of a definition, a layout of it, and the pictures made of that: JSON, SVG, PNG, Mermaid, ELK JSON.
//!
//! The way in: [`graph()`] makes a [`Graph`] of the IR, [`layout()`] a [`Drawing`] of the graph; [`svg()`], [`png()`] and
//! [`json()`] write the drawing with an [`Overlay`] (states, attempts, durations, heat, what changed); [`mermaid()`] and
//! [`elk()`] write the graph for others to lay out. [`diff()`] is the graph of two versions at once, [`live()`] the
//! overlay of an instance.
//!
//! Everything is a pure function, and the same input has the same bytes. This crate must never know the store, the
//! server, or a font of the machine it runs on.

mod diff;
mod drawing;
mod elk;
mod flat;
mod flow;
mod graph;
mod json;
mod layout;
mod live;
mod mermaid;
mod overlay;
mod png;
mod scene;
mod svg;
mod text;
mod theme;

pub use diff::{Difference, diff};
pub use drawing::{Box, Drawing, Line, Placed, Point};
pub use elk::elk;
pub use flow::graph;
pub use graph::{DETAILS_MAX, Edge, Frame, Graph, Group, GroupId, Kind, Node, NodeId, Spot, Way};
pub use json::json;
pub use layout::{Direction, Effort, Options, layout};
pub use live::{Told, live};
pub use mermaid::mermaid;
pub use overlay::{Change, HEAT_MAX, Heat, Mark, Measure, Overlay, State};
pub use png::{PIXELS_MAX, SCALE_MAX, TooLarge, png};
pub use svg::svg;
pub use theme::Theme;

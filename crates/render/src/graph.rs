//! What is drawn, without any place: nodes, edges between them, and groups around them.
//!
//! A [`Graph`] comes from [`crate::graph()`]. Both ends of an edge stand side by side in the same group, or one of them
//! is that group itself: `Spot::Group` seen from inside is the group's way in (as a start) or its way out (as an end).

use serde::Serialize;

/// Index into [`Graph::nodes`].
pub type NodeId = usize;
/// Index into [`Graph::groups`].
pub type GroupId = usize;

/// Nodes, edges and groups of one definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// `namespace/name@version`.
    pub name: String,
    /// What a person calls it.
    pub title: String,
    pub summary: String,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    pub groups: Vec<Group>,
}

/// One thing with a shape of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Unique in the graph. The reference of the step, where there is one.
    pub id: String,
    /// The reference that history and `$task` use; none for starts, ends and joins.
    pub step: Option<String>,
    pub kind: Kind,
    pub name: String,
    /// What it does, in a few words; at most [`DETAILS_MAX`] lines.
    pub details: Vec<String>,
    pub group: Option<GroupId>,
    /// Place in the order of the document, among nodes and groups alike.
    pub rank: usize,
}

/// The most lines below a node's name.
pub const DETAILS_MAX: usize = 2;

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Start,
    End,
    /// Where branches begin side by side.
    Split,
    /// Where branches end together.
    Join,
    Call,
    Http,
    HumanTask,
    SignalToken,
    /// An instance of another definition.
    Child,
    Script,
    Set,
    Switch,
    Wait,
    Raise,
    Emit,
    Listen,
    /// A list of steps without a step in it.
    Empty,
    Unsupported,
}

impl Kind {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Start => "start",
            Kind::End => "end",
            Kind::Split => "branches begin",
            Kind::Join => "branches end",
            Kind::Call => "call",
            Kind::Http => "HTTP call",
            Kind::HumanTask => "human task",
            Kind::SignalToken => "signal token",
            Kind::Child => "child instance",
            Kind::Script => "script",
            Kind::Set => "set",
            Kind::Switch => "switch",
            Kind::Wait => "wait",
            Kind::Raise => "raise",
            Kind::Emit => "emit",
            Kind::Listen => "listen",
            Kind::Empty => "nothing to do",
            Kind::Unsupported => "not supported",
        }
    }
}

/// A box around nodes and further groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Unique among nodes and groups.
    pub id: String,
    pub step: Option<String>,
    pub kind: Frame,
    pub name: String,
    /// What follows the name in the header.
    pub details: Vec<String>,
    pub group: Option<GroupId>,
    /// Place in the order of the document, among nodes and groups alike.
    pub rank: usize,
}

/// What a group stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Frame {
    Do,
    For,
    Fork,
    Try,
    Catch,
    Saga,
    Map,
    /// A `listen` step that does something with each event.
    Listen,
    /// A step and what extensions put around it.
    Extended,
}

impl Frame {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Frame::Do => "do",
            Frame::For => "for",
            Frame::Fork => "fork",
            Frame::Try => "try",
            Frame::Catch => "catch",
            Frame::Saga => "saga",
            Frame::Map => "map",
            Frame::Listen => "listen",
            Frame::Extended => "extended",
        }
    }
}

/// One end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spot {
    Node(NodeId),
    Group(GroupId),
}

/// A way from one spot to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub from: Spot,
    pub to: Spot,
    pub kind: Way,
    /// Short enough to be drawn.
    pub label: Option<String>,
}

/// Why the flow goes along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    Next,
    /// To the handler of an error.
    Catch,
    /// To what takes a step back.
    Undo,
}

impl Graph {
    /// The group around a spot.
    pub fn home(&self, spot: Spot) -> Option<GroupId> {
        match spot {
            Spot::Node(id) => self.nodes[id].group,
            Spot::Group(id) => self.groups[id].group,
        }
    }

    /// The id of a spot.
    pub fn id(&self, spot: Spot) -> &str {
        match spot {
            Spot::Node(id) => &self.nodes[id].id,
            Spot::Group(id) => &self.groups[id].id,
        }
    }

    /// The groups around a spot, outermost first.
    pub fn path(&self, spot: Spot) -> Vec<GroupId> {
        let mut path: Vec<GroupId> =
            std::iter::successors(self.home(spot), |id| self.groups[*id].group).collect();
        path.reverse();
        path
    }
}

//! From the IR to the graph: steps become nodes and groups, the ways between them edges.
//!
//! [`graph`] is the way in. Every list of steps is connected once all its steps are there, because `then` may lead
//! forward. What ends the workflow from inside a group gets an end of its own there, so that no edge leaves a group but
//! through its way out.

mod group;
mod words;

pub(crate) use words::span;

use crate::graph::{Edge, Frame, Graph, Group, GroupId, Kind, Node, NodeId, Spot, Way};
use machine::ir::{self, Call, StepId, Then};
use std::collections::{BTreeMap, BTreeSet};

/// Stands for the end of the workflow while it is not known whether anything leads there.
const END: Spot = Spot::Node(NodeId::MAX);
/// The end comes after everything else of its list.
const LAST: usize = usize::MAX;

/// The graph of a definition. It also has one if it cannot be deployed here.
pub fn graph(workflow: &ir::Workflow) -> Graph {
    let mut flow = Flow {
        workflow,
        graph: Graph {
            name: format!("{}/{}@{}", workflow.namespace, workflow.name, workflow.version),
            title: workflow.title.clone().unwrap_or_else(|| workflow.name.clone()),
            summary: workflow.summary.clone().unwrap_or_default(),
            ..Graph::default()
        },
        ranks: 0,
        ids: BTreeSet::new(),
        ends: BTreeMap::new(),
    };
    let details = workflow.schedule.as_ref().map(|schedule| words::schedule(workflow, schedule));
    let start = flow.node(Kind::Start, "start", None, "#start", None);
    flow.graph.nodes[start].details = details.into_iter().collect();
    flow.list(&workflow.root, None, Spot::Node(start), END);
    flow.finish()
}

struct Flow<'w> {
    workflow: &'w ir::Workflow,
    graph: Graph,
    ranks: usize,
    ids: BTreeSet<String>,
    /// Ends of the workflow inside of groups.
    ends: BTreeMap<GroupId, NodeId>,
}

/// A step as drawn: where the flow comes in, and every way out.
struct Piece {
    entry: Spot,
    outs: Vec<Out>,
}

#[derive(Clone)]
struct Out {
    from: Spot,
    kind: Way,
    label: Option<String>,
    then: Then,
}

impl Out {
    fn next(from: Spot, then: Then) -> Out {
        Out { from, kind: Way::Next, label: None, then }
    }

    fn labelled(from: Spot, then: Then, label: String) -> Out {
        Out { from, kind: Way::Next, label: Some(label), then }
    }
}

/// What a step is drawn as: itself, or the call whose function it is the task of.
#[derive(Clone, Copy)]
struct Seen<'w> {
    step: &'w ir::Step,
    name: &'w str,
    condition: Option<ir::ExprId>,
    timeout: Option<ir::Delay>,
    then: Then,
    group: Option<GroupId>,
}

impl<'w> Flow<'w> {
    fn node(
        &mut self,
        kind: Kind,
        name: &str,
        step: Option<&str>,
        id: &str,
        group: Option<GroupId>,
    ) -> NodeId {
        let (id, rank) = (self.unique(id), self.rank());
        let (name, step) = (name.to_owned(), step.map(str::to_owned));
        self.graph.nodes.push(Node { id, step, kind, name, details: Vec::new(), group, rank });
        self.graph.nodes.len() - 1
    }

    fn group(&mut self, kind: Frame, seen: &Seen<'w>, id: &str) -> GroupId {
        let (id, rank) = (self.unique(id), self.rank());
        let step = Some(seen.step.reference.clone());
        let name = seen.name.to_owned();
        self.graph.groups.push(Group { id, step, kind, name, details: Vec::new(), group: seen.group, rank });
        self.graph.groups.len() - 1
    }

    fn rank(&mut self) -> usize {
        self.ranks += 1;
        self.ranks
    }

    /// The id, with a number behind it if it is taken: steps of extensions are drawn wherever they are put.
    fn unique(&mut self, id: &str) -> String {
        let numbered = (2..).map(|number| format!("{id}#{number}"));
        let free = std::iter::once(id.to_owned()).chain(numbered).find(|id| !self.ids.contains(id));
        let id = free.unwrap_or_default();
        self.ids.insert(id.clone());
        id
    }

    /// Draws a list of steps between two spots; true if anything gets to its end.
    fn list(&mut self, ids: &[StepId], group: Option<GroupId>, from: Spot, to: Spot) -> bool {
        let pieces: Vec<Piece> = ids.iter().map(|id| self.step(*id, group)).collect();
        self.connect(pieces, group, from, to)
    }

    fn connect(&mut self, pieces: Vec<Piece>, group: Option<GroupId>, from: Spot, to: Spot) -> bool {
        let entries: Vec<Spot> = pieces.iter().map(|piece| piece.entry).collect();
        let Some(first) = entries.first() else {
            let id = format!("{}#empty", self.graph.id(from));
            let empty = Spot::Node(self.node(Kind::Empty, "nothing", None, &id, group));
            self.edge(from, empty, Way::Next, None);
            self.edge(empty, to, Way::Next, None);
            return true;
        };
        self.edge(from, *first, Way::Next, None);
        let mut reached = false;
        for (at, piece) in pieces.into_iter().enumerate() {
            for out in piece.outs {
                let target = match out.then {
                    Then::Continue => entries.get(at + 1).copied(),
                    Then::Goto(position) => entries.get(position as usize).copied(),
                    Then::Exit => None,
                    Then::End => Some(self.end(group)),
                };
                reached |= target.is_none();
                self.edge(out.from, target.unwrap_or(to), out.kind, out.label);
            }
        }
        reached
    }

    /// The end of the workflow as seen from inside a group.
    fn end(&mut self, group: Option<GroupId>) -> Spot {
        let Some(group) = group else { return END };
        if let Some(end) = self.ends.get(&group) {
            return Spot::Node(*end);
        }
        let id = format!("{}#end", self.graph.groups[group].id);
        let end = self.node(Kind::End, "end", None, &id, Some(group));
        self.graph.nodes[end].rank = LAST;
        self.ends.insert(group, end);
        Spot::Node(end)
    }

    /// Adds an edge; two of a kind between the same spots become one.
    fn edge(&mut self, from: Spot, to: Spot, kind: Way, label: Option<String>) {
        let same = |edge: &&mut Edge| edge.from == from && edge.to == to && edge.kind == kind;
        // Doubles come right after each other, from the cases of one switch.
        let doubled = self.graph.edges.iter_mut().rev().take_while(|edge| edge.from == from).find(same);
        match (doubled, label) {
            (Some(edge), Some(label)) => {
                let labels = edge.label.take().into_iter().chain([label]);
                edge.label = Some(labels.collect::<Vec<_>>().join(" | "));
            }
            (Some(_), None) => {}
            (None, label) => self.graph.edges.push(Edge { from, to, kind, label }),
        }
    }

    /// Puts the end in, if anything leads there.
    fn finish(mut self) -> Graph {
        if self.graph.edges.iter().any(|edge| edge.to == END) {
            let end = Spot::Node(self.node(Kind::End, "end", None, "#end", None));
            for edge in self.graph.edges.iter_mut().filter(|edge| edge.to == END) {
                edge.to = end;
            }
        }
        self.graph
    }

    /// Draws a step, with what extensions put around it.
    fn step(&mut self, id: StepId, group: Option<GroupId>) -> Piece {
        let workflow: &'w ir::Workflow = self.workflow;
        let step = &workflow.steps[id as usize];
        let seen = Seen {
            step,
            name: &step.name,
            condition: step.condition,
            timeout: step.timeout,
            then: step.then,
            group,
        };
        match step.before.is_empty() && step.after.is_empty() {
            true => self.seen(seen),
            false => self.extended(seen),
        }
    }

    fn seen(&mut self, seen: Seen<'w>) -> Piece {
        use ir::Kind::*;
        let mut piece = match &seen.step.kind {
            Do { list } => self.inside(Frame::Do, &seen, list),
            For { list, .. } => self.looped(Frame::For, &seen, list),
            Listen { foreach: Some(foreach), .. } => self.looped(Frame::Listen, &seen, &foreach.list),
            Fork { branches, compete } => self.fork(&seen, branches, *compete),
            Try { list, catch } => self.attempt(&seen, list, catch),
            Saga { steps } => self.saga(&seen, steps),
            Call { call: ir::Call::Map { with } } => self.map(&seen, with),
            Function { task, .. } => return self.function(&seen, *task),
            Switch { cases } => self.switch(&seen, cases),
            Raise { .. } => {
                let node = self.leaf(&seen, Kind::Raise);
                Piece { entry: node, outs: Vec::new() }
            }
            _ => {
                let node = self.leaf(&seen, kind(&seen.step.kind));
                Piece { entry: node, outs: vec![Out::next(node, seen.then)] }
            }
        };
        self.skipped(&seen, &mut piece);
        piece
    }

    /// A step that is left out goes on to the next one, whatever its own `then` says.
    fn skipped(&self, seen: &Seen<'w>, piece: &mut Piece) {
        let goes_on = piece.outs.iter().any(|out| out.then == Then::Continue && out.kind == Way::Next);
        if seen.condition.is_some() && !goes_on {
            piece.outs.push(Out::labelled(piece.entry, Then::Continue, "else".to_owned()));
        }
    }

    fn leaf(&mut self, seen: &Seen<'w>, kind: Kind) -> Spot {
        let reference = seen.step.reference.as_str();
        let node = self.node(kind, seen.name, Some(reference), reference, seen.group);
        let what = words::step(self.workflow, seen.step);
        let around = words::around(self.workflow, seen.condition, seen.timeout);
        self.graph.nodes[node].details = what.into_iter().chain(around).collect();
        Spot::Node(node)
    }

    fn switch(&mut self, seen: &Seen<'w>, cases: &[ir::Case]) -> Piece {
        let node = self.leaf(seen, Kind::Switch);
        let mut outs: Vec<Out> = Vec::new();
        for case in cases.iter().filter(|case| case.when.is_some()) {
            let label = case.when.map_or_else(String::new, |when| words::expr(self.workflow, when));
            outs.push(Out::labelled(node, case.then, label));
        }
        let default = cases.iter().find(|case| case.when.is_none());
        outs.push(Out::labelled(node, default.map_or(seen.then, |case| case.then), "else".to_owned()));
        Piece { entry: node, outs }
    }

    /// The call of a function is drawn as the function's task.
    fn function(&mut self, seen: &Seen<'w>, task: StepId) -> Piece {
        let workflow: &'w ir::Workflow = self.workflow;
        let step = &workflow.steps[task as usize];
        let condition = seen.condition.or(step.condition);
        let timeout = seen.timeout.or(step.timeout);
        self.seen(Seen { step, condition, timeout, ..*seen })
    }
}

fn kind(kind: &ir::Kind) -> Kind {
    match kind {
        ir::Kind::Set { .. } => Kind::Set,
        ir::Kind::Wait { .. } => Kind::Wait,
        ir::Kind::Emit { .. } => Kind::Emit,
        ir::Kind::Listen { .. } => Kind::Listen,
        ir::Kind::Unsupported { .. } => Kind::Unsupported,
        ir::Kind::Call { call } => match call {
            Call::Http(_) | Call::OpenApi(_) => Kind::Http,
            Call::HumanTask { .. } => Kind::HumanTask,
            Call::SignalToken => Kind::SignalToken,
            Call::Workflow { .. } | Call::Child { .. } => Kind::Child,
            Call::Script(_) => Kind::Script,
            Call::Worker { .. } | Call::Map { .. } => Kind::Call,
        },
        _ => Kind::Call,
    }
}

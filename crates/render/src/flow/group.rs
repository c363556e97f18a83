//! Steps with steps inside: each becomes a group.

use super::{Flow, Out, Piece, Seen, words};
use crate::graph::{Frame, GroupId, Kind, Spot, Way};
use machine::ir::{self, StepId, Template, Then};

impl<'w> Flow<'w> {
    /// A group of its own, with its header.
    fn framed(&mut self, frame: Frame, seen: &Seen<'w>) -> GroupId {
        let group = self.group(frame, seen, &seen.step.reference);
        let what = words::step(self.workflow, seen.step);
        let around = words::around(self.workflow, seen.condition, seen.timeout);
        self.graph.groups[group].details = what.into_iter().chain(around).collect();
        group
    }

    pub(super) fn inside(&mut self, frame: Frame, seen: &Seen<'w>, list: &[StepId]) -> Piece {
        let group = self.framed(frame, seen);
        let spot = Spot::Group(group);
        let reached = self.list(list, Some(group), spot, spot);
        let outs = reached.then(|| Out::next(spot, seen.then));
        Piece { entry: spot, outs: outs.into_iter().collect() }
    }

    /// What may be gone through not even once: it can always be left.
    pub(super) fn looped(&mut self, frame: Frame, seen: &Seen<'w>, list: &[StepId]) -> Piece {
        let piece = self.inside(frame, seen, list);
        Piece { entry: piece.entry, outs: vec![Out::next(piece.entry, seen.then)] }
    }

    pub(super) fn fork(&mut self, seen: &Seen<'w>, branches: &[StepId], compete: bool) -> Piece {
        let group = self.framed(Frame::Fork, seen);
        let spot = Spot::Group(group);
        let reference = seen.step.reference.as_str();
        let split =
            Spot::Node(self.node(Kind::Split, "all", None, &format!("{reference}#split"), Some(group)));
        let pieces: Vec<Piece> = branches.iter().map(|id| self.step(*id, Some(group))).collect();
        let name = if compete { "first" } else { "all" };
        let join = Spot::Node(self.node(Kind::Join, name, None, &format!("{reference}#join"), Some(group)));
        self.edge(spot, split, Way::Next, None);
        for piece in pieces {
            self.edge(split, piece.entry, Way::Next, None);
            for out in piece.outs {
                let to = if out.then == Then::End { self.end(Some(group)) } else { join };
                self.edge(out.from, to, out.kind, out.label);
            }
        }
        self.edge(join, spot, Way::Next, None);
        Piece { entry: spot, outs: vec![Out::next(spot, seen.then)] }
    }

    /// The handler of errors stands beside what it guards.
    pub(super) fn attempt(&mut self, seen: &Seen<'w>, list: &[StepId], catch: &ir::Catch) -> Piece {
        let mut piece = self.inside(Frame::Try, seen, list);
        let Some(handler) = &catch.list else { return piece };
        let group = self.group(Frame::Catch, seen, &format!("{}/catch", seen.step.reference));
        self.graph.groups[group].name = "catch".to_owned();
        self.graph.groups[group].details = words::handler(self.workflow, catch);
        // History tells of the step that guards; the handler is no step of its own.
        self.graph.groups[group].step = None;
        let spot = Spot::Group(group);
        let reached = if handler.is_empty() {
            self.connect(Vec::new(), Some(group), spot, spot)
        } else {
            self.list(handler, Some(group), spot, spot)
        };
        self.edge(piece.entry, spot, Way::Catch, Some(words::errors(&catch.with)));
        if reached {
            piece.outs.push(Out::next(spot, catch.then.unwrap_or(seen.then)));
        }
        piece
    }

    pub(super) fn saga(&mut self, seen: &Seen<'w>, steps: &[ir::SagaStep]) -> Piece {
        let group = self.framed(Frame::Saga, seen);
        let spot = Spot::Group(group);
        let mut pieces = Vec::new();
        for step in steps {
            let piece = self.step(step.r#do, Some(group));
            self.mark_pivot(piece.entry, step.pivot);
            if let Some(undo) = step.undo {
                let undo = self.step(undo, Some(group));
                self.rename(undo.entry, format!("undo {}", step.name));
                self.edge(piece.entry, undo.entry, Way::Undo, None);
            }
            pieces.push(piece);
        }
        self.connect(pieces, Some(group), spot, spot);
        Piece { entry: spot, outs: vec![Out::next(spot, seen.then)] }
    }

    fn rename(&mut self, spot: Spot, name: String) {
        match spot {
            Spot::Node(id) => self.graph.nodes[id].name = name,
            Spot::Group(id) => self.graph.groups[id].name = name,
        }
    }

    fn mark_pivot(&mut self, spot: Spot, pivot: bool) {
        if !pivot {
            return;
        }
        let details = match spot {
            Spot::Node(id) => &mut self.graph.nodes[id].details,
            Spot::Group(id) => &mut self.graph.groups[id].details,
        };
        details.truncate(crate::graph::DETAILS_MAX - 1);
        details.push("no way back from here".to_owned());
    }

    /// One child for each item.
    pub(super) fn map(&mut self, seen: &Seen<'w>, with: &Template) -> Piece {
        let group = self.framed(Frame::Map, seen);
        let spot = Spot::Group(group);
        let name = words::child(self.workflow, with);
        let id = format!("{}#each", seen.step.reference);
        let child = self.node(Kind::Child, &name, None, &id, Some(group));
        self.graph.nodes[child].details = words::pace(self.workflow, with).into_iter().collect();
        self.edge(spot, Spot::Node(child), Way::Next, None);
        self.edge(Spot::Node(child), spot, Way::Next, None);
        Piece { entry: spot, outs: vec![Out::next(spot, seen.then)] }
    }

    /// A step between the steps that extensions put around it.
    pub(super) fn extended(&mut self, seen: Seen<'w>) -> Piece {
        let group = self.group(Frame::Extended, &seen, &format!("{}#extended", seen.step.reference));
        self.graph.groups[group].name = "extended".to_owned();
        self.graph.groups[group].step = None;
        let spot = Spot::Group(group);
        let mut pieces: Vec<Piece> = Vec::new();
        for extension in &seen.step.before {
            self.extension(extension, group, &mut pieces);
        }
        let own = self.seen(Seen { group: Some(group), ..seen });
        let goes_on = own.outs.first().map(|out| Out::next(out.from, Then::Continue));
        pieces.push(Piece { entry: own.entry, outs: goes_on.into_iter().collect() });
        for extension in seen.step.after.iter().rev() {
            self.extension(extension, group, &mut pieces);
        }
        self.connect(pieces, Some(group), spot, spot);
        let outs = own.outs.into_iter().map(|out| Out { from: spot, kind: Way::Next, ..out });
        Piece { entry: spot, outs: outs.collect() }
    }

    /// Adds the steps of one extension, behind its condition; positions in its list become positions in the whole.
    fn extension(&mut self, extension: &ir::Extension, group: GroupId, pieces: &mut Vec<Piece>) {
        if let Some(when) = extension.when {
            let id = format!("{}#when", self.graph.groups[group].id);
            let node = Spot::Node(self.node(Kind::Switch, "applies?", None, &id, Some(group)));
            let after = Then::Goto((pieces.len() + 1 + extension.list.len()) as u32);
            let outs = vec![
                Out::labelled(node, Then::Continue, words::expr(self.workflow, when)),
                Out::labelled(node, after, "else".to_owned()),
            ];
            pieces.push(Piece { entry: node, outs });
        }
        let base = pieces.len() as u32;
        for id in &extension.list {
            let mut piece = self.step(*id, Some(group));
            for out in &mut piece.outs {
                if let Then::Goto(position) = &mut out.then {
                    *position += base;
                }
            }
            pieces.push(piece);
        }
    }
}

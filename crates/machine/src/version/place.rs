//! Where an instance of one version would stand in another.

use super::{
    Mapping,
    diff::changes,
    pairs::{Pairs, Target},
};
use crate::{
    command::{Decision, Event},
    data::Data,
    ir::{Kind, StepId, Then},
    program::Program,
    state::{Body, Branch, Cursor, Frame, Joined, Next, Phase, State, Status},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Whether an instance can go on in another version.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "fit", rename_all = "kebab-case")]
pub enum Fit {
    /// Every step it stands in is there, of the same kind, and what flows through it is unchanged.
    Safe,
    /// It can go on if somebody says where; these steps need a word.
    NeedsMapping { references: Vec<Need> },
    /// It cannot go on there.
    Breaks { reasons: Vec<String> },
}

/// One step that needs a word.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Need {
    /// In the version the instance is of.
    pub reference: String,
    pub why: String,
    /// What to map it to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// Two versions with their steps paired; good for any number of instances.
pub struct Plan<'a> {
    old: &'a Program,
    new: &'a Program,
    mapping: &'a Mapping,
    pairs: Pairs,
}

impl<'a> Plan<'a> {
    pub fn new(old: &'a Program, new: &'a Program, mapping: &'a Mapping) -> Plan<'a> {
        Plan { old, new, mapping, pairs: Pairs::new(&old.ir, &new.ir, mapping) }
    }

    /// Whether the instance can go on in the new version.
    pub fn fit(&self, state: &State) -> Fit {
        self.place(state).err().unwrap_or(Fit::Safe)
    }

    /// Moves the instance to the new version, or says why it cannot be. Tokens and waits stay, so that whatever is
    /// under way comes back to it.
    pub fn migrate(&self, state: &State) -> Result<Decision, Fit> {
        let state = self.place(state)?;
        let mut detail = vec![
            ("from".to_owned(), Data::text(self.old.ir.version.as_str())),
            ("to".to_owned(), Data::text(self.new.ir.version.as_str())),
        ];
        if !self.mapping.is_empty() {
            let pairs = self.mapping.iter().map(|(old, new)| (old.clone(), Data::text(new.as_str())));
            detail.push(("mapping".to_owned(), Data::map(pairs)));
        }
        let event =
            Event { kind: "workflow.migrated", step: None, iteration: None, detail: Some(Data::map(detail)) };
        Ok(Decision { state, events: vec![event], effects: vec![] })
    }

    fn place(&self, state: &State) -> Result<State, Fit> {
        if matches!(state.status, Status::Completed | Status::Cancelled) {
            let reasons = vec![format!("the instance is {}", state.status_word())];
            return Err(Fit::Breaks { reasons });
        }
        let mut placing = Placing { plan: self, state, needs: BTreeMap::new(), breaks: Vec::new() };
        let branches = state.branches.iter().map(|branch| placing.branch(branch)).collect();
        let Placing { needs, mut breaks, .. } = placing;
        breaks.dedup();
        match (breaks.is_empty(), needs.is_empty()) {
            (true, true) => Ok(State { branches, ..state.clone() }),
            (true, false) => Err(Fit::NeedsMapping { references: needs.into_values().collect() }),
            (false, _) => Err(Fit::Breaks { reasons: breaks }),
        }
    }
}

struct Placing<'p, 'a> {
    plan: &'p Plan<'a>,
    state: &'p State,
    /// By reference, each once.
    needs: BTreeMap<String, Need>,
    breaks: Vec<String>,
}

impl Placing<'_, '_> {
    fn branch(&mut self, branch: &Branch) -> Branch {
        let mut placed = branch.clone();
        if let Some((parent, position)) = branch.fork {
            placed.fork = Some((parent, self.fork_position(parent, position)));
        }
        // The list a frame's step is in, before and now.
        let mut around: Option<(&[StepId], &[StepId])> = None;
        let (old, new) = (self.plan.old, self.plan.new);
        for (position, (frame, placed)) in branch.frames.iter().zip(&mut placed.frames).enumerate() {
            let Some(step) = self.step(frame) else { break };
            placed.step = step;
            let lists = (old.list(frame.step, &frame.body), new.list(step, &frame.body));
            if let Some(cursor) = cursor(&mut placed.body) {
                cursor.at = self.at(cursor.at, lists);
            }
            if let (Body::Fork { joined }, Some(id)) = (&mut placed.body, frame.step) {
                *joined = self.joined(id, joined);
            }
            if position + 1 < branch.frames.len() {
                around = Some(lists);
            }
        }
        // Ending the last step may lead to a position of the list around it.
        if let (Some(Next::Complete { then: Some(Then::Goto(at)), .. }), Some(lists)) =
            (&mut placed.next, around)
        {
            *at = self.at(*at, lists);
        }
        placed
    }

    /// The frame's step in the new version, which it stands in; nothing if that is not clear.
    fn step(&mut self, frame: &Frame) -> Option<Option<StepId>> {
        let Some(id) = frame.step else { return Some(None) };
        let to = self.target(id)?;
        let (old, new) = (self.plan.old.step(id), self.plan.new.step(to));
        if old.kind.word() != new.kind.word() {
            let (was, is) = (old.kind.word(), new.kind.word());
            self.breaks.push(format!("{} was `{was}` and is `{is}`", old.reference));
            return None;
        }
        if matches!(frame.body, Body::Around(_))
            && (old.before.len(), old.after.len()) != (new.before.len(), new.after.len())
        {
            self.breaks.push(format!("{} is among its extensions, and they changed", old.reference));
        }
        // What is done is remembered by its place among the steps.
        let shape = |program: &Program, id: StepId| -> Vec<(String, bool, bool)> {
            let steps = program.saga_steps(id).iter();
            steps.map(|step| (step.name.clone(), step.undo.is_some(), step.pivot)).collect()
        };
        if matches!(frame.body, Body::Saga(_)) && shape(self.plan.old, id) != shape(self.plan.new, to) {
            self.breaks.push(format!("{} is a saga under way, and its steps changed", old.reference));
        }
        let changed: Vec<String> = changes(&self.plan.old.ir, id, &self.plan.new.ir, to)
            .into_iter()
            .map(|change| change.what)
            .filter(|what| matters(what))
            .collect();
        if !changed.is_empty() {
            self.changed(id, to, &frame.body, &changed);
        }
        Some(Some(to))
    }

    /// The data flow of a step the instance stands in changed.
    fn changed(&mut self, id: StepId, to: StepId, body: &Body, changed: &[String]) {
        let reference = &self.plan.old.step(id).reference;
        let what = changed.join("`, `");
        if matches!(body, Body::Listen(_)) {
            // What is expected was computed from the filters when listening began.
            self.breaks.push(format!("{reference} is listening, and its `{what}` changed"));
        } else if !self.plan.mapping.contains_key(reference) {
            self.need(id, to, format!("the instance is in it, and its `{what}` changed"));
        }
    }

    fn need(&mut self, id: StepId, to: StepId, why: String) {
        let reference = self.plan.old.step(id).reference.clone();
        let suggestion = Some(self.plan.new.step(to).reference.clone());
        self.needs.entry(reference.clone()).or_insert(Need { reference, why, suggestion });
    }

    /// What a step of the old version is in the new one; notes it if nobody can tell.
    fn target(&mut self, id: StepId) -> Option<StepId> {
        let reference = &self.plan.old.step(id).reference;
        match self.plan.pairs.targets[id as usize] {
            Target::Same(to) | Target::Mapped(to) => return Some(to),
            Target::Moved(to) => {
                self.need(id, to, "it changed places with another step of its list".to_owned());
                return Some(to);
            }
            Target::Alike(to) if self.is_in_same_list(id, to) => {
                self.need(id, to, "it is gone, but another step does the same".to_owned());
            }
            Target::Alike(to) => {
                let is = &self.plan.new.step(to).reference;
                self.breaks.push(format!("{reference} is in another list now: {is}"));
            }
            Target::Gone => self.breaks.push(format!("{reference} is gone")),
            Target::Astray => self.breaks.push(format!("{reference} is mapped to a step that is not there")),
        }
        None
    }

    /// True if the two stand in what is the same list of both versions.
    fn is_in_same_list(&self, id: StepId, to: StepId) -> bool {
        match (self.plan.old.ir.home(id), self.plan.new.ir.home(to)) {
            (None, None) => true,
            (Some((owner, list)), Some((new_owner, new_list))) => {
                let target = match self.plan.pairs.targets[owner as usize] {
                    Target::Alike(alike) => Some(alike),
                    target => target.step(),
                };
                target == Some(new_owner) && list == new_list
            }
            _ => false,
        }
    }

    /// A position of the old list in the new one.
    fn at(&mut self, at: u32, (old, new): (&[StepId], &[StepId])) -> u32 {
        let Some(id) = old.get(at as usize) else { return new.len() as u32 };
        let Some(to) = self.target(*id) else { return at };
        match new.iter().position(|other| *other == to) {
            Some(position) => position as u32,
            None => {
                let (was, is) = (&self.plan.old.step(*id).reference, &self.plan.new.step(to).reference);
                self.breaks.push(format!("{was} is in another list now: {is}"));
                at
            }
        }
    }

    /// The branches of a fork step, before and now.
    fn branches(&self, id: StepId) -> Option<(&[StepId], &[StepId])> {
        let to = self.plan.pairs.targets[id as usize].step()?;
        match (&self.plan.old.step(id).kind, &self.plan.new.step(to).kind) {
            (Kind::Fork { branches: old, .. }, Kind::Fork { branches: new, .. }) => Some((old, new)),
            _ => None,
        }
    }

    /// The position of a fork's branch among those of the new version.
    fn fork_position(&mut self, parent: u32, position: u32) -> u32 {
        let fork = self.state.branch(parent).and_then(|parent| parent.frames.last()?.step);
        match fork.and_then(|fork| self.branches(fork)) {
            Some((old, new)) => {
                let (old, new) = (old.to_vec(), new.to_vec());
                self.at(position, (&old, &new))
            }
            None => position,
        }
    }

    /// What the branches have come to, by their new positions. A fork under way must have the same branches.
    fn joined(&mut self, id: StepId, joined: &[Joined]) -> Vec<Joined> {
        let Some((old, new)) = self.branches(id) else { return joined.to_vec() };
        let (old, new) = (old.to_vec(), new.to_vec());
        if old.len() != new.len() {
            let reference = &self.plan.old.step(id).reference;
            self.breaks.push(format!("{reference} is under way and has other branches now"));
            return joined.to_vec();
        }
        let mut placed = joined.to_vec();
        for (position, came_to) in joined.iter().enumerate() {
            let at = self.at(position as u32, (&old, &new));
            if let Some(place) = placed.get_mut(at as usize) {
                *place = came_to.clone();
            }
        }
        placed
    }
}

/// True if a change of this member changes what flows through a step that is under way. The others were used when
/// the step began, or only say where to go afterwards.
fn matters(what: &str) -> bool {
    const USED_UP: [&str; 9] =
        ["if", "input", "timeout", "then", "metadata", "while", "catch", "switch", "foreach"];
    !USED_UP.contains(&what.split('.').next().unwrap_or(what))
}

/// Where the frame stands in its list, if it goes through one.
fn cursor(body: &mut Body) -> Option<&mut Cursor> {
    match body {
        Body::List(cursor) | Body::For { cursor, .. } => Some(cursor),
        Body::Try(attempt) => match attempt.phase {
            Phase::Trying | Phase::Catching | Phase::Done => Some(&mut attempt.cursor),
            // The next attempt begins at the start.
            Phase::BackingOff => None,
        },
        Body::Listen(listening) => listening.iterating.then_some(&mut listening.cursor),
        Body::Around(around) => around.inside.then_some(&mut around.cursor),
        Body::Leaf | Body::Fork { .. } | Body::Map(_) | Body::Saga(_) => None,
    }
}

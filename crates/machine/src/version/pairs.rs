//! Which step of one version is which step of the other.
//!
//! A step is known by the names of the steps around it and its own: names are unique within a list, so the path of
//! names stays when something is inserted before the step. A mapping changes paths first. Steps whose paths find
//! nothing are paired if exactly one step of the other version does the same; such a pair is only a suggestion.

use super::{Mapping, order};
use crate::{
    data::Data,
    ir::{StepId, Workflow},
    language,
};
use std::collections::{HashMap, HashSet};

/// What a step of the old version is in the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The same path.
    Same(StepId),
    /// The same path, in another order than before.
    Moved(StepId),
    /// What the mapping says.
    Mapped(StepId),
    /// The mapping leads nowhere.
    Astray,
    /// Nothing of that path, but this one does the same.
    Alike(StepId),
    Gone,
}

pub(super) struct Pairs {
    /// By old step.
    pub(super) targets: Vec<Target>,
    /// New steps that no old one is.
    pub(super) added: Vec<StepId>,
}

/// A path of names, and which of the steps of that very reference (a function's step has that of its call).
type Key = (String, usize);

impl Pairs {
    pub(super) fn new(old: &Workflow, new: &Workflow, mapping: &Mapping) -> Pairs {
        let new_keys = keys(new, path);
        let by_key: HashMap<&Key, StepId> = new_keys.iter().zip(0..).collect();
        let mut explicit = HashSet::new();
        let old_keys = keys(old, |reference| match mapped(reference, mapping) {
            Some(other) => {
                explicit.insert(reference.to_owned());
                path(&other)
            }
            None => path(reference),
        });
        let find = |id: usize| {
            let explicit = explicit.contains(&old.steps[id].reference);
            match (by_key.get(&old_keys[id]), explicit) {
                (Some(new), true) => Target::Mapped(*new),
                (Some(new), false) => Target::Same(*new),
                (None, true) => Target::Astray,
                (None, false) => Target::Gone,
            }
        };
        let mut targets: Vec<Target> = (0..old.steps.len()).map(find).collect();
        mark_moved(old, new, &mut targets);
        let taken: HashSet<StepId> = targets.iter().filter_map(|target| target.step()).collect();
        let mut added: Vec<StepId> =
            (0..new.steps.len() as StepId).filter(|id| !taken.contains(id)).collect();
        mark_alike(old, new, &mut targets, &mut added);
        Pairs { targets, added }
    }
}

impl Target {
    /// The step, if it is certain which one it is.
    pub(super) fn step(self) -> Option<StepId> {
        match self {
            Target::Same(id) | Target::Moved(id) | Target::Mapped(id) => Some(id),
            Target::Astray | Target::Alike(_) | Target::Gone => None,
        }
    }
}

fn keys(workflow: &Workflow, mut path: impl FnMut(&str) -> String) -> Vec<Key> {
    let extended = extended(workflow);
    let mut seen: HashMap<(&str, Option<StepId>), usize> = HashMap::new();
    let keys = workflow.steps.iter().zip(0..).map(|(step, id)| {
        let around = extended.get(&id).copied();
        let count = seen.entry((&step.reference, around)).or_default();
        *count += 1;
        let around = around.map(|around| path(&workflow.steps[around as usize].reference));
        (format!("{}{}", around.unwrap_or_default(), path(&step.reference)), *count - 1)
    });
    keys.collect()
}

/// The steps of extensions, each with the step it is put around: their references are those of the extension.
fn extended(workflow: &Workflow) -> HashMap<StepId, StepId> {
    let mut extended = HashMap::new();
    for (step, id) in workflow.steps.iter().zip(0..) {
        let mut open: Vec<StepId> =
            step.before.iter().chain(&step.after).flat_map(|extension| extension.list.clone()).collect();
        while let Some(inner) = open.pop() {
            extended.insert(inner, id);
            open.extend(workflow.steps[inner as usize].kind.lists().concat());
        }
    }
    extended
}

/// The reference without positions: `/do/0/a/try/1/b` becomes `/do/a/try/b`.
pub(super) fn path(reference: &str) -> String {
    let mut path = String::new();
    let mut segments = reference.split('/').skip(1);
    while let Some(segment) = segments.next() {
        // After a position comes a name, which may look like a number.
        let kept = match segment.bytes().all(|byte| byte.is_ascii_digit()) {
            true => segments.next().unwrap_or_default(),
            false => segment,
        };
        path.push('/');
        path.push_str(kept);
    }
    path
}

/// The reference under the mapping: that of the step itself, or of the nearest step around it.
fn mapped(reference: &str, mapping: &Mapping) -> Option<String> {
    let mut end = reference.len();
    loop {
        if let Some(to) = mapping.get(&reference[..end]) {
            return Some(format!("{to}{}", &reference[end..]));
        }
        end = reference[..end].rfind('/')?;
    }
}

/// Finds the steps that changed places within their list.
fn mark_moved(old: &Workflow, new: &Workflow, targets: &mut [Target]) {
    let places: HashMap<StepId, (usize, usize)> = lists(old)
        .into_iter()
        .enumerate()
        .flat_map(|(list, ids)| ids.iter().enumerate().map(move |(at, id)| (*id, (list, at))))
        .collect();
    let back: HashMap<StepId, usize> =
        targets.iter().enumerate().filter_map(|(old, target)| Some((target.step()?, old))).collect();
    for ids in lists(new) {
        let known: Vec<(usize, (usize, usize))> = ids
            .iter()
            .filter_map(|id| back.get(id))
            .filter_map(|old| Some((*old, *places.get(&(*old as StepId))?)))
            .collect();
        let Some(home) = known.first().map(|(_, (list, _))| *list) else { continue };
        let here: Vec<(usize, usize)> = known
            .into_iter()
            .filter(|(_, (list, _))| *list == home)
            .map(|(old, (_, at))| (old, at))
            .collect();
        let before: Vec<usize> = here.iter().map(|(_, at)| *at).collect();
        for ((old, _), moved) in here.iter().zip(order::moved(&before)) {
            if let (true, Target::Same(id)) = (moved, targets[*old]) {
                targets[*old] = Target::Moved(id);
            }
        }
    }
}

/// Every list of the definition, the top-level one first.
fn lists(workflow: &Workflow) -> Vec<&[StepId]> {
    let inner = workflow.steps.iter().flat_map(|step| step.lists());
    std::iter::once(workflow.root.as_slice()).chain(inner).collect()
}

/// Pairs each lost step with the only new one that does the same.
fn mark_alike(old: &Workflow, new: &Workflow, targets: &mut [Target], added: &mut Vec<StepId>) {
    let mut candidates: HashMap<Vec<u8>, Vec<StepId>> = HashMap::new();
    for id in added.iter() {
        candidates.entry(likeness(new, *id)).or_default().push(*id);
    }
    let lost: Vec<usize> = (0..targets.len()).filter(|id| targets[*id] == Target::Gone).collect();
    let mut rivals: HashMap<Vec<u8>, usize> = HashMap::new();
    for id in &lost {
        *rivals.entry(likeness(old, *id as StepId)).or_default() += 1;
    }
    for id in lost {
        let likeness = likeness(old, id as StepId);
        let named = |other: &&StepId| new.steps[**other as usize].name == old.steps[id].name;
        let Some(alike) = candidates.get(&likeness) else { continue };
        let found = match alike.as_slice() {
            [only] if rivals[&likeness] == 1 => Some(*only),
            several => {
                several.iter().find(named).copied().filter(|_| several.iter().filter(named).count() == 1)
            }
        };
        if let Some(found) = found.filter(|found| added.contains(found)) {
            targets[id] = Target::Alike(found);
            added.retain(|other| *other != found);
        }
    }
}

/// What a step does, without its name, its place and the steps inside it.
fn likeness(workflow: &Workflow, id: StepId) -> Vec<u8> {
    let own = language::own(workflow, id).into_iter().filter(|(key, _)| key != "then");
    Data::map(own).to_bytes()
}

//! What changed between two versions of a definition.

use super::pairs::{Pairs, Target};
use crate::{
    data::Data,
    ir::{StepId, Workflow},
    language,
};
use serde::Serialize;

/// The difference of two versions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// Outside of steps: the document's own members, input, output, timeout and so on.
    pub definition: Vec<Change>,
    /// In the order of the newer version; removed steps at the end.
    pub steps: Vec<StepChange>,
}

/// One step that is not as it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepChange {
    /// `added`, `removed`, `moved` (to another place), `renamed` or `changed`.
    pub change: &'static str,
    /// Its reference in the older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its reference in the newer version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What kind of step it is (in the newer version, if it is there).
    pub kind: &'static str,
    /// What is different about the step itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// One member that is not as it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The member as the document calls it, such as `then` or `with.endpoint`.
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Data>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Data>,
}

impl Diff {
    pub fn is_empty(&self) -> bool {
        self.definition.is_empty() && self.steps.is_empty()
    }
}

/// What changed from `old` to `new`.
pub fn diff(old: &Workflow, new: &Workflow) -> Diff {
    let pairs = Pairs::new(old, new, &Default::default());
    let mut steps: Vec<(StepId, StepChange)> =
        pairs.added.iter().map(|id| (*id, alone("added", new, *id))).collect();
    let mut removed = Vec::new();
    for (id, target) in (0..).zip(&pairs.targets) {
        match *target {
            Target::Same(to) | Target::Mapped(to) => steps.extend(paired("changed", old, id, new, to)),
            Target::Moved(to) => steps.extend(paired("moved", old, id, new, to)),
            Target::Alike(to) => {
                let same_name = old.steps[id as usize].name == new.steps[to as usize].name;
                let change = if same_name { "moved" } else { "renamed" };
                steps.extend(paired(change, old, id, new, to));
            }
            Target::Gone | Target::Astray => removed.push(alone("removed", old, id)),
        }
    }
    steps.sort_by_key(|(position, _)| *position);
    let steps = steps.into_iter().map(|(_, change)| change).chain(removed).collect();
    Diff { definition: of_definition(old, new), steps }
}

fn alone(change: &'static str, workflow: &Workflow, id: StepId) -> StepChange {
    let step = &workflow.steps[id as usize];
    let reference = Some(step.reference.clone());
    let (from, to) = if change == "added" { (None, reference) } else { (reference, None) };
    StepChange { change, from, to, kind: step.kind.word(), changes: vec![] }
}

/// The change of a pair; nothing if it only is where it was.
fn paired(
    change: &'static str,
    old: &Workflow,
    from: StepId,
    new: &Workflow,
    to: StepId,
) -> Option<(StepId, StepChange)> {
    let changes = changes(old, from, new, to);
    if change == "changed" && changes.is_empty() {
        return None;
    }
    let (before, after) = (&old.steps[from as usize], &new.steps[to as usize]);
    let change = StepChange {
        change,
        from: Some(before.reference.clone()),
        to: Some(after.reference.clone()),
        kind: after.kind.word(),
        changes,
    };
    Some((to, change))
}

/// What is different about a step itself.
pub(super) fn changes(old: &Workflow, from: StepId, new: &Workflow, to: StepId) -> Vec<Change> {
    let (before, after) = (&old.steps[from as usize].kind, &new.steps[to as usize].kind);
    if before.word() != after.word() {
        let word = |word: &str| Some(Data::text(word));
        return vec![Change { what: "kind".to_owned(), from: word(before.word()), to: word(after.word()) }];
    }
    let (before, after) = (Data::map(language::own(old, from)), Data::map(language::own(new, to)));
    let mut changes = Vec::new();
    compare("", Some(before), Some(after), &mut changes);
    changes
}

fn of_definition(old: &Workflow, new: &Workflow) -> Vec<Change> {
    let whole = |workflow: &Workflow| {
        let members = language::document(workflow).entries().unwrap_or_default().into_iter();
        Data::map(members.filter(|(key, _)| key != "do"))
    };
    let mut changes = Vec::new();
    compare("", Some(whole(old)), Some(whole(new)), &mut changes);
    changes.retain(|change| change.what != "document.version");
    changes
}

/// Goes into objects on both sides, so that a change is told where it is.
fn compare(at: &str, from: Option<Data>, to: Option<Data>, changes: &mut Vec<Change>) {
    const DEPTH_MAX: usize = 4;
    if from == to {
        return;
    }
    let (Some(before), Some(after)) = (
        from.as_ref().and_then(Data::entries).filter(|_| at.split('.').count() <= DEPTH_MAX),
        to.as_ref().and_then(Data::entries),
    ) else {
        return changes.push(Change { what: at.to_owned(), from, to });
    };
    let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    for (key, value) in &before {
        let other = after.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        compare(&below(key), Some(value.clone()), other, changes);
    }
    for (key, value) in after {
        if !before.iter().any(|(name, _)| *name == key) {
            changes.push(Change { what: below(&key), from: None, to: Some(value) });
        }
    }
}

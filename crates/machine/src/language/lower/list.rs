//! Lists of tasks: their order, their names, and the jumps between them.

use super::Lowering;
use crate::{
    ir::{Kind, StepId, Then},
    language::{
        names::nearest,
        source::{At, escape},
    },
};

/// Where `then` may lead: the names of the tasks in the same list.
pub(super) struct Targets<'t> {
    names: Vec<&'t str>,
    /// True if the list is a set of branches, which run side by side.
    branches: bool,
}

impl Targets<'_> {
    /// A task that stands alone.
    pub(super) fn none() -> Targets<'static> {
        Targets { names: Vec::new(), branches: false }
    }
}

impl<'t> Lowering<'t, '_> {
    /// A list of tasks that run one after the other; `base` is the pointer of the list.
    pub(super) fn list(&mut self, at: At<'t>, base: &str) -> Vec<StepId> {
        let ids = self.tasks(at, base, false);
        self.lint_unreachable(at, &ids);
        ids
    }

    /// A list of tasks that run side by side.
    pub(super) fn branches(&mut self, at: At<'t>, base: &str) -> Vec<StepId> {
        self.tasks(at, base, true)
    }

    fn tasks(&mut self, at: At<'t>, base: &str, branches: bool) -> Vec<StepId> {
        let targets = self.targets(at, branches);
        let mut ids = Vec::new();
        for (index, item) in at.items().enumerate() {
            if let Some((name, task)) = only_member(item) {
                let reference = format!("{base}/{index}/{}", escape(name));
                ids.extend(self.step(name, task, reference, &targets));
            }
        }
        ids
    }

    fn targets(&mut self, at: At<'t>, branches: bool) -> Targets<'t> {
        let mut names: Vec<&str> = Vec::new();
        let mut seen = std::collections::HashMap::new();
        for item in at.items() {
            let Some((name, task)) = only_member(item) else {
                names.push("");
                continue;
            };
            if let Some(line) = seen.get(name) {
                let message = format!("a task of this list is already called `{name}` (line {line})");
                let hint = "names must be unique within a list; rename one of the two";
                self.error(task.key_place(), "duplicate-task", message, Some(hint.to_owned()));
            }
            if matches!(name, "continue" | "exit" | "end" | "") {
                let message = format!("a task cannot be called `{name}`: `then` could not lead to it");
                self.error(
                    task.key_place(),
                    "reserved-name",
                    message,
                    Some("choose another name".to_owned()),
                );
            }
            seen.entry(name).or_insert(task.key_place().line);
            names.push(name);
        }
        Targets { names, branches }
    }

    /// Where the flow directive at `at` leads.
    pub(super) fn then(&mut self, at: Option<At<'_>>, targets: &Targets<'_>) -> Then {
        let Some((at, text)) = at.and_then(|at| Some((at, at.text()?))) else { return Then::Continue };
        match text {
            "continue" => Then::Continue,
            "exit" => Then::Exit,
            "end" => Then::End,
            name => match targets.names.iter().position(|target| *target == name) {
                Some(_) if targets.branches => {
                    let message =
                        format!("`then` leads to `{name}`, which is another branch of the same fork");
                    let hint = "branches run side by side; put both tasks into one branch with `do`";
                    self.error(at.place(), "unknown-target", message, Some(hint.to_owned()));
                    Then::Continue
                }
                Some(position) => Then::Goto(position as u32),
                None => {
                    self.unknown_target(at, name, targets);
                    Then::Continue
                }
            },
        }
    }

    fn unknown_target(&mut self, at: At<'_>, name: &str, targets: &Targets<'_>) {
        const SHOWN_MAX: usize = 8;
        if self.report.is_full() {
            return;
        }
        let directives = ["continue", "exit", "end"];
        let names = targets.names.iter().copied().filter(|target| !target.is_empty() && !targets.branches);
        let mut names: Vec<&str> = names.chain(directives).collect();
        names.dedup();
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.len() <= SHOWN_MAX => format!("it can lead to {}", names.join(", ")),
            None => "it can lead to a task of the same list, or be continue, exit or end".to_owned(),
        };
        let message = format!("`then` leads to `{name}`, but no task of this list is called that");
        self.error(at.place(), "unknown-target", message, Some(hint));
    }

    /// Warns about tasks that no path from the start of their list reaches.
    fn lint_unreachable(&mut self, at: At<'_>, ids: &[StepId]) {
        // After an error positions in `ids` may not be those in the document.
        if ids.len() != at.items().len() {
            return;
        }
        let reached = self.reached(ids);
        for (index, item) in at.items().enumerate() {
            let first = !reached[index] && (index == 0 || reached[index - 1]);
            if let Some((name, task)) = only_member(item).filter(|_| first) {
                let message = format!("nothing leads to the task `{name}`");
                let hint = "remove it, or lead to it with `then`";
                self.warn(task.key_place(), "unreachable-task", message, hint);
            }
        }
    }

    fn reached(&self, ids: &[StepId]) -> Vec<bool> {
        let mut reached = vec![false; ids.len()];
        let mut open = vec![0];
        while let Some(index) = open.pop() {
            if index >= ids.len() || reached[index] {
                continue;
            }
            reached[index] = true;
            let step = &self.steps[ids[index] as usize];
            let mut follow = |then: Then| match then {
                Then::Continue => open.push(index + 1),
                Then::Goto(position) => open.push(position as usize),
                Then::Exit | Then::End => {}
            };
            if step.condition.is_some() {
                follow(Then::Continue);
            }
            match &step.kind {
                Kind::Raise { .. } => {}
                Kind::Switch { cases } => {
                    cases.iter().for_each(|case| follow(case.then));
                    if cases.iter().all(|case| case.when.is_some()) {
                        follow(step.then);
                    }
                }
                _ => follow(step.then),
            }
        }
        reached
    }
}

/// Name and task of a list item; `None` if it is not an object with one key.
pub(super) fn only_member(item: At<'_>) -> Option<(&str, At<'_>)> {
    let mut entries = item.entries();
    entries.next().filter(|_| entries.next().is_none())
}

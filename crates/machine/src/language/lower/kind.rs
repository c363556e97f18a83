//! The kinds of task that direct the flow: `for`, `fork`, `switch`, `wait`, and `run`, of which `child` has the part that is executed.

use super::{
    Lowering,
    expression::Site,
    list::{Targets, only_member},
};
use crate::{
    expr::ARGUMENTS,
    ir::{Case, Delay, Kind},
    language::{names, source::At},
    time::Span,
};

impl<'t> Lowering<'t, '_> {
    pub(super) fn r#for(&mut self, task: At<'t>, at: At<'_>, reference: &str) -> Kind {
        let item = self.variable(at.get("each"), "item");
        let index = self.variable(at.get("at"), "index");
        if let Some(at) = at.get("at").or(at.get("each")).filter(|_| item == index) {
            let message = format!("the element and its index are both called `${item}`");
            self.error(at.place(), "duplicate-variable", message, Some("name them apart".to_owned()));
        }
        let items = self.expression_in(at, "in", Site::Body).unwrap_or_default();
        let (condition, list) = self.with_locals(&[&item, &index], |inner| {
            let condition = inner.expression_in(task, "while", Site::Body);
            let list = task.get("do").map(|list| inner.list(list, &format!("{reference}/do")));
            (condition, list.unwrap_or_default())
        });
        Kind::For { item, at: index, items, condition, list }
    }

    /// The name of a variable that the language lets the document choose.
    pub(super) fn variable(&mut self, at: Option<At<'_>>, default: &str) -> String {
        let Some((at, name)) = at.and_then(|at| Some((at, at.text()?))) else { return default.to_owned() };
        if !names::is_variable(name) {
            let message = format!("`{name}` cannot be the name of a variable");
            let hint = match name.strip_prefix('$').filter(|bare| names::is_variable(bare)) {
                Some(bare) => format!("write it without the `$`: `{bare}`"),
                None => "use letters, digits and `_`, not starting with a digit".to_owned(),
            };
            self.error(at.place(), "bad-name", message, Some(hint));
            return default.to_owned();
        }
        if ARGUMENTS.contains(&name) {
            let message = format!("`${name}` is already an argument of every expression");
            self.error(at.place(), "reserved-name", message, Some("choose another name".to_owned()));
        }
        name.to_owned()
    }

    pub(super) fn fork(&mut self, at: At<'t>, reference: &str) -> Kind {
        let compete = at.get("compete").and_then(At::flag).unwrap_or(false);
        let branches = at.get("branches");
        if let (Some(branches), false) = (branches, compete) {
            self.lint_exports(branches);
        }
        let base = format!("{reference}/fork/branches");
        Kind::Fork { branches: branches.map(|list| self.branches(list, &base)).unwrap_or_default(), compete }
    }

    /// Each branch works on its own copy of the context; the copies are merged in order.
    fn lint_exports(&mut self, branches: At<'_>) {
        let exports: Vec<At<'_>> =
            branches.items().filter_map(only_member).filter_map(|(_, branch)| first_export(branch)).collect();
        if exports.len() < 2 {
            return;
        }
        for export in exports {
            let message =
                "several branches of this fork export; where they write the same, the later branch wins";
            let hint = "let one branch export, or export once after the fork";
            self.warn(export.key_place(), "concurrent-export", message.to_owned(), hint);
        }
    }

    pub(super) fn switch(&mut self, at: At<'_>, targets: &Targets<'_>) -> Kind {
        let mut cases: Vec<Case> = Vec::new();
        let mut default: Option<&str> = None;
        for (name, case) in at.items().filter_map(only_member) {
            if cases.iter().any(|other| other.name == name) {
                let message = format!("two cases of this switch are called `{name}`");
                self.error(
                    case.key_place(),
                    "duplicate-case",
                    message,
                    Some("rename one of them".to_owned()),
                );
            }
            if case.get("when").is_none() {
                if let Some(first) = default {
                    let message =
                        format!("`{name}` is a second default case; `{first}` has no `when` either");
                    self.error(
                        case.key_place(),
                        "two-defaults",
                        message,
                        Some("give one of them a `when`".to_owned()),
                    );
                }
                default.get_or_insert(name);
            }
            let when = self.expression_in(case, "when", Site::Body);
            let then = self.then(case.get("then"), targets);
            cases.push(Case { name: name.to_owned(), when, then });
        }
        Kind::Switch { cases }
    }

    pub(super) fn wait(&mut self, at: At<'_>) -> Kind {
        Kind::Wait { delay: self.delay(at, Site::Body).unwrap_or(Delay::Fixed(Span::ZERO)) }
    }

    /// Checks the expressions of a `run` task. Code and commands are left alone: `${ }` may be their own syntax.
    pub(super) fn run(&mut self, at: At<'t>) -> Kind {
        let Some((what, process)) =
            at.entries().find(|(key, _)| matches!(*key, "container" | "script" | "shell" | "workflow"))
        else {
            return Kind::Do { list: Vec::new() };
        };
        if what == "workflow" {
            return self.sub_workflow(at, process);
        }
        self.look(|dry| {
            for (key, value) in process.entries() {
                match key {
                    "code" | "command" => {}
                    "lifetime" => {
                        dry.delay_in(value, "after", Site::Body);
                    }
                    "source" => {
                        dry.resource(value);
                    }
                    _ => {
                        dry.template(value, Site::Body);
                    }
                }
            }
        });
        match what {
            "script" => self.script(at, process),
            "workflow" => self.unsupported(process.key_place(), "`run.workflow`"),
            "container" => self.refused(
                process.key_place(),
                "`run.container`",
                "this engine does not start containers",
                "do it in a worker, and call that",
            ),
            _ => self.refused(
                process.key_place(),
                "`run.shell`",
                "this engine does not run commands",
                "do it in a worker, and call that",
            ),
        }
    }
}

/// The first `export` in a task or in the tasks inside it.
fn first_export(task: At<'_>) -> Option<At<'_>> {
    task.get("export").or_else(|| {
        let direct = ["do", "try"].into_iter().filter_map(|key| task.get(key));
        let nested = [("catch", "do"), ("fork", "branches"), ("foreach", "do")];
        let nested = nested.into_iter().filter_map(|(outer, inner)| task.get(outer)?.get(inner));
        let mut lists = direct.chain(nested);
        lists.find_map(|list| list.items().filter_map(only_member).find_map(|(_, task)| first_export(task)))
    })
}

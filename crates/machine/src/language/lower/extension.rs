//! Extensions: what `use.extensions` puts before and after tasks.
//!
//! The steps of an extension are lowered once, when the first task is extended by it, and shared by all such tasks.

use super::{Lowering, expression::Site};
use crate::{
    ir::{ExprId, Extension, Step, StepId},
    language::source::At,
};

/// The steps of one extension.
#[derive(Clone, Default)]
pub(super) struct Lists {
    when: Option<ExprId>,
    before: Vec<StepId>,
    after: Vec<StepId>,
}

impl<'t> Lowering<'t, '_> {
    /// Checks what is declared, also what extends nothing.
    pub(super) fn check_extensions(&mut self, declared: At<'t>) {
        for extension in declared.items() {
            self.look(|dry| {
                dry.extension_lists(extension);
            });
        }
    }

    /// Puts around a step what extends tasks of its kind.
    pub(super) fn extend(&mut self, id: StepId, kind: &str) {
        let declared = self.root.get("use").and_then(|declared| declared.get("extensions"));
        if self.extending || self.dry || !self.functions.is_empty() {
            return;
        }
        for (position, extension) in declared.into_iter().flat_map(At::items).enumerate() {
            let wanted =
                extension.entries().next().and_then(|(_, extension)| extension.get("extend")?.text());
            if !extends(wanted.unwrap_or_default(), kind) {
                continue;
            }
            let lists = match self.extensions.get(&position) {
                Some(lists) => lists.clone(),
                None => {
                    let lists = self.extension_lists(extension);
                    self.extensions.insert(position, lists.clone());
                    lists
                }
            };
            let Step { before, after, .. } = &mut self.steps[id as usize];
            for (into, list) in [(before, lists.before), (after, lists.after)] {
                if !list.is_empty() {
                    into.push(Extension { when: lists.when, list });
                }
            }
        }
    }

    fn extension_lists(&mut self, extension: At<'t>) -> Lists {
        let Some((_, extension)) = extension.entries().next() else { return Lists::default() };
        let locals = std::mem::take(&mut self.locals);
        self.extending = true;
        let when = self.expression_in(extension, "when", Site::TaskInput);
        let mut list =
            |key: &str| extension.get(key).map(|list| self.list(list, &list.pointer())).unwrap_or_default();
        let (before, after) = (list("before"), list("after"));
        self.extending = false;
        self.locals = locals;
        Lists { when, before, after }
    }
}

/// True if `wanted` names the kind of task; `composite` is the language's old word for `do` and `fork`.
fn extends(wanted: &str, kind: &str) -> bool {
    wanted == "all" || wanted == kind || (wanted == "composite" && matches!(kind, "do" | "fork"))
}

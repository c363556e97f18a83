//! Steps that start other instances: `run.workflow`, and what the functions `child` and `map` are given.

use super::{Lowering, expression::Site};
use crate::{
    child::{self, BATCH_MAX, CONCURRENCY_MAX},
    ir::{Call, Kind},
    language::{
        names::{self, nearest},
        shape::unwrap_expression,
        source::At,
    },
};

const CHILD_KEYS: &[&str] = &["workflow", "input", "id", "onParentClose", "detached", "continueWith"];
const MAP_KEYS: &[&str] = &["items", "concurrency", "batchSize", "onError", "toleratedFailures", "workflow"];

impl<'t> Lowering<'t, '_> {
    pub(super) fn sub_workflow(&mut self, at: At<'t>, process: At<'t>) -> Kind {
        self.check_workflow(process, true);
        let text = |key: &str| process.get(key).and_then(At::text).unwrap_or_default().to_owned();
        let workflow =
            child::Workflow { namespace: text("namespace"), name: text("name"), version: text("version") };
        let input = self.template_in(process, "input", Site::Body);
        let wait = at.get("await").and_then(At::flag).unwrap_or(true);
        Kind::Call { call: Call::Workflow { workflow, input, wait } }
    }

    /// Checks what `child` or `map` is given, as far as it is written down.
    pub(super) fn check_children(&mut self, function: &str, at: At<'t>, with: Option<At<'t>>) {
        let (keys, required): (_, &[&str]) = match function {
            "map" => (MAP_KEYS, &["workflow", "items"]),
            _ => (CHILD_KEYS, &["workflow"]),
        };
        for key in required {
            if with.and_then(|with| with.get(key)).is_none() {
                let message = format!("`{function}` needs `with.{key}`");
                self.error(at.place(), "missing-key", message, None);
            }
        }
        let Some(with) = with else { return };
        self.check_keys(function, with, keys);
        self.check_word(with, "onParentClose", &["cancel", "abandon", "wait"]);
        self.check_word(with, "onError", &["fail", "collect"]);
        self.check_number(with, "concurrency", CONCURRENCY_MAX);
        self.check_number(with, "batchSize", BATCH_MAX);
        if let Some(tolerated) = with.get("toleratedFailures")
            && with.get("onError").is_none_or(|word| word.text() == Some("fail"))
        {
            let message = "`toleratedFailures` means nothing unless `onError` is `collect`".to_owned();
            self.error(
                tolerated.key_place(),
                "bad-value",
                message,
                Some("add `onError: collect`".to_owned()),
            );
        }
        if let Some(workflow) = with.get("workflow") {
            for key in ["namespace", "name", "version"] {
                if workflow.text().is_none() && workflow.get(key).is_none() {
                    let message = format!("`{function}` needs `workflow.{key}`");
                    self.error(workflow.place(), "missing-key", message, None);
                }
            }
            self.check_workflow(workflow, false);
        }
    }

    /// Refuses arguments that a function does not have.
    pub(super) fn check_keys(&mut self, function: &str, with: At<'t>, keys: &[&str]) {
        for (key, value) in with.entries() {
            if !keys.contains(&key) {
                let hint = match nearest(key, keys.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it takes {}", keys.join(", ")),
                };
                let message = format!("`{function}` has no argument `{key}`");
                self.error(value.key_place(), "unknown-key", message, Some(hint));
            }
        }
    }

    fn check_number(&mut self, with: At<'t>, key: &str, most: u64) {
        let Some((at, number)) = with.get(key).and_then(|at| Some((at, at.number()?))) else { return };
        let fits = number.as_i64().is_some_and(|number| (1..=most as i64).contains(&number));
        if !fits {
            let message = format!("`{key}` is a whole number from 1 to {most}");
            self.error(at.place(), "bad-value", message, None);
        }
    }

    fn check_word(&mut self, with: At<'t>, key: &str, words: &[&str]) {
        let Some((at, text)) = with.get(key).and_then(|at| Some((at, at.text()?))) else { return };
        if unwrap_expression(text).is_none() && !words.contains(&text) {
            let message = format!("`{key}` is one of {}, not `{text}`", words.join(", "));
            self.error(at.place(), "bad-value", message, None);
        }
    }

    /// Checks the name of a definition, unless it is computed.
    fn check_workflow(&mut self, workflow: At<'t>, literal: bool) {
        for key in ["namespace", "name", "version"] {
            let Some((at, text)) = workflow.get(key).and_then(|at| Some((at, at.text()?))) else { continue };
            if !literal && unwrap_expression(text).is_some() {
                continue;
            }
            let valid = match key {
                "version" => text == "latest" || names::version(text).is_some(),
                _ => names::is_label(text),
            };
            if !valid {
                let message = format!("`{text}` is not a {key} of a definition");
                let hint = match key {
                    "version" => "write a semantic version such as 1.0.0, or `latest`",
                    _ => "use letters, digits and `-`",
                };
                self.error(at.place(), "bad-name", message, Some(hint.to_owned()));
            }
        }
    }
}

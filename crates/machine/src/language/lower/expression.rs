//! Expressions, templates and durations: everything that is evaluated against data.

use super::{EXPRESSIONS_MAX, Lowering};
use crate::{
    data::Data,
    expr::{ARGUMENTS, CompileError, Compiled},
    ir::{Delay, Expr, ExprId, Template},
    language::{
        shape::{span_of, unwrap_expression},
        source::{At, Sort},
    },
};

/// Where an expression stands, which decides the arguments it may name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Site {
    WorkflowInput,
    WorkflowOutput,
    /// `if` and `input.from` of a task.
    TaskInput,
    /// What a task does, and its `output.as`.
    Body,
    /// `with` of a call and authentication: the only place for secrets.
    With,
    Export,
    /// What a schedule says of events: there is an event, and no instance yet.
    Schedule,
}

impl Site {
    fn allows(self, argument: &str) -> bool {
        if self == Site::Schedule {
            return !ARGUMENTS.contains(&argument);
        }
        let body = matches!(self, Site::Body | Site::With | Site::Export);
        match argument {
            "workflow" | "runtime" => true,
            "context" => self != Site::WorkflowInput,
            "task" => body || self == Site::TaskInput,
            "input" | "authorization" => body,
            "output" => self == Site::Export,
            "secrets" => self == Site::With,
            _ => true,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Site::WorkflowInput => "the workflow's input",
            Site::WorkflowOutput => "the workflow's output",
            Site::TaskInput => "`if` and `input.from`",
            Site::Body | Site::With => "a task",
            Site::Export => "`export`",
            Site::Schedule => "a schedule's events",
        }
    }
}

fn too_many() -> String {
    format!("the document has more than {EXPRESSIONS_MAX} different expressions")
}

/// An expression's source and the locals it sees.
pub(super) type Key = (String, Vec<String>);

/// What compiling an expression said: which arguments it names, or why it does not compile.
pub(super) type Outcome = Result<Uses, CompileError>;

/// The arguments an expression names, and the secrets.
#[derive(Clone)]
pub(super) struct Uses {
    arguments: [bool; ARGUMENTS.len()],
    secrets: Vec<Vec<String>>,
}

fn try_compile(source: &str, locals: &[String]) -> Outcome {
    Compiled::new(source, locals).map(|compiled| Uses { arguments: compiled.uses, secrets: compiled.secrets })
}

impl Lowering<'_, '_> {
    /// An expression field: bare or in `${ }`.
    pub(super) fn expression(&mut self, at: At<'_>, site: Site) -> Option<ExprId> {
        let text = at.text()?;
        self.source(at, unwrap_expression(text).unwrap_or(text), site)
    }

    /// The expression field `key` of `parent`, if it is there.
    pub(super) fn expression_in(&mut self, parent: At<'_>, key: &str, site: Site) -> Option<ExprId> {
        parent.get(key).and_then(|at| self.expression(at, site))
    }

    /// Adds the expression `source`, a slice of the text at `at`, to the table.
    fn source(&mut self, at: At<'_>, source: &str, site: Site) -> Option<ExprId> {
        let text = at.text()?;
        let source = source.trim();
        // `source` is a slice of `text`, so its offset is the distance of their starts.
        let start = source.as_ptr() as usize - text.as_ptr() as usize;
        let key = (source.to_owned(), self.locals.clone());
        match self.outcome(&key) {
            Ok(uses) => {
                self.check_arguments(at, &uses, site);
                self.wants_definition |= looks_at_definition(source);
                Some(self.id(key))
            }
            Err(error) => {
                self.bad_expression(at, start, source, &error);
                None
            }
        }
    }

    fn outcome(&mut self, key: &Key) -> Outcome {
        if let Some(outcome) = self.outcomes.get(key) {
            return outcome.clone();
        }
        if self.outcomes.len() >= EXPRESSIONS_MAX {
            return Err(CompileError { message: too_many(), offset: 0 });
        }
        let outcome = try_compile(&key.0, &key.1);
        self.outcomes.insert(key.clone(), outcome.clone());
        outcome
    }

    pub(super) fn id(&mut self, key: Key) -> ExprId {
        let exprs = &mut self.exprs;
        *self.ids.entry(key).or_insert_with_key(|(source, locals)| {
            exprs.push(Expr { source: source.clone(), locals: locals.clone() });
            exprs.len() as ExprId - 1
        })
    }

    fn bad_expression(&mut self, at: At<'_>, start: usize, source: &str, error: &CompileError) {
        let place = at.place_in_text(start + error.offset.min(source.len()));
        if error.message == too_many() {
            // Once: what comes after it is no better.
            if !std::mem::replace(&mut self.full, true) {
                let hint = "split it into several definitions".to_owned();
                self.error(place, "too-large", too_many(), Some(hint));
            }
            return;
        }
        let undefined = error.message.starts_with('$') && !error.message.contains("did you mean");
        let hint = if undefined {
            let known = ARGUMENTS.iter().copied().chain(self.locals.iter().map(String::as_str));
            let known: Vec<String> = known.map(|name| format!("${name}")).collect();
            Some(format!("known here: {}", known.join(", ")))
        } else {
            source.contains("${").then(|| {
                "only a whole text can be an expression; build texts inside it with \"\\(.x)\"".to_owned()
            })
        };
        self.error(
            place,
            "bad-expression",
            format!("the expression does not compile: {}", error.message),
            hint,
        );
    }

    /// Arguments that hold nothing at this place are refused.
    fn check_arguments(&mut self, at: At<'_>, used: &Uses, site: Site) {
        let uses = &used.arguments;
        if site == Site::With {
            for name in used.secrets.iter().filter_map(|path| path.first()) {
                self.secret(at, name);
            }
        }
        for (argument, _) in
            ARGUMENTS.iter().zip(uses).filter(|(argument, uses)| **uses && !site.allows(argument))
        {
            if *argument == "secrets" {
                let message =
                    "`$secrets` may only be used in `with` of a call that leaves the engine, and in authentication".to_owned();
                let hint = "hand it to the call that needs it".to_owned();
                self.error(at.place(), "secret-exposed", message, Some(hint));
            } else {
                let message = format!("`${argument}` is not available in {}", site.name());
                let hint = "use another argument, or move the expression".to_owned();
                self.error(at.place(), "argument-unavailable", message, Some(hint));
            }
        }
        for (argument, _) in
            ARGUMENTS.iter().zip(uses).filter(|(argument, uses)| **uses && site.allows(argument))
        {
            if *argument == "authorization" {
                self.unsupported(at.place(), &format!("`${argument}`"));
            }
        }
    }

    /// A value in which texts of the form `${ }` are expressions and everything else is literal.
    pub(super) fn template(&mut self, at: At<'_>, site: Site) -> Template {
        match at.sort() {
            Sort::Text => {
                let text = at.text().unwrap_or_default();
                match unwrap_expression(text) {
                    Some(inner) => match self.source(at, inner, site) {
                        Some(id) => Template::Expr(id),
                        None => Template::Literal(Data::NULL),
                    },
                    None => self.loose_text(at, text, site),
                }
            }
            Sort::List => {
                let items: Vec<Template> = at.items().map(|item| self.template(item, site)).collect();
                match items.iter().all(is_literal) {
                    true => Template::Literal(at.to_data()),
                    false => Template::Array(items),
                }
            }
            Sort::Object => {
                let members = self.members(at, site);
                match members.iter().all(|(_, member)| is_literal(member)) {
                    true => Template::Literal(at.to_data()),
                    false => Template::Object(members),
                }
            }
            Sort::Null | Sort::Bool | Sort::Number => Template::Literal(at.to_data()),
        }
    }

    /// A text that is not in `${ }`: in loose mode an expression if it can be one, else itself.
    fn loose_text(&mut self, at: At<'_>, text: &str, site: Site) -> Template {
        if self.loose {
            let key = (text.trim().to_owned(), self.locals.clone());
            let known = self.outcomes.len() < EXPRESSIONS_MAX || self.outcomes.contains_key(&key);
            if (!known || self.outcome(&key).is_ok())
                && let Some(id) = self.source(at, text, site)
            {
                return Template::Loose(id, text.to_owned());
            }
        }
        self.lint_embedded(at, text);
        Template::Literal(at.to_data())
    }

    /// The template `key` of `parent`, if it is there.
    pub(super) fn template_in(&mut self, parent: At<'_>, key: &str, site: Site) -> Option<Template> {
        parent.get(key).map(|at| self.template(at, site))
    }

    /// The members of an object, each a template.
    pub(super) fn members(&mut self, at: At<'_>, site: Site) -> Vec<(String, Template)> {
        at.entries().map(|(key, value)| (key.to_owned(), self.template(value, site))).collect()
    }

    fn lint_embedded(&mut self, at: At<'_>, text: &str) {
        let offset = text.len() - text.trim_start().len();
        if text[offset..].starts_with("${") && (!text.contains('}') || text.trim() == "${}") {
            let message = match text.contains('}') {
                true => "there is no expression between `${` and `}`",
                false => "the expression is not closed: it begins with `${` and has no `}`",
            };
            let hint = "write `${ .name }`, or `${ \"${\" }` for the text itself".to_owned();
            return self.error(at.place_in_text(offset), "bad-expression", message.to_owned(), Some(hint));
        }
        if let Some(offset) = text.find("${").filter(|start| text[*start..].contains('}')) {
            let message =
                "`${ }` inside a longer text is not an expression; the text stays as it is".to_owned();
            let hint = "make the whole text an expression: `${ \"Hello \\(.name)\" }`";
            self.warn(at.place_in_text(offset), "embedded-expression", message, hint);
        }
    }

    /// `input.from`, `output.as` or `export.as`: an expression, or an object with expressions inside.
    pub(super) fn transform(&mut self, parent: Option<At<'_>>, key: &str, site: Site) -> Option<Template> {
        let at = parent?.get(key)?;
        match at.sort() {
            Sort::Text => self.expression(at, site).map(Template::Expr),
            Sort::Object => Some(self.template(at, site)),
            _ => None,
        }
    }

    /// A duration: fixed, or an expression in `${ }`.
    pub(super) fn delay(&mut self, at: At<'_>, site: Site) -> Option<Delay> {
        match at.text().and_then(unwrap_expression) {
            Some(inner) => self.source(at, inner, site).map(Delay::Expr),
            None => span_of(at).ok().map(Delay::Fixed),
        }
    }

    pub(super) fn delay_in(&mut self, parent: At<'_>, key: &str, site: Site) -> Option<Delay> {
        parent.get(key).and_then(|at| self.delay(at, site))
    }

    /// `timeout`: declared on the spot, or the name of one in `use.timeouts`.
    pub(super) fn timeout(&mut self, at: Option<At<'_>>, site: Site) -> Option<Delay> {
        let at = at?;
        match at.text() {
            Some(name) => {
                self.used("timeouts", name, at).and_then(|timeout| self.delay_in(timeout, "after", site))
            }
            None => self.delay_in(at, "after", site),
        }
    }
}

/// True if the expression may read `$task.definition`, `$task.with` or `$workflow.definition`.
fn looks_at_definition(source: &str) -> bool {
    const OTHERS: [&str; 7] =
        ["name", "reference", "input", "output", "startedAt", "id", "definition.document"];
    let after = |name: &'static str| source.split(name).skip(1);
    after("$task").chain(after("$workflow")).any(|rest| {
        let member = rest.strip_prefix('.').unwrap_or_default();
        !OTHERS.iter().any(|other| member.starts_with(other))
    })
}

fn is_literal(template: &Template) -> bool {
    matches!(template, Template::Literal(_))
}

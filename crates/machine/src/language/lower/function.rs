//! Functions: a `call` that names no protocol.
//!
//! A name declared in `use.functions` is inlined at every call. A function sees only its arguments, which become its
//! data, and a `$context` of its own. `name:version@default` is the engine's own catalog, that is a worker or a human task.

use super::{Lowering, expression::Site, list::Targets, saga::SAGA};
use crate::{
    data::Data,
    ir::{Call, Kind, Template},
    language::{
        names::{self, nearest},
        shape::unwrap_expression,
        source::{At, Sort},
    },
    time::Time,
};

/// How deep functions may call each other.
const FUNCTION_DEPTH_MAX: usize = 16;
/// Functions of the `default` catalog that the engine itself gives; no worker may stand in for them.
const RESERVED: [&str; 3] = ["map", "saga", "child"];
/// The function that asks a person.
const HUMAN_TASK: (&str, &str) = ("human-task", "1.0.0");
const HUMAN_TASK_KEYS: &[&str] =
    &["title", "assignee", "candidateUsers", "candidateGroups", "priority", "dueDate", "data", "form"];
/// The function that gives out a token to signal the instance with.
const SIGNAL_TOKEN: (&str, &str) = ("signal-token", "1.0.0");
/// The function that starts another instance.
const CHILD: (&str, &str) = ("child", "1.0.0");
/// The function that starts one for each item.
const MAP: (&str, &str) = ("map", "1.0.0");

/// True if a call of this name is handed to a worker, which may be given secrets; a person or the data may not.
fn is_worker(name: &str) -> bool {
    let function = name.strip_suffix("@default").and_then(|name| Some(name.split_once(':')?.0));
    function.is_some_and(|function| {
        ![HUMAN_TASK.0, SIGNAL_TOKEN.0].contains(&function) && !RESERVED.contains(&function)
    })
}

impl<'t> Lowering<'t, '_> {
    pub(super) fn function_call(
        &mut self,
        name: &'t str,
        at: At<'t>,
        with: Option<At<'t>>,
        reference: &str,
    ) -> Kind {
        let is_declared = self.function(name, at).is_some();
        if name == SAGA && !is_declared {
            return self.saga(with, reference);
        }
        let site = if is_worker(name) && !is_declared { Site::With } else { Site::Body };
        let arguments = match with {
            Some(with) => self.template(with, site),
            None => Template::Literal(Data::object()),
        };
        let own = name.strip_suffix("@default").and_then(|name| name.split_once(':'));
        if let Some(function @ (CHILD | MAP)) = own
            && !is_declared
        {
            self.check_children(function.0, at, with);
        }
        if let (Some(HUMAN_TASK), Some(with)) = (own, with)
            && !is_declared
        {
            self.check_human_task(with);
        }
        self.call_function(name, at, arguments, reference)
    }

    /// Checks what a task for a person is given, as far as it is written down.
    fn check_human_task(&mut self, with: At<'t>) {
        self.check_keys(HUMAN_TASK.0, with, HUMAN_TASK_KEYS);
        for (key, at) in with.entries() {
            let text = at.text();
            if text.is_some_and(|text| unwrap_expression(text).is_some()) {
                continue;
            }
            let wanted = match key {
                "title" | "assignee" if text.is_none() => "text",
                "candidateUsers" | "candidateGroups" if at.sort() != Sort::List => "a list of texts",
                "priority" if at.integer().is_none() => "a whole number",
                "dueDate" if text.and_then(Time::parse_rfc3339).is_none() => {
                    "a time such as 2026-01-31T12:00:00Z"
                }
                "form" => {
                    if matches!(self.template(at, Site::With), Template::Literal(_)) {
                        self.check_schema(at);
                    }
                    continue;
                }
                _ => continue,
            };
            self.error(at.place(), "wrong-type", format!("`{key}` must be {wanted}"), None);
        }
    }

    /// What `use.functions` declares under the name. A function from elsewhere sees none of it.
    fn function(&self, name: &'t str, at: At<'t>) -> Option<At<'t>> {
        self.declared.get(&("functions", name)).copied().filter(|_| !at.is_elsewhere())
    }

    /// Calls the function with these arguments.
    pub(super) fn call_function(
        &mut self,
        name: &'t str,
        at: At<'t>,
        arguments: Template,
        reference: &str,
    ) -> Kind {
        if let Some(function) = self.function(name, at) {
            return self.inline(name, at, function, arguments, reference);
        }
        let catalog = name.rsplit_once('@').map(|(_, catalog)| catalog);
        if name.contains("://") || catalog.is_some_and(|catalog| catalog != "default") {
            return match self.external_function(name, at) {
                Some(function) => self.inline(name, at, function, arguments, reference),
                None => Kind::Unsupported { what: format!("the function `{name}`"), task: Data::NULL },
            };
        }
        let parsed = name.rsplit_once('@').and_then(|(function, catalog)| {
            let (function, version) = function.split_once(':')?;
            Some((function, version, catalog))
        });
        match parsed {
            Some((function, version, "default")) => self.default_catalog(function, version, at, arguments),
            _ => {
                self.unknown_function(name, at);
                Kind::Do { list: Vec::new() }
            }
        }
    }

    fn default_catalog(&mut self, function: &str, version: &str, at: At<'_>, with: Template) -> Kind {
        let is_name = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'))
        };
        if !is_name(function) || names::version(version).is_none() {
            let message = format!("`{function}:{version}@default` is not a function of the default catalog");
            let hint = "write `<name>:<version>@default`, such as `send-mail:1.0.0@default`";
            self.error(at.place(), "bad-function", message, Some(hint.to_owned()));
        }
        let call = match (function, version) {
            HUMAN_TASK => Call::HumanTask { with },
            SIGNAL_TOKEN => Call::SignalToken,
            CHILD => Call::Child { with },
            MAP => Call::Map { with },
            (name, _) if [HUMAN_TASK.0, SIGNAL_TOKEN.0, CHILD.0, MAP.0].contains(&name) => {
                let what = format!("`{name}` {version} (only {})", HUMAN_TASK.1);
                return self.unsupported(at.place(), &what);
            }
            (name, _) if RESERVED.contains(&name) => {
                return self.unsupported(at.place(), &format!("the function `{name}`"));
            }
            (name, _) => Call::Worker { name: name.to_owned(), version: Some(version.to_owned()), with },
        };
        Kind::Call { call }
    }

    fn unknown_function(&mut self, name: &str, at: At<'_>) {
        if self.report.is_full() {
            return;
        }
        let functions = self.root.get("use").and_then(|declared| declared.get("functions"));
        let protocols = ["http", "grpc", "openapi", "asyncapi", "a2a", "mcp"];
        let declared = functions.into_iter().flat_map(At::entries).map(|(name, _)| name);
        let hint = match nearest(name, declared.chain(protocols)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if name.contains(':') => format!("name the catalog too: `{name}@default`"),
            None => format!("declare it in `use.functions`, or call a worker: `{name}:1.0.0@default`"),
        };
        let message = format!("there is no function `{name}`");
        self.error(at.place(), "unknown-reference", message, Some(hint));
    }

    /// The function's task as a part of the calling step.
    fn inline(
        &mut self,
        name: &'t str,
        at: At<'t>,
        function: At<'t>,
        arguments: Template,
        reference: &str,
    ) -> Kind {
        let nothing = Kind::Do { list: Vec::new() };
        if self.functions.contains(&name) {
            let path = self.functions.iter().chain([&name]).copied().collect::<Vec<_>>().join(" -> ");
            let message = format!("the function `{name}` calls itself: {path}");
            self.error(
                at.place(),
                "function-cycle",
                message,
                Some("use `for` to repeat something".to_owned()),
            );
            return nothing;
        }
        if self.dry {
            // Each declared function is looked at once, by itself.
            return nothing;
        }
        if self.functions.len() >= FUNCTION_DEPTH_MAX {
            let message = format!("functions call each other more than {FUNCTION_DEPTH_MAX} levels deep");
            self.error(at.place(), "too-deep", message, None);
            return nothing;
        }
        self.functions.push(name);
        let locals = std::mem::take(&mut self.locals);
        let step = self.step(name, function, reference.to_owned(), &Targets::none());
        self.locals = locals;
        self.functions.pop();
        match step {
            Some(task) => Kind::Function { with: arguments, task },
            None => nothing,
        }
    }
}

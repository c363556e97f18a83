//! Builds the IR from a document: resolves `then`, inlines `use.*`, compiles every expression once to check it.
//!
//! [`workflow`] works on any tree, also one that `shape` found fault with, so that all problems are told at once;
//! what does not fit is skipped without a word, because `shape` has said it. Each file of `lower/` holds one part
//! of the language. What this engine does not execute becomes [`ir::Kind::Unsupported`].

mod authentication;
mod call;
mod child;
mod event;
mod expression;
mod extension;
mod external;
mod failure;
mod function;
mod header;
mod kind;
mod list;
mod saga;
mod schedule;
mod schema;
mod script;
mod step;

pub(super) use saga::SAGA;

use super::{
    Problem,
    report::{Place, Report},
    source::{At, Tree},
};
use crate::{data::Data, ir};
use std::collections::HashMap;

/// How many steps a definition may have after its functions are inlined.
pub(crate) const STEPS_MAX: usize = 5_000;
/// How many different expressions a definition may have; compiling one takes about half a millisecond.
pub(crate) const EXPRESSIONS_MAX: usize = 5_000;

/// Compiles the document. The result means something only if the report has no errors.
pub(crate) fn workflow<'t>(
    root: At<'t>,
    library: &'t HashMap<String, Tree>,
    report: &mut Report,
) -> ir::Workflow {
    let declared = declared(root);
    let mut lowering = Lowering::new(root, &declared, library, report);
    let header = lowering.header();
    lowering.check_definitions();
    let input = root.get("input");
    let input_schema = input.and_then(|input| lowering.schema_document(input));
    let input_from = lowering.transform(input, "from", expression::Site::WorkflowInput);
    let output = root.get("output");
    let output_schema = output.and_then(|output| lowering.schema(output));
    let output_as = lowering.transform(output, "as", expression::Site::WorkflowOutput);
    let timeout = lowering.timeout(root.get("timeout"), expression::Site::WorkflowInput);
    let schedule = lowering.schedule();
    let list = root.get("do").map(|list| lowering.list(list, "/do")).unwrap_or_default();
    let workflow = ir::Workflow {
        ir_version: 0,
        dsl: header.dsl,
        namespace: header.namespace,
        name: header.name,
        version: header.version,
        title: header.title,
        summary: header.summary,
        document: root.get("document").map(At::to_data).unwrap_or_else(Data::object),
        declared: root
            .get("use")
            .map(At::to_data)
            .filter(|_| lowering.steps.iter().any(is_unsupported) || !lowering.extensions.is_empty()),
        secrets: secrets(root),
        input: input_from,
        input_schema,
        output: output_as,
        output_schema,
        timeout,
        schedule,
        root: list,
        lifecycle: lowering.lifecycle(),
        loose: lowering.loose,
        definition: lowering.wants_definition.then(|| root.to_data()),
        steps: lowering.steps,
        exprs: lowering.exprs,
        schemas: lowering.schemas,
    };
    ir::Workflow { ir_version: ir::version_of(&workflow), ..workflow }
}

fn is_unsupported(step: &ir::Step) -> bool {
    matches!(step.kind, ir::Kind::Unsupported { .. })
}

fn secrets(root: At<'_>) -> Vec<String> {
    let names = root.get("use").and_then(|declared| declared.get("secrets"));
    names.into_iter().flat_map(At::items).filter_map(|name| name.text().map(str::to_owned)).collect()
}

/// What `use` declares, by group and name.
type Declared<'t> = HashMap<(&'t str, &'t str), At<'t>>;

fn declared(root: At<'_>) -> Declared<'_> {
    let groups = root.get("use").into_iter().flat_map(At::entries);
    groups
        .flat_map(|(group, members)| members.entries().map(move |(name, member)| ((group, name), member)))
        .collect()
}

struct Lowering<'t, 'r> {
    root: At<'t>,
    declared: &'r Declared<'t>,
    /// Documents that this one refers to, by URL.
    library: &'t HashMap<String, Tree>,
    report: &'r mut Report,
    steps: Vec<ir::Step>,
    exprs: Vec<ir::Expr>,
    /// Where an expression stands in the table, by its source and locals.
    ids: HashMap<expression::Key, ir::ExprId>,
    schemas: Vec<Data>,
    /// What `use.extensions` declares, once something is extended by it.
    extensions: HashMap<usize, extension::Lists>,
    /// True inside an extension, whose steps are not extended.
    extending: bool,
    /// True if every text may be an expression.
    loose: bool,
    /// True if an expression looks at the definition itself.
    wants_definition: bool,
    /// What compiling said of every expression looked at so far, also of those not kept.
    outcomes: HashMap<expression::Key, expression::Outcome>,
    /// Loop and catch variables in scope; an inner name replaces the same outer one.
    locals: Vec<String>,
    /// Functions being inlined, outermost first.
    functions: Vec<&'t str>,
    /// True while looking at a definition that may never be used: its steps are dropped.
    dry: bool,
    /// True once the limit of steps, or of expressions, has been reported.
    full: bool,
}

impl<'t, 'r> Lowering<'t, 'r> {
    fn new(
        root: At<'t>,
        declared: &'r Declared<'t>,
        library: &'t HashMap<String, Tree>,
        report: &'r mut Report,
    ) -> Lowering<'t, 'r> {
        Lowering {
            root,
            declared,
            library,
            report,
            steps: Vec::new(),
            exprs: Vec::new(),
            ids: HashMap::new(),
            schemas: Vec::new(),
            extensions: HashMap::new(),
            extending: false,
            loose: root.get("evaluate").and_then(|evaluate| evaluate.get("mode")?.text()) == Some("loose"),
            wants_definition: false,
            outcomes: HashMap::new(),
            locals: Vec::new(),
            functions: Vec::new(),
            dry: false,
            full: false,
        }
    }

    /// Looks at something without keeping its steps and expressions: only problems remain.
    fn look(&mut self, look: impl FnOnce(&mut Lowering<'t, '_>)) {
        let mut dry = Lowering::new(self.root, self.declared, self.library, self.report);
        dry.locals = self.locals.clone();
        dry.functions = self.functions.clone();
        dry.extending = self.extending;
        dry.outcomes = std::mem::take(&mut self.outcomes);
        dry.dry = true;
        look(&mut dry);
        self.outcomes = dry.outcomes;
    }

    /// Lowers something inside which these variables are visible.
    fn with_locals<T>(&mut self, names: &[&str], lower: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.locals.clone();
        for name in names {
            self.locals.retain(|local| local != name);
            self.locals.push((*name).to_owned());
        }
        let lowered = lower(self);
        self.locals = outer;
        lowered
    }

    fn error(&mut self, place: Place, code: &'static str, message: String, hint: Option<String>) {
        self.report.error(Problem::new(place, code, message).maybe_hint(hint));
    }

    fn warn(&mut self, place: Place, code: &'static str, message: String, hint: &str) {
        self.report.warn(Problem::new(place, code, message).hint(hint));
    }

    /// Notes that the document uses something this engine cannot execute.
    fn unsupported(&mut self, place: Place, what: &str) -> ir::Kind {
        if !self.dry {
            self.report.unsupported(place, what);
        }
        ir::Kind::Unsupported { what: what.to_owned(), task: Data::NULL }
    }

    /// Notes that the document uses something this engine does not do on principle.
    fn refused(&mut self, place: Place, what: &str, message: &str, hint: &str) -> ir::Kind {
        if !self.dry {
            self.report.refused(place, message, hint);
        }
        ir::Kind::Unsupported { what: what.to_owned(), task: Data::NULL }
    }

    /// What `use.<group>.<name>` declares; a problem at `at` if nothing.
    fn used(&mut self, group: &str, name: &str, at: At<'_>) -> Option<At<'t>> {
        // A function from elsewhere sees nothing of the document that calls it.
        let found = self.declared.get(&(group, name)).copied().filter(|_| !at.is_elsewhere());
        if found.is_none() && !self.report.is_full() {
            let declared = self.root.get("use").and_then(|r#use| r#use.get(group));
            let names = declared.into_iter().flat_map(At::entries).map(|(name, _)| name);
            let hint = match super::names::nearest(name, names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("declare it under `use.{group}`"),
            };
            let message = format!("`{name}` is not declared in `use.{group}`");
            self.error(at.place(), "unknown-reference", message, Some(hint));
        }
        found
    }
}

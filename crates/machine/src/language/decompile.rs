//! Writes a compiled definition as a document again.
//!
//! [`document`] is the inverse of [`compile`](super::compile): its result compiles to an equal IR, step
//! references and expression numbers included. What the compiler resolved stays resolved: errors, retries,
//! timeouts and authentications of `use` stand where they are used; functions are declared again, because a
//! step's reference tells that it came from one. Every struct is taken apart by all its fields and every enum
//! by all its variants, so that nothing new can be forgotten here.

mod call;
mod event;
mod failure;
mod saga;
mod step;
mod value;

use crate::{data::Data, ir};

/// The members of an object in the order people write them.
type Members = Vec<(String, Data)>;

/// The definition as a document, keys in the order people write them.
pub fn document(workflow: &ir::Workflow) -> Data {
    let mut writer = Decompiler { workflow, functions: Vec::new(), shallow: false };
    let ir::Workflow {
        ir_version: _,
        // The document has these too.
        dsl: _,
        namespace: _,
        name: _,
        version: _,
        title: _,
        summary: _,
        document,
        declared,
        secrets,
        input,
        input_schema,
        output,
        timeout,
        schedule,
        root,
        steps: _,
        exprs: _,
        schemas: _,
        output_schema,
        loose,
        definition,
        // The metadata of the document asks for them.
        lifecycle: _,
    } = workflow;
    if let Some(definition) = definition {
        return definition.clone();
    }
    let list = writer.list(root);
    let mut members = vec![("document".to_owned(), document.clone())];
    let input = writer.flow("from", input.as_ref(), input_schema.as_ref());
    push_object(&mut members, "input", input);
    let mut uses = writer.uses(declared.as_ref());
    if !secrets.is_empty() && !uses.iter().any(|(group, _)| group == "secrets") {
        uses.push(("secrets".to_owned(), Data::array(secrets.iter().map(|name| Data::text(name.as_str())))));
    }
    push_object(&mut members, "use", uses);
    push(&mut members, "timeout", timeout.map(|timeout| writer.timeout(timeout)));
    push(&mut members, "schedule", schedule.as_ref().map(|schedule| writer.schedule(schedule)));
    members.push(("do".to_owned(), list));
    let output = writer.flow("as", output.as_ref(), writer.schema(*output_schema));
    push_object(&mut members, "output", output);
    push(&mut members, "evaluate", loose.then(|| single("mode", Data::text("loose"))));
    Data::map(members)
}

/// The definition as YAML.
pub fn decompile(workflow: &ir::Workflow) -> String {
    super::yaml::write(&document(workflow))
}

/// What a document says of its schedule. Two that say the same want the same events.
pub fn schedule(workflow: &ir::Workflow) -> Option<Data> {
    let writer = Decompiler { workflow, functions: Vec::new(), shallow: true };
    workflow.schedule.as_ref().map(|schedule| writer.schedule(schedule))
}

/// The members of a step itself, without the steps inside it.
pub(crate) fn own(workflow: &ir::Workflow, id: ir::StepId) -> Vec<(String, Data)> {
    let mut writer = Decompiler { workflow, functions: Vec::new(), shallow: true };
    let step = &workflow.steps[id as usize];
    let lists = workflow.steps.iter().flat_map(|step| step.lists());
    let among = std::iter::once(workflow.root.as_slice()).chain(lists).find(|list| list.contains(&id));
    writer.task(step, among.unwrap_or_default()).entries().unwrap_or_default()
}

struct Decompiler<'w> {
    workflow: &'w ir::Workflow,
    /// Functions met so far, in the order of their first call.
    functions: Members,
    /// Leaves lists empty.
    shallow: bool,
}

impl Decompiler<'_> {
    /// `use`: what a step that is not executed may refer to, and the functions that are called.
    fn uses(&mut self, declared: Option<&Data>) -> Members {
        let mut uses = declared.and_then(Data::entries).unwrap_or_default();
        let met = std::mem::take(&mut self.functions);
        match uses.iter_mut().find(|(group, _)| group == "functions") {
            Some((_, functions)) => {
                let mut all = functions.entries().unwrap_or_default();
                all.extend(met.into_iter().filter(|(name, _)| functions.get(name).is_none()));
                *functions = Data::map(all);
            }
            None => push_object(&mut uses, "functions", met),
        }
        uses
    }

    fn schema(&self, id: Option<ir::SchemaId>) -> Option<&Data> {
        id.map(|id| &self.workflow.schemas[id as usize])
    }

    /// The document itself holds the time zone and what becomes of missed slots.
    fn schedule(&self, schedule: &ir::Schedule) -> Data {
        let ir::Schedule { when, time_zone: _, missed: _ } = schedule;
        let value = match when {
            ir::When::Cron(text) => Data::text(text.as_str()),
            ir::When::Every(span) | ir::When::After(span) => self.delay(ir::Delay::Fixed(*span)),
            ir::When::On(strategy) => self.strategy(strategy),
        };
        single(schedule.kind(), value)
    }

    /// `input`, `output` or `export`.
    fn flow(&self, key: &str, template: Option<&ir::Template>, schema: Option<&Data>) -> Members {
        let mut members = Members::new();
        let schema = schema.map(|schema| Data::map([("document".to_owned(), schema.clone())]));
        push(&mut members, "schema", schema);
        push(&mut members, key, template.map(|template| self.transform(template)));
        members
    }
}

fn push(members: &mut Members, key: &str, value: Option<Data>) {
    members.extend(value.map(|value| (key.to_owned(), value)));
}

/// Adds the object unless it has no members.
fn push_object(members: &mut Members, key: &str, object: Members) {
    push(members, key, (!object.is_empty()).then(|| Data::map(object)));
}

/// An object with one member.
fn single(key: &str, value: Data) -> Data {
    Data::map([(key.to_owned(), value)])
}

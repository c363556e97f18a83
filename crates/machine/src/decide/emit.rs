//! Events for the outside: what `emit` steps say, and what happens to the instance itself.

use super::{Turn, eval::Stop};
use crate::{
    command::Effect,
    data::Data,
    event::HOPS,
    fault::{Fault, Kind},
    id,
    ir::{Lifecycle, StepId, Template},
    state::Frame,
    time::Time,
};

impl Turn<'_> {
    /// Emits a CloudEvent; what is not given is filled in. The output is the event.
    pub(super) fn emit(&mut self, branch: u32, event: &Template, input: &Data) -> Result<(), Stop> {
        let given = self.template(branch, event, input)?;
        let sequence = self.state.next_sequence();
        let event_id = id::derive(self.subject.instance, sequence);
        let mut attributes = self.attributes(event_id);
        for (key, value) in given.entries().unwrap_or_default() {
            if value.is_null() && key != "data" {
                continue;
            }
            check_attribute(&key, &value)?;
            attributes.retain(|(name, _)| *name != key);
            attributes.push((key, value));
        }
        let has = |name: &str| attributes.iter().any(|(given, _)| given == name);
        if !has("type") {
            return Err(invalid("an event needs a `type`"));
        }
        if has("data") && !has("datacontenttype") {
            attributes.push(("datacontenttype".to_owned(), Data::text("application/json")));
        }
        self.trace_attributes(&mut attributes);
        let event = Data::map(attributes);
        super::eval::affordable(&event)?;
        self.mark_begun(branch, sequence);
        self.effects.push(Effect::Emit { id: event_id, event: event.clone() });
        self.done(branch, event, None)
    }

    fn attributes(&self, event: uuid::Uuid) -> Vec<(String, Data)> {
        let instance = id::show(id::Kind::Instance, self.subject.instance);
        vec![
            ("specversion".to_owned(), Data::text("1.0")),
            ("id".to_owned(), Data::text(id::show(id::Kind::Event, event))),
            ("time".to_owned(), Data::text(self.now.rfc3339())),
            ("source".to_owned(), Data::text(format!("urn:windlass:instance:{instance}"))),
        ]
    }

    /// Ties the event to what caused it, unless the definition says otherwise.
    fn trace_attributes(&self, attributes: &mut Vec<(String, Data)>) {
        let trace = &self.state.trace;
        for (name, value) in [("traceparent", &trace.traceparent), ("correlationid", &trace.correlation_id)] {
            if let (Some(value), false) = (value, attributes.iter().any(|(given, _)| given == name)) {
                attributes.push((name.to_owned(), Data::text(value.as_str())));
            }
        }
        if let Some(hops) = trace.hops {
            attributes.retain(|(name, _)| name != HOPS);
            attributes.push((HOPS.to_owned(), Data::int(i64::from(hops) + 1)));
        }
    }

    /// Tells the outside what became of the workflow, if it wants to know.
    pub(super) fn tell_workflow(&mut self, what: &str, more: &[(&str, Data)]) {
        if self.program.lifecycle < Lifecycle::Workflow {
            return;
        }
        let ir = &self.program.ir;
        let at = time_member(what, self.now);
        let mut data = vec![("name".to_owned(), Data::text(self.qualified_name())), at];
        if what == "started" {
            let text = |text: &str| Data::text(text);
            let definition = [("name", &ir.name), ("namespace", &ir.namespace), ("version", &ir.version)];
            let definition = definition.map(|(key, value)| (key.to_owned(), text(value)));
            data.push(("definition".to_owned(), Data::map(definition)));
        }
        data.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        self.tell("workflow", what, data);
    }

    /// Tells the outside what became of a step, if it wants to know.
    pub(super) fn tell_step(&mut self, what: &str, step: Option<StepId>, more: &[(&str, Data)]) {
        if self.program.lifecycle < Lifecycle::All {
            return;
        }
        let Some(step) = step.map(|id| self.program.step(id)) else { return };
        let mut data = vec![
            ("workflow".to_owned(), Data::text(self.qualified_name())),
            ("task".to_owned(), Data::text(step.reference.as_str())),
            time_member(what, self.now),
        ];
        data.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        self.tell("task", what, data);
    }

    /// Tells of every step that is open, innermost first.
    pub(super) fn tell_all_steps(&mut self, what: &str) {
        let branches: Vec<u32> = self.state.branches.iter().rev().map(|branch| branch.id).collect();
        for branch in branches {
            self.tell_steps(what, branch);
        }
    }

    /// Tells of every step the branch is inside of, innermost first; history has the end of each.
    pub(super) fn tell_steps(&mut self, what: &str, branch: u32) {
        let frames = self.state.branch(branch).map(|branch| branch.frames.as_slice()).unwrap_or_default();
        // The step that calls a function stands for the function's task too.
        let is_task = |at: usize| at > 0 && self.program.calls_function(&frames[at - 1]);
        let told = frames.iter().enumerate().rev().filter(|(at, _)| !is_task(*at));
        let steps: Vec<StepId> = told.filter_map(|(_, frame): (_, &Frame)| frame.step).collect();
        for step in steps {
            if what == "cancelled" {
                self.note_at(branch, "step.cancelled", Some(step), None);
            }
            self.tell_step(what, Some(step), &[]);
        }
    }

    fn tell(&mut self, whose: &str, what: &str, data: Vec<(String, Data)>) {
        let sequence = self.state.next_sequence();
        let event_id = id::derive(self.subject.instance, sequence);
        let mut attributes = self.attributes(event_id);
        let name = format!("io.serverlessworkflow.{whose}.{what}.v1");
        attributes.push(("type".to_owned(), Data::text(name)));
        let instance = id::show(id::Kind::Instance, self.subject.instance);
        attributes.push(("subject".to_owned(), Data::text(instance)));
        attributes.push(("datacontenttype".to_owned(), Data::text("application/json")));
        attributes.push(("data".to_owned(), Data::map(data)));
        self.trace_attributes(&mut attributes);
        self.effects.push(Effect::Emit { id: event_id, event: Data::map(attributes) });
    }

    /// `<name>-<instance>.<namespace>`, as the standard calls an instance.
    fn qualified_name(&self) -> String {
        let ir = &self.program.ir;
        let instance = id::show(id::Kind::Instance, self.subject.instance);
        format!("{}-{instance}.{}", ir.name, ir.namespace)
    }
}

/// `startedAt`, `completedAt` and so on.
fn time_member(what: &str, now: Time) -> (String, Data) {
    let word = what.rsplit('-').next().unwrap_or(what);
    (format!("{word}At"), Data::text(now.rfc3339()))
}

fn invalid(detail: impl Into<String>) -> Stop {
    Stop::Fault(Fault::new(Kind::Validation, detail))
}

/// Attributes of a CloudEvent are texts, booleans or integers; only its data may be anything.
fn check_attribute(name: &str, value: &Data) -> Result<(), Stop> {
    use jaq_json::Val;
    let text = value.as_str();
    match name {
        "data" => Ok(()),
        "time" if text.and_then(Time::parse_rfc3339).is_none() => {
            Err(invalid(format!("the event's `time` must be an RFC 3339 time, it is {value:?}")))
        }
        "specversion" if text != Some("1.0") => Err(invalid("the event's `specversion` must be 1.0")),
        "id" | "source" | "type" | "subject" | "datacontenttype" | "dataschema" | "data_base64"
            if text.is_none_or(str::is_empty) =>
        {
            Err(invalid(format!("the event's `{name}` must be a text, it is {value:?}")))
        }
        _ if matches!(value.0, Val::TStr(_) | Val::Bool(_)) || value.as_i64().is_some() => Ok(()),
        _ => Err(invalid(format!(
            "the event's `{name}` must be a text, a boolean or an integer, it is {}",
            super::body::kind_of(value)
        ))),
    }
}

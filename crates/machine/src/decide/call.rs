//! Call steps: what is handed to a worker, an endpoint or a person.

use super::{
    Turn,
    body::kind_of,
    eval::{Stop, affordable},
};
use crate::{
    command::{Call, Effect, HttpRequest, Task},
    data::Data,
    fault::{Fault, Kind},
    id,
    ir::{self, Authentication, Http, Step, Template},
    schema::Schema,
    state::{Body, WaitKind},
    time::Time,
    token,
};
use sha2::{Digest, Sha256};

impl Turn<'_> {
    pub(super) fn begin_call(
        &mut self,
        branch: u32,
        step: &Step,
        call: &ir::Call,
        input: &Data,
    ) -> Result<(), Stop> {
        let (target, payload) = match call {
            ir::Call::HumanTask { with } => {
                let with = self.template(branch, with, input)?;
                return self.ask_person(branch, step, &with);
            }
            ir::Call::Worker { name, with, .. } => (name.clone(), self.template(branch, with, input)?),
            ir::Call::SignalToken => return self.signal_token(branch, step),
            ir::Call::Http(http) => ("http".to_owned(), self.http_request(branch, http, input)?),
        };
        affordable(&payload)?;
        let key = self.effect_key(branch, step);
        let token = self.add_wait(branch, WaitKind::Call, None);
        let step = step.reference.clone();
        let trace = self.state.trace.clone();
        self.effects.push(Effect::Call(Call { token, target, key, step, input: payload, trace }));
        Ok(())
    }

    /// Gives out a token that others signal this instance with. The output is the token and its address.
    fn signal_token(&mut self, branch: u32, step: &Step) -> Result<(), Stop> {
        let Some(origin) = self.subject.origin.clone() else {
            let detail = format!("{} needs the key of a deployment", step.name);
            return Err(Stop::Fault(Fault::new(Kind::Configuration, detail)));
        };
        let sequence = self.state.next_sequence();
        let token = token::make(&origin.key, &self.subject.tenant, self.subject.instance, sequence);
        let url = format!("{}/api/v1/signals/{token}", origin.public_url);
        let output = [("token".to_owned(), Data::text(token)), ("url".to_owned(), Data::text(url))];
        self.done(branch, Data::map(output), None)
    }

    /// One key per (tenant, instance, step, iteration): the same on every attempt, retry and replay.
    fn effect_key(&self, branch: u32, step: &Step) -> String {
        let mut hash = Sha256::new();
        hash.update(self.subject.tenant.as_str());
        hash.update(self.subject.instance.as_bytes());
        hash.update(step.reference.as_bytes());
        let mut current = self.state.branch(branch);
        while let Some(own) = current {
            for frame in own.frames.iter().rev() {
                let (index, jumps) = match &frame.body {
                    Body::List(cursor) => (0, cursor.jumps),
                    Body::For { index, cursor, .. } => (*index, cursor.jumps),
                    Body::Try(attempt) => (0, attempt.cursor.jumps),
                    Body::Listen(listening) => (listening.index, listening.cursor.jumps),
                    Body::Around(around) => {
                        // The same steps go around many others, before and after them.
                        let around_of = frame.step.map(|id| self.program.step(id).reference.as_str());
                        hash.update(around_of.unwrap_or_default());
                        (around.at * 2 + u32::from(around.done.is_some()), around.cursor.jumps)
                    }
                    Body::Leaf | Body::Fork { .. } => (0, 0),
                };
                hash.update(index.to_be_bytes());
                hash.update(jumps.to_be_bytes());
            }
            current = own.fork.and_then(|(parent, _)| self.state.branch(parent));
        }
        hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn http_request(&mut self, branch: u32, http: &Http, input: &Data) -> Result<Data, Stop> {
        let mut url = self.text(branch, &http.endpoint, input)?;
        if matches!(http.endpoint, Template::Literal(_)) {
            url = expand(&url, input);
        }
        let mut query = Vec::new();
        for (name, value) in &http.query {
            query.push(format!("{}={}", escape(name), escape(&self.text(branch, value, input)?)));
        }
        for (name, value) in self.object_of(branch, http.query_from, input)? {
            query.push(format!("{}={}", escape(&name), escape(&value.to_text())));
        }
        if !query.is_empty() {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(&query.join("&"));
        }
        let mut headers = Vec::new();
        for (name, value) in &http.headers {
            headers.push((name.clone(), self.text(branch, value, input)?));
        }
        for (name, value) in self.object_of(branch, http.headers_from, input)? {
            headers.push((name, value.to_text()));
        }
        match &http.authentication {
            None => {}
            Some(Authentication::Basic { username, password }) => {
                let pair = format!(
                    "{}:{}",
                    self.text(branch, username, input)?,
                    self.text(branch, password, input)?
                );
                headers.push(("authorization".to_owned(), format!("Basic {}", base64(pair.as_bytes()))));
            }
            Some(Authentication::Bearer { token }) => {
                let token = self.text(branch, token, input)?;
                headers.push(("authorization".to_owned(), format!("Bearer {token}")));
            }
        }
        let body = match &http.body {
            Some(body) => Some(self.template(branch, body, input)?),
            None => None,
        };
        let request = HttpRequest {
            method: http.method.clone(),
            url,
            headers,
            body,
            output: http.output,
            redirect: http.redirect,
        };
        Ok(Data::from_json(serde_json::to_value(request).expect("a request is plain JSON")))
    }

    /// The entries of an object that an expression yields; none without an expression.
    fn object_of(
        &mut self,
        branch: u32,
        from: Option<ir::ExprId>,
        input: &Data,
    ) -> Result<Vec<(String, Data)>, Stop> {
        let Some(id) = from else { return Ok(Vec::new()) };
        let value = self.eval(branch, id, input)?;
        value.entries().ok_or_else(|| {
            let detail =
                format!("headers and query must be an object, the expression yielded {}", kind_of(&value));
            Stop::Fault(Fault::new(Kind::Expression, detail))
        })
    }

    /// Makes a task for a person; the answer is the step's output.
    fn ask_person(&mut self, branch: u32, step: &Step, with: &Data) -> Result<(), Stop> {
        let names = |key: &str| -> Vec<String> {
            match with.get(key).unwrap_or_default() {
                list if list.items().is_some() => list
                    .items()
                    .into_iter()
                    .flatten()
                    .filter_map(|item| item.as_str().map(str::to_owned))
                    .collect(),
                one => one.as_str().map(str::to_owned).into_iter().collect(),
            }
        };
        let text = |key: &str| with.get(key).and_then(|value| value.as_str().map(str::to_owned));
        let due_at = match text("dueDate") {
            None => None,
            Some(date) => Some(Time::parse_rfc3339(&date).ok_or_else(|| {
                Fault::new(Kind::Validation, format!("dueDate {date:?} is not an RFC 3339 time"))
            })?),
        };
        let form = with.get("form");
        if let Some(Err(error)) = form.as_ref().map(Schema::new) {
            let detail = format!("the form is not a usable JSON Schema: {} {error}", error.pointer);
            return Err(Stop::Fault(Fault::new(Kind::Validation, detail)));
        }
        let limit = self
            .state
            .waits
            .iter()
            .find(|wait| wait.kind == WaitKind::Timeout && wait.frame == self.top(branch).sequence)
            .and_then(|wait| wait.until);
        let token = self.add_wait(branch, WaitKind::TaskCompletion, None);
        self.effects.push(Effect::Task(Box::new(Task {
            id: id::derive(self.subject.instance, token),
            token,
            step: step.reference.clone(),
            title: text("title").unwrap_or_else(|| step.name.clone()),
            assignee: text("assignee"),
            candidate_users: names("candidateUsers"),
            candidate_groups: names("candidateGroups"),
            payload: with.get("data").unwrap_or_default(),
            form,
            priority: with.get("priority").and_then(|value| value.as_i64()).unwrap_or(0),
            due_at: due_at.or(limit),
        })));
        Ok(())
    }
}

/// Expands `{name}` to the top-level field of that name; a missing one is empty.
fn expand(template: &str, input: &Data) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}').map(|offset| open + offset) else { break };
        text.push_str(&rest[..open]);
        let value = input.get(&rest[open + 1..close]).unwrap_or_default();
        if !value.is_null() {
            text.push_str(&escape(&value.to_text()));
        }
        rest = &rest[close + 1..];
    }
    text.push_str(rest);
    text
}

/// Percent-encodes everything but RFC 3986 unreserved characters.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = u32::from(chunk[0]) << 16
            | u32::from(chunk.get(1).copied().unwrap_or(0)) << 8
            | u32::from(chunk.get(2).copied().unwrap_or(0));
        for position in 0..4 {
            match position <= chunk.len() {
                true => out.push(ALPHABET[(word >> (18 - 6 * position)) as usize & 63] as char),
                false => out.push('='),
            }
        }
    }
    out
}

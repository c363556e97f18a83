//! Calls.

use super::{Decompiler, Members, push, push_object, single};
use crate::{
    child::Workflow,
    data::Data,
    ir::{Authentication, Call, ExprId, Http, HttpOutput, OpenApi, Returned, Scheme, Script, Template},
};

impl Decompiler<'_> {
    pub(super) fn call(&self, call: &Call, task: &mut Members) {
        let (name, with) = match call {
            Call::Http(http) => ("http".to_owned(), self.http(http)),
            Call::OpenApi(call) => ("openapi".to_owned(), self.openapi(call)),
            Call::Worker { name, version, with } => {
                let version = version.as_deref().unwrap_or("1.0.0");
                (format!("{name}:{version}@default"), self.template(with))
            }
            Call::Script(script) => return task.push(("run".to_owned(), self.script(script))),
            Call::SignalToken => ("signal-token:1.0.0@default".to_owned(), Data::object()),
            Call::HumanTask { with } => ("human-task:1.0.0@default".to_owned(), self.template(with)),
            Call::Child { with } => ("child:1.0.0@default".to_owned(), self.template(with)),
            Call::Map { with } => ("map:1.0.0@default".to_owned(), self.template(with)),
            Call::Workflow { workflow, input, wait } => {
                return self.sub_workflow(workflow, input.as_ref(), *wait, task);
            }
        };
        task.push(("call".to_owned(), Data::text(name)));
        push(task, "with", (with != Data::object()).then_some(with));
    }

    fn sub_workflow(&self, workflow: &Workflow, input: Option<&Template>, wait: bool, task: &mut Members) {
        let mut process = vec![
            ("namespace".to_owned(), Data::text(workflow.namespace.as_str())),
            ("name".to_owned(), Data::text(workflow.name.as_str())),
            ("version".to_owned(), Data::text(workflow.version.as_str())),
        ];
        push(&mut process, "input", input.map(|input| self.template(input)));
        let mut run = vec![("workflow".to_owned(), Data::map(process))];
        push(&mut run, "await", (!wait).then(|| Data::bool(false)));
        task.push(("run".to_owned(), Data::map(run)));
    }

    fn script(&self, script: &Script) -> Data {
        let Script { code, arguments, environment, stdin, awaited, returned } = script;
        let mut members = vec![("language".to_owned(), Data::text("js"))];
        push(&mut members, "stdin", stdin.as_ref().map(|stdin| self.template(stdin)));
        let list = || Data::array(arguments.iter().map(|argument| self.template(argument)));
        push(&mut members, "arguments", (!arguments.is_empty()).then(list));
        self.pairs("environment", environment, None, &mut members);
        members.push(("code".to_owned(), Data::text(code.as_str())));
        let mut run = vec![("script".to_owned(), Data::map(members))];
        push(&mut run, "await", (!awaited).then(|| Data::bool(false)));
        let named = *returned != Returned::Stdout;
        push(&mut run, "return", named.then(|| Data::text(returned.word())));
        Data::map(run)
    }

    fn http(&self, http: &Http) -> Data {
        let Http {
            method,
            endpoint,
            headers,
            headers_from,
            query,
            query_from,
            body,
            output,
            redirect,
            authentication,
        } = http;
        let mut with = vec![
            ("method".to_owned(), Data::text(method.to_ascii_lowercase())),
            ("endpoint".to_owned(), self.endpoint(endpoint, authentication.as_ref())),
        ];
        self.pairs("headers", headers, *headers_from, &mut with);
        self.pairs("query", query, *query_from, &mut with);
        push(&mut with, "body", body.as_ref().map(|body| self.template(body)));
        answer(*output, *redirect, &mut with);
        Data::map(with)
    }

    fn openapi(&self, call: &OpenApi) -> Data {
        let OpenApi {
            document,
            document_authentication,
            operation,
            parameters,
            output,
            redirect,
            authentication,
        } = call;
        let document = self.endpoint(document, document_authentication.as_ref());
        let mut with = vec![
            ("document".to_owned(), single("endpoint", document)),
            ("operationId".to_owned(), self.template(operation)),
        ];
        push(&mut with, "parameters", parameters.as_ref().map(|parameters| self.template(parameters)));
        push(&mut with, "authentication", authentication.as_ref().map(|policy| self.authentication(policy)));
        answer(*output, *redirect, &mut with);
        Data::map(with)
    }

    fn endpoint(&self, uri: &Template, authentication: Option<&Authentication>) -> Data {
        let uri = self.template(uri);
        match authentication {
            None => uri,
            Some(authentication) => Data::map([
                ("uri".to_owned(), uri),
                ("authentication".to_owned(), self.authentication(authentication)),
            ]),
        }
    }

    fn pairs(&self, key: &str, pairs: &[(String, Template)], from: Option<ExprId>, with: &mut Members) {
        match from {
            Some(id) => with.push((key.to_owned(), self.wrapped(id))),
            None => {
                let pairs = pairs.iter().map(|(name, value)| (name.clone(), self.template(value)));
                push_object(with, key, pairs.collect());
            }
        }
    }

    fn authentication(&self, authentication: &Authentication) -> Data {
        match authentication {
            Authentication::Basic { username, password } => single(
                "basic",
                Data::map([
                    ("username".to_owned(), self.template(username)),
                    ("password".to_owned(), self.template(password)),
                ]),
            ),
            Authentication::Bearer { token } => single("bearer", single("token", self.template(token))),
            Authentication::Policy { scheme, with } => single(word(*scheme), self.template(with)),
            Authentication::Secret { scheme, name } => {
                single(word(*scheme), single("use", Data::text(name.as_str())))
            }
        }
    }
}

fn answer(output: HttpOutput, redirect: bool, with: &mut Members) {
    let output = match output {
        HttpOutput::Content => None,
        HttpOutput::Raw => Some(Data::text("raw")),
        HttpOutput::Response => Some(Data::text("response")),
    };
    push(with, "output", output);
    push(with, "redirect", redirect.then(|| Data::bool(true)));
}

fn word(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Basic => "basic",
        Scheme::Bearer => "bearer",
        Scheme::Digest => "digest",
        Scheme::Oauth2 => "oauth2",
        Scheme::Oidc => "oidc",
    }
}

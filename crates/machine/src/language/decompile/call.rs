//! Calls.

use super::{Decompiler, Members, push, push_object, single};
use crate::{
    data::Data,
    ir::{Authentication, Call, ExprId, Http, HttpOutput, Template},
};

impl Decompiler<'_> {
    pub(super) fn call(&self, call: &Call, task: &mut Members) {
        let (name, with) = match call {
            Call::Http(http) => ("http".to_owned(), self.http(http)),
            Call::Worker { name, version, with } => {
                let version = version.as_deref().unwrap_or("1.0.0");
                (format!("{name}:{version}@default"), self.template(with))
            }
            Call::SignalToken => ("signal-token:1.0.0@default".to_owned(), Data::object()),
            Call::HumanTask { with } => ("human-task:1.0.0@default".to_owned(), self.template(with)),
        };
        task.push(("call".to_owned(), Data::text(name)));
        push(task, "with", (with != Data::object()).then_some(with));
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
        let uri = self.template(endpoint);
        let endpoint = match authentication {
            None => uri,
            Some(authentication) => Data::map([
                ("uri".to_owned(), uri),
                ("authentication".to_owned(), self.authentication(authentication)),
            ]),
        };
        let mut with = vec![
            ("method".to_owned(), Data::text(method.to_ascii_lowercase())),
            ("endpoint".to_owned(), endpoint),
        ];
        self.pairs("headers", headers, *headers_from, &mut with);
        self.pairs("query", query, *query_from, &mut with);
        push(&mut with, "body", body.as_ref().map(|body| self.template(body)));
        let output = match output {
            HttpOutput::Content => None,
            HttpOutput::Raw => Some(Data::text("raw")),
            HttpOutput::Response => Some(Data::text("response")),
        };
        push(&mut with, "output", output);
        push(&mut with, "redirect", redirect.then(|| Data::bool(true)));
        Data::map(with)
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
        }
    }
}

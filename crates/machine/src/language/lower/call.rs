//! `call`: HTTP is executed; the other protocols are checked only.

use super::{Lowering, expression::Site};
use crate::{
    data::Data,
    ir::{Authentication, Call, ExprId, Http, HttpOutput, Kind, Template},
    language::{
        shape::unwrap_expression,
        source::{At, Sort},
    },
};

/// Pairs of a name and its value, or one expression that yields them all.
type Pairs = (Vec<(String, Template)>, Option<ExprId>);

impl<'t> Lowering<'t, '_> {
    pub(super) fn call(&mut self, task: At<'t>, at: At<'t>, reference: &str) -> Kind {
        let with = task.get("with");
        match (at.text(), with) {
            (Some("http"), Some(with)) => Kind::Call { call: Call::Http(self.http(with)) },
            (Some("asyncapi"), Some(with)) => {
                let base = format!("{reference}/with/subscription/foreach/do");
                self.look(|dry| dry.asyncapi(with, &base));
                self.unsupported(at.place(), "`call: asyncapi`")
            }
            (Some(protocol @ ("grpc" | "openapi" | "a2a" | "mcp")), Some(with)) => {
                self.look(|dry| dry.arguments(with));
                self.unsupported(at.place(), &format!("`call: {protocol}`"))
            }
            (Some("http" | "asyncapi" | "grpc" | "openapi" | "a2a" | "mcp") | None, _) => {
                Kind::Do { list: Vec::new() }
            }
            (Some(name), _) => self.function_call(name, at, with, reference),
        }
    }

    fn http(&mut self, with: At<'_>) -> Http {
        let (headers, headers_from) = self.pairs(with.get("headers"));
        let (query, query_from) = self.pairs(with.get("query"));
        let endpoint = with.get("endpoint");
        let uri = endpoint.and_then(|endpoint| endpoint.get("uri")).or(endpoint);
        let authentication = endpoint.and_then(|endpoint| endpoint.get("authentication"));
        Http {
            method: self.method(with.get("method")),
            endpoint: uri.map_or(Template::Literal(Data::NULL), |uri| self.template(uri, Site::With)),
            headers,
            headers_from,
            query,
            query_from,
            body: self.template_in(with, "body", Site::With),
            output: match with.get("output").and_then(At::text) {
                Some("raw") => HttpOutput::Raw,
                Some("response") => HttpOutput::Response,
                _ => HttpOutput::Content,
            },
            redirect: with.get("redirect").and_then(At::flag).unwrap_or(false),
            authentication: authentication.and_then(|at| self.authentication(at)),
        }
    }

    fn method(&mut self, at: Option<At<'_>>) -> String {
        let Some((at, method)) = at.and_then(|at| Some((at, at.text()?))) else { return String::new() };
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
            let message = format!("`{method}` is not an HTTP method");
            self.error(
                at.place(),
                "bad-value",
                message,
                Some("write one such as get, post, put or delete".to_owned()),
            );
        }
        method.to_ascii_uppercase()
    }

    fn pairs(&mut self, at: Option<At<'_>>) -> Pairs {
        match at {
            Some(at) if at.sort() == Sort::Text => (Vec::new(), self.expression(at, Site::With)),
            Some(at) => (self.members(at, Site::With), None),
            None => (Vec::new(), None),
        }
    }

    /// An authentication policy where it is used: on the spot, or by name.
    pub(super) fn authentication(&mut self, at: At<'_>) -> Option<Authentication> {
        match at.get("use").and_then(|name| Some((name, name.text()?))) {
            Some((at, name)) => self.used("authentications", name, at).and_then(|policy| self.policy(policy)),
            None => self.policy(at),
        }
    }

    /// An authentication policy; `None` if this engine cannot apply it.
    pub(super) fn policy(&mut self, at: At<'_>) -> Option<Authentication> {
        let (scheme, policy) = at.entries().next()?;
        if let Some(secret) = policy.get("use") {
            self.secret(secret);
            self.unsupported(secret.key_place(), "authentication from a secret");
            return None;
        }
        match scheme {
            "basic" => Some(Authentication::Basic {
                username: self.template_in(policy, "username", Site::With)?,
                password: self.template_in(policy, "password", Site::With)?,
            }),
            "bearer" => {
                Some(Authentication::Bearer { token: self.template_in(policy, "token", Site::With)? })
            }
            "digest" | "oauth2" | "oidc" => {
                self.look(|dry| {
                    dry.template(policy, Site::With);
                });
                self.unsupported(policy.key_place(), &format!("`{scheme}` authentication"));
                None
            }
            _ => None,
        }
    }

    fn secret(&mut self, at: At<'_>) {
        let Some(name) = at.text() else { return };
        let secrets = self.root.get("use").and_then(|declared| declared.get("secrets"));
        if !secrets.into_iter().flat_map(At::items).any(|secret| secret.text() == Some(name)) {
            let message = format!("the secret `{name}` is not declared in `use.secrets`");
            self.error(
                at.place(),
                "unknown-reference",
                message,
                Some(format!("add `- {name}` to `use.secrets`")),
            );
        }
    }

    /// Checks `with` of a protocol that is not executed.
    fn arguments(&mut self, with: At<'_>) {
        for (key, value) in with.entries() {
            match key {
                "authentication" => {
                    self.authentication(value);
                }
                "document" | "proto" | "agentCard" => self.resource(value),
                "server" => self.endpoint(value),
                "service" => {
                    value.get("authentication").map(|at| self.authentication(at));
                }
                "timeout" => {
                    self.delay(value, Site::Body);
                }
                _ => {
                    self.template(value, Site::With);
                }
            }
        }
    }

    fn asyncapi(&mut self, with: At<'t>, base: &str) {
        for (key, value) in with.entries() {
            match key {
                "subscription" => {
                    self.template_in(value, "filter", Site::Body);
                    if let Some(consume) = value.get("consume") {
                        self.delay_in(consume, "for", Site::Body);
                        self.template_in(consume, "while", Site::Body);
                        self.template_in(consume, "until", Site::Body);
                    }
                    if let Some(foreach) = value.get("foreach") {
                        self.iterator(foreach, base);
                    }
                }
                "authentication" => {
                    self.authentication(value);
                }
                "document" => self.resource(value),
                _ => {
                    self.template(value, Site::With);
                }
            }
        }
    }

    /// Checks the endpoint of an external resource.
    pub(super) fn resource(&mut self, at: At<'_>) {
        if let Some(endpoint) = at.get("endpoint") {
            self.endpoint(endpoint);
        }
    }

    fn endpoint(&mut self, at: At<'_>) {
        let uri = at.get("uri").unwrap_or(at);
        if uri.text().is_some_and(|text| unwrap_expression(text).is_some()) {
            self.template(uri, Site::With);
        }
        if let Some(authentication) = at.get("authentication") {
            self.authentication(authentication);
        }
    }
}

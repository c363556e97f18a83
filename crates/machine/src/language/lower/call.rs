//! `call`: HTTP and OpenAPI are executed; the other protocols are checked only.

use super::{Lowering, expression::Site};
use crate::{
    data::Data,
    ir::{Authentication, Call, ExprId, Http, HttpOutput, Kind, OpenApi, Template},
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
                self.no_connector(at, "asyncapi")
            }
            (Some("openapi"), Some(with)) => Kind::Call { call: Call::OpenApi(self.openapi(with)) },
            (Some(protocol @ ("grpc" | "a2a" | "mcp")), Some(with)) => {
                self.look(|dry| dry.arguments(with));
                self.no_connector(at, protocol)
            }
            (Some("http" | "asyncapi" | "grpc" | "openapi" | "a2a" | "mcp") | None, _) => {
                Kind::Do { list: Vec::new() }
            }
            (Some(name), _) => self.function_call(name, at, with, reference),
        }
    }

    fn no_connector(&mut self, at: At<'_>, protocol: &str) -> Kind {
        let what = format!("`call: {protocol}`");
        let message = format!("this engine has no connector for {what}");
        self.refused(at.place(), &what, &message, "do it in a worker, and call that")
    }

    fn http(&mut self, with: At<'_>) -> Http {
        let (headers, headers_from) = self.pairs(with.get("headers"));
        let (query, query_from) = self.pairs(with.get("query"));
        let (endpoint, authentication) = self.called(with.get("endpoint"));
        Http {
            method: self.method(with.get("method")),
            endpoint,
            headers,
            headers_from,
            query,
            query_from,
            body: self.template_in(with, "body", Site::With),
            output: output(with),
            redirect: with.get("redirect").and_then(At::flag).unwrap_or(false),
            authentication,
        }
    }

    fn openapi(&mut self, with: At<'_>) -> OpenApi {
        let (document, document_authentication) =
            self.called(with.get("document").and_then(|document| document.get("endpoint")));
        let nothing = Template::Literal(Data::NULL);
        OpenApi {
            document,
            document_authentication,
            operation: self.template_in(with, "operationId", Site::With).unwrap_or(nothing),
            parameters: self.template_in(with, "parameters", Site::With),
            output: output(with),
            redirect: with.get("redirect").and_then(At::flag).unwrap_or(false),
            authentication: with.get("authentication").and_then(|at| self.authentication(at)),
        }
    }

    /// An endpoint that is called: its URL and how to authenticate there.
    fn called(&mut self, endpoint: Option<At<'_>>) -> (Template, Option<Authentication>) {
        let Some(endpoint) = endpoint else { return (Template::Literal(Data::NULL), None) };
        let uri = endpoint.get("uri").unwrap_or(endpoint);
        let authentication = endpoint.get("authentication").and_then(|at| self.authentication(at));
        let template = self.template(uri, Site::With);
        if let (Template::Literal(_), Some(text)) = (&template, uri.text()) {
            self.check_url(uri, text);
        }
        (template, authentication)
    }

    /// Finds in a literal URL what could never be called.
    fn check_url(&mut self, at: At<'_>, text: &str) {
        let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default();
        // Without any scheme it is no URI, which its shape has said.
        if !(scheme.is_empty() || text.starts_with('{') || matches!(scheme.as_str(), "http" | "https")) {
            let message = format!("`{text}` cannot be called: it is neither http nor https");
            let hint = "write the whole URL, such as `https://api.example.com/orders`";
            return self.error(at.place(), "bad-value", message, Some(hint.to_owned()));
        }
        let authority = text.split("//").nth(1).unwrap_or_default().split('/').next().unwrap_or_default();
        if authority.contains('@') {
            let message = "the URL holds a user name or password".to_owned();
            self.error(at.place(), "bad-value", message, Some("use `authentication` instead".to_owned()));
        }
        let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ',');
        let mut rest = text;
        while let Some(open) = rest.find(['{', '}']) {
            let inside = rest[open..].strip_prefix('{').and_then(|inside| Some(inside.split_once('}')?.0));
            match inside {
                Some(inside) if !inside.is_empty() && inside.chars().all(name) => {
                    rest = &rest[open + inside.len() + 2..]
                }
                _ => {
                    let message = format!("`{text}` is not a URL template");
                    let hint = "only `{name}` is expanded, to a top-level field of the data; for more use an expression";
                    return self.error(at.place(), "bad-value", message, Some(hint.to_owned()));
                }
            }
        }
    }

    fn method(&mut self, at: Option<At<'_>>) -> String {
        let Some((at, method)) = at.and_then(|at| Some((at, at.text()?))) else { return String::new() };
        let is_tunnel = ["connect", "trace"].iter().any(|other| method.eq_ignore_ascii_case(other));
        if is_tunnel
            || method.is_empty()
            || !method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
        {
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

fn output(with: At<'_>) -> HttpOutput {
    match with.get("output").and_then(At::text) {
        Some("raw") => HttpOutput::Raw,
        Some("response") => HttpOutput::Response,
        _ => HttpOutput::Content,
    }
}

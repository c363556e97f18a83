//! Requests that go out: what is evaluated here, and marks where secrets will stand.
//!
//! The value of a secret never comes here. `$secrets.name` yields a mark; who makes the call puts the value in its
//! place. A mark is a hash over everything an expression can see, so no data can hold one beforehand.

use super::{Turn, body::kind_of, eval::Stop};
use crate::{
    command::{Authentication, Credentials, HttpRequest, OpenApiRequest, Placeholder},
    data::Data,
    expr::Compiled,
    fault::{Fault, Kind},
    ir::{self, Http, OpenApi, Scheme, Template},
};
use serde::Serialize;
use sha2::{Digest, Sha256};

impl Turn<'_> {
    pub(super) fn http_request(&mut self, branch: u32, http: &Http, input: &Data) -> Result<Data, Stop> {
        let mut url = self.address(branch, &http.endpoint, input)?;
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
        let body = match &http.body {
            Some(body) => Some(self.template(branch, body, input)?),
            None => None,
        };
        Ok(plain(HttpRequest {
            method: http.method.clone(),
            url,
            headers,
            body,
            output: http.output,
            redirect: http.redirect,
            authentication: self.authentication(branch, http.authentication.as_ref(), input)?,
        }))
    }

    pub(super) fn openapi_request(
        &mut self,
        branch: u32,
        call: &OpenApi,
        input: &Data,
    ) -> Result<Data, Stop> {
        let parameters = match &call.parameters {
            Some(parameters) => self.template(branch, parameters, input)?,
            None => Data::object(),
        };
        let document_authentication = call.document_authentication.as_ref();
        Ok(plain(OpenApiRequest {
            document: self.address(branch, &call.document, input)?,
            document_authentication: self.authentication(branch, document_authentication, input)?,
            operation: self.text(branch, &call.operation, input)?,
            parameters,
            output: call.output,
            redirect: call.redirect,
            authentication: self.authentication(branch, call.authentication.as_ref(), input)?,
        }))
    }

    /// A URL: an expression, or text with expansions.
    fn address(&mut self, branch: u32, template: &Template, input: &Data) -> Result<String, Stop> {
        let text = self.text(branch, template, input)?;
        Ok(match template {
            Template::Literal(_) => expand(&text, input),
            _ => text,
        })
    }

    fn authentication(
        &mut self,
        branch: u32,
        policy: Option<&ir::Authentication>,
        input: &Data,
    ) -> Result<Option<Authentication>, Stop> {
        let Some(policy) = policy else { return Ok(None) };
        let (scheme, with) = match policy {
            ir::Authentication::Secret { scheme, name } => {
                let credentials = Credentials::Secret(name.clone());
                return Ok(Some(Authentication { scheme: *scheme, credentials }));
            }
            ir::Authentication::Basic { username, password } => {
                let username = self.template(branch, username, input)?;
                let password = self.template(branch, password, input)?;
                let members = [("username".to_owned(), username), ("password".to_owned(), password)];
                (Scheme::Basic, Data::map(members))
            }
            ir::Authentication::Bearer { token } => {
                (Scheme::Bearer, Data::map([("token".to_owned(), self.template(branch, token, input)?)]))
            }
            ir::Authentication::Policy { scheme, with } => (*scheme, self.template(branch, with, input)?),
        };
        let members =
            with.entries().unwrap_or_default().into_iter().map(|(key, value)| match value.as_str() {
                Some(text) if key == "authority" => (key, Data::text(expand(text, input))),
                _ => (key, value),
            });
        Ok(Some(Authentication { scheme, credentials: Credentials::With(Data::map(members)) }))
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

    /// What `$secrets` is for this expression: marks, at the places it names.
    pub(super) fn placeholders(&mut self, compiled: &Compiled, dot: &Data) -> Data {
        let seen = self.seen(dot);
        let mut secrets = Data::object();
        for path in &compiled.secrets {
            let mut hash = seen.clone();
            path.iter().for_each(|key| hash.update([key.as_bytes(), b"\0"].concat()));
            let hex: String = hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
            let mark = format!("secret-{hex}");
            secrets = put(&secrets, path, Data::text(mark.as_str()));
            if !self.secrets.iter().any(|known| known.mark == mark) {
                self.secrets.push(Placeholder { mark, path: path.clone() });
            }
        }
        secrets
    }

    /// A hash over everything that any expression of this call can see.
    fn seen(&self, dot: &Data) -> Sha256 {
        let state = &self.state;
        let mut hash = Sha256::new();
        hash.update(self.subject.tenant.as_str());
        hash.update(self.subject.instance.as_bytes());
        let data = (&state.input, &state.context, &state.branches, &state.waits, dot);
        hash.update(serde_json::to_vec(&data).expect("a state is plain JSON"));
        hash
    }
}

/// `object` with `value` at `path`.
fn put(object: &Data, path: &[String], value: Data) -> Data {
    let Some((key, rest)) = path.split_first() else { return value };
    let mut entries = object.entries().unwrap_or_default();
    let inner = object.get(key).unwrap_or_else(Data::object);
    entries.retain(|(known, _)| known != key);
    entries.push((key.clone(), put(&inner, rest, value)));
    Data::map(entries)
}

fn plain(request: impl Serialize) -> Data {
    Data::from_json(serde_json::to_value(request).expect("a request is plain JSON"))
}

/// Expands `{name}` and `{a,b}` to top-level fields of those names, as RFC 6570 has it for simple expansion; a
/// missing one is empty.
pub(super) fn expand(template: &str, input: &Data) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}').map(|offset| open + offset) else { break };
        text.push_str(&rest[..open]);
        let values = rest[open + 1..close].split(',').filter_map(|name| expansion(&input.get(name)?));
        text.push_str(&values.collect::<Vec<_>>().join(","));
        rest = &rest[close + 1..];
    }
    text.push_str(rest);
    text
}

/// A value in a URL: lists and objects are joined by commas; what is undefined is nothing at all.
fn expansion(value: &Data) -> Option<String> {
    if value.is_null() {
        return None;
    }
    if let Some(items) = value.items() {
        let items: Vec<String> =
            items.filter(|item| !item.is_null()).map(|item| escape(&item.to_text())).collect();
        return (!items.is_empty()).then(|| items.join(","));
    }
    if let Some(entries) = value.entries() {
        let pairs = entries.iter().filter(|(_, value)| !value.is_null());
        let pairs: Vec<String> =
            pairs.map(|(key, value)| format!("{},{}", escape(key), escape(&value.to_text()))).collect();
        return (!pairs.is_empty()).then(|| pairs.join(","));
    }
    Some(escape(&value.to_text()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_expansion_is_that_of_the_rfc() {
        let data = Data::parse(
            br#"{"var":"value","hello":"Hello World!","half":"50%","list":["red","green","blue"],"empty":"","none":null,
                "keys":{"semi":";","dot":".","comma":","},"x":1024,"y":768,"path":"/foo/bar","umlaut":"\u00fc"}"#,
        )
        .unwrap();
        for (template, wanted) in [
            ("{var}", "value"),
            ("{hello}", "Hello%20World%21"),
            ("{half}", "50%25"),
            ("O{empty}X", "OX"),
            ("O{none}X{missing}", "OX"),
            ("{x,y}", "1024,768"),
            ("{x,hello,y}", "1024,Hello%20World%21,768"),
            ("?{x,empty}", "?1024,"),
            ("?{x,none}", "?1024"),
            ("{list}", "red,green,blue"),
            ("{keys}", "semi,%3B,dot,.,comma,%2C"),
            ("{path}/here", "%2Ffoo%2Fbar/here"),
            ("{umlaut}", "%C3%BC"),
            ("https://a/{", "https://a/{"),
        ] {
            assert_eq!(expand(template, &data), wanted, "{template}");
        }
    }
}

//! One operation of an API, read from its description, and the request that calls it.
//!
//! Values keep their marks of secrets: whoever sends the request replaces them.

use crate::egress::{exchange::wrong, reveal::encode};
use machine::{Data, Fault, command::HttpRequest, fault::Kind, ir::HttpOutput};
use url::Url;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/// References followed from one to the next.
const REFERENCES_MAX: usize = 10;
const FORM: &str = "application/x-www-form-urlencoded";

pub(super) struct Operation<'d> {
    document: &'d Data,
    is_swagger: bool,
    method: &'static str,
    path: String,
    item: Data,
    operation: Data,
}

struct Parameter {
    name: String,
    place: String,
    required: bool,
    described: Data,
}

fn invalid(detail: String) -> Fault {
    Fault::new(Kind::Validation, detail)
}

impl Operation<'_> {
    /// The operation of this id.
    pub(super) fn find<'d>(document: &'d Data, id: &str) -> Result<Operation<'d>, Fault> {
        let is_swagger = document.get("swagger").is_some();
        for (path, item) in document.get("paths").and_then(|paths| paths.entries()).unwrap_or_default() {
            let item = resolve(document, item)?;
            for method in METHODS {
                let Some(operation) = item.get(method) else { continue };
                if operation.get("operationId").and_then(|known| known.as_str().map(|known| known == id))
                    == Some(true)
                {
                    return Ok(Operation { document, is_swagger, method, path, item, operation });
                }
            }
        }
        Err(wrong(format!("the API has no operation {id:?}")))
    }

    /// The request that calls it with these parameters.
    pub(super) fn request(&self, described_at: &Url, given: &Data) -> Result<HttpRequest, Fault> {
        let mut left =
            given.entries().ok_or_else(|| invalid("the parameters must be an object".to_owned()))?;
        let mut path = self.path.clone();
        let (mut query, mut headers, mut cookies, mut form) = (vec![], vec![], vec![], vec![]);
        let mut body = None;
        for parameter in self.parameters()? {
            let at = left.iter().position(|(name, value)| *name == parameter.name && !value.is_null());
            let Some(value) = at.map(|at| left.remove(at).1) else {
                if parameter.place == "body" {
                    body = take(&mut left, "body");
                }
                if parameter.required && !(parameter.place == "body" && body.is_some()) {
                    return Err(invalid(format!("the operation needs the parameter `{}`", parameter.name)));
                }
                continue;
            };
            match parameter.place.as_str() {
                "path" => {
                    path = path.replace(&format!("{{{}}}", parameter.name), &joined(&value, ",", encode))
                }
                "query" => query.extend(self.pairs(&parameter, &value)),
                "header" => headers.push((parameter.name, joined(&value, ",", str::to_owned))),
                "cookie" => cookies.push(format!("{}={}", parameter.name, joined(&value, ",", encode))),
                "formData"
                    if parameter
                        .described
                        .get("type")
                        .and_then(|kind| kind.as_str().map(|kind| kind == "file"))
                        == Some(true) =>
                {
                    return Err(wrong(format!(
                        "the parameter `{}` is a file, which cannot be sent",
                        parameter.name
                    )));
                }
                "formData" => form.push((parameter.name, value)),
                "body" => body = Some(value),
                other => return Err(wrong(format!("a parameter in {other:?} is not known"))),
            }
        }
        if !cookies.is_empty() {
            headers.push(("cookie".to_owned(), cookies.join("; ")));
        }
        if !form.is_empty() {
            headers.push(("content-type".to_owned(), FORM.to_owned()));
            body = Some(Data::map(form));
        }
        self.request_body(&mut left, &mut headers, &mut body)?;
        left.retain(|(_, value)| !value.is_null());
        if let Some((name, _)) = left.first() {
            return Err(invalid(format!("the operation has no parameter `{name}`")));
        }
        headers.extend(self.accepts().map(|kind| ("accept".to_owned(), kind)));
        let mut url = format!("{}{path}", self.server(described_at)?);
        if !query.is_empty() {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(&query.join("&"));
        }
        let (method, output) = (self.method.to_ascii_uppercase(), HttpOutput::Content);
        Ok(HttpRequest { method, url, headers, body, output, redirect: false, authentication: None })
    }

    /// The parameters of the operation; its own stand for those of its path with the same name and place.
    fn parameters(&self) -> Result<Vec<Parameter>, Fault> {
        let mut found: Vec<Parameter> = Vec::new();
        for from in [&self.item, &self.operation] {
            let list = from.get("parameters").unwrap_or_default();
            for described in list.items().into_iter().flatten() {
                let described = resolve(self.document, described)?;
                let text = |key: &str| described.get(key).map(|value| value.to_text()).unwrap_or_default();
                let (name, place) = (text("name"), text("in"));
                let required =
                    place == "path" || described.get("required").is_some_and(|flag| flag.is_true());
                found.retain(|known| !(known.name == name && known.place == place));
                found.push(Parameter { name, place, required, described });
            }
        }
        Ok(found)
    }

    /// The pairs of a query that hold a value.
    fn pairs(&self, parameter: &Parameter, value: &Data) -> Vec<String> {
        let name = encode(&parameter.name);
        let word =
            |key: &str| parameter.described.get(key).and_then(|value| value.as_str().map(str::to_owned));
        let style = word("style").unwrap_or_default();
        let (separator, repeated) = match self.is_swagger {
            true => match word("collectionFormat").as_deref() {
                Some("ssv") => ("%20", false),
                Some("tsv") => ("%09", false),
                Some("pipes") => ("%7C", false),
                Some("multi") => ("", true),
                _ => (",", false),
            },
            false => {
                let explode = parameter.described.get("explode").map(|flag| flag.is_true());
                let separator = match style.as_str() {
                    "spaceDelimited" => "%20",
                    "pipeDelimited" => "%7C",
                    _ => ",",
                };
                (separator, explode.unwrap_or(matches!(style.as_str(), "" | "form")))
            }
        };
        if let (Some(entries), "deepObject") = (value.entries(), style.as_str()) {
            return entries
                .iter()
                .map(|(key, value)| format!("{name}%5B{}%5D={}", encode(key), encode(&value.to_text())))
                .collect();
        }
        match (repeated, value.items(), value.entries()) {
            (true, Some(items), _) => {
                items.map(|item| format!("{name}={}", encode(&item.to_text()))).collect()
            }
            (true, None, Some(entries)) => entries
                .iter()
                .map(|(key, value)| format!("{}={}", encode(key), encode(&value.to_text())))
                .collect(),
            _ => vec![format!("{name}={}", joined(value, separator, encode))],
        }
    }

    /// The body of OpenAPI 3: `body`, or everything that is no parameter.
    fn request_body(
        &self,
        left: &mut Vec<(String, Data)>,
        headers: &mut Vec<(String, String)>,
        body: &mut Option<Data>,
    ) -> Result<(), Fault> {
        let Some(described) = self.operation.get("requestBody").filter(|_| !self.is_swagger) else {
            return Ok(());
        };
        let described = resolve(self.document, described)?;
        let content = described.get("content").and_then(|content| content.entries()).unwrap_or_default();
        *body = take(left, "body").or_else(|| (!left.is_empty()).then(|| Data::map(std::mem::take(left))));
        if body.is_none() {
            return match described.get("required").is_some_and(|flag| flag.is_true()) {
                true => {
                    Err(invalid("the operation needs a body: give it as the parameter `body`".to_owned()))
                }
                false => Ok(()),
            };
        }
        let kinds: Vec<&str> = content.iter().map(|(kind, _)| kind.as_str()).collect();
        let best = kinds
            .iter()
            .find(|kind| kind.contains("json"))
            .or_else(|| kinds.iter().find(|kind| **kind == FORM));
        let kind = best.or(kinds.first()).copied().unwrap_or("application/json");
        if kind.starts_with("multipart/") {
            return Err(wrong("the operation wants a multipart body, which cannot be sent".to_owned()));
        }
        headers.push(("content-type".to_owned(), kind.to_owned()));
        Ok(())
    }

    /// JSON, if the operation can answer it.
    fn accepts(&self) -> Option<String> {
        let kinds: Vec<String> = match self.is_swagger {
            true => {
                let list = self
                    .operation
                    .get("produces")
                    .or_else(|| self.document.get("produces"))
                    .unwrap_or_default();
                list.items().into_iter().flatten().map(|kind| kind.to_text()).collect()
            }
            false => {
                let responses =
                    self.operation.get("responses").and_then(|all| all.entries()).unwrap_or_default();
                let contents =
                    responses.iter().filter_map(|(_, response)| response.get("content")?.entries());
                contents.flatten().map(|(kind, _)| kind).collect()
            }
        };
        kinds.into_iter().find(|kind| kind.contains("json"))
    }

    /// Where the API is, without a slash at the end.
    fn server(&self, described_at: &Url) -> Result<String, Fault> {
        let server = match self.is_swagger {
            true => self.swagger_server(described_at),
            false => {
                let listed = [&self.operation, &self.item, self.document];
                let first = listed.iter().find_map(|from| from.get("servers")?.items()?.next());
                let first = first.unwrap_or_default();
                let mut url = first.get("url").map(|url| url.to_text()).unwrap_or_else(|| "/".to_owned());
                for (name, variable) in
                    first.get("variables").and_then(|all| all.entries()).unwrap_or_default()
                {
                    let value = variable.get("default").unwrap_or_default().to_text();
                    url = url.replace(&format!("{{{name}}}"), &value);
                }
                url
            }
        };
        let server =
            described_at.join(&server).map_err(|_| wrong(format!("the server {server:?} is no URL")))?;
        Ok(server.as_str().trim_end_matches('/').to_owned())
    }

    fn swagger_server(&self, described_at: &Url) -> String {
        let text = |key: &str| self.document.get(key).and_then(|value| value.as_str().map(str::to_owned));
        let schemes =
            self.operation.get("schemes").or_else(|| self.document.get("schemes")).unwrap_or_default();
        let schemes: Vec<String> =
            schemes.items().into_iter().flatten().map(|scheme| scheme.to_text()).collect();
        let scheme = match schemes.iter().any(|scheme| scheme == "https") {
            true => "https",
            false => schemes.first().map_or(described_at.scheme(), String::as_str),
        };
        let port = described_at.port().map(|port| format!(":{port}")).unwrap_or_default();
        let own = || format!("{}{port}", described_at.host_str().unwrap_or_default());
        format!("{scheme}://{}{}", text("host").unwrap_or_else(own), text("basePath").unwrap_or_default())
    }
}

fn take(from: &mut Vec<(String, Data)>, name: &str) -> Option<Data> {
    let at = from.iter().position(|(known, _)| known == name)?;
    Some(from.remove(at).1)
}

/// A value as one text: lists and objects joined by a separator.
fn joined(value: &Data, separator: &str, form: impl Fn(&str) -> String) -> String {
    if let Some(items) = value.items() {
        return items.map(|item| form(&item.to_text())).collect::<Vec<_>>().join(separator);
    }
    match value.entries() {
        Some(entries) => {
            let pairs = entries.iter().flat_map(|(key, value)| [form(key), form(&value.to_text())]);
            pairs.collect::<Vec<_>>().join(separator)
        }
        None => form(&value.to_text()),
    }
}

/// What a `$ref` inside the document stands for.
fn resolve(document: &Data, mut value: Data) -> Result<Data, Fault> {
    for _ in 0..REFERENCES_MAX {
        let Some(reference) = value.get("$ref") else { return Ok(value) };
        let reference = reference.to_text();
        let pointer = reference
            .strip_prefix("#/")
            .ok_or_else(|| wrong(format!("the reference {reference:?} leads out of the description")))?;
        let mut steps = pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        value = steps
            .try_fold(document.clone(), |value, step| value.get(&step))
            .ok_or_else(|| wrong(format!("the reference {reference:?} leads nowhere")))?;
    }
    Err(wrong("a reference leads in circles".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn request(document: &Value, operation: &str, parameters: Value) -> Result<HttpRequest, String> {
        let document = Data::from_json(document.clone());
        let at = Url::parse("https://docs.example:8443/v2/swagger.json").unwrap();
        let found = Operation::find(&document, operation);
        let made = found.and_then(|operation| operation.request(&at, &Data::from_json(parameters)));
        made.map_err(|fault| fault.detail.unwrap_or_default())
    }

    fn pets() -> Value {
        json!({
            "swagger": "2.0", "host": "pets.example", "basePath": "/v2", "schemes": ["http", "https"],
            "paths": {
                "/pet/findByStatus": { "get": { "operationId": "find", "produces": ["application/xml", "application/json"],
                    "parameters": [{ "name": "status", "in": "query", "type": "array", "collectionFormat": "multi", "required": true }] } },
                "/pet/{petId}": {
                    "parameters": [{ "$ref": "#/parameters/pet" }],
                    "get": { "operationId": "get" },
                    "post": { "operationId": "form", "parameters": [{ "name": "name", "in": "formData", "type": "string" }] },
                    "delete": { "operationId": "delete", "parameters": [{ "name": "api_key", "in": "header" }] } },
                "/pet": { "post": { "operationId": "add", "parameters": [{ "name": "pet", "in": "body", "required": true }] } }
            },
            "parameters": { "pet": { "name": "petId", "in": "path", "required": true } }
        })
    }

    #[test]
    fn swagger_operations_become_requests() {
        let made = |id, parameters| request(&pets(), id, parameters).unwrap();
        let find = made("find", json!({ "status": ["a b", "sold"] }));
        assert_eq!(
            (find.method.as_str(), find.url.as_str()),
            ("GET", "https://pets.example/v2/pet/findByStatus?status=a%20b&status=sold")
        );
        assert_eq!(find.headers, [("accept".to_owned(), "application/json".to_owned())]);
        assert_eq!(made("get", json!({ "petId": 7 })).url, "https://pets.example/v2/pet/7");
        assert_eq!(made("get", json!({ "petId": "a/b?c" })).url, "https://pets.example/v2/pet/a%2Fb%3Fc");
        assert_eq!(
            made("delete", json!({ "petId": 1, "api_key": "k" })).headers,
            [("api_key".to_owned(), "k".to_owned())]
        );
        let form = made("form", json!({ "petId": 1, "name": "x" }));
        assert_eq!(
            (form.body.unwrap().to_json(), form.headers[0].1.as_str()),
            (json!({ "name": "x" }), FORM)
        );
        for body in ["pet", "body"] {
            assert_eq!(made("add", json!({ body: { "id": 1 } })).body.unwrap().to_json(), json!({ "id": 1 }));
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let said = |id, parameters| request(&pets(), id, parameters).unwrap_err();
        assert!(said("nope", json!({})).contains("no operation \"nope\""));
        assert!(said("find", json!({})).contains("needs the parameter `status`"));
        assert!(said("get", json!({ "petId": null })).contains("needs the parameter `petId`"));
        assert!(said("get", json!({ "petId": 1, "colour": "red" })).contains("no parameter `colour`"));
        assert!(said("add", json!({})).contains("needs the parameter `pet`"));
        assert!(said("get", json!([])).contains("must be an object"));
    }

    fn api(operation: Value) -> Value {
        json!({ "openapi": "3.0.3", "servers": [{ "url": "/{base}", "variables": { "base": { "default": "api" } } }],
            "paths": { "/x/{id}": { "get": operation } },
            "components": { "requestBodies": { "b": { "required": true, "content": { "text/csv": {}, "application/json": {} } } } } })
    }

    #[test]
    fn openapi_styles_and_bodies() {
        let query = |extra: Value, value: Value| {
            let mut parameter = json!({ "name": "q", "in": "query" });
            parameter.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let operation =
                json!({ "operationId": "o", "parameters": [{ "name": "id", "in": "path" }, parameter] });
            let made = request(&api(operation), "o", json!({ "id": ["a", "b"], "q": value })).unwrap();
            made.url.replace("https://docs.example:8443/api/x/a,b?", "")
        };
        assert_eq!(query(json!({}), json!([1, 2])), "q=1&q=2");
        assert_eq!(query(json!({ "explode": false }), json!([1, 2])), "q=1,2");
        assert_eq!(query(json!({ "style": "pipeDelimited" }), json!([1, 2])), "q=1%7C2");
        assert_eq!(
            query(json!({ "style": "deepObject" }), json!({ "a": 1, "b": "x y" })),
            "q%5Ba%5D=1&q%5Bb%5D=x%20y"
        );
        assert_eq!(query(json!({}), json!({ "a": 1 })), "a=1");
        let body = json!({ "operationId": "o", "parameters": [{ "name": "id", "in": "path" }, { "name": "s", "in": "cookie" }],
            "requestBody": { "$ref": "#/components/requestBodies/b" } });
        let made =
            request(&api(body.clone()), "o", json!({ "id": 1, "s": "x;y", "name": "n", "size": 2 })).unwrap();
        assert_eq!(made.body.unwrap().to_json(), json!({ "name": "n", "size": 2 }));
        assert_eq!(
            made.headers,
            [
                ("cookie".to_owned(), "s=x%3By".to_owned()),
                ("content-type".to_owned(), "application/json".to_owned())
            ]
        );
        let whole = request(&api(body.clone()), "o", json!({ "id": 1, "body": [1] })).unwrap();
        assert_eq!(whole.body.unwrap().to_json(), json!([1]));
        assert!(request(&api(body), "o", json!({ "id": 1 })).unwrap_err().contains("needs a body"));
    }

    #[test]
    fn references_end() {
        let circle = json!({ "openapi": "3.1.0", "paths": { "/": { "$ref": "#/paths/~1" } } });
        assert!(request(&circle, "o", json!({})).unwrap_err().contains("circles"));
        let out = json!({ "openapi": "3.1.0", "paths": { "/": { "$ref": "http://evil.example/x" } } });
        assert!(request(&out, "o", json!({})).unwrap_err().contains("leads out"));
    }
}

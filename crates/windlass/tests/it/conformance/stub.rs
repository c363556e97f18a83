//! What the public hosts say that scenarios call: the pet store and httpbin of the official kit, and one of our own
//! that tells what it was asked.

use crate::hosts::{Answer, Request};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc};

const HOSTS: [&str; 3] = ["petstore.swagger.io", "httpbin.org", "api.conformance.test"];

/// Flags that make an engine find the hosts here.
pub(crate) async fn flags(folder: &Path) -> Vec<String> {
    let answering = |request: &Request| {
        let (status, header, body) = answer(request);
        Answer { status: status.to_owned(), header: header.to_owned(), body }
    };
    crate::hosts::flags(folder, &HOSTS.map(str::to_owned), Arc::new(answering)).await
}

/// Status, header lines, body.
fn answer(request: &Request) -> (&'static str, &'static str, String) {
    const JSON: &str = "content-type: application/json";
    let pet =
        |id: &str| json!({ "id": id.parse::<i64>().unwrap_or(1), "name": "Rex", "status": "available" });
    let ok = |value: Value| ("200 OK", JSON, value.to_string());
    let parts: Vec<&str> = request.path.split('/').skip(1).collect();
    match parts.as_slice() {
        ["v2", "swagger.json"] => ok(swagger()),
        ["v2", "pet", "findByStatus"] if request.query == "status=available" => {
            ok(json!([pet("1"), pet("2")]))
        }
        ["v2", "pet", "findByStatus"] => ok(json!([])),
        ["v2", "pet", id] => ok(pet(id)),
        // `serverless-workflow:conformance-test`, as the kit has it.
        ["basic-auth", ..] => match request.header("authorization") {
            "Basic c2VydmVybGVzcy13b3JrZmxvdzpjb25mb3JtYW5jZS10ZXN0" => ok(json!({ "authenticated": true })),
            _ => ("401 Unauthorized", JSON, "{}".to_owned()),
        },
        ["status", "404"] => ("404 Not Found", JSON, json!({ "why": "missing" }).to_string()),
        ["status", "503"] => ("503 Service Unavailable", JSON, "{}".to_owned()),
        ["catalog", "functions", "greet", "1.0.0", "function.yaml"] => {
            ("200 OK", "content-type: application/yaml", GREET.to_owned())
        }
        ["catalog", "name.json"] => ok(json!({ "type": "object", "required": ["name"] })),
        ["text"] => ("200 OK", "content-type: text/plain", "plain words".to_owned()),
        ["moved"] => ("302 Found", "location: /echo", String::new()),
        ["echo", ..] => ok(json!({
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "token": request.header("authorization"),
            "kind": request.header("x-kind"),
            "hasKey": !request.header("idempotency-key").is_empty(),
            "body": serde_json::from_str::<Value>(&request.body).unwrap_or_default(),
        })),
        _ => ("404 Not Found", JSON, "{}".to_owned()),
    }
}

/// A function of a catalog.
const GREET: &str = "
input: { schema: { resource: { endpoint: https://api.conformance.test/catalog/name.json } } }
set: { greeting: '${ \"hello \" + .name }' }
";

/// What the kit calls, described as Swagger 2.0.
fn swagger() -> Value {
    let parameter = |name: &str, place: &str, kind: &str| json!({ "name": name, "in": place, "required": true, "type": kind });
    json!({
        "swagger": "2.0",
        "info": { "title": "Pets", "version": "1.0.0" },
        "host": "petstore.swagger.io",
        "basePath": "/v2",
        "schemes": ["https"],
        "paths": {
            "/pet/findByStatus": { "get": {
                "operationId": "findPetsByStatus", "produces": ["application/json"],
                "parameters": [parameter("status", "query", "string")], "responses": {},
            } },
            "/pet/{petId}": { "get": {
                "operationId": "getPetById", "produces": ["application/json"],
                "parameters": [parameter("petId", "path", "integer")], "responses": {},
            } },
        },
    })
}

//! `call: openapi`: descriptions old and new, fetched like everything else, kept for a while.

use crate::stub::*;
use serde_json::{Value, json};

fn petstore() -> Value {
    json!({
        "swagger": "2.0", "host": "petstore.swagger.io", "basePath": "/v2", "schemes": ["https", "http"],
        "paths": {
            "/pet/findByStatus": { "get": { "operationId": "findPetsByStatus", "produces": ["application/json"],
                "parameters": [{ "name": "status", "in": "query", "required": true, "type": "array", "collectionFormat": "multi" }] } },
            "/pet/{petId}": { "get": { "operationId": "getPetById", "produces": ["application/json"],
                "parameters": [{ "name": "petId", "in": "path", "required": true, "type": "integer" }] } }
        }
    })
}

async fn store() -> Stub {
    Stub::secure(&["petstore.swagger.io"], |asked, _| match asked.path.as_str() {
        "/v2/swagger.json" => ok(petstore()),
        "/v2/pet/findByStatus?status=available" => ok(json!([{ "id": 1 }, { "id": 2 }])),
        "/v2/pet/7" => ok(json!({ "id": 7, "name": "Rex", "status": "sold" })),
        _ => says("404 Not Found", ""),
    })
    .await
}

async fn near(stub: &Stub) -> Near {
    let line = format!("petstore.swagger.io:443=127.0.0.1:{}", stub.port);
    Near::new(|egress| {
        egress.resolve = vec![line.parse().unwrap()];
        egress.roots = vec![stub.root.clone()];
    })
    .await
}

#[tokio::test]
async fn the_calls_of_the_conformance_kit_work() {
    let stub = store().await;
    let near = near(&stub).await;
    let document = "document: { endpoint: 'https://petstore.swagger.io/v2/swagger.json' }";
    let find =
        format!("{{ {document}, operationId: findPetsByStatus, parameters: {{ status: available }} }}");
    assert_eq!(near.call("find", "openapi", &find).await.unwrap(), json!([{ "id": 1 }, { "id": 2 }]));
    let get = format!(
        "{{ {document}, operationId: getPetById, parameters: {{ petId: '${{ .id }}' }}, output: response }}"
    );
    let answer = near.call("get", "openapi", &get).await.unwrap();
    assert_eq!(answer["content"]["name"], "Rex");
    assert_eq!(answer["request"]["uri"], "https://petstore.swagger.io/v2/pet/7");
    assert_eq!((&answer["request"]["method"], &answer["statusCode"]), (&json!("GET"), &json!(200)));
    let fetched = stub.asked().iter().filter(|asked| asked.path.ends_with("swagger.json")).count();
    assert_eq!(fetched, 1, "the description is kept");
    assert!(stub.last().header("idempotency-key").is_some());
    let missing = format!("{{ {document}, operationId: getPetById, parameters: {{ petId: 8 }} }}");
    assert_eq!(near.call("missing", "openapi", &missing).await.unwrap_err().status, 404);
    let nope = format!("{{ {document}, operationId: nope }}");
    let fault = near.call("nope", "openapi", &nope).await.unwrap_err();
    assert!(fault.error_type.ends_with("/configuration"), "{fault:?}");
}

#[tokio::test]
async fn a_newer_description_in_yaml_with_authentication_and_a_changed_tag() {
    let stub = Stub::plain(|asked, _| match (asked.path.as_str(), asked.header("if-none-match")) {
        ("/api.yaml", Some("\"v1\"")) => says("304 Not Modified", "cache-control: no-cache\r\n"),
        ("/api.yaml", _) => (
            "200 OK",
            "content-type: application/yaml\r\netag: \"v1\"\r\ncache-control: no-cache\r\n".to_owned(),
            "openapi: 3.1.0\nservers: [ { url: /v3 } ]\npaths:\n  /pets:\n    post:\n      operationId: add\n      requestBody: { required: true, content: { application/json: {} } }\n      responses: { 200: { description: ok } }\n".to_owned(),
        ),
        ("/v3/pets", _) => ok(json!({ "got": asked.body, "who": asked.header("authorization").map(str::len) })),
        _ => says("404 Not Found", ""),
    })
    .await;
    let near = Near::loopback().await;
    near.secret("one", json!("s3cret-token"), &[]).await;
    let with = format!(
        "{{ document: {{ endpoint: 'http://127.0.0.1:{}/api.yaml' }}, operationId: add, parameters: {{ name: '${{ .who }}' }}, authentication: {{ bearer: {{ use: one }} }} }}",
        stub.port
    );
    for name in ["first", "second"] {
        let answer = near.call(name, "openapi", &with).await.unwrap();
        assert_eq!(answer, json!({ "got": "{\"name\":\"ann lee\"}", "who": 19 }));
    }
    let documents: Vec<_> = stub.asked().into_iter().filter(|asked| asked.path == "/api.yaml").collect();
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[1].header("if-none-match"), Some("\"v1\""));
    assert!(
        documents.iter().all(|asked| asked.header("authorization").is_none()),
        "the token is for the call"
    );
}

#[tokio::test]
async fn a_description_cannot_lead_inside() {
    let stub = Stub::plain(|_, _| {
        ok(json!({ "openapi": "3.0.0", "servers": [{ "url": "http://169.254.169.254" }], "paths": { "/": { "get": { "operationId": "steal" } } } }))
    })
    .await;
    let line = format!("api.example.com:80=127.0.0.1:{}", stub.port);
    let near = Near::new(|egress| egress.resolve = vec![line.parse().unwrap()]).await;
    let with = "{ document: { endpoint: 'http://api.example.com/' }, operationId: steal }";
    let fault = near.call("steal", "openapi", with).await.unwrap_err();
    assert!(fault.error_type.ends_with("/configuration"), "{fault:?}");
    let inside = "{ document: { endpoint: 'http://127.0.0.1/' }, operationId: x }";
    let fault = near.call("inside", "openapi", inside).await.unwrap_err();
    assert!(fault.error_type.ends_with("/configuration"), "{fault:?}");
}

//! The public hosts that scenarios call, on this machine: the pet store and httpbin of the official kit, and one of
//! our own that tells what it was asked.

use serde_json::{Value, json};
use std::{path::Path, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{TlsAcceptor, rustls};

/// The names that the certificate is for.
const HOSTS: [&str; 3] = ["petstore.swagger.io", "httpbin.org", "api.conformance.test"];
/// Longer requests are cut off.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// Flags that make an engine find the hosts here. The certificate's root is written into `folder`.
pub(crate) async fn flags(folder: &Path) -> Vec<String> {
    let (acceptor, root) = secure();
    let port = listen(acceptor).await;
    let file = folder.join("root.pem");
    std::fs::write(&file, root).unwrap();
    let mut flags = vec!["--egress-ca".to_owned(), file.display().to_string()];
    for host in HOSTS {
        flags.extend(["--egress-resolve".to_owned(), format!("{host}:443=127.0.0.1:{port}")]);
    }
    flags
}

fn secure() -> (TlsAcceptor, String) {
    let key = || rcgen::KeyPair::generate().unwrap();
    let mut root = rcgen::CertificateParams::new(vec![]).unwrap();
    root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    root.distinguished_name.push(rcgen::DnType::CommonName, "conformance root");
    let root_key = key();
    let pem = root.self_signed(&root_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(root, root_key);
    let own_key = key();
    let names = HOSTS.map(str::to_owned).to_vec();
    let own = rcgen::CertificateParams::new(names).unwrap().signed_by(&own_key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![own.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(own_key.serialize_der()).unwrap(),
        )
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), pem)
}

async fn listen(acceptor: TlsAcceptor) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(socket).await else { return };
                let mut bytes = Vec::new();
                let request = loop {
                    if let Some(request) = Request::read(&bytes) {
                        break request;
                    }
                    let mut chunk = [0; 4096];
                    match stream.read(&mut chunk).await {
                        Ok(count) if count > 0 && bytes.len() < REQUEST_BYTES_MAX => {
                            bytes.extend_from_slice(&chunk[..count]);
                        }
                        _ => return,
                    }
                };
                let (status, kind, body) = answer(&request);
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\n{kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    port
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Request {
    /// `None` if there is more to come.
    fn read(bytes: &[u8]) -> Option<Request> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        let (method, target) = (first.next()?.to_owned(), first.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let request = Request {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: body.to_owned(),
        };
        let length: usize = request.header("content-length").parse().unwrap_or(0);
        (request.body.len() >= length).then_some(request)
    }

    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }
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

//! Spans reach a collector of OpenTelemetry; one that is away holds up nothing.

use crate::engine::{Engine, PATIENCE, POLL, binary};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const FLOW: &str = "document: { dsl: '1.0.3', namespace: test, name: flow, version: '1.0.0' }
do: [ { a: { call: http, with: { method: get, endpoint: { uri: 'URL' } } } } ]";

/// Answers every request with 200 and passes on its head and body.
async fn collector() -> (String, mpsc::Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (told, heard) = mpsc::channel(100);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, told.clone()));
        }
    });
    (url, heard)
}

async fn answer(stream: TcpStream, told: mpsc::Sender<(String, Value)>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let from = head.len();
            if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
            if let Some(given) = head[from..].to_lowercase().strip_prefix("content-length:") {
                length = given.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        told.send((head, body)).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}")
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_collector_is_told_of_an_instance_and_its_calls() {
    let home = tempfile::tempdir().unwrap();
    let (url, mut heard) = collector().await;
    let mut command = binary(home.path());
    command.args(["up", "--port", "0", "-o", "json"]).stderr(Stdio::inherit());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &url).env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k-1");
    let engine = Engine::launch(home.path(), command).await;
    engine.deploy(&FLOW.replace("URL", &url)).await;
    let start = json!({ "definition": { "namespace": "test", "name": "flow" }, "input": {} });
    let started = engine.request("POST", "/instances").json(&start);
    let started =
        started.header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01")).send().await.unwrap();
    assert_eq!(started.status(), 201);
    let mut spans: Vec<Value> = Vec::new();
    let both = async {
        while spans.len() < 2 {
            let (head, body) = heard.recv().await.unwrap();
            if head.starts_with("GET / ") {
                assert!(head.contains(TRACE), "the call belongs to the trace: {head}");
                continue;
            }
            assert!(head.starts_with("POST /v1/traces ") && head.contains("x-key: k-1"), "{head}");
            let sent = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
            spans.extend(sent.iter().filter(|span| span["traceId"] == TRACE).cloned());
        }
    };
    timeout(PATIENCE, both).await.expect("spans come");
    let named = |name: &str| {
        spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}: {spans:?}"))
    };
    assert_eq!(named("instance")["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(named("call http")["parentSpanId"], named("instance")["spanId"]);
    engine.terminate().await;
}

#[tokio::test]
async fn a_collector_that_is_away_holds_up_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (url, _heard) = collector().await;
    let log = home.path().join("log");
    let mut command = binary(home.path());
    let stderr = std::fs::File::create(&log).unwrap();
    command.args(["up", "--port", "0", "-o", "json"]).stderr(stderr);
    command
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/v1/traces")
        .env("WINDLASS_LOG", "warn");
    let engine = Engine::launch(home.path(), command).await;
    engine.deploy(&FLOW.replace("URL", &url)).await;
    for _ in 0..3 {
        let id = engine.start_instance("flow", json!({})).await;
        assert_eq!(engine.result(&id).await["status"], "completed");
    }
    let said = || std::fs::read_to_string(&log).unwrap().matches("takes no spans").count();
    let warned = async {
        let mut pace = tokio::time::interval(POLL);
        while said() == 0 {
            pace.tick().await;
        }
    };
    timeout(PATIENCE, warned).await.expect("it says so");
    engine.terminate().await;
    assert_eq!(said(), 1, "once");
}

/// The names of metrics in a text, without what Prometheus adds to a histogram's.
fn metrics(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let names = parts.filter(|part| part.starts_with("windlass_"));
    names.map(|name| name.trim_end_matches("_bucket").to_owned()).collect()
}

#[test]
fn dashboard_and_alerts_name_metrics_that_there_are() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
    let sources = ["metrics.rs", "handle.rs", "handle/buses.rs"].map(|file| format!("runtime/src/{file}"));
    let sources = sources.into_iter().chain(["server/src/metrics.rs".to_owned()]);
    let known = metrics(&sources.map(|path| read(&format!("crates/{path}"))).collect::<String>());
    let dashboard = read("deploy/grafana/windlass.json");
    serde_json::from_str::<Value>(&dashboard).expect("the dashboard is JSON");
    for (text, least) in [(dashboard, 15), (read("deploy/prometheus/alerts.yaml"), 8)] {
        let named = metrics(&text);
        assert!(named.len() >= least, "{named:?}");
        for name in named {
            assert!(known.contains(&name), "{name}");
        }
    }
}

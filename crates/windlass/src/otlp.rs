//! Sends spans to a collector of OpenTelemetry, as JSON over HTTP (OTLP), in batches.
//!
//! Nothing ever waits for it: spans that there is no room for, or that the collector does not take, are dropped and counted.
//! It is written here rather than taken from the SDK because spans are named after stored ids, which the SDK does not let
//! its user do, and because one request of JSON is all there is to it.

use crate::{config::Telemetry, failure::Failure};
use reqwest::{Url, header};
use runtime::spans::{Kind, NoSpans, Span, Spans};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::mpsc, time};

/// Spans that wait to be sent.
const QUEUED_MAX: usize = 8_192;
/// Spans in one request.
const BATCH_MAX: usize = 512;
/// How long spans wait for others to go with.
const PERIOD: Duration = Duration::from_secs(2);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Hands spans to the task that sends them.
struct Exporter {
    queue: mpsc::Sender<Span>,
    dropped: Arc<AtomicU64>,
}

impl Spans for Exporter {
    fn wants(&self) -> bool {
        !self.queue.is_closed()
    }

    fn record(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Who collects spans, by the settings, else by the variables that OpenTelemetry has for it; nobody if neither names one.
pub(crate) fn spans(telemetry: &Telemetry) -> Result<Arc<dyn Spans>, Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let url = Some(telemetry.otlp_url.clone())
        .filter(|url| !url.is_empty())
        .or_else(|| variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))
        .or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
    let Some(url) = url else { return Ok(Arc::new(NoSpans)) };
    let mut lines = telemetry.otlp_headers.clone();
    if lines.is_empty() {
        let given = variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        lines.extend(given.split(',').filter(|line| !line.trim().is_empty()).map(str::to_owned));
    }
    Ok(start(&url, &lines)? as Arc<dyn Spans>)
}

/// The address that spans are sent to, or what is wrong with it.
pub(crate) fn address(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text).map_err(|error| format!("{text:?} is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!("{text:?} must begin with http:// or https://"));
    }
    if matches!(url.path(), "" | "/") {
        url.set_path("/v1/traces");
    }
    Ok(url)
}

/// The headers, or what is wrong with one.
pub(crate) fn headers(lines: &[String]) -> Result<header::HeaderMap, String> {
    let mut map = header::HeaderMap::new();
    for line in lines {
        let named = line.split_once('=').and_then(|(name, value)| {
            let name = name.trim().parse::<header::HeaderName>().ok()?;
            let mut value = value.trim().parse::<header::HeaderValue>().ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        // The value may be a secret: only the name is told.
        let name = line.split('=').next().unwrap_or_default();
        let (name, value) = named.ok_or_else(|| format!("{name:?} is no header of the form name=value"))?;
        map.insert(name, value);
    }
    Ok(map)
}

/// Begins to send.
fn start(url: &str, lines: &[String]) -> Result<Arc<Exporter>, Failure> {
    let wrong = |detail: String| Failure::usage(format!("where spans go: {detail}"));
    let url = address(url).map_err(wrong)?;
    let headers = headers(lines).map_err(wrong)?;
    crate::client::choose_ciphers();
    let http = reqwest::Client::builder()
        .timeout(ANSWER_TIMEOUT)
        .default_headers(headers)
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| Failure::failed(format!("no HTTP client: {error}")))?;
    let (queue, queued) = mpsc::channel(QUEUED_MAX);
    let dropped = Arc::new(AtomicU64::new(0));
    tokio::spawn(send_all(http, url, queued, dropped.clone()));
    Ok(Arc::new(Exporter { queue, dropped }))
}

async fn send_all(
    http: reqwest::Client,
    url: Url,
    mut queued: mpsc::Receiver<Span>,
    dropped: Arc<AtomicU64>,
) {
    let mut is_away = false;
    let mut batch = Vec::new();
    while queued.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let full = async {
            while batch.len() < BATCH_MAX {
                let room = BATCH_MAX - batch.len();
                if queued.recv_many(&mut batch, room).await == 0 {
                    return;
                }
            }
        };
        // Whoever is full goes at once; time passing is no mistake.
        let _ = time::timeout(PERIOD, full).await;
        let count = batch.len() as u64;
        let sent = send(&http, &url, &document(&batch)).await;
        batch.clear();
        match sent {
            Ok(()) if is_away => {
                is_away = false;
                let dropped = dropped.load(Ordering::Relaxed);
                tracing::info!(dropped, "the collector of spans takes them again");
            }
            Ok(()) => {}
            Err(why) => {
                dropped.fetch_add(count, Ordering::Relaxed);
                if !is_away {
                    tracing::warn!(why, "the collector takes no spans; they are dropped until it does");
                }
                is_away = true;
            }
        }
    }
}

async fn send(http: &reqwest::Client, url: &Url, document: &Value) -> Result<(), String> {
    let answer = http.post(url.clone()).json(document).send().await;
    let answer = answer.map_err(|error| error.without_url().to_string())?;
    match answer.status().is_success() {
        true => Ok(()),
        false => Err(format!("it answers {}", answer.status())),
    }
}

/// The spans as OTLP has them in JSON.
fn document(spans: &[Span]) -> Value {
    let attribute = |name: &str, value: &str| json!({ "key": name, "value": { "stringValue": value } });
    let span = |span: &Span| {
        let kind = match span.kind {
            Kind::Internal => 1,
            Kind::Client => 3,
            Kind::Producer => 4,
            Kind::Consumer => 5,
        };
        let attributes: Vec<Value> =
            span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
        json!({
            "traceId": span.trace,
            "spanId": span.id,
            "parentSpanId": span.parent.as_deref().unwrap_or_default(),
            "name": span.name,
            "kind": kind,
            "startTimeUnixNano": nanoseconds(span.began),
            "endTimeUnixNano": nanoseconds(span.ended),
            "attributes": attributes,
            "status": match &span.failure {
                Some(why) => json!({ "code": 2, "message": why }),
                None => json!({}),
            },
        })
    };
    let version = env!("CARGO_PKG_VERSION");
    let resource = [attribute("service.name", "windlass"), attribute("service.version", version)];
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": "windlass", "version": version }, "spans": spans }],
    }] })
}

/// 64-bit numbers are texts there.
fn nanoseconds(at: machine::Time) -> String {
    (i128::from(at.0) * 1000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_gets_the_one_of_traces() {
        assert_eq!(address("http://c:4318").unwrap().as_str(), "http://c:4318/v1/traces");
        assert_eq!(address("https://c/otlp/v1/traces").unwrap().as_str(), "https://c/otlp/v1/traces");
        for wrong in ["collector:4318", "grpc://c:4317", "nothing"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_header_that_is_none_is_told_without_its_value() {
        let lines = |text: &str| headers(&[text.to_owned()]);
        assert_eq!(lines("authorization = Bearer s3cret").unwrap()["authorization"], "Bearer s3cret");
        assert!(!lines("no name=s3cret").unwrap_err().contains("s3cret"));
    }

    #[test]
    fn a_span_is_written_as_the_protocol_says() {
        let span = Span {
            trace: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
            id: "00f067aa0ba902b7".to_owned(),
            parent: None,
            name: "deliver mail".to_owned(),
            kind: Kind::Consumer,
            began: machine::Time(1_700_000_000_000_001),
            ended: machine::Time(1_700_000_000_000_002),
            attributes: vec![("windlass.worker", "mail".to_owned())],
            failure: Some("transient: away".to_owned()),
        };
        let written = &document(&[span])["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(
            *written,
            json!({
                "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7", "parentSpanId": "",
                "name": "deliver mail", "kind": 5,
                "startTimeUnixNano": "1700000000000001000", "endTimeUnixNano": "1700000000000002000",
                "attributes": [{ "key": "windlass.worker", "value": { "stringValue": "mail" } }],
                "status": { "code": 2, "message": "transient: away" },
            })
        );
    }
}

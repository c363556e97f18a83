//! Talks to the server: one JSON request, one answer, and troubles named for what the caller does about them.

use reqwest::{Method, StatusCode, Url, header::RETRY_AFTER};
use serde_json::{Value, json};
use std::{fmt, time::Duration};

const DEFAULT_URL: &str = "http://127.0.0.1:8400";
const CONNECT_MAX: Duration = Duration::from_secs(10);
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(30);

/// One server and one key. Connections are kept for the next request.
pub struct Client {
    http: reqwest::Client,
    base: Url,
    key: String,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The server does not answer, or not now: try again, not before `after`.
    Away { detail: String, after: Duration },
    /// The delivery is done, or somebody else has it by now: drop it.
    Lost,
    /// The server answered and said no: the same request would be refused again.
    Refused { status: u16, code: String, detail: String },
    /// It was not even asked.
    Invalid(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Away { detail, .. } => write!(f, "the server is away: {detail}"),
            Trouble::Lost => write!(f, "the delivery is somebody else's, or comes again"),
            Trouble::Refused { status, code, detail } => write!(f, "{status} {code}: {detail}"),
            Trouble::Invalid(detail) => f.write_str(detail),
        }
    }
}

impl std::error::Error for Trouble {}

impl Client {
    pub fn new(url: &str, key: &str) -> Result<Client, Trouble> {
        let invalid = |detail: String| Trouble::Invalid(detail);
        let base = Url::parse(url).map_err(|error| invalid(format!("{url:?} is no address: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(invalid(format!("{url:?} is no address such as {DEFAULT_URL}")));
        }
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid("a key is needed; see WINDLASS_KEY".to_owned()));
        }
        // Whoever chose first has chosen what the process wants.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .user_agent(concat!("windlass-worker/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| invalid(format!("no HTTP client: {error}")))?;
        Ok(Client { http, base, key: key.to_owned() })
    }

    /// `WINDLASS_URL` and `WINDLASS_KEY`, as the command line reads them.
    pub fn from_env() -> Result<Client, Trouble> {
        let read = |name: &str| std::env::var(name).unwrap_or_default();
        let url = Some(read("WINDLASS_URL")).filter(|url| !url.is_empty());
        Client::new(url.as_deref().unwrap_or(DEFAULT_URL), &read("WINDLASS_KEY"))
    }

    /// Publishes CloudEvents in one request. Each needs `id`, `source` and `type`; the first two make it one event, however
    /// often it is sent.
    pub async fn publish(&self, events: &[Value]) -> Result<Vec<Value>, Trouble> {
        let whole = |event: &Value| {
            let mut event = event.clone();
            event["specversion"] = json!("1.0");
            event
        };
        let events: Vec<Value> = events.iter().map(whole).collect();
        let request = self.request(Method::POST, "/events").timeout(ANSWER_MAX);
        let request = request.header("Content-Type", "application/cloudevents-batch+json");
        let answer = said(request.body(Value::from(events).to_string())).await?;
        Ok(answer["items"].as_array().cloned().unwrap_or_default())
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Trouble> {
        said(self.request(Method::GET, path).timeout(ANSWER_MAX)).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Value, Trouble> {
        said(self.request(Method::PUT, path).json(body).timeout(ANSWER_MAX)).await
    }

    /// With so long for the answer.
    pub(super) async fn post(&self, path: &str, body: &Value, within: Duration) -> Result<Value, Trouble> {
        said(self.request(Method::POST, path).json(body).timeout(within)).await
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let base = self.base.as_str().trim_end_matches('/');
        self.http.request(method, format!("{base}/api/v1{path}")).bearer_auth(&self.key)
    }
}

/// What the server says; null if nothing.
async fn said(request: reqwest::RequestBuilder) -> Result<Value, Trouble> {
    let away = |error: reqwest::Error| {
        let detail = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        Trouble::Away { detail, after: Duration::ZERO }
    };
    let answer = request.send().await.map_err(away)?;
    let status = answer.status();
    let after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let body = answer.bytes().await.map_err(away)?;
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status.is_success() {
        return Ok(said);
    }
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    let (code, detail) = (text("code"), text("detail"));
    let is_for_now =
        matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS);
    Err(match () {
        () if status.is_server_error() || is_for_now => Trouble::Away {
            detail: format!("{status} {code}: {detail}"),
            after: Duration::from_secs(after.unwrap_or(0)),
        },
        () if matches!(code.as_str(), "delivery-lost" | "watermark-moved") => Trouble::Lost,
        () => Trouble::Refused { status: status.as_u16(), code, detail },
    })
}

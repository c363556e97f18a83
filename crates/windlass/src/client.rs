//! Asks the API over HTTP. Every answer of 400 and more becomes a [`Failure`]; secrets never reach a trace.

use crate::failure::{Exit, Failure};
use futures_util::StreamExt;
use reqwest::{Method, Url, header};
use std::{error::Error, time::Duration};

mod trace;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take beyond what was asked to be waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A key. It has no `Debug` and no `Display`, so that it cannot be printed by accident.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

/// Where to ask and as whom.
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<Secret>,
    trace: bool,
}

/// One request to be made.
pub(crate) struct Ask {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Option<(String, Vec<u8>)>,
    wait: Duration,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Ask {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Ask {
        let (query, headers) = (Vec::new(), Vec::new());
        Ask { method, path: path.into(), query, headers, body: None, wait: Duration::ZERO }
    }

    /// Reads `/api/v1{path}`.
    pub(crate) fn get(path: impl AsRef<str>) -> Ask {
        Ask::new(Method::GET, format!("/api/v1{}", path.as_ref()))
    }

    pub(crate) fn post(path: impl AsRef<str>) -> Ask {
        Ask::new(Method::POST, format!("/api/v1{}", path.as_ref()))
    }

    pub(crate) fn put(path: impl AsRef<str>) -> Ask {
        Ask::new(Method::PUT, format!("/api/v1{}", path.as_ref()))
    }

    pub(crate) fn patch(path: impl AsRef<str>) -> Ask {
        Ask::new(Method::PATCH, format!("/api/v1{}", path.as_ref()))
    }

    pub(crate) fn delete(path: impl AsRef<str>) -> Ask {
        Ask::new(Method::DELETE, format!("/api/v1{}", path.as_ref()))
    }

    pub(crate) fn query(mut self, name: &str, value: impl Into<String>) -> Ask {
        self.query.push((name.to_owned(), value.into()));
        self
    }

    /// A query parameter, if there is a value for it.
    pub(crate) fn query_if(self, name: &str, value: Option<impl Into<String>>) -> Ask {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Ask {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn header_if(self, name: &str, value: Option<impl Into<String>>) -> Ask {
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    pub(crate) fn json(self, body: &serde_json::Value) -> Ask {
        self.body("application/json", body.to_string().into_bytes())
    }

    pub(crate) fn body(mut self, media_type: &str, body: Vec<u8>) -> Ask {
        self.body = Some((media_type.to_owned(), body));
        self
    }

    /// Allows the answer to take this much longer.
    pub(crate) fn patience(mut self, longer: Duration) -> Ask {
        self.wait = longer;
        self
    }

    /// Has the server hold the request for up to `wait`.
    pub(crate) fn wait(mut self, wait: Duration) -> Ask {
        self.wait = wait;
        self.header("Prefer", format!("wait={}", wait.as_secs().max(u64::from(!wait.is_zero()))))
    }
}

/// Writes a piece of a path so that it stays one piece.
pub(crate) fn segment(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'+' => {
                written.push(byte as char)
            }
            _ => written.push_str(&format!("%{byte:02X}")),
        }
    }
    // A lone dot would be taken as "this folder".
    if matches!(written.as_str(), "." | "..") { written.replace('.', "%2E") } else { written }
}

/// The one set of ciphers in the tree, for every TLS connection of this process.
pub(crate) fn choose_ciphers() {
    // Whoever chose first has chosen the same.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}

impl Client {
    pub(crate) fn new(url: &str, key: Option<Secret>, trace: bool) -> Result<Client, Failure> {
        let base = Url::parse(url)
            .map_err(|error| Failure::usage(format!("the address {url:?} is not a URL: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(Failure::usage(format!("the address {url:?} must begin with http:// or https://")));
        }
        if let Some(Secret(key)) = &key
            && (!key.starts_with("wlk_") || !key.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            let hint = "keys are printed by `up`, `serve` and `key create`; a business key is given as --business-key";
            return Err(Failure::usage("the key is not an API key of the form wlk_<id>_<secret>").hint(hint));
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none());
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| Failure::failed(format!("no HTTP client: {}", causes(&error))))?;
        Ok(Client { http, base, key, trace })
    }

    /// Makes a request and reads the whole answer.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Answer, Failure> {
        let limit = ANSWER_TIMEOUT + ask.wait;
        let response = self.send(ask, Some(limit)).await?;
        let status = response.status().as_u16();
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?.to_vec();
        if self.trace {
            trace::body("<", &body);
        }
        match status {
            ..=399 => Ok(Answer { status, body }),
            401 if self.key.is_none() => {
                let hint =
                    "no key was sent: set WINDLASS_KEY to one that `up`, `serve` or `key create` printed";
                Err(Failure::of_answer(status, body).hint(hint))
            }
            _ => Err(Failure::of_answer(status, body)),
        }
    }

    /// Opens a stream of server-sent events; `None` once the server ends it.
    pub(crate) async fn open(&self, ask: Ask) -> Result<Stream, Failure> {
        let response = self.send(ask.header("Accept", "text/event-stream"), None).await?;
        let status = response.status().as_u16();
        if status >= 400 {
            let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
            return Err(Failure::of_answer(status, body.to_vec()));
        }
        Ok(Stream(Box::pin(response.bytes_stream().map(|chunk| chunk.is_ok()))))
    }

    async fn send(&self, ask: Ask, limit: Option<Duration>) -> Result<reqwest::Response, Failure> {
        let mut url =
            self.base.join(&ask.path).map_err(|error| Failure::usage(format!("{}: {error}", ask.path)))?;
        if url.origin() != self.base.origin() {
            return Err(Failure::usage("the path must stay on the server that the key is for"));
        }
        if !ask.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&ask.query);
        }
        let mut request = self.http.request(ask.method.clone(), url.clone());
        if let Some(limit) = limit {
            request = request.timeout(limit);
        }
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        if let Some(Secret(key)) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some((media_type, body)) = &ask.body {
            request = request.header(header::CONTENT_TYPE, media_type).body(body.clone());
        }
        if self.trace {
            trace::request(&ask, &url, self.key.as_ref());
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        if self.trace {
            trace::response(&response);
        }
        Ok(response)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        if error.is_builder() {
            return Failure::usage(format!("the request cannot be made: {}", causes(error)));
        }
        let title = match error.is_timeout() {
            true => format!("no answer from {} in time", self.base),
            false => format!("cannot connect to {}", self.base),
        };
        Failure::new(Exit::Unreachable, title)
            .detail(causes(error))
            .hint("start a server with `windlass up`, or name one with --url or WINDLASS_URL")
    }
}

/// A stream of events, of which only the arrival matters.
pub(crate) struct Stream(std::pin::Pin<Box<dyn futures_util::Stream<Item = bool> + Send>>);

impl Stream {
    /// Waits for the next event or comment; false once the stream has ended.
    pub(crate) async fn arrived(&mut self) -> bool {
        self.0.next().await.unwrap_or(false)
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
        None => false,
    }
}

/// The error and what caused it, without saying the same twice.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_a_path_stays_one_piece() {
        assert_eq!(segment("a/b?c#d e"), "a%2Fb%3Fc%23d%20e");
        assert_eq!(segment(".."), "%2E%2E");
        assert_eq!(segment("1.0.0-rc+1"), "1.0.0-rc+1");
    }

    #[test]
    fn wrong_addresses_and_keys_are_refused_before_anything_is_sent() {
        for url in ["nonsense", "ftp://x", "file:///etc/passwd"] {
            assert_eq!(Client::new(url, None, false).err().map(|f| f.exit()), Some(Exit::Usage), "{url}");
        }
        let key = Some(Secret("order-1001".to_owned()));
        assert_eq!(Client::new("http://localhost", key, false).err().map(|f| f.exit()), Some(Exit::Usage));
    }
}

//! One request and its answer: redirects, size cap, time limit.

use super::{
    Egress,
    connect::{Carried, refused},
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Method, StatusCode,
    body::Incoming,
    header::{self, HeaderName, HeaderValue},
};
use machine::{Fault, fault::Kind};
use std::io::Read;
use url::Url;

/// The longest URL that is called.
const URL_BYTES_MAX: usize = 8 * 1024;
/// Header lines of a request, and the bytes of one value.
const HEADERS_MAX: usize = 100;
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// The longest document that a definition may refer to.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// Headers that belong to the connection or to the engine; a definition cannot set them.
const OWN: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What is asked. Header values that must not reach another host are marked sensitive.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    /// The body must not reach another host.
    pub(super) private_body: bool,
    pub(super) follow: bool,
    pub(super) bytes_max: usize,
    /// How messages call it; holds no secret.
    pub(super) shown: String,
}

/// What came back.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// A GET of something public.
    pub(super) fn get(url: Url, bytes_max: usize) -> Request {
        let shown = format!("GET {}", shown(&url));
        let (method, headers) = (Method::GET, HeaderMap::new());
        Request { method, url, headers, body: None, private_body: false, follow: false, bytes_max, shown }
    }

    /// Adds a header; `secret` ones never leave for another host and are not logged.
    pub(super) fn header(&mut self, name: &str, value: &str, secret: bool) -> Result<(), Fault> {
        let (name, value) = header_of(name, value, secret)?;
        self.headers.append(name, value);
        bounded(self.headers.len())
    }
}

fn bounded(headers: usize) -> Result<(), Fault> {
    match headers > HEADERS_MAX {
        true => Err(wrong(format!("the request has more than {HEADERS_MAX} headers"))),
        false => Ok(()),
    }
}

fn header_of(name: &str, value: &str, secret: bool) -> Result<(HeaderName, HeaderValue), Fault> {
    let shown: String = name.chars().take(60).collect();
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| wrong(format!("{shown:?} is not a header name")))?;
    if OWN.contains(&parsed.as_str()) {
        return Err(wrong(format!("the header {shown:?} is set by the engine itself")));
    }
    if value.len() > HEADER_BYTES_MAX {
        return Err(wrong(format!("the header {shown:?} is longer than {HEADER_BYTES_MAX} bytes")));
    }
    let mut value = HeaderValue::from_str(value)
        .or_else(|_| HeaderValue::from_bytes(value.as_bytes()))
        .map_err(|_| {
            wrong(format!(
                "the header {shown:?} holds a line break or another character that headers cannot have"
            ))
        })?;
    value.set_sensitive(secret);
    Ok((parsed, value))
}

/// Reads a URL that may be called: http or https, no credentials, nothing hidden in it.
pub(super) fn url_of(text: &str, shown: &str) -> Result<Url, Fault> {
    let shown: String = shown.chars().take(200).collect();
    if text.len() > URL_BYTES_MAX {
        return Err(wrong(format!("the URL is longer than {URL_BYTES_MAX} bytes")));
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(wrong(format!("the URL {shown:?} holds a space or a control character")));
    }
    let path = text.split(['?', '#']).next().unwrap_or_default();
    let dots =
        |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    // Data may have put them there, to reach another path than the definition's author meant.
    if path.split(['/', '\\']).any(dots) {
        return Err(wrong(format!("the URL {shown:?} has a `.` or `..` in its path")));
    }
    let mut url = Url::parse(text).map_err(|error| wrong(format!("{shown:?} is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(format!("{shown:?} is neither http nor https")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("the URL holds a user name or password: use `authentication` instead".to_owned()));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(wrong(format!("{shown:?} names no host")));
    }
    url.set_fragment(None);
    Ok(url)
}

/// A URL as messages show it: without query, which often holds what others should not read.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.into()
}

pub(super) fn wrong(detail: String) -> Fault {
    Fault::new(Kind::Configuration, detail)
}

fn failed(detail: String) -> Fault {
    Fault::new(Kind::Communication, detail)
}

impl Egress {
    /// Sends a request and reads the whole answer, within the time limit of one call.
    /// The text of a public document.
    pub(crate) async fn text(&self, url: &str) -> Result<Vec<u8>, Fault> {
        let mut request = Request::get(url_of(url, url)?, DOCUMENT_BYTES_MAX);
        request.header("accept", "application/yaml, application/json;q=0.9, */*;q=0.5", false)?;
        let shown = request.shown.clone();
        let response = self.send(request).await?;
        match response.status.is_success() {
            true => Ok(response.body),
            false => Err(Fault::new(Kind::Communication, format!("{shown} answered {}", response.status))),
        }
    }

    pub(super) async fn send(&self, request: Request) -> Result<Response, Fault> {
        let shown = request.shown.clone();
        match tokio::time::timeout(self.limit, self.follow(request)).await {
            Ok(answered) => answered,
            Err(_) => {
                let detail = format!("{shown}: no answer within {} ms", self.limit.as_millis());
                Err(Fault::new(Kind::Timeout, detail))
            }
        }
    }

    async fn follow(&self, mut request: Request) -> Result<Response, Fault> {
        for _ in 0..=self.settings.redirects_max {
            let response = self.exchange(&request).await?;
            match next_hop(&request, response.status(), response.headers())? {
                Some(next) => request = next,
                None => return read(response, request.bytes_max).await,
            }
        }
        Err(failed(format!("{}: more than {} redirects", request.shown, self.settings.redirects_max)))
    }

    /// One hop. The address is checked when the connection is made.
    pub(super) async fn exchange(&self, request: &Request) -> Result<hyper::Response<Incoming>, Fault> {
        let mut builder = hyper::Request::builder().method(&request.method).uri(request.url.as_str());
        if let Some(headers) = builder.headers_mut() {
            *headers = request.headers.clone();
            headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
            headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        }
        let body = Full::new(request.body.clone().unwrap_or_default());
        let message = builder.body(body).map_err(|error| wrong(format!("{}: {error}", request.shown)))?;
        let client = self.client()?;
        client.request(message).await.map_err(|error| {
            let mut current: Option<&dyn std::error::Error> = Some(&error);
            let mut last = String::new();
            while let Some(error) = current {
                if let Some(Carried(fault)) = error.downcast_ref::<Carried>() {
                    return (**fault).clone();
                }
                last = error.to_string();
                current = error.source();
            }
            failed(format!("{}: {last}", request.shown))
        })
    }
}

const USER_AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));

/// The request that a redirect asks for, if the step follows them.
fn next_hop(request: &Request, status: StatusCode, headers: &HeaderMap) -> Result<Option<Request>, Fault> {
    let keeps_method = matches!(status.as_u16(), 307 | 308);
    if !request.follow || !(keeps_method || matches!(status.as_u16(), 301..=303)) {
        return Ok(None);
    }
    let Some(location) = headers.get(header::LOCATION) else { return Ok(None) };
    let location =
        location.to_str().map_err(|_| failed(format!("{}: redirected to no URL", request.shown)))?;
    let target =
        request.url.join(location).map_err(|_| failed(format!("{}: redirected to no URL", request.shown)))?;
    let url = url_of(target.as_str(), &shown(&target))?;
    if request.url.scheme() == "https" && url.scheme() == "http" {
        return Err(refused(format!("{}: a redirect from https to http", request.shown)));
    }
    let mut next = request.clone();
    next.shown = format!("{} {}", next.method, shown(&url));
    if url.origin() != request.url.origin() {
        let sensitive: Vec<HeaderName> = next
            .headers
            .iter()
            .filter(|(_, value)| value.is_sensitive())
            .map(|(name, _)| name.clone())
            .collect();
        for name in sensitive.iter().chain([&header::AUTHORIZATION, &header::COOKIE]) {
            next.headers.remove(name);
        }
        if keeps_method && request.private_body {
            return Err(refused(format!(
                "{}: a redirect that would hand a secret to another host",
                request.shown
            )));
        }
    }
    next.url = url;
    let becomes_get = status == StatusCode::SEE_OTHER || request.method == Method::POST;
    if !keeps_method && becomes_get && request.method != Method::HEAD {
        next.method = Method::GET;
        next.body = None;
        next.headers.remove(header::CONTENT_TYPE);
        next.shown = format!("GET {}", shown(&next.url));
    }
    Ok(Some(next))
}

/// Reads the body, never more than `bytes_max` of it, unpacked.
async fn read(response: hyper::Response<Incoming>, bytes_max: usize) -> Result<Response, Fault> {
    let too_large = || failed(format!("the answer is larger than {bytes_max} bytes"));
    let (parts, mut incoming) = response.into_parts();
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| failed(format!("the answer broke off: {error}")))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if body.len() + chunk.len() > bytes_max {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    let encoding =
        parts.headers.get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or_default());
    let body = match encoding.unwrap_or("identity") {
        "identity" | "" => body,
        "gzip" | "x-gzip" if !body.is_empty() => {
            let mut plain = Vec::new();
            // One byte more than allowed tells that there is more.
            let mut unpacked = flate2::read::MultiGzDecoder::new(body.as_slice()).take(bytes_max as u64 + 1);
            unpacked
                .read_to_end(&mut plain)
                .map_err(|error| failed(format!("the answer cannot be unpacked: {error}")))?;
            if plain.len() > bytes_max {
                return Err(too_large());
            }
            plain
        }
        "gzip" | "x-gzip" => body,
        other => return Err(failed(format!("the answer is packed as {other:?}, which was not asked for"))),
    };
    Ok(Response { status: parts.status, headers: parts.headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_may_not_be_called() {
        let long = format!("https://a.example/{}", "x".repeat(URL_BYTES_MAX));
        for text in [
            "",
            "a.example",
            "/path",
            "//a.example",
            "file:///etc/passwd",
            "ftp://a",
            "gopher://a:70/x",
            "data:,x",
            "unix:/x",
            "http://",
            "https:///",
            "http://user@a.example",
            "http://u:p@a.example/",
            "http://a.example/ x",
            "http://a.example/\r\nX: y",
            "http://a\t.example",
            "http://[::1",
            "http://a:99999",
            long.as_str(),
        ] {
            assert!(url_of(text, text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn addresses_are_read_as_a_dialler_would_read_them() {
        for (text, host) in [
            ("http://127.1/", "127.0.0.1"),
            ("http://0x7f.1/", "127.0.0.1"),
            ("http://2130706433/", "127.0.0.1"),
            ("http://0177.0.0.1/", "127.0.0.1"),
            ("http://[::ffff:169.254.169.254]/", "[::ffff:a9fe:a9fe]"),
            ("http://ⓔxample.com/", "example.com"),
            ("HTTP://A.Example/", "a.example"),
        ] {
            assert_eq!(url_of(text, text).unwrap().host_str(), Some(host), "{text}");
        }
        assert_eq!(url_of("http://a/x?y#z", "").unwrap().as_str(), "http://a/x?y");
    }

    #[test]
    fn headers_cannot_smuggle() {
        for (name, value) in [
            ("x", "a\r\nEvil: 1"),
            ("x", "a\nb"),
            ("x", "a\0b"),
            ("x y", "a"),
            ("", "a"),
            ("x:", "a"),
            ("x\r\ny", "a"),
            ("Host", "a"),
            ("content-length", "1"),
            ("Transfer-Encoding", "chunked"),
            ("connection", "close"),
        ] {
            assert!(header_of(name, value, false).is_err(), "{name:?}: {value:?}");
        }
        assert!(header_of("x", "grüße", false).is_ok());
        assert!(header_of("x", &"v".repeat(HEADER_BYTES_MAX + 1), false).is_err());
    }

    fn hop(method: Method, status: u16, location: &str) -> Result<Option<Request>, Fault> {
        let mut request = Request::get(Url::parse("https://a.example/one").unwrap(), 10);
        request.follow = true;
        request.body = (method != Method::GET).then(|| Bytes::from_static(b"x"));
        request.method = method;
        request.header("authorization", "Bearer t", true).unwrap();
        request.header("x-token", "s", true).unwrap();
        request.header("x-plain", "p", false).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("location", location.parse().unwrap());
        next_hop(&request, StatusCode::from_u16(status).unwrap(), &headers)
    }

    #[test]
    fn a_redirect_keeps_or_drops_what_it_should() {
        let next = hop(Method::POST, 302, "/two").unwrap().unwrap();
        assert_eq!((next.url.as_str(), &next.method), ("https://a.example/two", &Method::GET));
        assert!(next.body.is_none() && next.headers.contains_key("authorization"));
        let next = hop(Method::PUT, 308, "https://b.example/").unwrap().unwrap();
        assert_eq!((&next.method, next.body.is_some()), (&Method::PUT, true));
        assert!(!next.headers.contains_key("authorization") && !next.headers.contains_key("x-token"));
        assert!(next.headers.contains_key("x-plain"));
        for location in ["http://a.example/", "file:///etc/passwd", "https://u:p@b.example/"] {
            assert!(hop(Method::GET, 301, location).is_err(), "{location}");
        }
        assert!(hop(Method::GET, 304, "/x").unwrap().is_none());
    }

    #[test]
    fn a_secret_body_goes_to_no_other_host() {
        let mut request = Request::get(Url::parse("https://a.example/one").unwrap(), 10);
        (request.follow, request.private_body) = (true, true);
        let mut headers = HeaderMap::new();
        headers.insert("location", "https://b.example/".parse().unwrap());
        assert!(next_hop(&request, StatusCode::TEMPORARY_REDIRECT, &headers).is_err());
        assert!(next_hop(&request, StatusCode::SEE_OTHER, &headers).unwrap().unwrap().body.is_none());
    }
}

//! The outermost layer: everything that holds for every answer, whatever handler made it.
//!
//! Gives each request an id, bounds its address and headers, turns a panic into an answer, writes problems as
//! `application/problem+json`, sets the security headers and counts the request.

use crate::{app::App, code, options::Options, problem::Problem};
use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use tokio::time::Instant;

/// Carries the request's id in and out.
pub(crate) const REQUEST_ID: &str = "x-request-id";
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The request's id, for handlers that log.
#[derive(Clone, Default)]
pub(crate) struct RequestId(pub(crate) String);

/// The layer itself.
pub(crate) async fn frame(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&request);
    request.extensions_mut().insert(RequestId(id.clone()));
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();

    let answer = match check_size(&request, &app.options) {
        Err(problem) => problem.into_response(),
        Ok(()) => match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response,
            Err(_) => Problem::internal("a handler panicked").into_response(),
        },
    };
    let mut response = write_problem(answer, &path, &id);
    set_headers(&mut response, &id);
    let took = started.elapsed();
    app.http.observe(method.as_str(), &route, response.status().as_u16(), took);
    tracing::debug!(request_id = id, %method, path, status = response.status().as_u16(), ?took, "answered");
    response
}

/// The caller's own id if it is sane, else a fresh one.
fn request_id(request: &Request) -> String {
    let sane = |text: &&str| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    let given = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(sane);
    given.map_or_else(|| format!("req_{}", random_hex()), str::to_owned)
}

fn random_hex() -> String {
    let mut bytes = [0u8; 16];
    // Without randomness the id is not unique; answering matters more.
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "no randomness for a request id");
    }
    uuid::Uuid::from_bytes(bytes).simple().to_string()
}

fn check_size(request: &Request, options: &Options) -> Result<(), Problem> {
    let uri = request.uri();
    let uri_bytes = uri.path().len() + uri.query().map_or(0, str::len);
    if uri_bytes > options.uri_bytes_max {
        return Err(Problem::new(
            code::URI_TOO_LONG,
            format!("the address has {uri_bytes} bytes; at most {} are allowed", options.uri_bytes_max),
        ));
    }
    let headers = request.headers();
    let header_bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.len() > options.headers_max || header_bytes > options.header_bytes_max {
        return Err(Problem::new(
            code::HEADERS_TOO_LARGE,
            format!(
                "at most {} headers of {} bytes in all are allowed",
                options.headers_max, options.header_bytes_max
            ),
        ));
    }
    Ok(())
}

/// Writes the body of a problem. An error answer that is not a problem (from a library) becomes one.
fn write_problem(mut response: Response, path: &str, id: &str) -> Response {
    let status = response.status();
    let problem = match response.extensions_mut().remove::<Problem>() {
        Some(problem) => problem,
        None if !(status.is_client_error() || status.is_server_error()) => return response,
        None => {
            let known = code::ALL.iter().copied().find(|code| code.status == status.as_u16());
            let code = known.unwrap_or(code::INTERNAL);
            let problem = Problem::new(code, code.title);
            let mut rewritten = problem.clone().into_response();
            rewritten.extensions_mut().remove::<Problem>();
            response = rewritten;
            problem
        }
    };
    problem.log(id);
    match serde_json::to_vec(&problem.body(Some(path), Some(id))) {
        Ok(json) => *response.body_mut() = Body::from(json),
        Err(error) => tracing::error!(%error, "a problem could not be written"),
    }
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response
}

fn set_headers(response: &mut Response, id: &str) {
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, value);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
}

//! Versions of objects in headers: `ETag`, `If-None-Match`, `If-Match`.

use crate::{code, problem::Problem};
use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

/// The tag of a version.
pub(crate) fn tag(version: i64) -> String {
    format!("\"{version}\"")
}

/// The body with its tag, or 304 if the client has this version.
pub(crate) fn answer(headers: &HeaderMap, version: i64, body: impl IntoResponse) -> Response {
    let tag = tag(version);
    let mut response = match listed(headers, &header::IF_NONE_MATCH).any(|given| given == tag || given == "*")
    {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => body.into_response(),
    };
    if let Ok(value) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

/// The version that `If-Match` names; `*` and no header name none.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(_) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let mut tags = listed(headers, &header::IF_MATCH);
    let first = tags.next().unwrap_or_default();
    if first == "*" {
        return Ok(None);
    }
    let version = first.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')?.parse().ok());
    match (version, tags.next()) {
        (Some(version), None) => Ok(Some(version)),
        _ => Err(Problem::at(
            code::INVALID_HEADER,
            "if-match",
            "this must be one ETag as answered, for example \"3\"",
        )),
    }
}

fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    let tags = values.flat_map(|value| value.split(','));
    tags.map(|tag| tag.trim()).map(|tag| tag.strip_prefix("W/").unwrap_or(tag)).filter(|tag| !tag.is_empty())
}

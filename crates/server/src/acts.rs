//! What a request is to the audit trail: the act that the route table names, who asks, and what about.

use crate::{auth::Caller, frame::RequestId, routes::Route};
use axum::extract::Request;
use percent_encoding::percent_decode_str;
use runtime::acting::Act;

/// Bytes of the id or name of an object that are kept.
const OBJECT_BYTES_MAX: usize = 256;
/// The names of acts on many things at once end so.
const MANY: &str = "-many";

/// The act of a request; nothing for one that changes nothing.
pub(crate) fn of(route: Route, request: &Request, caller: Option<&Caller>) -> Option<Act> {
    let name = route.act?;
    let id = request.extensions().get::<RequestId>().map(|id| id.0.clone());
    let object = match caller {
        _ if name.ends_with(MANY) => id.clone(),
        // The token in the path is a secret.
        None => None,
        Some(_) => object(route.path, request.uri().path()),
    };
    Some(Act {
        name,
        object,
        kind: if caller.is_some() { "key" } else { "token" },
        key: caller.map(|caller| caller.key_id.clone()),
        subject: caller.map(|caller| caller.actor.clone()),
        home: caller.map(|caller| caller.home.clone()),
        request: id,
        trace: trace(request),
    })
}

/// What stands in the place of the first parameter of the route.
fn object(route: &str, path: &str) -> Option<String> {
    let at = route.split('/').position(|part| part.starts_with('{'))?;
    let part = path.split('/').nth(at)?;
    let mut text = percent_decode_str(part).decode_utf8_lossy().into_owned();
    text.truncate((0..=OBJECT_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at))?);
    Some(text)
}

/// The trace id of the W3C trace context.
fn trace(request: &Request) -> Option<String> {
    let text = request.headers().get("traceparent")?.to_str().ok()?;
    let trace = text.split('-').nth(1)?;
    let is_hex = trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| trace.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        access::Access,
        routes::{ROUTES, find},
    };

    #[test]
    fn the_object_is_the_first_parameter() {
        assert_eq!(object("/a/{id}/b/{name}", "/a/x%20y/b/z").as_deref(), Some("x y"));
        assert_eq!(object("/a", "/a"), None);
        assert_eq!(object("/a/{id}", &format!("/a/{}", "é".repeat(200))).unwrap().len(), OBJECT_BYTES_MAX);
    }

    #[test]
    fn every_route_that_changes_something_names_its_act_or_why_not() {
        for route in ROUTES {
            let says = (route.act.is_some(), route.unaudited.is_some());
            let expected = if route.method == "GET" { (false, false) } else { (says.0, !says.0) };
            assert_eq!(says, expected, "{} {}", route.method, route.path);
        }
        let mut names: Vec<&str> = ROUTES.iter().filter_map(|route| route.act).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        // A signal is one whether a key or a token sends it.
        assert_eq!(count - names.len(), 1, "two routes have the same act");
    }

    #[test]
    fn a_token_never_gets_into_the_trail() {
        let crate::routes::Entry::Found(route) = find("POST", "/api/v1/signals/{token}") else { panic!() };
        assert_eq!(route.access, Access::Public);
        let request = Request::builder().uri("/api/v1/signals/secret").body(axum::body::Body::empty());
        assert_eq!(of(route, &request.unwrap(), None).unwrap().object, None);
    }
}

//! `call: openapi` steps: fetches the description of an API, then calls one of its operations.
//!
//! Both happen in one attempt of one call row. Descriptions are kept in memory for a while; `operation` reads them.

mod operation;

use super::{
    Egress,
    auth::Attempt,
    exchange::{Request, url_of, wrong},
    http::ended,
};
use crate::{
    calls::Attempted,
    unbegun::{self, Stop, Unbegun},
};
use hyper::{HeaderMap, StatusCode, header};
use machine::{
    Data, Fault, TenantId, Time,
    command::{Call, OpenApiRequest},
    fault::Kind,
    language::{self, Format},
    time::Span,
};
use operation::Operation;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use url::Url;

/// Descriptions kept in memory; the ones looked at longest ago make room.
const DOCUMENTS_MAX: usize = 128;
const DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a description is taken as it is when it does not say, and the longest that any is.
const FRESH_SECONDS: i64 = 60;
const FRESH_SECONDS_MAX: i64 = 3600;

type Key = [u8; 32];

/// The descriptions this node knows.
#[derive(Default)]
pub(super) struct Documents {
    kept: Mutex<HashMap<Key, Kept>>,
}

#[derive(Clone)]
struct Kept {
    document: Data,
    etag: Option<String>,
    fresh_until: Time,
    used_at: Time,
}

impl Documents {
    fn find(&self, key: &Key, now: Time) -> Option<Kept> {
        let mut kept = self.kept.lock();
        let found = kept.get_mut(key)?;
        found.used_at = now;
        Some(found.clone())
    }

    fn keep(&self, key: Key, entry: Kept) {
        let mut kept = self.kept.lock();
        if kept.len() >= DOCUMENTS_MAX && !kept.contains_key(&key) {
            let oldest = kept.iter().min_by_key(|(_, entry)| entry.used_at).map(|(key, _)| *key);
            oldest.map(|key| kept.remove(&key));
        }
        kept.insert(key, entry);
    }
}

impl Egress {
    /// Makes the call of a `call: openapi` step.
    pub(crate) async fn openapi(&self, tenant: &TenantId, call: &Call) -> Result<Attempted, Unbegun> {
        ended(self.try_openapi(tenant, call).await)
    }

    async fn try_openapi(&self, tenant: &TenantId, call: &Call) -> Result<Data, Stop> {
        let asked: OpenApiRequest = unbegun::read(call, "an OpenAPI request")?;
        let secrets = self.reveal(tenant, call).await?;
        let mut attempt = Attempt { egress: self, tenant, secrets };
        let done = attempt.openapi(call, &asked).await;
        attempt.clean(done)
    }
}

impl Attempt<'_> {
    async fn openapi(&mut self, call: &Call, asked: &OpenApiRequest) -> Result<Data, Stop> {
        let named = self.secrets.named(asked.document.split('?').next().unwrap_or_default());
        let url = url_of(&self.secrets.url(&asked.document), &named)?;
        self.secrets.check_hosts(&asked.document, url.host_str().unwrap_or_default())?;
        let document = self.document(asked, url.clone(), &named).await?;
        let operation = Operation::find(&document, &asked.operation)?;
        let mut request = operation.request(&url, &asked.parameters)?;
        request.output = asked.output;
        request.redirect = asked.redirect;
        request.authentication = asked.authentication.clone();
        self.http(call, &request).await
    }

    /// The description, from memory if it is fresh there.
    async fn document(&mut self, asked: &OpenApiRequest, url: Url, named: &str) -> Result<Data, Stop> {
        let egress = self.egress;
        let now = egress.clock.now();
        let mut hash = Sha256::new();
        hash.update(self.tenant.as_str());
        // Who may read one description must not be handed it from the memory of somebody who may.
        hash.update(serde_json::to_vec(&(url.as_str(), &asked.document_authentication)).unwrap_or_default());
        let key: Key = hash.finalize().into();
        let known = egress.documents.find(&key, now);
        if let Some(kept) = known.as_ref().filter(|kept| kept.fresh_until > now) {
            return Ok(kept.document.clone());
        }
        let mut request = Request::get(url, DOCUMENT_BYTES_MAX);
        request.shown = format!("GET {named}");
        request.follow = asked.redirect;
        request.header("accept", "application/json, application/yaml;q=0.9, */*;q=0.5", false)?;
        if let Some(etag) = known.as_ref().and_then(|kept| kept.etag.as_ref()) {
            request.header("if-none-match", etag, false)?;
        }
        let response = self.send(request, asked.document_authentication.as_ref()).await?;
        let fresh_until = now.after(Span::from_secs(fresh_seconds(&response.headers)));
        let etag = response.headers.get(header::ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        let entry = match (response.status, known) {
            (StatusCode::NOT_MODIFIED, Some(known)) => Kept { fresh_until, used_at: now, ..known },
            (status, _) if status.is_success() => {
                Kept { document: read(&response.body, named)?, etag, fresh_until, used_at: now }
            }
            (status, _) => {
                let mut fault = Fault::new(Kind::Communication, format!("GET {named} answered {status}"));
                fault.status = status.as_u16();
                return Err(fault.into());
            }
        };
        let document = entry.document.clone();
        egress.documents.keep(key, entry);
        Ok(document)
    }
}

fn fresh_seconds(headers: &HeaderMap) -> i64 {
    let said = headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let said = said.to_ascii_lowercase();
    if said.contains("no-store") || said.contains("no-cache") {
        return 0;
    }
    let age = said.split(',').find_map(|part| part.trim().strip_prefix("max-age=")?.parse().ok());
    age.unwrap_or(FRESH_SECONDS).clamp(0, FRESH_SECONDS_MAX)
}

/// Reads JSON or YAML, whatever it is called.
fn read(bytes: &[u8], named: &str) -> Result<Data, Fault> {
    let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let read = match is_json {
        true => Data::parse(bytes).map_err(|error| error.to_string()),
        false => language::data(bytes, Format::Yaml).map_err(|problem| problem.message),
    };
    let document = read.map_err(|error| wrong(format!("{named} is no OpenAPI description: {error}")))?;
    let version = |key: &str| document.get(key).map(|version| version.to_text()).unwrap_or_default();
    match version("swagger").starts_with("2.") || version("openapi").starts_with("3.") {
        true => Ok(document),
        false => Err(wrong(format!("{named} is neither Swagger 2 nor OpenAPI 3"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_in_both_forms_and_nothing_else_is() {
        assert!(read(br#"{"swagger":"2.0","paths":{}}"#, "d").is_ok());
        assert!(read(b"openapi: 3.1.0\npaths: {}\n", "d").is_ok());
        assert!(read(b"\n  {\"openapi\": \"3.0.3\"}", "d").is_ok());
        for text in [
            "",
            "[]",
            "{",
            "openapi: 4.0.0",
            "<html>",
            "swagger: 1.2",
            "a: [",
            "{\"openapi\":\"3.0\",\"openapi\":\"3.1\"}",
        ] {
            assert!(read(text.as_bytes(), "d").is_err(), "{text}");
        }
    }

    #[test]
    fn freshness_is_what_the_server_says_within_bounds() {
        let said = |text: &str| {
            fresh_seconds(&HeaderMap::from_iter([(header::CACHE_CONTROL, text.parse().unwrap())]))
        };
        assert_eq!(fresh_seconds(&HeaderMap::new()), 60);
        assert_eq!(
            (said("public, max-age=5"), said("max-age=999999"), said("no-store"), said("max-age=x")),
            (5, 3600, 0, 60)
        );
    }
}

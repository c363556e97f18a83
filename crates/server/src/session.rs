//! Sessions of the console: a signed cookie in place of a key in every request.
//!
//! A browser cannot send a key with a stream of events, and must not keep one where scripts can read it. So it shows a
//! key once, or the link that `windlass up` prints, and is given a cookie: the id of the key, when it ends, and a
//! signature with a key of the deployment that every node shares. Nothing is stored. What a session may do is what its
//! key may do now, and a key that is revoked or ended ends its sessions.
//!
//! A cookie is sent by the browser whoever made it ask, so that a request that changes something must also have a
//! header that no page of another origin can send.

use crate::{
    app::App,
    auth::{self, Caller},
    body, code,
    problem::{Problem, ProblemBody},
    query::NoParameters,
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use machine::{Time, time::Span};
use ring::hmac;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use utoipa::ToSchema;

/// The header that requests with a cookie must have to change something; its value does not matter.
pub const CSRF_HEADER: &str = "windlass-csrf";
const COOKIE: &str = "windlass_session";
/// Under this name the deployment keeps the key that signs.
const DEPLOYMENT_KEY: &str = "console-session";
/// How long a session lasts, whatever is done with it.
const LIFE_SECONDS: i64 = 12 * 60 * 60;
/// The longest cookie worth looking at.
const COOKIE_BYTES_MAX: usize = 512;
/// The most links that are open at once.
const LINKS_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 512;

/// What opens a session: one of the two.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct SessionRequest {
    /// A whole key: `wlk_…`.
    key: Option<String>,
    /// The token of a link that works once.
    link: Option<String>,
}

/// Opens a session: the answer sets a cookie that stands for the key from then on.
#[utoipa::path(
    post, path = "/api/v1/session", tag = "access", operation_id = "open_session",
    request_body = SessionRequest,
    responses(
        (status = 204, description = "the cookie is set"),
        (status = 401, description = "the key or the link is not valid", body = ProblemBody),
    )
)]
pub(crate) async fn open(
    State(app): State<App>,
    _: NoParameters,
    headers: HeaderMap,
    body: body::Json,
) -> Result<Response, Problem> {
    has_csrf_header(&headers)?;
    let fields = body.fields(&["key", "link"])?;
    let key_id = match (fields.text("key", TEXT_BYTES_MAX)?, fields.text("link", TEXT_BYTES_MAX)?) {
        (Some(key), None) => {
            let (id, secret) = auth::split_token(key.trim()).ok_or_else(auth::refused)?;
            auth::opened(&app, &id, &secret).await?.key_id
        }
        (None, Some(link)) => {
            let now = app.options.clock.now();
            let refused = || Problem::new(code::UNAUTHENTICATED, "the link was used before, or it has ended");
            let id = app.options.links.take(&link, now).ok_or_else(refused)?;
            auth::known(&app, &id).await?.key_id
        }
        _ => return Err(Problem::at(code::MISSING_KEY, "/key", "either a key or a link is needed")),
    };
    let ends_at = app.options.clock.now().after(Span::from_millis(LIFE_SECONDS * 1000));
    let value = write(&signing_key(&app).await?, &key_id, ends_at);
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie(&value, LIFE_SECONDS, &headers))])
        .into_response())
}

/// Ends the session of this browser.
#[utoipa::path(
    delete, path = "/api/v1/session", tag = "access", operation_id = "close_session",
    responses((status = 204, description = "the cookie is gone"))
)]
pub(crate) async fn close(_: NoParameters, headers: HeaderMap) -> Result<Response, Problem> {
    has_csrf_header(&headers)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie("", 0, &headers))]).into_response())
}

/// The caller of a request with a session; `None` if it has none.
pub(crate) async fn caller(app: &App, method: &str, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
    let Some(value) = presented(headers) else { return Ok(None) };
    let (key_id, ends_at) = read(&signing_key(app).await?, value).ok_or_else(ended)?;
    if app.options.clock.now() >= ends_at {
        return Err(ended());
    }
    let mut caller = auth::known(app, &key_id).await?;
    caller.ends_at = Some(ends_at);
    if method != "GET" {
        has_csrf_header(headers)?;
    }
    Ok(Some(caller))
}

fn ended() -> Problem {
    Problem::new(code::UNAUTHENTICATED, "the session has ended; log in again")
}

/// A form of another origin cannot send this header, and a script of another origin would have to be allowed to.
fn has_csrf_header(headers: &HeaderMap) -> Result<(), Problem> {
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    if headers.contains_key(CSRF_HEADER) && site.is_none_or(|site| site == "same-origin") {
        return Ok(());
    }
    let detail =
        format!("a request with a session's cookie needs the header {CSRF_HEADER} to change something");
    Err(Problem::new(code::CSRF_REFUSED, detail))
}

/// The session's cookie, if exactly one was sent.
fn presented(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value);
    let value = found.next()?;
    (found.next().is_none() && value.len() <= COOKIE_BYTES_MAX).then_some(value)
}

fn cookie(value: &str, life_seconds: i64, headers: &HeaderMap) -> String {
    // The browser says what the page was loaded over, also behind a proxy.
    let origin = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let secure = if origin.starts_with("https://") { "; Secure" } else { "" };
    format!("{COOKIE}={value}; Path=/; Max-Age={life_seconds}; HttpOnly; SameSite=Strict{secure}")
}

async fn signing_key(app: &App) -> Result<hmac::Key, Problem> {
    let key = app.session_key.get_or_try_init(|| async {
        let mut fresh = [0; 32];
        getrandom::fill(&mut fresh).map_err(Problem::internal)?;
        Ok::<_, Problem>(app.store().deployment_key(DEPLOYMENT_KEY, fresh).await?)
    });
    Ok(hmac::Key::new(hmac::HMAC_SHA256, key.await?))
}

/// `<key's id>.<end>.<signature>`.
fn write(key: &hmac::Key, key_id: &str, ends_at: Time) -> String {
    let claim = format!("{}.{}", URL_SAFE_NO_PAD.encode(key_id), ends_at.0);
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(key, claim.as_bytes()));
    format!("{claim}.{signature}")
}

fn read(key: &hmac::Key, value: &str) -> Option<(String, Time)> {
    let (claim, signature) = value.rsplit_once('.')?;
    hmac::verify(key, claim.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
    let (key_id, ends_at) = claim.split_once('.')?;
    let key_id = String::from_utf8(URL_SAFE_NO_PAD.decode(key_id).ok()?).ok()?;
    Some((key_id, Time(ends_at.parse().ok()?)))
}

/// Links that log in once, known to this process alone.
#[derive(Default)]
pub struct Links {
    /// By token: the key that it stands for, and when it ends.
    open: Mutex<HashMap<String, (String, Time)>>,
}

impl Links {
    /// A token for the key with this id; `None` if there is no randomness or too many are open.
    pub fn make(&self, key_id: &str, ends_at: Time) -> Option<String> {
        let mut bytes = [0; 24];
        getrandom::fill(&mut bytes).ok()?;
        let token = URL_SAFE_NO_PAD.encode(bytes);
        let mut open = self.lock();
        if open.len() >= LINKS_MAX {
            return None;
        }
        open.insert(token.clone(), (key_id.to_owned(), ends_at));
        Some(token)
    }

    /// The key that an open link stands for; the link is used then.
    fn take(&self, token: &str, now: Time) -> Option<String> {
        let (key_id, ends_at) = self.lock().remove(token)?;
        (now < ends_at).then_some(key_id)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (String, Time)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

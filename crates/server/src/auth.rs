//! Finds out who asks and whether they may: the guard in front of every route.
//!
//! Keys look like `wlk_<id>_<secret>`. The store holds SHA-256 of the secret; comparing takes the same time whether
//! or not it matches. The tenant comes from the key and from nowhere else, except that a `platform` key may name
//! another tenant in the `Tenant` header. A browser has a session instead of a key ([`crate::session`]).

use crate::{
    access::{Access, Role},
    acts,
    app::App,
    code,
    problem::{Problem, excerpt},
    routes::{self, Entry, Route},
    session,
};
use axum::{
    extract::{FromRequestParts, MatchedPath, Request, State},
    http::{HeaderMap, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use machine::{TenantId, Time};
use runtime::acting;
use std::{collections::HashMap, sync::Mutex, time::Duration};
use store::rows::KeyRow;
use tokio::time::Instant;

/// The longest token worth looking at.
const TOKEN_BYTES_MAX: usize = 256;
/// The most keys remembered at once.
const CACHED_KEYS_MAX: usize = 4096;

/// Whoever asks, once the guard let them pass.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The tenant that is asked about.
    pub tenant: TenantId,
    /// The tenant the key belongs to.
    pub home: TenantId,
    pub key_id: String,
    /// Name under which they act.
    pub actor: String,
    pub roles: Vec<Role>,
    /// The user it acts for: of records it reaches what that user may.
    pub subject: Option<String>,
    /// When the session ends, for a caller with a session.
    pub ends_at: Option<Time>,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Problem> {
        parts
            .extensions
            .get::<Caller>()
            .cloned()
            .ok_or_else(|| Problem::internal("a handler wants a caller on a public route"))
    }
}

/// The layer: looks the route up in the table, authenticates, authorises.
pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let route = match route_of(&request) {
        Ok(route) => route,
        Err(problem) => return problem.into_response(),
    };
    let access = route.access;
    let open = access == Access::Public
        || (app.options.metrics_public && access == Access::Needs(crate::access::Permission::MetricsRead));
    if !open {
        match admit(&app, route, request.headers()).await {
            Ok(caller) => request.extensions_mut().insert(caller),
            Err(problem) => return problem.into_response(),
        };
    }
    let act = acts::of(route, &request, request.extensions().get::<Caller>());
    acting::within(act.map(|act| app.handle.acting(act)), next.run(request)).await
}

fn route_of(request: &Request) -> Result<Route, Problem> {
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    match routes::find(request.method().as_str(), path) {
        Entry::Found(route) => Ok(route),
        Entry::OtherMethods(allowed) => Err(Problem::new(
            code::METHOD_NOT_ALLOWED,
            format!("{} is not allowed here; {allowed} is", excerpt(request.method().as_str())),
        )
        .with_header(header::ALLOW, &allowed)),
        Entry::Missing => Err(Problem::new(code::ROUTE_NOT_FOUND, "there is nothing at this address")),
    }
}

async fn admit(app: &App, route: Route, headers: &HeaderMap) -> Result<Caller, Problem> {
    let mut caller = authenticate(app, route.method, headers).await?;
    if let Some(wanted) = headers.get("tenant") {
        caller.tenant = other_tenant(app, &caller, wanted.as_bytes()).await?;
        if caller.tenant != caller.home {
            // Roles hold in the key's own tenant; only `platform` reaches beyond it.
            caller.roles.retain(|role| *role == Role::Platform);
            caller.subject = None;
        }
    }
    if !route.access.admits(&caller.roles) {
        let word = route.access.word();
        let detail = format!("this needs the permission {word}, which the key's roles do not grant");
        return Err(Problem::new(code::FORBIDDEN, detail));
    }
    if !route.while_parked {
        app.handle.is_writable(&caller.tenant)?;
    }
    Ok(caller)
}

pub(crate) fn refused() -> Problem {
    Problem::new(code::UNAUTHENTICATED, "send a valid key as: Authorization: Bearer wlk_…")
        .with_header(header::WWW_AUTHENTICATE, "Bearer realm=\"windlass\"")
}

/// A key that is sent counts; only without one does a session.
async fn authenticate(app: &App, method: &str, headers: &HeaderMap) -> Result<Caller, Problem> {
    if !headers.contains_key(header::AUTHORIZATION)
        && let Some(caller) = session::caller(app, method, headers).await?
    {
        return Ok(caller);
    }
    let (key_id, secret) = presented(headers).ok_or_else(refused)?;
    opened(app, &key_id, &secret).await
}

/// The caller that the secret of a key shows.
pub(crate) async fn opened(app: &App, key_id: &str, secret: &str) -> Result<Caller, Problem> {
    let (tenant, key) = app.keys.find(app, key_id).await?.ok_or_else(refused)?;
    match key.is_opened_by(secret, app.options.clock.now()) {
        true => Ok(caller_of(tenant, key)),
        false => Err(refused()),
    }
}

/// The caller with this key, for whom somebody else has vouched.
pub(crate) async fn known(app: &App, key_id: &str) -> Result<Caller, Problem> {
    let (tenant, key) = app.keys.find(app, key_id).await?.ok_or_else(refused)?;
    match key.is_current(app.options.clock.now()) {
        true => Ok(caller_of(tenant, key)),
        false => Err(refused()),
    }
}

fn caller_of(tenant: TenantId, key: KeyRow) -> Caller {
    let roles = roles_of(&key);
    let subject = key.subject;
    Caller {
        tenant: tenant.clone(),
        home: tenant,
        key_id: key.id,
        actor: key.name,
        roles,
        subject,
        ends_at: None,
    }
}

/// The id and the secret of the token, if one of the right form was sent.
fn presented(headers: &HeaderMap) -> Option<(String, String)> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() || value.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let (scheme, token) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    split_token(token.trim())
}

/// Splits `wlk_<id>_<secret>`.
pub(crate) fn split_token(token: &str) -> Option<(String, String)> {
    let (id, secret) = token.strip_prefix("wlk_")?.split_once('_')?;
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    (is_plain(id) && is_plain(secret)).then(|| (id.to_owned(), secret.to_owned()))
}

/// The roles a key carries; words that are no role grant nothing.
pub(crate) fn roles_of(key: &KeyRow) -> Vec<Role> {
    let words: Vec<String> = serde_json::from_slice(&key.roles).unwrap_or_default();
    words.iter().filter_map(|word| Role::by_word(word)).collect()
}

async fn other_tenant(app: &App, caller: &Caller, wanted: &[u8]) -> Result<TenantId, Problem> {
    let unknown = || Problem::not_found("tenant");
    let wanted = std::str::from_utf8(wanted).ok().and_then(|text| TenantId::new(text).ok());
    let wanted = wanted.ok_or_else(unknown)?;
    if wanted == caller.home {
        return Ok(wanted);
    }
    // The same answer whether or not the tenant exists: a name alone must not tell.
    if !caller.roles.contains(&Role::Platform) || app.store().tenant(&wanted).await?.is_none() {
        return Err(unknown());
    }
    Ok(wanted)
}

/// How often a long answer looks whether its key still holds. With the cache's life this stays within 5 seconds.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Returns once the key, or the session, is no longer accepted; for answers that go on for long.
pub(crate) async fn until_refused(app: App, key_id: String, ends_at: Option<Time>) {
    let mut ticks = tokio::time::interval(LOOK_AGAIN);
    loop {
        ticks.tick().await;
        if ends_at.is_some_and(|end| app.options.clock.now() >= end) {
            return;
        }
        // A store that cannot be read now says nothing about the key.
        if let Ok(found) = app.keys.find(&app, &key_id).await
            && !found.is_some_and(|(_, key)| key.is_current(app.options.clock.now()))
        {
            return;
        }
    }
}

/// Keys seen lately, so that a request does not cost a read. Entries live [`crate::Options::key_cache`].
#[derive(Default)]
pub(crate) struct Keys {
    seen: Mutex<HashMap<String, (Instant, TenantId, KeyRow)>>,
}

impl Keys {
    async fn find(&self, app: &App, id: &str) -> Result<Option<(TenantId, KeyRow)>, Problem> {
        if let Some(found) = self.cached(id, app.options.key_cache) {
            return Ok(Some(found));
        }
        let found = app.store().key_by_id(id).await?;
        if let Some((tenant, key)) = &found {
            let mut seen = self.lock();
            if seen.len() >= CACHED_KEYS_MAX {
                seen.clear();
            }
            seen.insert(id.to_owned(), (Instant::now(), tenant.clone(), key.clone()));
        }
        Ok(found)
    }

    fn cached(&self, id: &str, life: Duration) -> Option<(TenantId, KeyRow)> {
        let seen = self.lock();
        let (at, tenant, key) = seen.get(id)?;
        (at.elapsed() < life).then(|| (tenant.clone(), key.clone()))
    }

    /// Forgets a key that was revoked here; other nodes notice within the cache's life.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Instant, TenantId, KeyRow)>> {
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

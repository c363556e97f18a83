//! The audit trail: what people, keys and workers did.

use crate::{
    app::App,
    auth::Caller,
    filter,
    page::{self, Beginning, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Parameters},
    wire,
};
use axum::{
    Json,
    extract::State,
    http::{HeaderValue, Uri, header},
    response::{IntoResponse, Response},
};
use machine::{
    Time,
    audit::{Entry, hex},
    id::{self, Kind},
    query::Subject,
};
use runtime::audit::export::EXPORT_MAX;
use serde::Serialize;
use store::rows::AuditView;
use utoipa::ToSchema;

/// Where the next export begins, if there is more.
const NEXT: &str = "audit-next";
const NDJSON: &str = "application/x-ndjson";

/// One act.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditEntry {
    id: String,
    at: String,
    /// What was done: the kind of the object, and the verb.
    act: String,
    who: AuditWho,
    object: AuditObject,
    /// SHA-256 of what was there before, where something was.
    before: Option<String>,
    /// The same of what was written.
    after: Option<String>,
    /// The request's id.
    request: Option<String>,
    /// The trace it belongs to.
    trace: Option<String>,
    /// Its place in the tenant's chain; null for a moment after the act.
    seq: Option<u64>,
    /// The hash of that place.
    hash: Option<String>,
}

/// Who did it.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditWho {
    /// `key`, or `token` for somebody who was given a link.
    kind: String,
    /// The key's public part.
    key: Option<String>,
    /// The name under which they act.
    subject: Option<String>,
    /// The tenant of the key, if it is another.
    home: Option<String>,
    /// The node that did it for them.
    node: String,
}

/// What was acted on.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditObject {
    kind: String,
    /// Its id or name; of an act on many things, the request's id.
    id: String,
}

/// Lists what was done, newest first.
#[utoipa::path(
    get, path = "/api/v1/audit", tag = "operations", operation_id = "list_audit",
    params(
        ("q" = Option<String>, Query, description = "a query such as `who:ann act:instance.* at:>-1d`"),
        ("id" = Option<String>, Query, description = "the beginning of an id: `aud_0192`"),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<AuditEntry>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<AuditEntry>>, Problem> {
    let parameters = Parameters::read(&uri, &[filter::Q, "id", "limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "audit");
    let conditions = filter::conditions(&app, &caller, &parameters, Subject::Audit)?;
    let beginning = Beginning::read(&parameters, Kind::Audit)?;
    let after = beginning.after(cursors.read_id(&parameters)?);
    let page = store::views::Page { after, limit: page::rows_for(limit) };
    let mut rows = app.store().audit().entries(&caller.tenant, &conditions, &page).await?;
    rows.retain(|row| !beginning.is_past(row.id));
    let more = page::cut(&mut rows, limit);
    let next = rows.last().filter(|_| more).map(|row| cursors.write(row.id.as_bytes()));
    Ok(Json(Page { items: rows.iter().filter_map(entry_of).collect(), next }))
}

/// Exports a contiguous range of the tenant's chain, signed, for `windlass audit verify`. The header `Audit-Next` says where
/// the next export begins, if there is more.
#[utoipa::path(
    get, path = "/api/v1/audit/export", tag = "operations", operation_id = "export_audit",
    params(
        ("from" = Option<u64>, Query, description = "the place to begin at; the first that is kept unless given"),
        ("limit" = Option<usize>, Query, description = "1 to 10000 entries; 10000 unless given"),
    ),
    responses(
        (status = 200, description = "NDJSON: the range, its entries and checkpoints, and a signature", content_type = "application/x-ndjson", body = String),
        (status = 409, description = "the trail was tampered with", body = ProblemBody),
    )
)]
pub(crate) async fn export(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["from", "limit"])?;
    let from = number(&parameters, "from", i64::MAX as u64)?.unwrap_or(1);
    let limit = number(&parameters, "limit", EXPORT_MAX as u64)?.unwrap_or(EXPORT_MAX as u64);
    let exported = app.handle.export_audit(&caller.tenant, from, limit as usize).await?;
    let mut response = exported.bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    if exported.more {
        headers.insert(NEXT, HeaderValue::from(exported.to + 1));
    }
    Ok(response)
}

fn number(parameters: &Parameters, name: &str, max: u64) -> Result<Option<u64>, Problem> {
    let Some(text) = parameters.text(name) else { return Ok(None) };
    let number = text.parse::<u64>().ok().filter(|number| (1..=max).contains(number));
    number.map(Some).ok_or_else(|| query::invalid(name, format!("this must be a whole number, 1 to {max}")))
}

/// Nothing of an entry whose bytes are none any more; an export says so.
fn entry_of(view: &AuditView) -> Option<AuditEntry> {
    let entry = Entry::read(&view.body)?;
    Some(AuditEntry {
        id: id::show(Kind::Audit, view.id),
        at: wire::time(Time(entry.at)),
        act: entry.act,
        who: AuditWho {
            kind: entry.who.kind,
            key: entry.who.key,
            subject: entry.who.subject,
            home: entry.who.home,
            node: id::show(Kind::Node, entry.who.node),
        },
        object: AuditObject { kind: entry.object.kind, id: entry.object.id },
        before: entry.before,
        after: entry.after,
        request: entry.request,
        trace: entry.trace,
        seq: view.seal.map(|seal| seal.seq),
        hash: view.seal.map(|seal| hex(&seal.hash)),
    })
}

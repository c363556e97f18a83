//! Versions: what changed between two, which instances fit into one, and moving instances.

use crate::{
    app::{App, detached},
    auth::Caller,
    body::{self, Fields},
    code, etag,
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    wire::{Status, Stored},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, Uri},
};
use machine::{
    id::{self, Kind},
    language::Format,
    version::{Fit, MAPPING_MAX, Mapping},
};
use runtime::api::{DefinitionRef, Migration, MigrationFilter, Preflight};
use serde::Serialize;
use utoipa::ToSchema;

pub(crate) const VERSION_BYTES_MAX: usize = 128;
const REFERENCE_BYTES_MAX: usize = 4096;
const LIMIT_DEFAULT: i64 = 100;

/// What changed between two versions.
#[derive(Serialize, ToSchema)]
pub(crate) struct Difference {
    /// Changes outside of steps: `what`, `from`, `to`.
    #[schema(value_type = Vec<Object>)]
    definition: Vec<machine::version::Change>,
    /// `change` (added, removed, moved, renamed, changed), `from`, `to`, `kind`, `changes`.
    #[schema(value_type = Vec<Object>)]
    steps: Vec<machine::version::StepChange>,
}

/// How the live instances of other versions would fare.
#[derive(Serialize, ToSchema)]
pub(crate) struct PreflightAnswer {
    checked: u64,
    safe: u64,
    needs_mapping: u64,
    breaks: u64,
    /// Steps that need a word, by version.
    needs: Vec<NeedCount>,
    /// Why instances break, by version.
    reasons: Vec<ReasonCount>,
    examples: Vec<Example>,
    /// Where to go on if there are more instances than one request looks at.
    next: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct NeedCount {
    version: String,
    reference: String,
    why: String,
    suggestion: Option<String>,
    instances: u64,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ReasonCount {
    version: String,
    reason: String,
    instances: u64,
}

/// An instance that does not fit as it is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Example {
    id: String,
    version: String,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    fit: Fit,
}

/// What became of many moves.
#[derive(Serialize, ToSchema)]
pub(crate) struct MovesAnswer {
    migrated: u64,
    refused: u64,
    examples: Vec<RefusedMove>,
    /// Where to go on, if there is more.
    next: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct RefusedMove {
    id: String,
    why: String,
}

/// Says what changed between two deployed versions: steps added, removed, moved, renamed, changed.
#[utoipa::path(
    get, path = "/api/v1/definitions/{namespace}/{name}/diff", tag = "definitions",
    operation_id = "diff_definition_versions",
    params(
        ("namespace" = String, Path), ("name" = String, Path),
        ("from" = Option<String>, Query, description = "the older version; the one before `to` unless given"),
        ("to" = Option<String>, Query, description = "the newer version; the newest unless given"),
    ),
    responses(
        (status = 200, description = "what changed", body = Difference),
        (status = 404, description = "no such version", body = ProblemBody),
    )
)]
pub(crate) async fn diff(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    Named((namespace, name)): Named<(String, String)>,
) -> Result<Json<Difference>, Problem> {
    let parameters = Parameters::read(&uri, &["from", "to"])?;
    let (from, to) = (parameters.text("from"), parameters.text("to"));
    let diff = app.handle.diff(&caller.tenant, &namespace, &name, from, to).await?;
    Ok(Json(Difference { definition: diff.definition, steps: diff.steps }))
}

/// Says for the live instances of other versions whether they could go on in this one. Changes nothing.
#[utoipa::path(
    post, path = "/api/v1/definitions/{namespace}/{name}/versions/{version}/preflight", tag = "definitions",
    operation_id = "preflight_definition_version",
    params(("namespace" = String, Path), ("name" = String, Path), ("version" = String, Path)),
    request_body(content = Stored, description = "`from` (only this version), `mapping`, `cursor`; all optional"),
    responses(
        (status = 200, description = "counts and examples", body = PreflightAnswer),
        (status = 404, description = "no such version", body = ProblemBody),
    )
)]
pub(crate) async fn preflight(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named((namespace, name, version)): Named<(String, String, String)>,
    body: body::Json,
) -> Result<Json<PreflightAnswer>, Problem> {
    let empty = machine::Data::object();
    let fields = body::Json(Some(body.0.unwrap_or(empty))).fields(&["from", "mapping", "cursor"])?;
    let wanted = DefinitionRef { namespace, name, version: Some(version) };
    let new = app.handle.program(&caller.tenant, &wanted).await?;
    look(&app, &caller, &new, &fields).await
}

/// The same for a document that is not deployed.
#[utoipa::path(
    post, path = "/api/v1/definitions/preflight", tag = "definitions", operation_id = "preflight_document",
    request_body(content = Stored, description = "`document` (YAML or JSON as text), `from`, `mapping`, `cursor`"),
    responses(
        (status = 200, description = "counts and examples", body = PreflightAnswer),
        (status = 422, description = "the document is not valid", body = ProblemBody),
    )
)]
pub(crate) async fn preflight_document(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    body: body::Json,
) -> Result<Json<PreflightAnswer>, Problem> {
    const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
    let fields = body.fields(&["document", "from", "mapping", "cursor"])?;
    let document = fields.required_text("document", DOCUMENT_BYTES_MAX)?;
    let new = app.handle.compiled(document.as_bytes(), Format::Yaml).await?;
    look(&app, &caller, &new, &fields).await
}

async fn look(
    app: &App,
    caller: &Caller,
    new: &std::sync::Arc<machine::Program>,
    fields: &Fields,
) -> Result<Json<PreflightAnswer>, Problem> {
    let mapping = mapping(fields)?;
    let from = fields.text("from", VERSION_BYTES_MAX)?;
    let after = cursor(fields)?;
    let found = app.handle.preflight(&caller.tenant, new, from.as_deref(), &mapping, after).await?;
    Ok(Json(found.into()))
}

impl From<Preflight> for PreflightAnswer {
    fn from(found: Preflight) -> PreflightAnswer {
        let needs = found.needs.into_iter().map(|(version, need, instances)| NeedCount {
            version,
            reference: need.reference,
            why: need.why,
            suggestion: need.suggestion,
            instances,
        });
        let reasons = found.reasons.into_iter();
        let examples = found.examples.into_iter().map(|example| Example {
            id: id::show(Kind::Instance, example.id),
            version: example.version,
            fit: example.fit,
        });
        PreflightAnswer {
            checked: found.checked,
            safe: found.safe,
            needs_mapping: found.needs_mapping,
            breaks: found.breaks,
            needs: needs.collect(),
            reasons: reasons
                .map(|(version, reason, instances)| ReasonCount { version, reason, instances })
                .collect(),
            examples: examples.collect(),
            next: found.next.map(|next| id::show(Kind::Instance, next)),
        }
    }
}

/// Moves an instance to another version of its definition. What is under way (calls, timers, tasks) comes back to
/// it there.
#[utoipa::path(
    post, path = "/api/v1/instances/{id}/migrate", tag = "instances", operation_id = "migrate_instance",
    params(
        ("id" = String, Path),
        ("If-Match" = Option<String>, Header, description = "only if the instance is at the version of this ETag"),
    ),
    request_body(content = Stored, description = "`version`, `mapping` (old step reference to new), `dry_run`"),
    responses(
        (status = 200, description = "the status afterwards", body = Status),
        (status = 404, description = "no such instance or version", body = ProblemBody),
        (status = 409, description = "it does not fit, with the reasons", body = ProblemBody),
        (status = 412, description = "the instance has changed", body = ProblemBody),
    )
)]
pub(crate) async fn migrate(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    headers: HeaderMap,
    Named(text): Named<String>,
    body: body::Json,
) -> Result<Json<Status>, Problem> {
    let id = query::path_id(Kind::Instance, &text)?;
    let mut migration = migration(&body.fields(&["version", "mapping", "dry_run"])?)?;
    migration.expected = etag::if_match(&headers)?;
    let answer_max = app.answer_max();
    let moved = async move { Ok(app.handle.migrate(&caller.tenant, id, &migration, &caller.actor).await?) };
    Ok(Json(Status { status: detached(answer_max, moved).await? }))
}

/// Moves the live instances of a definition to one of its versions, each by itself and at most `limit` in one
/// request. Send `next` back as `cursor` until it is null.
#[utoipa::path(
    post, path = "/api/v1/instances/migrate", tag = "instances", operation_id = "migrate_instances",
    request_body(content = Stored, description =
        "`namespace`, `name`, `version`, `from` (only this version), `mapping`, `dry_run`, `limit` (1 to 1000), `cursor`"),
    responses(
        (status = 200, description = "how many were moved and refused", body = MovesAnswer),
        (status = 404, description = "no such version", body = ProblemBody),
    )
)]
pub(crate) async fn migrate_many(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    body: body::Json,
) -> Result<Json<MovesAnswer>, Problem> {
    let fields =
        body.fields(&["namespace", "name", "version", "from", "mapping", "dry_run", "limit", "cursor"])?;
    let limit = fields.value("limit").map_or(Some(LIMIT_DEFAULT), |value| value.as_i64());
    let limit =
        limit.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| (1..=1000).contains(limit));
    let filter = MigrationFilter {
        namespace: fields.required_text("namespace", VERSION_BYTES_MAX)?,
        name: fields.required_text("name", VERSION_BYTES_MAX)?,
        from: fields.text("from", VERSION_BYTES_MAX)?,
        after: cursor(&fields)?,
        limit: limit.ok_or_else(|| {
            Problem::at(code::INVALID_VALUE, fields.place("limit"), "this must be a number from 1 to 1000")
        })?,
    };
    let migration = migration(&fields)?;
    let moves = detached(app.answer_max(), async move {
        Ok(app.handle.migrate_many(&caller.tenant, &filter, &migration, &caller.actor).await?)
    })
    .await?;
    let examples = moves.examples.into_iter();
    Ok(Json(MovesAnswer {
        migrated: moves.moved,
        refused: moves.refused,
        examples: examples.map(|(id, why)| RefusedMove { id: id::show(Kind::Instance, id), why }).collect(),
        next: moves.next.map(|next| id::show(Kind::Instance, next)),
    }))
}

fn migration(fields: &Fields) -> Result<Migration, Problem> {
    let dry_run = match fields.value("dry_run") {
        None => false,
        Some(value) if value == machine::Data::bool(true) => true,
        Some(value) if value == machine::Data::bool(false) => false,
        Some(_) => {
            let place = fields.place("dry_run");
            return Err(Problem::at(code::INVALID_VALUE, place, "this must be true or false"));
        }
    };
    Ok(Migration {
        version: fields.required_text("version", VERSION_BYTES_MAX)?,
        mapping: mapping(fields)?,
        dry_run,
        expected: None,
    })
}

pub(crate) fn mapping(fields: &Fields) -> Result<Mapping, Problem> {
    let wrong = |message: &str| Problem::at(code::INVALID_VALUE, fields.place("mapping"), message);
    let Some(value) = fields.value("mapping") else { return Ok(Mapping::new()) };
    let pairs = value.entries().ok_or_else(|| wrong("this must be an object: old reference to new"))?;
    if pairs.len() > MAPPING_MAX {
        return Err(Problem::at(code::TOO_MANY_ITEMS, fields.place("mapping"), "at most 1000 pairs"));
    }
    let pair = |(old, new): (String, machine::Data)| match new.as_str() {
        Some(new) if old.len().max(new.len()) <= REFERENCE_BYTES_MAX => Ok((old, new.to_owned())),
        _ => Err(wrong("a step reference is text such as /do/0/name")),
    };
    pairs.into_iter().map(pair).collect()
}

fn cursor(fields: &Fields) -> Result<Option<uuid::Uuid>, Problem> {
    const CURSOR_BYTES_MAX: usize = 64;
    let Some(text) = fields.text("cursor", CURSOR_BYTES_MAX)? else { return Ok(None) };
    id::parse(Kind::Instance, &text).map(Some).map_err(|_| crate::page::refused())
}

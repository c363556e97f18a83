//! Definitions: deploy, check, list, read.
//!
//! One rule for bad documents: what the language finds wrong, syntax included, is `422 definition-invalid` with a
//! position each; what never reaches the language (size, media type, not UTF-8) has the code of that limit.

use crate::{
    app::{App, detached},
    auth::Caller,
    body::Document,
    code,
    page::{self, Cursors, Page},
    problem::{Flaw, Problem, ProblemBody, flaws},
    query::{Named, NoParameters, Parameters, invalid},
    wire::{self, Stored},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use runtime::api::{DefinitionRef, Refusal};
use serde::Serialize;
use store::{
    rows::DefinitionRow,
    views::{DefinitionFilter, DefinitionSummary},
};
use utoipa::ToSchema;

/// A deployed version.
#[derive(Serialize, ToSchema)]
pub(crate) struct Deployed {
    namespace: String,
    name: String,
    version: String,
    warnings: Vec<Flaw>,
}

/// What checking a document found.
#[derive(Serialize, ToSchema)]
pub(crate) struct Validation {
    valid: bool,
    problems: Vec<Flaw>,
    warnings: Vec<Flaw>,
}

/// A version of a definition, without its text.
#[derive(Serialize, ToSchema)]
pub(crate) struct Version {
    namespace: String,
    name: String,
    version: String,
    title: Option<String>,
    media_type: String,
    created_at: String,
}

/// A version of a definition with its text.
#[derive(Serialize, ToSchema)]
pub(crate) struct DefinitionDetail {
    #[serde(flatten)]
    version: Version,
    /// The document as it was deployed.
    source: String,
    /// The JSON Schema that input has to fit, if the document has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<Stored>,
}

/// Deploys a document as a new version. The same document again is answered with 200; another document under the
/// same version is a conflict. With `dry_run=true` nothing is stored.
#[utoipa::path(
    post, path = "/api/v1/definitions", tag = "definitions", operation_id = "deploy_definition",
    params(("dry_run" = Option<bool>, Query, description = "check only, store nothing")),
    request_body(content(("application/yaml"), ("application/json")), description = "the document"),
    responses(
        (status = 201, description = "deployed", body = Deployed),
        (status = 200, description = "this document was deployed before, or a dry run", body = Deployed),
        (status = 409, description = "the version exists with another document", body = ProblemBody),
        (status = 422, description = "the document is not valid", body = ProblemBody),
    )
)]
pub(crate) async fn deploy(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    document: Document,
) -> Result<Response, Problem> {
    let dry_run = Parameters::read(&uri, &["dry_run"])?.flag("dry_run")?;
    let deployed = detached(app.answer_max(), async move {
        Ok(app.handle.deploy(&caller.tenant, &document.source, document.format, dry_run).await?)
    })
    .await?;
    let created = deployed.created && !dry_run;
    let address =
        format!("/api/v1/definitions/{}/{}/versions/{}", deployed.namespace, deployed.name, deployed.version);
    let body = Json(Deployed {
        namespace: deployed.namespace,
        name: deployed.name,
        version: deployed.version,
        warnings: flaws(deployed.warnings),
    });
    Ok(match created {
        true => (StatusCode::CREATED, [(header::LOCATION, address)], body).into_response(),
        false => body.into_response(),
    })
}

/// Checks a document and answers everything that is wrong with it. Stores nothing.
#[utoipa::path(
    post, path = "/api/v1/definitions/validate", tag = "definitions", operation_id = "validate_definition",
    request_body(content(("application/yaml"), ("application/json")), description = "the document"),
    responses((status = 200, description = "what was found", body = Validation))
)]
pub(crate) async fn validate(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    document: Document,
) -> Result<Json<Validation>, Problem> {
    let answer = app.handle.deploy(&caller.tenant, &document.source, document.format, true).await;
    Ok(Json(match answer {
        Ok(deployed) => Validation { valid: true, problems: vec![], warnings: flaws(deployed.warnings) },
        Err(Refusal::Invalid { detail, problems, .. }) if problems.is_empty() => {
            let problem = Flaw { message: detail, ..Flaw::default() };
            Validation { valid: false, problems: vec![problem], warnings: vec![] }
        }
        Err(Refusal::Invalid { problems, .. }) => {
            Validation { valid: false, problems: flaws(problems), warnings: vec![] }
        }
        // The document itself is fine; deploying it under this version would not be.
        Err(Refusal::Conflict { code, detail, .. }) => {
            let pointer = "/document/version".to_owned();
            let warning = Flaw { pointer, message: detail, code: Some(code), ..Flaw::default() };
            Validation { valid: true, problems: vec![], warnings: vec![warning] }
        }
        Err(refusal) => return Err(refusal.into()),
    }))
}

/// Lists definitions by namespace and name, each with its newest version.
#[utoipa::path(
    get, path = "/api/v1/definitions", tag = "definitions", operation_id = "list_definitions",
    params(
        ("namespace" = Option<String>, Query, description = "only this namespace"),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<Version>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<Version>>, Problem> {
    let parameters = Parameters::read(&uri, &["namespace", "limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "definitions");
    let after = match cursors.read(&parameters)? {
        Some(position) => Some(read_place(&position).ok_or_else(page::refused)?),
        None => None,
    };
    let namespace = parameters.text("namespace").map(str::to_owned);
    let filter = DefinitionFilter { namespace, after, limit: page::rows_for(limit) };
    let mut rows = app.store().definitions(&caller.tenant, &filter).await?;
    let more = page::cut(&mut rows, limit);
    let next = rows.last().filter(|_| more).map(|row| cursors.write(place(row).as_bytes()));
    Ok(Json(Page { items: rows.into_iter().map(version_of).collect(), next }))
}

/// Where a definition stands in the list. Neither part holds a slash.
fn place(row: &DefinitionSummary) -> String {
    format!("{}/{}", row.namespace, row.name)
}

fn read_place(position: &[u8]) -> Option<(String, String)> {
    let (namespace, name) = std::str::from_utf8(position).ok()?.split_once('/')?;
    Some((namespace.to_owned(), name.to_owned()))
}

/// Reads the newest version.
#[utoipa::path(
    get, path = "/api/v1/definitions/{namespace}/{name}", tag = "definitions", operation_id = "get_definition",
    params(
        ("namespace" = String, Path), ("name" = String, Path),
        ("form" = Option<String>, Query, description = "`source`, or `decompiled`: YAML written from what is executed"),
    ),
    responses(
        (status = 200, description = "the newest version", content(
            (DefinitionDetail = "application/json"), (String = "application/yaml"))),
        (status = 404, description = "no such definition", body = ProblemBody),
    )
)]
pub(crate) async fn newest(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
    Named((namespace, name)): Named<(String, String)>,
) -> Result<Response, Problem> {
    if is_decompiled(&uri)? {
        return decompiled(&app, &caller, DefinitionRef { namespace, name, version: None }).await;
    }
    let row = app.store().definition(&caller.tenant, &namespace, &name, None).await?;
    let row = row.ok_or_else(|| Problem::not_found("definition"))?;
    Ok(detail(&app, &caller, row, &headers).await)
}

/// Lists the versions of a definition, newest first.
#[utoipa::path(
    get, path = "/api/v1/definitions/{namespace}/{name}/versions", tag = "definitions",
    operation_id = "list_definition_versions",
    params(
        ("namespace" = String, Path), ("name" = String, Path),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses(
        (status = 200, description = "one page", body = Page<Version>),
        (status = 404, description = "no such definition", body = ProblemBody),
    )
)]
pub(crate) async fn versions(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    Named((namespace, name)): Named<(String, String)>,
) -> Result<Json<Page<Version>>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, &format!("definitions/{namespace}/{name}"));
    let after = cursors.read(&parameters)?;
    let rows = app.store().versions(&caller.tenant, &namespace, &name).await?;
    if rows.is_empty() {
        return Err(Problem::not_found("definition"));
    }
    let skip = match after {
        None => 0,
        Some(version) => {
            let found = rows.iter().position(|row| row.version.as_bytes() == version);
            found.ok_or_else(page::refused)? + 1
        }
    };
    let more = rows.len() > skip + limit;
    let rows: Vec<DefinitionSummary> = rows.into_iter().skip(skip).take(limit).collect();
    let next = rows.last().filter(|_| more).map(|row| cursors.write(row.version.as_bytes()));
    Ok(Json(Page { items: rows.into_iter().map(version_of).collect(), next }))
}

/// Reads one version. `Accept: application/yaml` answers the document alone, byte for byte.
#[utoipa::path(
    get, path = "/api/v1/definitions/{namespace}/{name}/versions/{version}", tag = "definitions",
    operation_id = "get_definition_version",
    params(
        ("namespace" = String, Path), ("name" = String, Path), ("version" = String, Path),
        ("form" = Option<String>, Query, description = "`source`, or `decompiled`: YAML written from what is executed"),
    ),
    responses(
        (status = 200, description = "the version", content(
            (DefinitionDetail = "application/json"), (String = "application/yaml"))),
        (status = 404, description = "no such version", body = ProblemBody),
    )
)]
pub(crate) async fn version(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
    Named((namespace, name, version)): Named<(String, String, String)>,
) -> Result<Response, Problem> {
    if is_decompiled(&uri)? {
        return decompiled(&app, &caller, DefinitionRef { namespace, name, version: Some(version) }).await;
    }
    let row = app.store().definition(&caller.tenant, &namespace, &name, Some(&version)).await?;
    let row = row.ok_or_else(|| Problem::not_found("definition version"))?;
    Ok(detail(&app, &caller, row, &headers).await)
}

/// True if the document shall be written from what is executed.
fn is_decompiled(uri: &Uri) -> Result<bool, Problem> {
    match Parameters::read(uri, &["form"])?.text("form") {
        None | Some("source") => Ok(false),
        Some("decompiled") => Ok(true),
        Some(_) => Err(invalid("form", "this must be source or decompiled")),
    }
}

async fn decompiled(app: &App, caller: &Caller, wanted: DefinitionRef) -> Result<Response, Problem> {
    let text = app.handle.decompiled(&caller.tenant, &wanted).await?;
    Ok(([(header::CONTENT_TYPE, "application/yaml")], text).into_response())
}

/// What input has to fit. A document that this build cannot use any more has no schema to show.
async fn input_schema(app: &App, caller: &Caller, row: &DefinitionRow) -> Option<Stored> {
    let (namespace, name) = (row.namespace.clone(), row.name.clone());
    let wanted = DefinitionRef { namespace, name, version: Some(row.version.clone()) };
    let program = app.handle.program(&caller.tenant, &wanted).await.ok()?;
    Stored::read(program.ir.input_schema.as_ref()?.to_json().to_string().as_bytes())
}

async fn detail(app: &App, caller: &Caller, row: DefinitionRow, headers: &HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    if ["application/yaml", "application/x-yaml", "text/yaml"].iter().any(|yaml| accept.contains(yaml)) {
        // JSON is YAML too, so the type asked for is right whichever way the document was written.
        return ([(header::CONTENT_TYPE, "application/yaml")], row.source).into_response();
    }
    let source = String::from_utf8_lossy(&row.source).into_owned();
    let input_schema = input_schema(app, caller, &row).await;
    let version = Version {
        created_at: wire::time(row.created_at),
        namespace: row.namespace,
        name: row.name,
        version: row.version,
        title: row.title,
        media_type: row.media_type,
    };
    Json(DefinitionDetail { source, version, input_schema }).into_response()
}

fn version_of(row: DefinitionSummary) -> Version {
    Version {
        created_at: wire::time(row.created_at),
        namespace: row.namespace,
        name: row.name,
        version: row.version,
        title: row.title,
        media_type: row.media_type,
    }
}

/// A document's reference in a start.
pub(crate) fn reference(fields: &crate::body::Fields) -> Result<runtime::api::DefinitionRef, Problem> {
    const NAME_BYTES_MAX: usize = 63;
    const VERSION_BYTES_MAX: usize = 128;
    let definition = fields.object("definition", &["namespace", "name", "version"])?;
    let label = |key: &str| {
        let text = definition.required_text(key, NAME_BYTES_MAX)?;
        match machine::language::is_label(&text) {
            true => Ok(text),
            false => Err(Problem::at(
                code::INVALID_VALUE,
                definition.place(key),
                "this must be a name of letters, digits and '-', as in the document",
            )),
        }
    };
    Ok(runtime::api::DefinitionRef {
        namespace: label("namespace")?,
        name: label("name")?,
        version: definition.text("version", VERSION_BYTES_MAX)?,
    })
}

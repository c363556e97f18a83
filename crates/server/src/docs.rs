//! The API's description and the pages around it: OpenAPI, its offline viewer, the error codes.
//!
//! Everything is inside the binary and same-origin: the viewer works without any network.

use crate::{
    app::App,
    code,
    problem::Problem,
    query::{Named, NoParameters},
    routes::{Entry, Route, find},
};
use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Redirect, Response},
};
use std::sync::{Arc, LazyLock};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        self, Content, Ref, RefOr, ResponseBuilder, Schema,
        extensions::ExtensionsBuilder,
        path::{Operation, PathItem},
        security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
    },
};

const ERRORS: &str = include_str!("../../../docs/errors.md");
/// The viewer styles itself with inline styles and data images; scripts come from this server only.
const VIEWER_POLICY: &str =
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

/// What the routes themselves do not say.
#[derive(OpenApi)]
#[openapi(
    info(title = "Windlass", description = "Durable workflows and workers for many tenants."),
    components(schemas(crate::problem::ProblemBody)),
    tags(
        (name = "definitions", description = "What can be started."),
        (name = "instances", description = "What was started."),
        (name = "datasets", description = "Items of fan-outs, and their results."),
        (name = "tasks", description = "Work for people."),
        (name = "dead letters", description = "What could not be done."),
        (name = "events", description = "What happened, addressed to nobody."),
        (name = "workers", description = "Workers of a tenant that are somewhere else, and what they are given."),
        (name = "schedules", description = "What starts by itself."),
        (name = "records", description = "A tenant's own entities, and who may do what with them."),
        (name = "access", description = "Tenants, keys, secrets, who am I."),
        (name = "operations", description = "Health, metrics, the stream of changes, this document."),
    ),
    modifiers(&BearerKey)
)]
pub(crate) struct Description;

struct BearerKey;

impl Modify for BearerKey {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let mut bearer = Http::new(HttpAuthScheme::Bearer);
        bearer.description = Some("an API key: wlk_<id>_<secret>".to_owned());
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("key", SecurityScheme::Http(bearer));
    }
}

/// The operations of one path with their methods.
pub(crate) fn operations(item: &mut PathItem) -> Vec<(&'static str, &mut Operation)> {
    let all = [
        ("GET", item.get.as_mut()),
        ("POST", item.post.as_mut()),
        ("PUT", item.put.as_mut()),
        ("DELETE", item.delete.as_mut()),
        ("PATCH", item.patch.as_mut()),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation?))).collect()
}

/// Completes the document with what holds for all operations: what the route table demands, and how they fail.
pub(crate) fn complete(document: &mut openapi::OpenApi) {
    let schemas = document.components.iter_mut().flat_map(|components| components.schemas.values_mut());
    for schema in schemas {
        say_null_once(schema);
    }
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let Entry::Found(Route { access, .. }) = find(method, path) else { continue };
            let extension = ExtensionsBuilder::new().add("x-permission", access.word()).build();
            operation.extensions.get_or_insert_default().merge(extension);
            let is_public = access == crate::access::Access::Public;
            let key = SecurityRequirement::new("key", Vec::<String>::new());
            operation.security = Some(if is_public { vec![] } else { vec![key] });
            describe_problems(operation);
        }
    }
}

/// Any JSON value may be null already: a member "null or any value" would match null twice.
fn say_null_once(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => object.properties.values_mut().for_each(say_null_once),
        RefOr::T(Schema::AllOf(all)) => all.items.iter_mut().for_each(say_null_once),
        RefOr::T(Schema::OneOf(either)) => {
            let any = Ref::from_schema_name("Stored");
            let is_any = |item: &&RefOr<Schema>| matches!(item, RefOr::Ref(found) if found.ref_location == any.ref_location);
            if let Some(found) = either.items.iter().find(is_any).cloned() {
                *schema = found;
            }
        }
        _ => {}
    }
}

/// Every answer from 400 on is a problem; those an operation does not list are its `default`.
fn describe_problems(operation: &mut Operation) {
    const MEDIA_TYPE: &str = "application/problem+json";
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if status.starts_with(['4', '5'])
            && let Some(content) = response.content.shift_remove("application/json")
        {
            response.content.insert(MEDIA_TYPE.to_owned(), content);
        }
    }
    let body = Content::builder().schema(Some(Ref::from_schema_name("ProblemBody"))).build();
    let any = ResponseBuilder::new().description("any problem").content(MEDIA_TYPE, body).build();
    operation.responses.responses.insert("default".to_owned(), RefOr::T(any));
}

/// This API as an OpenAPI 3.1 document.
#[utoipa::path(
    get, path = "/api/v1/openapi.json", tag = "operations", operation_id = "get_openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = crate::wire::Stored))
)]
pub(crate) async fn openapi(State(app): State<App>, _: NoParameters) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], app.openapi.clone()).into_response()
}

/// The viewer's address without its slash.
pub(crate) async fn viewer_redirect() -> Redirect {
    Redirect::permanent("/api/docs/")
}

pub(crate) async fn viewer_index() -> Result<Response, Problem> {
    viewer_file("")
}

pub(crate) async fn viewer(Named(file): Named<String>) -> Result<Response, Problem> {
    viewer_file(&file)
}

fn viewer_file(file: &str) -> Result<Response, Problem> {
    static CONFIG: LazyLock<Arc<utoipa_swagger_ui::Config<'static>>> =
        LazyLock::new(|| Arc::new(utoipa_swagger_ui::Config::from("/api/v1/openapi.json")));
    let found = utoipa_swagger_ui::serve(file, CONFIG.clone()).map_err(Problem::internal)?;
    let found = found.ok_or_else(|| Problem::new(code::ROUTE_NOT_FOUND, "the viewer has no such file"))?;
    let mut response = found.bytes.into_owned().into_response();
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&found.content_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    if found.gzpipped {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(VIEWER_POLICY));
    Ok(response)
}

/// What every problem code means.
pub(crate) async fn errors() -> Response {
    ([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], ERRORS).into_response()
}

//! Puts the routes together: handlers, guard, frame. Refuses to build if the table and the handlers disagree.

use crate::{
    acl,
    app::{App, Inner},
    audit, auth, backlog, batches, breakers, bulk, buses, clock, code, compensation, console, datasets,
    dead_letters, definitions, deliveries, docs, error_groups, event_types, events, explain, feed, frame,
    graphs, health, history, instances, keys, me, metrics,
    options::Options,
    orders,
    problem::Problem,
    queues, record_kinds, records, result,
    routes::ROUTES,
    schedules, secrets, session, starts, stream, tasks, tenants, versions, webhooks, workers,
};
use axum::{Router, middleware, routing::get};
use runtime::Handle;
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::watch;
use utoipa::{OpenApi, openapi};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A handler that no line of the route table allows.
    #[error("no permission is declared for: {}", .0.join(", "))]
    Undeclared(Vec<String>),
    /// A line of the route table without a handler.
    #[error("no handler answers: {}", .0.join(", "))]
    Unanswered(Vec<String>),
    #[error("the OpenAPI document cannot be written: {0}")]
    Description(#[from] serde_json::Error),
    #[error("metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The whole server as a router, for callers that bring their own listener or none.
pub fn router(handle: Handle, options: Options) -> Result<Router, Error> {
    let (stop, stopping) = watch::channel(false);
    let router = stoppable(handle, options, stopping)?;
    // Nobody will ever say stop, but the channel must stay open for those who listen to it.
    Ok(router.layer(axum::Extension(Arc::new(stop))))
}

/// The same, with long answers that end when `stopping` turns true.
pub(crate) fn stoppable(
    handle: Handle,
    options: Options,
    stopping: watch::Receiver<bool>,
) -> Result<Router, Error> {
    let (documented, mut description) = handlers().split_for_parts();
    check(&mut description)?;
    docs::complete(&mut description);
    let app = App::new(Inner {
        handle,
        options,
        keys: auth::Keys::default(),
        feed: Arc::new(stream::Feed::new()),
        http: metrics::HttpMetrics::new()?,
        openapi: description.to_json()?.into(),
        session_key: tokio::sync::OnceCell::new(),
        stopping,
    });
    let router = documented
        .merge(pages())
        .route_layer(middleware::from_fn_with_state(app.clone(), auth::guard))
        .fallback(nowhere)
        .layer(middleware::from_fn_with_state(app.clone(), frame::frame));
    Ok(router.with_state(app))
}

/// The OpenAPI document, without a server.
pub fn description() -> openapi::OpenApi {
    let mut description = handlers().into_openapi();
    docs::complete(&mut description);
    description
}

fn handlers() -> OpenApiRouter<App> {
    let instances = OpenApiRouter::with_openapi(docs::Description::openapi())
        .routes(routes!(definitions::list, definitions::deploy))
        .routes(routes!(definitions::validate))
        .routes(routes!(definitions::newest))
        .routes(routes!(definitions::versions))
        .routes(routes!(definitions::version))
        .routes(routes!(graphs::definition))
        .routes(routes!(versions::diff))
        .routes(routes!(versions::preflight))
        .routes(routes!(versions::preflight_document))
        .routes(routes!(versions::migrate))
        .routes(routes!(versions::migrate_many))
        .routes(routes!(instances::list, starts::start))
        .routes(routes!(bulk::start))
        .routes(routes!(instances::read))
        .routes(routes!(history::list))
        .routes(routes!(graphs::instance))
        .routes(routes!(result::read))
        .routes(routes!(compensation::read))
        .routes(routes!(explain::instance))
        .routes(routes!(orders::signal))
        .routes(routes!(orders::signal_by_token))
        .routes(routes!(orders::cancel))
        .routes(routes!(orders::pause))
        .routes(routes!(orders::resume))
        .routes(routes!(orders::retry))
        .routes(routes!(datasets::create))
        .routes(routes!(datasets::read))
        .routes(routes!(datasets::items))
        .routes(routes!(tasks::list))
        .routes(routes!(tasks::read))
        .routes(routes!(tasks::claim))
        .routes(routes!(tasks::release))
        .routes(routes!(tasks::assign))
        .routes(routes!(tasks::complete));
    more_handlers(instances)
}

/// Records, and who may do what with them.
fn of_records() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(records::list, records::create))
        .routes(routes!(records::read, records::put, records::delete))
        .routes(routes!(acl::explain))
        .routes(routes!(acl::propagation))
        .routes(routes!(record_kinds::list))
        .routes(routes!(record_kinds::read, record_kinds::put, record_kinds::delete))
        .routes(routes!(acl::groups))
        .routes(routes!(acl::put_group, acl::delete_group))
}

/// Events, workers, schedules, and who may do what.
fn more_handlers(instances: OpenApiRouter<App>) -> OpenApiRouter<App> {
    instances
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::groups))
        .routes(routes!(dead_letters::read))
        .routes(routes!(dead_letters::replay))
        .routes(routes!(dead_letters::discard))
        .routes(routes!(batches::list, batches::create))
        .routes(routes!(batches::read, batches::change))
        .routes(routes!(batches::items))
        .routes(routes!(batches::pause))
        .routes(routes!(batches::resume))
        .routes(routes!(batches::cancel))
        .routes(routes!(error_groups::list))
        .routes(routes!(error_groups::read))
        .routes(routes!(events::list, events::publish))
        .routes(routes!(events::read_by_name))
        .routes(routes!(events::read))
        .routes(routes!(event_types::list))
        .routes(routes!(event_types::read, event_types::put, event_types::delete))
        .routes(routes!(feed::read))
        .merge(of_records())
        .merge(outward())
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::read))
        .routes(routes!(schedules::slots))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(schedules::trigger))
        .routes(routes!(clock::read, clock::advance))
        .routes(routes!(tenants::list, tenants::create))
        .routes(routes!(tenants::read, tenants::change, tenants::delete))
        .routes(routes!(tenants::restore))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(secrets::list))
        .routes(routes!(secrets::put, secrets::delete))
        .routes(routes!(audit::list))
        .routes(routes!(audit::export))
        .routes(routes!(me::read))
        .routes(routes!(session::open, session::close))
        .routes(routes!(stream::read))
        .routes(routes!(docs::openapi))
        .routes(routes!(health::health))
        .routes(routes!(health::readiness))
        .routes(routes!(metrics::read))
        .routes(routes!(queues::whole))
}

/// What events are handed, sent and carried to.
fn outward() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(workers::list))
        .routes(routes!(workers::put, workers::delete))
        .routes(routes!(workers::poll))
        .routes(routes!(queues::list))
        .routes(routes!(queues::read))
        .routes(routes!(breakers::list))
        .routes(routes!(breakers::probe))
        .routes(routes!(backlog::list))
        .routes(routes!(backlog::read))
        .routes(routes!(explain::delivery))
        .routes(routes!(webhooks::list))
        .routes(routes!(webhooks::put, webhooks::delete))
        .routes(routes!(deliveries::complete))
        .routes(routes!(deliveries::fail))
        .routes(routes!(deliveries::heartbeat))
        .routes(routes!(buses::list))
        .routes(routes!(buses::read))
        .routes(routes!(buses::resend))
}

/// Pages are no part of the API, so OpenAPI does not list them; the table does.
fn pages() -> Router<App> {
    Router::new()
        .route("/", get(console::page))
        .route("/t/{tenant}", get(console::page))
        .route("/t/{tenant}/{*place}", get(console::page))
        .route("/console/{file}", get(console::file))
        .route("/docs/errors.md", get(docs::errors))
        .route("/api/docs", get(docs::viewer_redirect))
        .route("/api/docs/", get(docs::viewer_index))
        .route("/api/docs/{*file}", get(docs::viewer))
}

async fn nowhere() -> Problem {
    Problem::new(code::ROUTE_NOT_FOUND, "there is nothing at this address")
}

/// Every documented operation is in the table, and every documented line of the table is an operation.
pub(crate) fn check(description: &mut openapi::OpenApi) -> Result<(), Error> {
    let mut answered = BTreeSet::new();
    for (path, item) in &mut description.paths.paths {
        answered.extend(docs::operations(item).iter().map(|(method, _)| format!("{method} {path}")));
    }
    let lines = ROUTES.iter().filter(|route| route.documented);
    let declared: BTreeSet<String> = lines.map(|route| format!("{} {}", route.method, route.path)).collect();
    let undeclared: Vec<String> = answered.difference(&declared).cloned().collect();
    let unanswered: Vec<String> = declared.difference(&answered).cloned().collect();
    match (undeclared.is_empty(), unanswered.is_empty()) {
        (false, _) => Err(Error::Undeclared(undeclared)),
        (true, false) => Err(Error::Unanswered(unanswered)),
        (true, true) => Ok(()),
    }
}

//! The route table: every method and address this server answers, and what it demands of the caller.
//!
//! The table is the authority. [`crate::router::router`] refuses to build when a documented route is not in it, and
//! [`crate::auth`] refuses any request whose route is not in it, so a handler cannot be reachable by accident.

use crate::access::{Access, Permission::*};
use Access::{Anyone, Needs, Public};

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub method: &'static str,
    /// As the router and OpenAPI write it.
    pub path: &'static str,
    pub access: Access,
    /// False for pages, which are no part of the API.
    pub documented: bool,
    /// It also answers for a tenant that is parked: it changes nothing of the tenant's, or finishes what is under way.
    pub while_parked: bool,
}

impl Route {
    const fn also_parked(self) -> Route {
        Route { while_parked: true, ..self }
    }
}

const fn get(path: &'static str, access: Access) -> Route {
    Route { method: "GET", path, access, documented: true, while_parked: true }
}

const fn post(path: &'static str, access: Access) -> Route {
    Route { method: "POST", path, access, documented: true, while_parked: false }
}

const fn put(path: &'static str, access: Access) -> Route {
    Route { method: "PUT", path, access, documented: true, while_parked: false }
}

const fn patch(path: &'static str, access: Access) -> Route {
    Route { method: "PATCH", path, access, documented: true, while_parked: false }
}

const fn delete(path: &'static str, access: Access) -> Route {
    Route { method: "DELETE", path, access, documented: true, while_parked: false }
}

const fn page(path: &'static str) -> Route {
    Route { method: "GET", path, access: Public, documented: false, while_parked: true }
}

/// Every route.
pub const ROUTES: &[Route] = &[
    get("/api/v1/definitions", Needs(DefinitionsRead)),
    post("/api/v1/definitions", Needs(DefinitionsWrite)),
    post("/api/v1/definitions/validate", Needs(DefinitionsRead)).also_parked(),
    post("/api/v1/definitions/preflight", Needs(InstancesRead)).also_parked(),
    get("/api/v1/definitions/{namespace}/{name}", Needs(DefinitionsRead)),
    get("/api/v1/definitions/{namespace}/{name}/diff", Needs(DefinitionsRead)),
    get("/api/v1/definitions/{namespace}/{name}/versions", Needs(DefinitionsRead)),
    get("/api/v1/definitions/{namespace}/{name}/versions/{version}", Needs(DefinitionsRead)),
    post("/api/v1/definitions/{namespace}/{name}/versions/{version}/preflight", Needs(InstancesRead))
        .also_parked(),
    get("/api/v1/instances", Needs(InstancesRead)),
    post("/api/v1/instances", Needs(InstancesStart)),
    post("/api/v1/instances/bulk", Needs(InstancesStart)),
    post("/api/v1/instances/migrate", Needs(InstancesOrder)),
    get("/api/v1/instances/{id}", Needs(InstancesRead)),
    get("/api/v1/instances/{id}/history", Needs(InstancesRead)),
    get("/api/v1/instances/{id}/result", Needs(InstancesRead)),
    get("/api/v1/instances/{id}/compensation", Needs(InstancesRead)),
    get("/api/v1/instances/{id}/explain", Needs(InstancesRead)),
    post("/api/v1/instances/{id}/signals/{name}", Needs(InstancesSignal)),
    post("/api/v1/instances/{id}/cancel", Needs(InstancesOrder)),
    post("/api/v1/instances/{id}/pause", Needs(InstancesOrder)),
    post("/api/v1/instances/{id}/resume", Needs(InstancesOrder)),
    post("/api/v1/instances/{id}/retry", Needs(InstancesOrder)),
    post("/api/v1/instances/{id}/migrate", Needs(InstancesOrder)),
    // The token is the key.
    post("/api/v1/signals/{token}", Public),
    post("/api/v1/datasets", Needs(InstancesStart)),
    get("/api/v1/datasets/{id}", Needs(InstancesRead)),
    get("/api/v1/datasets/{id}/items", Needs(InstancesRead)),
    get("/api/v1/tasks", Needs(TasksRead)),
    get("/api/v1/tasks/{id}", Needs(TasksRead)),
    post("/api/v1/tasks/{id}/claim", Needs(TasksAct)),
    post("/api/v1/tasks/{id}/release", Needs(TasksAct)),
    post("/api/v1/tasks/{id}/assign", Needs(TasksAct)),
    post("/api/v1/tasks/{id}/complete", Needs(TasksAct)),
    get("/api/v1/dead-letters", Needs(DeadLettersRead)),
    get("/api/v1/dead-letters/groups", Needs(DeadLettersRead)),
    get("/api/v1/dead-letters/{id}", Needs(DeadLettersRead)),
    post("/api/v1/dead-letters/{id}/replay", Needs(DeadLettersAct)),
    post("/api/v1/dead-letters/{id}/discard", Needs(DeadLettersAct)),
    get("/api/v1/batches", Needs(BatchesRead)),
    post("/api/v1/batches", Needs(BatchesAct)),
    get("/api/v1/batches/{id}", Needs(BatchesRead)),
    patch("/api/v1/batches/{id}", Needs(BatchesAct)),
    get("/api/v1/batches/{id}/items", Needs(BatchesRead)),
    post("/api/v1/batches/{id}/pause", Needs(BatchesAct)),
    post("/api/v1/batches/{id}/resume", Needs(BatchesAct)),
    post("/api/v1/batches/{id}/cancel", Needs(BatchesAct)),
    get("/api/v1/errors", Needs(ErrorsRead)),
    get("/api/v1/errors/{id}", Needs(ErrorsRead)),
    get("/api/v1/events", Needs(EventsRead)),
    post("/api/v1/events", Needs(EventsPublish)),
    get("/api/v1/events/{id}", Needs(EventsRead)),
    get("/api/v1/event-types", Needs(EventsRead)),
    get("/api/v1/event-types/{type}", Needs(EventsRead)),
    put("/api/v1/event-types/{type}", Needs(DefinitionsWrite)),
    delete("/api/v1/event-types/{type}", Needs(DefinitionsWrite)),
    get("/api/v1/feed", Needs(EventsRead)),
    get("/api/v1/workers", Needs(WorkersRead)),
    put("/api/v1/workers/{name}", Needs(WorkersWrite)),
    delete("/api/v1/workers/{name}", Needs(WorkersWrite)),
    post("/api/v1/workers/{name}/poll", Needs(WorkersAct)).also_parked(),
    get("/api/v1/breakers", Needs(WorkersRead)),
    post("/api/v1/breakers/{target}/probe", Needs(InstancesOrder)),
    get("/api/v1/deliveries", Needs(WorkersRead)),
    get("/api/v1/deliveries/{id}", Needs(WorkersRead)),
    get("/api/v1/deliveries/{id}/explain", Needs(WorkersRead)),
    get("/api/v1/queues", Needs(WorkersRead)),
    get("/api/v1/queues/{name}", Needs(WorkersRead)),
    get("/api/v1/webhooks", Needs(WorkersRead)),
    put("/api/v1/webhooks/{name}", Needs(WorkersWrite)),
    delete("/api/v1/webhooks/{name}", Needs(WorkersWrite)),
    post("/api/v1/deliveries/{id}/complete", Needs(WorkersAct)).also_parked(),
    post("/api/v1/deliveries/{id}/fail", Needs(WorkersAct)).also_parked(),
    post("/api/v1/deliveries/{id}/heartbeat", Needs(WorkersAct)).also_parked(),
    get("/api/v1/schedules", Needs(SchedulesRead)),
    get("/api/v1/schedules/{id}", Needs(SchedulesRead)),
    get("/api/v1/schedules/{id}/slots", Needs(SchedulesRead)),
    post("/api/v1/schedules/{id}/pause", Needs(SchedulesAct)),
    post("/api/v1/schedules/{id}/resume", Needs(SchedulesAct)),
    post("/api/v1/schedules/{id}/trigger", Needs(SchedulesAct)),
    get("/api/v1/dev/clock", Needs(DevClock)),
    post("/api/v1/dev/clock", Needs(DevClock)),
    get("/api/v1/tenants", Needs(TenantsRead)),
    get("/api/v1/buses", Needs(BusesRead)),
    get("/api/v1/buses/{name}", Needs(BusesRead)),
    post("/api/v1/buses/{name}/resend", Needs(BusesAct)),
    post("/api/v1/tenants", Needs(TenantsWrite)).also_parked(),
    get("/api/v1/tenants/{id}", Needs(TenantsRead)),
    patch("/api/v1/tenants/{id}", Needs(TenantsWrite)).also_parked(),
    delete("/api/v1/tenants/{id}", Needs(TenantsWrite)).also_parked(),
    post("/api/v1/tenants/{id}/restore", Needs(TenantsWrite)).also_parked(),
    get("/api/v1/keys", Needs(KeysRead)),
    post("/api/v1/keys", Needs(KeysWrite)).also_parked(),
    delete("/api/v1/keys/{id}", Needs(KeysWrite)).also_parked(),
    get("/api/v1/secrets", Needs(SecretsRead)),
    put("/api/v1/secrets/{name}", Needs(SecretsWrite)),
    delete("/api/v1/secrets/{name}", Needs(SecretsWrite)),
    get("/api/v1/records", Needs(RecordsRead)),
    post("/api/v1/records", Needs(RecordsWrite)),
    get("/api/v1/records/{id}", Needs(RecordsRead)),
    put("/api/v1/records/{id}", Needs(RecordsWrite)),
    delete("/api/v1/records/{id}", Needs(RecordsWrite)),
    get("/api/v1/records/{id}/explain", Needs(RecordsRead)),
    get("/api/v1/acl/propagation", Needs(RecordsRead)),
    get("/api/v1/record-kinds", Needs(RecordsRead)),
    get("/api/v1/record-kinds/{name}", Needs(RecordsRead)),
    put("/api/v1/record-kinds/{name}", Needs(DefinitionsWrite)),
    delete("/api/v1/record-kinds/{name}", Needs(DefinitionsWrite)),
    get("/api/v1/groups", Needs(RecordsRead)),
    put("/api/v1/groups/{name}", Needs(GroupsWrite)),
    delete("/api/v1/groups/{name}", Needs(GroupsWrite)),
    get("/api/v1/me", Anyone),
    get("/api/v1/stream", Needs(StreamRead)),
    get("/api/v1/openapi.json", Public),
    get("/healthz", Public),
    get("/readyz", Public),
    get("/metrics", Needs(MetricsRead)),
    get("/metrics/queues/{name}", Needs(MetricsRead)),
    page("/"),
    page("/docs/errors.md"),
    page("/api/docs"),
    page("/api/docs/"),
    page("/api/docs/{*file}"),
];

/// What the table says about a request whose path matched `path`.
pub enum Entry {
    Found(Route),
    /// The path is there, the method is not; these are.
    OtherMethods(String),
    /// Not in the table: nobody may pass.
    Missing,
}

pub fn find(method: &str, path: &str) -> Entry {
    // HEAD is GET without the body, for the router and for the table.
    let method = if method == "HEAD" { "GET" } else { method };
    let mut allowed = String::new();
    for route in ROUTES.iter().filter(|route| route.path == path) {
        if route.method == method {
            return Entry::Found(*route);
        }
        let words = if route.method == "GET" { "GET, HEAD" } else { route.method };
        let comma = if allowed.is_empty() { "" } else { ", " };
        allowed = format!("{allowed}{comma}{words}");
    }
    if allowed.is_empty() { Entry::Missing } else { Entry::OtherMethods(allowed) }
}

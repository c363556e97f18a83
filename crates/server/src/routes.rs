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
    /// What it is called in the audit trail: the kind of the object, and the verb.
    pub act: Option<&'static str>,
    /// Why it has no entry there though it is no read.
    pub unaudited: Option<&'static str>,
}

impl Route {
    const fn act(self, name: &'static str) -> Route {
        Route { act: Some(name), ..self }
    }

    const fn unaudited(self, why: &'static str) -> Route {
        Route { unaudited: Some(why), ..self }
    }

    const fn new(method: &'static str, path: &'static str, access: Access) -> Route {
        Route { method, path, access, documented: true, while_parked: false, act: None, unaudited: None }
    }

    const fn also_parked(self) -> Route {
        Route { while_parked: true, ..self }
    }
}

const fn get(path: &'static str, access: Access) -> Route {
    Route::new("GET", path, access).also_parked()
}

const fn post(path: &'static str, access: Access) -> Route {
    Route::new("POST", path, access)
}

const fn put(path: &'static str, access: Access) -> Route {
    Route::new("PUT", path, access)
}

const fn patch(path: &'static str, access: Access) -> Route {
    Route::new("PATCH", path, access)
}

const fn delete(path: &'static str, access: Access) -> Route {
    Route::new("DELETE", path, access)
}

const fn page(path: &'static str) -> Route {
    Route { documented: false, ..Route::new("GET", path, Public).also_parked() }
}

/// Every route.
pub const ROUTES: &[Route] = &[
    get("/api/v1/definitions", Needs(DefinitionsRead)),
    post("/api/v1/definitions", Needs(DefinitionsWrite)).act("definition.deploy"),
    post("/api/v1/definitions/validate", Needs(DefinitionsRead)).unaudited("it only looks").also_parked(),
    post("/api/v1/definitions/preflight", Needs(InstancesRead)).unaudited("it only looks").also_parked(),
    get("/api/v1/definitions/{namespace}/{name}", Needs(DefinitionsRead)),
    get("/api/v1/definitions/{namespace}/{name}/diff", Needs(DefinitionsRead)),
    get("/api/v1/definitions/{namespace}/{name}/versions", Needs(DefinitionsRead)),
    get("/api/v1/definitions/{namespace}/{name}/versions/{version}", Needs(DefinitionsRead)),
    get("/api/v1/definitions/{namespace}/{name}/versions/{version}/graph", Needs(DefinitionsRead)),
    post("/api/v1/definitions/{namespace}/{name}/versions/{version}/preflight", Needs(InstancesRead))
        .unaudited("it only looks")
        .also_parked(),
    get("/api/v1/instances", Needs(InstancesRead)),
    post("/api/v1/instances", Needs(InstancesStart)).act("instance.start"),
    post("/api/v1/instances/bulk", Needs(InstancesStart)).act("instance.start-many"),
    post("/api/v1/instances/migrate", Needs(InstancesOrder)).act("instance.migrate-many"),
    get("/api/v1/instances/{id}", Needs(InstancesRead)),
    get("/api/v1/instances/{id}/history", Needs(InstancesRead)),
    get("/api/v1/instances/{id}/graph", Needs(InstancesRead)),
    get("/api/v1/instances/{id}/result", Needs(InstancesRead)),
    get("/api/v1/instances/{id}/compensation", Needs(InstancesRead)),
    get("/api/v1/instances/{id}/explain", Needs(InstancesRead)),
    post("/api/v1/instances/{id}/signals/{name}", Needs(InstancesSignal)).act("instance.signal"),
    post("/api/v1/instances/{id}/cancel", Needs(InstancesOrder)).act("instance.cancel"),
    post("/api/v1/instances/{id}/pause", Needs(InstancesOrder)).act("instance.pause"),
    post("/api/v1/instances/{id}/resume", Needs(InstancesOrder)).act("instance.resume"),
    post("/api/v1/instances/{id}/retry", Needs(InstancesOrder)).act("instance.retry"),
    post("/api/v1/instances/{id}/migrate", Needs(InstancesOrder)).act("instance.migrate"),
    // The token is the key.
    post("/api/v1/signals/{token}", Public).act("instance.signal"),
    post("/api/v1/datasets", Needs(InstancesStart)).act("dataset.create"),
    get("/api/v1/datasets/{id}", Needs(InstancesRead)),
    get("/api/v1/datasets/{id}/items", Needs(InstancesRead)),
    get("/api/v1/tasks", Needs(TasksRead)),
    get("/api/v1/tasks/{id}", Needs(TasksRead)),
    post("/api/v1/tasks/{id}/claim", Needs(TasksAct)).act("task.claim"),
    post("/api/v1/tasks/{id}/release", Needs(TasksAct)).act("task.release"),
    post("/api/v1/tasks/{id}/assign", Needs(TasksAct)).act("task.assign"),
    post("/api/v1/tasks/{id}/complete", Needs(TasksAct)).act("task.complete"),
    get("/api/v1/dead-letters", Needs(DeadLettersRead)),
    get("/api/v1/dead-letters/groups", Needs(DeadLettersRead)),
    get("/api/v1/dead-letters/{id}", Needs(DeadLettersRead)),
    post("/api/v1/dead-letters/{id}/replay", Needs(DeadLettersAct)).act("dead-letter.replay"),
    post("/api/v1/dead-letters/{id}/discard", Needs(DeadLettersAct)).act("dead-letter.discard"),
    get("/api/v1/batches", Needs(BatchesRead)),
    post("/api/v1/batches", Needs(BatchesAct)).act("batch.create"),
    get("/api/v1/batches/{id}", Needs(BatchesRead)),
    patch("/api/v1/batches/{id}", Needs(BatchesAct)).act("batch.change"),
    get("/api/v1/batches/{id}/items", Needs(BatchesRead)),
    post("/api/v1/batches/{id}/pause", Needs(BatchesAct)).act("batch.pause"),
    post("/api/v1/batches/{id}/resume", Needs(BatchesAct)).act("batch.resume"),
    post("/api/v1/batches/{id}/cancel", Needs(BatchesAct)).act("batch.cancel"),
    get("/api/v1/errors", Needs(ErrorsRead)),
    get("/api/v1/errors/{id}", Needs(ErrorsRead)),
    get("/api/v1/events", Needs(EventsRead)),
    post("/api/v1/events", Needs(EventsPublish)).act("event.publish"),
    get("/api/v1/events/by-name", Needs(EventsRead)),
    get("/api/v1/events/{id}", Needs(EventsRead)),
    get("/api/v1/event-types", Needs(EventsRead)),
    get("/api/v1/event-types/{type}", Needs(EventsRead)),
    put("/api/v1/event-types/{type}", Needs(DefinitionsWrite)).act("event-type.put"),
    delete("/api/v1/event-types/{type}", Needs(DefinitionsWrite)).act("event-type.delete"),
    get("/api/v1/feed", Needs(EventsRead)),
    get("/api/v1/workers", Needs(WorkersRead)),
    put("/api/v1/workers/{name}", Needs(WorkersWrite)).act("worker.put"),
    delete("/api/v1/workers/{name}", Needs(WorkersWrite)).act("worker.delete"),
    post("/api/v1/workers/{name}/poll", Needs(WorkersAct))
        .unaudited("what is lent comes back by itself; the answer is the act")
        .also_parked(),
    get("/api/v1/breakers", Needs(WorkersRead)),
    post("/api/v1/breakers/{target}/probe", Needs(InstancesOrder)).act("breaker.probe"),
    get("/api/v1/deliveries", Needs(WorkersRead)),
    get("/api/v1/deliveries/{id}", Needs(WorkersRead)),
    get("/api/v1/deliveries/{id}/explain", Needs(WorkersRead)),
    get("/api/v1/queues", Needs(WorkersRead)),
    get("/api/v1/queues/{name}", Needs(WorkersRead)),
    get("/api/v1/webhooks", Needs(WorkersRead)),
    put("/api/v1/webhooks/{name}", Needs(WorkersWrite)).act("webhook.put"),
    delete("/api/v1/webhooks/{name}", Needs(WorkersWrite)).act("webhook.delete"),
    post("/api/v1/deliveries/{id}/complete", Needs(WorkersAct)).act("delivery.complete").also_parked(),
    post("/api/v1/deliveries/{id}/fail", Needs(WorkersAct)).act("delivery.fail").also_parked(),
    post("/api/v1/deliveries/{id}/heartbeat", Needs(WorkersAct))
        .unaudited("it only goes on with what was lent")
        .also_parked(),
    get("/api/v1/schedules", Needs(SchedulesRead)),
    get("/api/v1/schedules/{id}", Needs(SchedulesRead)),
    get("/api/v1/schedules/{id}/slots", Needs(SchedulesRead)),
    post("/api/v1/schedules/{id}/pause", Needs(SchedulesAct)).act("schedule.pause"),
    post("/api/v1/schedules/{id}/resume", Needs(SchedulesAct)).act("schedule.resume"),
    post("/api/v1/schedules/{id}/trigger", Needs(SchedulesAct)).act("schedule.trigger"),
    get("/api/v1/dev/clock", Needs(DevClock)),
    post("/api/v1/dev/clock", Needs(DevClock)).act("clock.advance"),
    get("/api/v1/tenants", Needs(TenantsRead)),
    get("/api/v1/buses", Needs(BusesRead)),
    get("/api/v1/buses/{name}", Needs(BusesRead)),
    post("/api/v1/buses/{name}/resend", Needs(BusesAct)).act("bus.resend"),
    post("/api/v1/tenants", Needs(TenantsWrite)).act("tenant.create").also_parked(),
    get("/api/v1/tenants/{id}", Needs(TenantsRead)),
    patch("/api/v1/tenants/{id}", Needs(TenantsWrite)).act("tenant.change").also_parked(),
    delete("/api/v1/tenants/{id}", Needs(TenantsWrite)).act("tenant.delete").also_parked(),
    post("/api/v1/tenants/{id}/restore", Needs(TenantsWrite)).act("tenant.restore").also_parked(),
    get("/api/v1/keys", Needs(KeysRead)),
    post("/api/v1/keys", Needs(KeysWrite)).act("key.create").also_parked(),
    delete("/api/v1/keys/{id}", Needs(KeysWrite)).act("key.revoke").also_parked(),
    get("/api/v1/secrets", Needs(SecretsRead)),
    put("/api/v1/secrets/{name}", Needs(SecretsWrite)).act("secret.put"),
    delete("/api/v1/secrets/{name}", Needs(SecretsWrite)).act("secret.delete"),
    get("/api/v1/records", Needs(RecordsRead)),
    post("/api/v1/records", Needs(RecordsWrite)).act("record.create"),
    get("/api/v1/records/{id}", Needs(RecordsRead)),
    put("/api/v1/records/{id}", Needs(RecordsWrite)).act("record.put"),
    delete("/api/v1/records/{id}", Needs(RecordsWrite)).act("record.delete"),
    get("/api/v1/records/{id}/explain", Needs(RecordsRead)),
    get("/api/v1/acl/propagation", Needs(RecordsRead)),
    get("/api/v1/record-kinds", Needs(RecordsRead)),
    get("/api/v1/record-kinds/{name}", Needs(RecordsRead)),
    put("/api/v1/record-kinds/{name}", Needs(DefinitionsWrite)).act("record-kind.put"),
    delete("/api/v1/record-kinds/{name}", Needs(DefinitionsWrite)).act("record-kind.delete"),
    get("/api/v1/groups", Needs(RecordsRead)),
    put("/api/v1/groups/{name}", Needs(GroupsWrite)).act("group.put"),
    delete("/api/v1/groups/{name}", Needs(GroupsWrite)).act("group.delete"),
    get("/api/v1/audit", Needs(AuditRead)),
    get("/api/v1/audit/export", Needs(AuditRead)),
    get("/api/v1/me", Anyone),
    // The key in the body is the key; whoever has none has no session to end.
    post("/api/v1/session", Public).unaudited("a key is given to a browser; nothing changes").also_parked(),
    delete("/api/v1/session", Public).unaudited("a browser lets go of a key; nothing changes").also_parked(),
    get("/api/v1/stream", Needs(StreamRead)),
    get("/api/v1/openapi.json", Public),
    get("/healthz", Public),
    get("/readyz", Public),
    get("/metrics", Needs(MetricsRead)),
    get("/metrics/queues/{name}", Needs(MetricsRead)),
    page("/"),
    page("/t/{tenant}"),
    page("/t/{tenant}/{*place}"),
    page("/console/{file}"),
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

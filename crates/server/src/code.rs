//! Every problem code the API answers: one constant each, listed in [`ALL`].
//!
//! A code is a promise to clients: it never changes its meaning, and `docs/errors.md` explains each one (a test
//! compares the two). Codes that the runtime names in a refusal are looked up here by their word.

/// One kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Stable kebab-case word.
    pub word: &'static str,
    pub status: u16,
    pub title: &'static str,
    /// True if sending the same request again later may succeed.
    pub retryable: bool,
}

const fn code(word: &'static str, status: u16, title: &'static str) -> Code {
    Code { word, status, title, retryable: false }
}

const fn passing(word: &'static str, status: u16, title: &'static str) -> Code {
    Code { word, status, title, retryable: true }
}

// ---- reading the request ----
pub const INVALID_REQUEST: Code = code("invalid-request", 400, "The request is not valid");
pub const INVALID_JSON: Code = code("invalid-json", 400, "The body is not valid JSON");
pub const INVALID_UTF8: Code = code("invalid-utf8", 400, "The text is not valid UTF-8");
pub const LONE_SURROGATE: Code = code("lone-surrogate", 400, "The text holds half of a surrogate pair");
pub const NUL_CHARACTER: Code = code("nul-character", 400, "The text holds a NUL character");
pub const NUMBER_OUT_OF_RANGE: Code = code("number-out-of-range", 400, "A number is out of range");
pub const DUPLICATE_KEY: Code = code("duplicate-key", 400, "An object names a key twice");
pub const TOO_DEEP: Code = code("too-deep", 400, "The JSON is nested too deeply");
pub const UNKNOWN_KEY: Code = code("unknown-key", 400, "The body has a key that is not known");
pub const MISSING_KEY: Code = code("missing-key", 400, "The body lacks a required key");
pub const INVALID_VALUE: Code = code("invalid-value", 400, "A value is not acceptable");
pub const UNKNOWN_PARAMETER: Code = code("unknown-parameter", 400, "A query parameter is not known");
pub const INVALID_PARAMETER: Code = code("invalid-parameter", 400, "A query parameter is not acceptable");
pub const INVALID_QUERY: Code = code("invalid-query", 400, "The query is not valid");
pub const EMPTY_QUERY: Code = code("empty-query", 400, "The query is empty");
pub const PAGE_TOO_LARGE: Code = code("page-too-large", 400, "The page is too large");
pub const INVALID_CURSOR: Code = code("invalid-cursor", 400, "The cursor is not valid here");
pub const INVALID_HEADER: Code = code("invalid-header", 400, "A header is not acceptable");
pub const INVALID_ID: Code = code("invalid-id", 400, "The id is not well formed");
pub const TOO_MANY_ITEMS: Code = code("too-many-items", 400, "Too many items in one request");
pub const INTERRUPTED_BODY: Code = passing("interrupted-body", 400, "The body ended early");
pub const REQUEST_TIMEOUT: Code = passing("request-timeout", 408, "The request took too long to arrive");
pub const BODY_TOO_LARGE: Code = code("body-too-large", 413, "The body is too large");
pub const EVENT_TOO_LARGE: Code = code("event-too-large", 413, "The event is too large");
pub const SIGNAL_TOO_LARGE: Code = code("signal-too-large", 413, "The signal is too large");
pub const ITEM_TOO_LARGE: Code = code("item-too-large", 413, "An item is too large");
pub const DATASET_TOO_LARGE: Code = code("dataset-too-large", 413, "The dataset has too many items");
pub const URI_TOO_LONG: Code = code("uri-too-long", 414, "The address is too long");
pub const UNSUPPORTED_MEDIA_TYPE: Code =
    code("unsupported-media-type", 415, "The content type is not supported");
pub const HEADERS_TOO_LARGE: Code = code("headers-too-large", 431, "The headers are too large");

// ---- who asks ----
pub const UNAUTHENTICATED: Code = code("unauthenticated", 401, "A valid key is needed");
pub const FORBIDDEN: Code = code("forbidden", 403, "The key does not allow this");
pub const CSRF_REFUSED: Code = code("csrf-refused", 403, "The request may come from another page");
pub const TENANT_SUSPENDED: Code = code("tenant-suspended", 403, "The tenant is suspended");
pub const TENANT_DELETED: Code = code("tenant-deleted", 403, "The tenant is deleted");

// ---- what is asked for ----
pub const NOT_FOUND: Code = code("not-found", 404, "Not found");
pub const ROUTE_NOT_FOUND: Code = code("route-not-found", 404, "There is nothing at this address");
pub const METHOD_NOT_ALLOWED: Code = code("method-not-allowed", 405, "The method is not allowed here");
pub const CONFLICT: Code = code("conflict", 409, "The object's state does not allow this");
pub const VERSION_EXISTS: Code = code("version-exists", 409, "The version exists with another document");
pub const BUSINESS_KEY_TAKEN: Code =
    code("business-key-taken", 409, "An open instance holds the business key");
pub const INSTANCE_EXISTS: Code = code("instance-exists", 409, "An instance has this id");
pub const TENANT_EXISTS: Code = code("tenant-exists", 409, "The tenant exists");
pub const TENANT_NOT_ALLOWED_NOW: Code =
    code("tenant-not-allowed-now", 409, "The tenant's status does not allow this");
pub const OWN_TENANT: Code = code("own-tenant", 409, "The key belongs to that tenant");
pub const NOT_ALLOWED_NOW: Code = code("not-allowed-now", 409, "The instance's status does not allow this");
pub const INSTANCE_ENDED: Code = code("instance-ended", 409, "The instance has ended");
pub const DOES_NOT_FIT: Code = code("does-not-fit", 409, "The instance does not fit into the version");
pub const DEFINITION_UNUSABLE: Code =
    code("definition-unusable", 409, "The stored definition cannot be used");
pub const TURN_FAILED: Code = code("turn-failed", 409, "The instance cannot take its next step");
pub const SCHEDULE_ENDED: Code = code("schedule-ended", 409, "The schedule has ended");
pub const BATCH_ENDED: Code = code("batch-ended", 409, "The batch has ended");
pub const DEV_CLOCK_OFF: Code = code("dev-clock-off", 409, "Clocks cannot be moved here");
pub const TASK_ENDED: Code = code("task-ended", 409, "The task has ended");
pub const TASK_CLAIMED: Code = code("task-claimed", 409, "Somebody else has claimed the task");
pub const TASK_NOT_CLAIMED: Code = code("task-not-claimed", 409, "Nobody has claimed the task");
pub const TASK_NOT_AWAITED: Code = code("task-not-awaited", 409, "The instance no longer waits for the task");
pub const TASK_BUSY: Code = passing("task-busy", 409, "Others keep changing the task");
pub const WORKER_EXISTS: Code = code("worker-exists", 409, "The server itself has a worker of that name");
pub const DELIVERY_LOST: Code = code("delivery-lost", 409, "The delivery is not the caller's any more");
pub const WATERMARK_MOVED: Code = passing("watermark-moved", 409, "Somebody else has moved the watermark");
pub const SECRETS_DISABLED: Code = code("secrets-disabled", 409, "This server keeps no secrets");
pub const AUDIT_BROKEN: Code = code("audit-broken", 409, "The audit trail was tampered with");
pub const RECORD_EXISTS: Code = code("record-exists", 409, "There is a record of that id");
pub const RECORD_CYCLE: Code = code("record-cycle", 409, "A record would be below itself");
pub const RECORD_HAS_CHILDREN: Code = code("record-has-children", 409, "There are records below it");
pub const RECORD_KIND_IN_USE: Code = code("record-kind-in-use", 409, "There are records of this kind");
pub const RECORD_FORBIDDEN: Code = code("record-forbidden", 403, "No grant allows this");
pub const RECORD_INVALID: Code = code("record-invalid", 422, "The body does not fit its kind");
pub const RECORD_KIND_UNKNOWN: Code = code("record-kind-unknown", 422, "There is no such kind of records");
pub const RECORD_PARENT_UNKNOWN: Code = code("record-parent-unknown", 422, "There is no such parent");
pub const RECORD_TOO_DEEP: Code = code("record-too-deep", 422, "The tree of records is too deep");
pub const ACL_INVALID: Code = code("acl-invalid", 422, "The grants are not valid");
pub const STALE: Code = code("stale", 412, "The object has changed");
pub const DEFINITION_INVALID: Code = code("definition-invalid", 422, "The definition is not valid");
pub const DEFINITION_UNSUPPORTED: Code =
    code("definition-unsupported", 422, "The definition uses what this engine does not execute");
pub const TASK_RESULT_INVALID: Code =
    code("task-result-invalid", 422, "The result does not fit the task's form");
pub const INVALID_EVENT: Code = code("invalid-event", 422, "This is not an event");
pub const EVENT_LOOP: Code = code("event-loop", 422, "Too many events follow from each other");
pub const EVENT_DATA_INVALID: Code =
    code("event-data-invalid", 422, "The event's data does not fit the schema of its type");
pub const SCHEMA_INVALID: Code = code("schema-invalid", 422, "This is no schema that can be used");
pub const BAD_CLOCK: Code = code("bad-clock", 422, "A clock cannot be moved this way");
pub const DEFINITION_NOT_ALLOWED: Code =
    code("definition-not-allowed", 422, "The definition uses what the operator does not allow");
pub const REFUSED_BY_STORE: Code = code("refused-by-store", 422, "The store does not take this");
pub const IDEMPOTENCY_KEY_REUSED: Code =
    code("idempotency-key-reused", 422, "The idempotency key was used with another request");

// ---- what the server can do now ----
pub const TENANT_DEGRADED: Code = passing("tenant-degraded", 429, "The tenant is degraded");
pub const TOO_MANY_OPEN: Code = passing("too-many-open", 429, "Too many instances have not ended");
pub const TOO_MANY_STARTS: Code = passing("too-many-starts", 429, "Too many starts in a second");
pub const BUSY: Code = passing("busy", 429, "Too much work is queued");
pub const INTERNAL: Code = passing("internal", 500, "The server made an error");
pub const UNAVAILABLE: Code = passing("unavailable", 503, "The server cannot answer now");
pub const NOT_READY: Code = passing("not-ready", 503, "The node is not ready");
pub const OUTCOME_UNKNOWN: Code = passing("outcome-unknown", 504, "The outcome is not known yet");
pub const STORE_FULL: Code = passing("store-full", 507, "The store has no room left");

/// All codes, in the order of `docs/errors.md`.
pub const ALL: &[Code] = &[
    INVALID_REQUEST,
    INVALID_JSON,
    INVALID_UTF8,
    LONE_SURROGATE,
    NUL_CHARACTER,
    NUMBER_OUT_OF_RANGE,
    DUPLICATE_KEY,
    TOO_DEEP,
    UNKNOWN_KEY,
    MISSING_KEY,
    INVALID_VALUE,
    UNKNOWN_PARAMETER,
    INVALID_PARAMETER,
    INVALID_QUERY,
    EMPTY_QUERY,
    PAGE_TOO_LARGE,
    INVALID_CURSOR,
    INVALID_HEADER,
    INVALID_ID,
    TOO_MANY_ITEMS,
    INTERRUPTED_BODY,
    REQUEST_TIMEOUT,
    BODY_TOO_LARGE,
    EVENT_TOO_LARGE,
    SIGNAL_TOO_LARGE,
    ITEM_TOO_LARGE,
    DATASET_TOO_LARGE,
    URI_TOO_LONG,
    UNSUPPORTED_MEDIA_TYPE,
    HEADERS_TOO_LARGE,
    UNAUTHENTICATED,
    FORBIDDEN,
    CSRF_REFUSED,
    TENANT_SUSPENDED,
    TENANT_DELETED,
    NOT_FOUND,
    ROUTE_NOT_FOUND,
    METHOD_NOT_ALLOWED,
    CONFLICT,
    VERSION_EXISTS,
    BUSINESS_KEY_TAKEN,
    INSTANCE_EXISTS,
    TENANT_EXISTS,
    TENANT_NOT_ALLOWED_NOW,
    OWN_TENANT,
    NOT_ALLOWED_NOW,
    INSTANCE_ENDED,
    DOES_NOT_FIT,
    DEFINITION_UNUSABLE,
    TURN_FAILED,
    SCHEDULE_ENDED,
    BATCH_ENDED,
    DEV_CLOCK_OFF,
    TASK_ENDED,
    TASK_CLAIMED,
    TASK_NOT_CLAIMED,
    TASK_NOT_AWAITED,
    TASK_BUSY,
    WORKER_EXISTS,
    DELIVERY_LOST,
    WATERMARK_MOVED,
    SECRETS_DISABLED,
    AUDIT_BROKEN,
    RECORD_EXISTS,
    RECORD_CYCLE,
    RECORD_HAS_CHILDREN,
    RECORD_KIND_IN_USE,
    RECORD_FORBIDDEN,
    RECORD_INVALID,
    RECORD_KIND_UNKNOWN,
    RECORD_PARENT_UNKNOWN,
    RECORD_TOO_DEEP,
    ACL_INVALID,
    STALE,
    DEFINITION_INVALID,
    DEFINITION_UNSUPPORTED,
    TASK_RESULT_INVALID,
    INVALID_EVENT,
    EVENT_DATA_INVALID,
    EVENT_LOOP,
    SCHEMA_INVALID,
    BAD_CLOCK,
    DEFINITION_NOT_ALLOWED,
    REFUSED_BY_STORE,
    IDEMPOTENCY_KEY_REUSED,
    TENANT_DEGRADED,
    TOO_MANY_OPEN,
    TOO_MANY_STARTS,
    BUSY,
    INTERNAL,
    UNAVAILABLE,
    NOT_READY,
    OUTCOME_UNKNOWN,
    STORE_FULL,
];

/// The code with this word, if there is one.
pub fn by_word(word: &str) -> Option<Code> {
    ALL.iter().copied().find(|code| code.word == word)
}

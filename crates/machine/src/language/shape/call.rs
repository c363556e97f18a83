//! The shapes of `with`, one per protocol that `call` knows.

use super::{
    super::lower::SAGA,
    Record,
    Shape::{
        self, Any, Duration, Flag, Host, Integer, List, Map, Members, Object, Text, TextOr, Word, Wrapped,
        WrappedOr,
    },
    optional,
    part::{AUTHENTICATION_USE, ENDPOINT, ITERATOR, RESOURCE, RETRY},
    record, required,
};

/// The protocols `call` names itself; every other name is a function.
/// Functions of the engine whose arguments are looked at before anything is deployed stand here too.
pub(super) static PROTOCOLS: [(&str, &Record); 7] = [
    ("asyncapi", &ASYNCAPI),
    ("grpc", &GRPC),
    ("http", &HTTP),
    ("openapi", &OPENAPI),
    ("a2a", &A2A),
    ("mcp", &MCP),
    (SAGA, &SAGA_WITH),
];

const OUTPUTS: Shape = Word(&["raw", "content", "response"]);

static HTTP: Record = record(&[
    required("method", Text),
    required("endpoint", ENDPOINT),
    optional("headers", WrappedOr(&Map(&Text))),
    optional("body", Any),
    optional("query", WrappedOr(&Map(&Text))),
    optional("output", OUTPUTS),
    optional("redirect", Flag),
]);

static SAGA_WITH: Record = record(&[required("steps", Shape::Items(&Shape::Record(&SAGA_STEP)))]);
static SAGA_STEP: Record = record(&[
    required("name", Shape::Name),
    required("do", Shape::Name),
    optional("undo", Shape::Name),
    optional("with", Any),
    optional("pivot", Flag),
    optional("retry", TextOr(&Shape::Record(&RETRY))),
]);

static OPENAPI: Record = record(&[
    required("document", Shape::Record(&RESOURCE)),
    required("operationId", Text),
    optional("parameters", Object),
    optional("authentication", Shape::Record(&AUTHENTICATION_USE)),
    optional("output", OUTPUTS),
    optional("redirect", Flag),
]);

static GRPC: Record = record(&[
    required("proto", Shape::Record(&RESOURCE)),
    required("service", Shape::Record(&GRPC_SERVICE)),
    required("method", Text),
    optional("arguments", Object),
]);

static GRPC_SERVICE: Record = record(&[
    required("name", Text),
    required("host", Host),
    optional("port", Integer(0, 65535)),
    optional("authentication", Shape::Record(&AUTHENTICATION_USE)),
]);

static ASYNCAPI: Record = record(&[
    required("document", Shape::Record(&RESOURCE)),
    optional("channel", Text),
    optional("operation", Text),
    optional("server", Shape::Record(&ASYNCAPI_SERVER)),
    optional(
        "protocol",
        Word(&[
            "amqp",
            "amqp1",
            "anypointmq",
            "googlepubsub",
            "http",
            "ibmmq",
            "jms",
            "kafka",
            "mercure",
            "mqtt",
            "mqtt5",
            "nats",
            "pulsar",
            "redis",
            "sns",
            "solace",
            "sqs",
            "stomp",
            "ws",
        ]),
    ),
    optional("message", Shape::Record(&ASYNCAPI_MESSAGE)),
    optional("subscription", Shape::Record(&ASYNCAPI_SUBSCRIPTION)),
    optional("authentication", Shape::Record(&AUTHENTICATION_USE)),
])
.choose(&[&["operation", "channel"], &["message", "subscription"]]);

static ASYNCAPI_SERVER: Record = record(&[required("name", Text), optional("variables", Object)]);
static ASYNCAPI_MESSAGE: Record = record(&[optional("payload", Object), optional("headers", Object)]);

static ASYNCAPI_SUBSCRIPTION: Record = record(&[
    optional("filter", Wrapped),
    required("consume", Shape::Record(&ASYNCAPI_CONSUME)),
    optional("foreach", Shape::Record(&ITERATOR)),
]);

static ASYNCAPI_CONSUME: Record = record(&[
    optional("for", Duration),
    optional("amount", Integer(1, u32::MAX as i64)),
    optional("while", Wrapped),
    optional("until", Wrapped),
])
.choose(&[&["amount", "while", "until"]]);

static A2A: Record = record(&[
    optional("agentCard", Shape::Record(&RESOURCE)),
    optional("server", ENDPOINT),
    required(
        "method",
        Word(&[
            "message/send",
            "message/stream",
            "tasks/get",
            "tasks/list",
            "tasks/cancel",
            "tasks/resubscribe",
            "tasks/pushNotificationConfig/set",
            "tasks/pushNotificationConfig/get",
            "tasks/pushNotificationConfig/list",
            "tasks/pushNotificationConfig/delete",
            "agent/getAuthenticatedExtendedCard",
        ]),
    ),
    optional("parameters", TextOr(&Members)),
]);

static MCP: Record = record(&[
    optional("protocolVersion", Text),
    required(
        "method",
        Word(&[
            "tools/list",
            "tools/call",
            "prompts/list",
            "prompts/get",
            "resources/list",
            "resources/read",
            "resources/templates/list",
        ]),
    ),
    optional("parameters", TextOr(&Object)),
    optional("timeout", Duration),
    required("transport", Shape::Record(&MCP_TRANSPORT)),
    optional("client", Shape::Record(&MCP_CLIENT)),
]);

static MCP_TRANSPORT: Record = record(&[
    optional("http", Shape::Record(&MCP_HTTP)),
    optional("stdio", Shape::Record(&MCP_STDIO)),
    optional("options", Map(&Text)),
])
.choose(&[&["http", "stdio"]]);

static MCP_HTTP: Record = record(&[required("endpoint", ENDPOINT), optional("headers", Map(&Text))]);
static MCP_STDIO: Record = record(&[
    required("command", Text),
    optional("arguments", List(&Text)),
    optional("environment", Map(&Text)),
]);
static MCP_CLIENT: Record =
    record(&[optional("description", Text), required("name", Text), required("version", Text)]);

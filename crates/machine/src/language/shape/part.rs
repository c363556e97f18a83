//! The shapes that several kinds of task share: data flow, durations, endpoints, errors, retries, events.

use super::{
    Record,
    Shape::{
        self, Any, Duration, Expression, Factor, FixedDuration, Integer, List, Map, Name, Object,
        PointerOrWrapped, SecretOr, Tasks, Text, TextOr, TimeOrWrapped, Uri, UriOr, UriOrWrapped, Word,
        WrappedOr,
    },
    optional, record, required,
};

pub(super) static INPUT: Record =
    record(&[optional("schema", Shape::Record(&SCHEMA)), optional("from", TextOr(&Object))]);
pub(super) static OUTPUT: Record =
    record(&[optional("schema", Shape::Record(&SCHEMA)), optional("as", TextOr(&Object))]);
pub(super) static EXPORT: Record =
    record(&[optional("schema", Shape::Record(&SCHEMA)), optional("as", TextOr(&Object))]);

static SCHEMA: Record = record(&[
    optional("format", Text),
    optional("document", Any),
    optional("resource", Shape::Record(&RESOURCE)),
])
.choose(&[&["document", "resource"]]);

pub(super) static RESOURCE: Record = record(&[optional("name", Text), required("endpoint", ENDPOINT)]);

pub(super) static TIMEOUT: Record = record(&[required("after", Duration)]);

pub(super) const ENDPOINT: Shape = WrappedOr(&UriOr(&Shape::Record(&ENDPOINT_OBJECT)));

static ENDPOINT_OBJECT: Record =
    record(&[required("uri", UriOrWrapped), optional("authentication", Shape::Record(&AUTHENTICATION_USE))]);

const BASIC: Shape = SecretOr(&CREDENTIALS);
const BEARER: Shape = SecretOr(&TOKEN);
const OAUTH2: Shape = SecretOr(&OAUTH2_PROPERTIES);
const OIDC: Shape = SecretOr(&OIDC_PROPERTIES);

/// An authentication policy where it is declared.
pub(super) static AUTHENTICATION: Record = record(&[
    optional("basic", BASIC),
    optional("bearer", BEARER),
    optional("digest", BASIC),
    optional("oauth2", OAUTH2),
    optional("oidc", OIDC),
])
.choose(&[&["basic", "bearer", "digest", "oauth2", "oidc"]]);

/// An authentication policy where it is used: declared on the spot, or by name.
pub(super) static AUTHENTICATION_USE: Record = record(&[
    optional("use", Name),
    optional("basic", BASIC),
    optional("bearer", BEARER),
    optional("digest", BASIC),
    optional("oauth2", OAUTH2),
    optional("oidc", OIDC),
])
.choose(&[&["use", "basic", "bearer", "digest", "oauth2", "oidc"]]);

pub(super) static SECRET: Record = record(&[required("use", Name)]);
static CREDENTIALS: Record = record(&[required("username", Text), required("password", Text)]);
static TOKEN: Record = record(&[required("token", Text)]);

static OAUTH2_PROPERTIES: Record = record(&[
    optional("endpoints", Shape::Record(&OAUTH2_ENDPOINTS)),
    optional("authority", Uri),
    optional("grant", Word(GRANTS)),
    optional("client", Shape::Record(&OAUTH2_CLIENT)),
    optional("request", Shape::Record(&OAUTH2_REQUEST)),
    optional("issuers", List(&Text)),
    optional("scopes", List(&Text)),
    optional("audiences", List(&Text)),
    optional("username", Text),
    optional("password", Text),
    optional("subject", Shape::Record(&OAUTH2_TOKEN)),
    optional("actor", Shape::Record(&OAUTH2_TOKEN)),
]);

static OIDC_PROPERTIES: Record = record(&[
    optional("authority", Uri),
    optional("grant", Word(GRANTS)),
    optional("client", Shape::Record(&OAUTH2_CLIENT)),
    optional("request", Shape::Record(&OAUTH2_REQUEST)),
    optional("issuers", List(&Text)),
    optional("scopes", List(&Text)),
    optional("audiences", List(&Text)),
    optional("username", Text),
    optional("password", Text),
    optional("subject", Shape::Record(&OAUTH2_TOKEN)),
    optional("actor", Shape::Record(&OAUTH2_TOKEN)),
]);

const GRANTS: &[&str] = &[
    "authorization_code",
    "client_credentials",
    "password",
    "refresh_token",
    "urn:ietf:params:oauth:grant-type:token-exchange",
];

static OAUTH2_ENDPOINTS: Record =
    record(&[optional("token", Text), optional("revocation", Text), optional("introspection", Text)]);

static OAUTH2_CLIENT: Record = record(&[
    optional("id", Text),
    optional("secret", Text),
    optional("assertion", Text),
    optional(
        "authentication",
        Word(&["client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt", "none"]),
    ),
]);

static OAUTH2_REQUEST: Record =
    record(&[optional("encoding", Word(&["application/x-www-form-urlencoded", "application/json"]))]);

static OAUTH2_TOKEN: Record = record(&[required("token", Text), required("type", Text)]);

/// An HTTP status code.
const STATUS: Shape = Integer(100, 599);

pub(super) static ERROR: Record = record(&[
    required("type", UriOrWrapped),
    required("status", STATUS),
    optional("instance", PointerOrWrapped),
    optional("title", Text),
    optional("detail", Text),
]);

/// `details` is the schema's spelling, `detail` that of the error itself.
pub(super) static ERROR_FILTER: Record = record(&[
    optional("type", Text),
    optional("status", STATUS),
    optional("instance", Text),
    optional("title", Text),
    optional("detail", Text),
    optional("details", Text),
])
.some();

pub(super) static RETRY: Record = record(&[
    optional("when", Expression),
    optional("exceptWhen", Expression),
    optional("delay", Duration),
    optional("backoff", Shape::Record(&BACKOFF)),
    optional("limit", Shape::Record(&LIMIT)),
    optional("jitter", Shape::Record(&JITTER)),
]);

static BACKOFF: Record = record(&[
    optional("constant", Shape::Record(&NO_PARAMETERS)),
    optional("linear", Shape::Record(&NO_PARAMETERS)),
    optional("exponential", Shape::Record(&EXPONENTIAL)),
])
.choose(&[&["constant", "linear", "exponential"]]);

static NO_PARAMETERS: Record = record(&[]);
static EXPONENTIAL: Record = record(&[optional("factor", Factor), optional("maxDelay", FixedDuration)]);
static LIMIT: Record =
    record(&[optional("attempt", Shape::Record(&ATTEMPT)), optional("duration", Duration)]);
static ATTEMPT: Record =
    record(&[optional("count", Integer(0, u32::MAX as i64)), optional("duration", Duration)]);
static JITTER: Record = record(&[required("from", Duration), required("to", Duration)]);

/// How events are consumed: `one`, `any` (which may carry `until`) or `all`.
pub(super) static STRATEGY: Record = record(&[
    optional("one", Shape::Record(&FILTER)),
    optional("any", List(&Shape::Record(&FILTER))),
    optional("all", List(&Shape::Record(&FILTER))),
    optional("until", TextOr(&Shape::Record(&STRATEGY_PLAIN))),
])
.choose(&[&["one", "any", "all"]]);

static STRATEGY_PLAIN: Record = record(&[
    optional("one", Shape::Record(&FILTER)),
    optional("any", List(&Shape::Record(&FILTER))),
    optional("all", List(&Shape::Record(&FILTER))),
])
.choose(&[&["one", "any", "all"]]);

static FILTER: Record = record(&[
    required("with", Shape::Record(&EVENT_WANTED)),
    optional("correlate", Map(&Shape::Record(&CORRELATION))),
]);

static CORRELATION: Record = record(&[required("from", Expression), optional("expect", Text)]);

static EVENT_WANTED: Record = record(&[
    optional("id", Text),
    optional("source", UriOrWrapped),
    optional("type", Text),
    optional("time", TimeOrWrapped),
    optional("subject", Text),
    optional("datacontenttype", Text),
    optional("dataschema", UriOrWrapped),
    optional("data", Any),
])
.open()
.some();

pub(super) static EVENT_EMITTED: Record = record(&[
    optional("id", Text),
    required("source", UriOrWrapped),
    required("type", Text),
    optional("time", TimeOrWrapped),
    optional("subject", Text),
    optional("datacontenttype", Text),
    optional("dataschema", UriOrWrapped),
    optional("data", Any),
])
.open();

/// `foreach`: what to do with each consumed event or message.
pub(super) static ITERATOR: Record = record(&[
    optional("item", Text),
    optional("at", Text),
    optional("do", Tasks),
    optional("output", Shape::Record(&OUTPUT)),
    optional("export", Shape::Record(&EXPORT)),
]);

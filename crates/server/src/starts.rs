//! Starting an instance, and what every start is read from.

use crate::{
    app::{App, detached},
    auth::Caller,
    body::{self, Fields},
    code, definitions,
    instances::DefinitionRef,
    problem::{Problem, ProblemBody},
    query::{self, NoParameters},
    refusal::instance_address,
    wire::Stored,
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use machine::{
    Data,
    id::{self, Kind},
};
use runtime::api::Start;
use serde::Serialize;
use utoipa::ToSchema;

/// The longest business key.
const KEY_BYTES_MAX: usize = 255;
const CORRELATION_BYTES_MAX: usize = 128;
const TRACESTATE_BYTES_MAX: usize = 512;
/// Says that the answer is that of an earlier request with the same idempotency key.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What to start.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct StartRequest {
    definition: DefinitionRef,
    /// Any JSON value.
    input: Option<Stored>,
    /// Business key: at most one open instance of the tenant holds it.
    #[schema(max_length = 255)]
    key: Option<String>,
    /// What the business key is made of, by name; instances can be listed by each part.
    parts: Option<std::collections::BTreeMap<String, String>>,
}

/// A started instance.
#[derive(Serialize, ToSchema)]
pub(crate) struct Started {
    pub id: String,
}

/// Starts an instance. With `Idempotency-Key`, asking again answers the same instance.
#[utoipa::path(
    post, path = "/api/v1/instances", tag = "instances", operation_id = "start_instance",
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible characters")),
    request_body = StartRequest,
    responses(
        (status = 201, description = "started and durable", body = Started),
        (status = 404, description = "no such definition", body = ProblemBody),
        (status = 409, description = "an open instance holds the key; Location names it", body = ProblemBody),
        (status = 422, description = "the idempotency key was used for another request", body = ProblemBody),
        (status = 429, description = "too much work is queued; Retry-After says when", body = ProblemBody),
    )
)]
pub(crate) async fn start(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    headers: HeaderMap,
    body: body::Json,
) -> Result<Response, Problem> {
    let mut start = read_start(&body.fields(START_KEYS)?)?;
    start.idempotency_key = query::idempotency_key(&headers)?;
    trace(&mut start, &headers)?;
    let started =
        detached(app.answer_max(), async move { Ok(app.handle.start(&caller.tenant, start).await?) }).await?;
    let location = [(header::LOCATION, instance_address(started.id))];
    let body = Json(Started { id: id::show(Kind::Instance, started.id) });
    let mut response = (StatusCode::CREATED, location, body).into_response();
    if started.replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// One start, from the object that asks for it.
pub(crate) fn read_start(fields: &Fields) -> Result<Start, Problem> {
    Ok(Start {
        definition: definitions::reference(fields)?,
        input: fields.value("input").unwrap_or(Data::NULL),
        business_parts: parts(fields)?,
        business_key: fields.text("key", KEY_BYTES_MAX)?,
        idempotency_key: None,
        traceparent: None,
        tracestate: None,
        correlation_id: None,
        id: None,
    })
}

/// The members of the object that asks for a start.
pub(crate) const START_KEYS: &[&str] = &["definition", "input", "key", "parts"];

/// The parts of the business key, each a short text.
fn parts(fields: &Fields) -> Result<Vec<(String, String)>, Problem> {
    const PARTS_MAX: usize = 16;
    const PART_BYTES_MAX: usize = 255;
    let Some(value) = fields.value("parts") else { return Ok(vec![]) };
    let place = fields.place("parts");
    let refused = |detail: &str| Problem::at(code::INVALID_VALUE, place.clone(), detail.to_owned());
    let entries = value.entries().ok_or_else(|| refused("this must be an object of texts"))?;
    if fields.value("key").is_none() {
        return Err(refused("parts belong to a business key: give `key` too"));
    }
    if entries.len() > PARTS_MAX {
        return Err(refused("a business key has at most 16 parts"));
    }
    let part = |(name, value): (String, Data)| match value.as_str() {
        Some(text) if is_part_name(&name) && (1..=PART_BYTES_MAX).contains(&text.len()) => {
            Ok((name, text.to_owned()))
        }
        _ => {
            Err(refused("each part is a text of 1 to 255 bytes under a name of letters, digits, `_` and `-`"))
        }
    };
    entries.into_iter().map(part).collect()
}

/// Names of parts stand in addresses and in paths into JSON.
pub(crate) fn is_part_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(plain)
}

/// Notes whom the start belongs to, as the caller's tracing sees it.
pub(crate) fn trace(start: &mut Start, headers: &HeaderMap) -> Result<(), Problem> {
    start.traceparent = traceparent(headers);
    // It means something only beside a parent; one that is too long may be dropped, says the standard.
    let state = headers.get("tracestate").and_then(|state| state.to_str().ok());
    let state = state.filter(|state| (1..=TRACESTATE_BYTES_MAX).contains(&state.len()));
    start.tracestate = start.traceparent.as_ref().and(state).map(str::to_owned);
    start.correlation_id = query::header(headers, "correlation-id", CORRELATION_BYTES_MAX)?;
    Ok(())
}

/// The W3C trace parent; one that is malformed is ignored, as that standard demands.
fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let [version, trace, parent, flags] = parts.as_slice() else { return None };
    let is_valid = *version == "00"
        && is_hex(trace, 32)
        && is_hex(parent, 16)
        && is_hex(flags, 2)
        && trace.bytes().any(|b| b != b'0')
        && parent.bytes().any(|b| b != b'0');
    is_valid.then(|| text.to_owned())
}

//! What can be told to an instance: signals, and the orders of an operator.

use crate::{
    app::{App, detached},
    auth::Caller,
    body::{self, Nothing},
    code, etag,
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    wire::{Status, Stored},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
};
use machine::{
    Data,
    id::{self, Kind},
};
use runtime::api::{Order, Signal};
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use uuid::Uuid;

/// The longest name of a signal.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// An accepted signal.
#[derive(Serialize, ToSchema)]
pub(crate) struct Accepted {
    id: String,
}

/// Sends a signal: an event of type `name` to the instance's `listen` steps. Sending again with the same
/// `Signal-Id` or `Idempotency-Key` has no second effect.
#[utoipa::path(
    post, path = "/api/v1/instances/{id}/signals/{name}", tag = "instances", operation_id = "signal_instance",
    params(
        ("id" = String, Path), ("name" = String, Path),
        ("Signal-Id" = Option<String>, Header, description = "the sender's own id, a UUID"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible characters"),
    ),
    request_body(content = Stored, description = "any JSON value"),
    responses(
        (status = 202, description = "accepted and durable", body = Accepted),
        (status = 404, description = "no such instance", body = ProblemBody),
        (status = 409, description = "the instance has ended", body = ProblemBody),
    )
)]
pub(crate) async fn signal(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    headers: HeaderMap,
    Named((text, name)): Named<(String, String)>,
    body: body::Json,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let instance = query::path_id(Kind::Instance, &text)?;
    check_name(&name)?;
    let id = signal_id(&headers, &caller, instance)?;
    let signal = Signal { name, data: body.0.unwrap_or(Data::NULL), id };
    let id =
        detached(
            app.answer_max(),
            async move { Ok(app.handle.signal(&caller.tenant, instance, signal).await?) },
        )
        .await?;
    Ok((StatusCode::ACCEPTED, Json(Accepted { id: id::show(Kind::Signal, id) })))
}

/// Sends a signal to the instance that gave out the token (`signal-token:1.0.0@default`); no key is needed. The body
/// is the signal's data, and the token is added to it.
#[utoipa::path(
    post, path = "/api/v1/signals/{token}", tag = "instances", operation_id = "signal_by_token",
    security(()),
    params(
        ("token" = String, Path),
        ("name" = Option<String>, Query, description = "the event's type; `signal` unless given"),
        ("Signal-Id" = Option<String>, Header, description = "the sender's own id, a UUID"),
    ),
    request_body(content = Stored, description = "any JSON value"),
    responses(
        (status = 202, description = "accepted and durable", body = Accepted),
        (status = 404, description = "no such token", body = ProblemBody),
        (status = 409, description = "the instance has ended", body = ProblemBody),
    )
)]
pub(crate) async fn signal_by_token(
    State(app): State<App>,
    uri: Uri,
    headers: HeaderMap,
    Named(token): Named<String>,
    body: body::Json,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let parameters = Parameters::read(&uri, &["name"])?;
    let name = parameters.owned("name").unwrap_or_else(|| "signal".to_owned());
    check_name(&name)?;
    let signal = Signal { name, data: body.0.unwrap_or(Data::NULL), id: given_id(&headers)? };
    let id = detached(app.answer_max(), async move { Ok(app.handle.signal_by_token(&token, signal).await?) })
        .await?;
    Ok((StatusCode::ACCEPTED, Json(Accepted { id: id::show(Kind::Signal, id) })))
}

fn check_name(name: &str) -> Result<(), Problem> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let detail = format!("a signal's name is 1 to {NAME_BYTES_MAX} bytes without control characters");
        return Err(Problem::new(code::INVALID_ID, detail));
    }
    Ok(())
}

fn given_id(headers: &HeaderMap) -> Result<Option<Uuid>, Problem> {
    const ID_BYTES_MAX: usize = 64;
    let Some(text) = query::header(headers, "signal-id", ID_BYTES_MAX)? else { return Ok(None) };
    let id = id::parse(Kind::Signal, &text);
    id.map(Some).map_err(|error| Problem::at(code::INVALID_HEADER, "signal-id", error.to_string()))
}

/// The sender's id: given, or derived from the idempotency key so that the same key is the same signal.
fn signal_id(headers: &HeaderMap, caller: &Caller, instance: Uuid) -> Result<Option<Uuid>, Problem> {
    if let Some(id) = given_id(headers)? {
        return Ok(Some(id));
    }
    let Some(key) = query::idempotency_key(headers)? else { return Ok(None) };
    let mut hash = Sha256::new();
    hash.update(caller.tenant.as_str());
    hash.update([0]);
    hash.update(instance.as_bytes());
    hash.update(key.as_bytes());
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Ok(Some(uuid::Builder::from_custom_bytes(bytes).into_uuid()))
}

/// Ends the instance; what it waits for is dropped.
#[utoipa::path(
    post, path = "/api/v1/instances/{id}/cancel", tag = "instances", operation_id = "cancel_instance",
    params(
        ("id" = String, Path),
        ("If-Match" = Option<String>, Header, description = "only if the instance is at the version of this ETag"),
    ),
    responses(
        (status = 200, description = "the status afterwards", body = Status),
        (status = 404, description = "no such instance", body = ProblemBody),
        (status = 409, description = "its state does not allow this", body = ProblemBody),
        (status = 412, description = "the instance has changed", body = ProblemBody),
    )
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Named(text): Named<String>,
    _: Nothing,
) -> Result<Json<Status>, Problem> {
    order(app, caller, &headers, text, Order::Cancel).await
}

/// Holds the instance: nothing new begins until it is resumed.
#[utoipa::path(
    post, path = "/api/v1/instances/{id}/pause", tag = "instances", operation_id = "pause_instance",
    params(
        ("id" = String, Path),
        ("If-Match" = Option<String>, Header, description = "only if the instance is at the version of this ETag"),
    ),
    responses(
        (status = 200, description = "the status afterwards", body = Status),
        (status = 404, description = "no such instance", body = ProblemBody),
        (status = 409, description = "its state does not allow this", body = ProblemBody),
        (status = 412, description = "the instance has changed", body = ProblemBody),
    )
)]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Named(text): Named<String>,
    _: Nothing,
) -> Result<Json<Status>, Problem> {
    order(app, caller, &headers, text, Order::Pause).await
}

/// Lets a paused instance go on.
#[utoipa::path(
    post, path = "/api/v1/instances/{id}/resume", tag = "instances", operation_id = "resume_instance",
    params(
        ("id" = String, Path),
        ("If-Match" = Option<String>, Header, description = "only if the instance is at the version of this ETag"),
    ),
    responses(
        (status = 200, description = "the status afterwards", body = Status),
        (status = 404, description = "no such instance", body = ProblemBody),
        (status = 409, description = "its state does not allow this", body = ProblemBody),
        (status = 412, description = "the instance has changed", body = ProblemBody),
    )
)]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Named(text): Named<String>,
    _: Nothing,
) -> Result<Json<Status>, Problem> {
    order(app, caller, &headers, text, Order::Resume).await
}

/// Does the faulted step of an instance again.
#[utoipa::path(
    post, path = "/api/v1/instances/{id}/retry", tag = "instances", operation_id = "retry_instance",
    params(
        ("id" = String, Path),
        ("If-Match" = Option<String>, Header, description = "only if the instance is at the version of this ETag"),
    ),
    responses(
        (status = 200, description = "the status afterwards", body = Status),
        (status = 404, description = "no such instance", body = ProblemBody),
        (status = 409, description = "its state does not allow this", body = ProblemBody),
        (status = 412, description = "the instance has changed", body = ProblemBody),
    )
)]
pub(crate) async fn retry(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Named(text): Named<String>,
    _: Nothing,
) -> Result<Json<Status>, Problem> {
    order(app, caller, &headers, text, Order::Retry).await
}

async fn order(
    app: App,
    caller: Caller,
    headers: &HeaderMap,
    text: String,
    order: Order,
) -> Result<Json<Status>, Problem> {
    let id = query::path_id(Kind::Instance, &text)?;
    let expected = etag::if_match(headers)?;
    let answer_max = app.answer_max();
    let asked =
        async move { Ok(app.handle.order_at(&caller.tenant, id, order, &caller.actor, expected).await?) };
    Ok(Json(Status { status: detached(answer_max, asked).await? }))
}

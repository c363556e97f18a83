//! Starting many instances with one request. Each item is answered by itself; a bad one does not spoil the others.

use crate::{
    app::{App, detached},
    auth::Caller,
    body::{self, Fields},
    code,
    frame::RequestId,
    instances,
    problem::{Problem, ProblemBody},
    query::{self, IDEMPOTENCY_KEY_BYTES_MAX, Parameters},
    starts,
};
use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use machine::{
    Data,
    id::{self, Kind},
};
use runtime::api::Start;
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

/// The most items of one request.
pub(crate) const ITEMS_MAX: usize = 1000;

/// What to start.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct BulkRequest {
    #[schema(max_items = 1000)]
    items: Vec<BulkItem>,
}

/// One start.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct BulkItem {
    #[schema(inline)]
    #[allow(dead_code, reason = "describes the body")]
    definition: instances::DefinitionRef,
    /// Any JSON value.
    input: Option<crate::wire::Stored>,
    /// Business key.
    key: Option<String>,
    /// As the header of the same name does for a single start.
    idempotency_key: Option<String>,
}

/// One answer per item, in order.
#[derive(Serialize, ToSchema)]
pub(crate) struct BulkAnswer {
    items: Vec<ItemAnswer>,
}

/// How one item ended.
#[derive(Serialize, ToSchema)]
pub(crate) struct ItemAnswer {
    /// The HTTP status this item would have had alone.
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// True if an earlier request with the same idempotency key started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProblemBody>)]
    problem: Option<serde_json::Value>,
    /// The address of the instance that is in the way, as the header of the same name has it for a single start.
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<String>,
}

/// Starts up to 1000 instances. `Idempotency-Key` makes the whole request repeatable: sent again, it answers the same
/// instances. An item may carry its own key. Of items with the same business key the first gets it.
#[utoipa::path(
    post, path = "/api/v1/instances/bulk", tag = "instances", operation_id = "start_instances",
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible characters")),
    request_body = BulkRequest,
    responses(
        (status = 200, description = "one answer per item, in order", body = BulkAnswer),
        (status = 422, description = "the idempotency key was used for another request", body = ProblemBody),
    )
)]
pub(crate) async fn start(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    Parameters::read(request.uri(), &[])?;
    let headers = request.headers().clone();
    let request_id = request.extensions().get::<RequestId>().cloned().unwrap_or_default();
    let request_key = query::idempotency_key(&headers)?;
    let body = body::Json::read(request, app.options.bulk_bytes_max, &app.options).await?;
    let keyed = request_key.as_ref().map(|key| (hashed(key), body_hash(&body)));
    let items = body.fields(&["items"])?.items("items", ITEMS_MAX)?;
    if items.is_empty() {
        return Err(Problem::at(code::INVALID_VALUE, "/items", "at least one item is needed"));
    }
    let mut parsed: Vec<Result<Start, Problem>> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let mut start = read_item(item, index, request_key.as_deref());
        if let Ok(start) = &mut start {
            starts::trace(start, &headers)?;
        }
        parsed.push(start);
    }
    let (items, known) = detached(app.answer_max(), async move {
        let known = match keyed {
            Some((key, hash)) => app.handle.note_request(&caller.tenant, &key, hash).await?,
            None => false,
        };
        Ok((start_all(&app, &caller, &request_id, parsed).await, known))
    })
    .await?;
    // A request that was cut off the first time is finished now: that is no mere repetition.
    let replayed = known && items.iter().all(|item| item.replayed != Some(false));
    let mut response = Json(BulkAnswer { items }).into_response();
    if replayed {
        response.headers_mut().insert(starts::REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn body_hash(body: &body::Json) -> Vec<u8> {
    Sha256::digest(body.0.as_ref().map(Data::to_bytes).unwrap_or_default()).to_vec()
}

fn read_item(item: &Data, index: usize, request_key: Option<&str>) -> Result<Start, Problem> {
    let known = ["definition", "input", "key", "parts", "idempotency_key"];
    let fields = Fields::new(item, &format!("/items/{index}"), &known)?;
    let mut start = starts::read_start(&fields)?;
    let own_key = fields.text("idempotency_key", IDEMPOTENCY_KEY_BYTES_MAX)?;
    start.idempotency_key = own_key.or_else(|| request_key.map(|key| item_key(key, index)));
    Ok(start)
}

/// The request's key made an item's own.
fn item_key(request_key: &str, index: usize) -> String {
    format!("{}:{index}", hashed(request_key))
}

/// The request's key among those of single starts. Hashed so that a long key and an index stay within the limit.
fn hashed(request_key: &str) -> String {
    let digest = Sha256::digest(request_key.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("bulk:{hex}")
}

async fn start_all(
    app: &App,
    caller: &Caller,
    request_id: &RequestId,
    parsed: Vec<Result<Start, Problem>>,
) -> Vec<ItemAnswer> {
    let starts: Vec<Start> = parsed.iter().filter_map(|item| item.as_ref().ok().cloned()).collect();
    let mut answers = app.handle.start_many(&caller.tenant, starts).await.into_iter();
    let mut items = Vec::with_capacity(parsed.len());
    for item in parsed {
        let answer = match item {
            Err(problem) => Err(problem),
            Ok(_) => match answers.next() {
                Some(answer) => answer.map_err(Problem::from),
                None => Err(Problem::internal("the runtime answered fewer starts than were asked")),
            },
        };
        if let Err(problem) = &answer {
            problem.log(&request_id.0);
        }
        items.push(match answer {
            Ok(started) => ItemAnswer {
                status: 201,
                id: Some(id::show(Kind::Instance, started.id)),
                replayed: Some(started.replayed),
                problem: None,
                location: None,
            },
            Err(problem) => ItemAnswer {
                status: problem.code.status,
                id: None,
                replayed: None,
                problem: serde_json::to_value(problem.body(None, None)).ok(),
                location: problem.header(&header::LOCATION).map(str::to_owned),
            },
        });
    }
    items
}

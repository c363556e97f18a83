//! Datasets: items of fan-outs, taken in as a stream of lines and read back page by page; results are read the same
//! way.

use crate::{
    app::{App, in_time},
    auth::Caller,
    body, code,
    page::{self, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    wire,
};
use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use bytes::BytesMut;
use futures_util::StreamExt;
use machine::{
    Data,
    id::{self, Kind},
};
use runtime::datasets::{ITEM_BYTES_MAX, Upload};
use serde::Serialize;
use store::datasets::DatasetRow;
use utoipa::ToSchema;

const MEDIA_TYPES: [&str; 3] = ["application/x-ndjson", "application/jsonl", "application/jsonlines"];

/// A dataset.
#[derive(Serialize, ToSchema)]
pub(crate) struct Dataset {
    /// Give this as `items` of a `map` step.
    id: String,
    /// How many items it has; of results, how many it will have.
    count: u64,
    created_at: String,
}

fn dataset_of(row: &DatasetRow) -> Dataset {
    Dataset { id: id::show(Kind::Dataset, row.id), count: row.count, created_at: wire::time(row.created_at) }
}

/// Takes a dataset in: one JSON value per line. It is there once the answer has come.
#[utoipa::path(
    post, path = "/api/v1/datasets", tag = "datasets", operation_id = "create_dataset",
    request_body(content = String, content_type = "application/x-ndjson"),
    responses(
        (status = 201, description = "all items are durable", body = Dataset),
        (status = 400, description = "a line is not acceptable JSON", body = ProblemBody),
        (status = 413, description = "an item or the dataset is too large", body = ProblemBody),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    request: Request,
) -> Result<Response, Problem> {
    let media_type = body::media_type(request.headers());
    if !MEDIA_TYPES.contains(&media_type.as_str()) {
        return Err(body::wrong_media_type(&media_type, MEDIA_TYPES[0]));
    }
    body::refuse_encoding(request.headers())?;
    let mut upload = app.handle.upload(&caller.tenant);
    let mut stream = request.into_body().into_data_stream();
    let mut rest = BytesMut::new();
    loop {
        let next = tokio::time::timeout(app.options.body_timeout, stream.next()).await;
        let chunk = match next {
            Err(_) => {
                return Err(Problem::new(
                    code::REQUEST_TIMEOUT,
                    "the next part of the body did not come in time",
                ));
            }
            Ok(Some(Err(_))) => {
                return Err(Problem::new(code::INTERRUPTED_BODY, "the body could not be read to its end"));
            }
            Ok(Some(Ok(chunk))) => chunk,
            Ok(None) => break,
        };
        rest.extend_from_slice(&chunk);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = rest.split_to(end + 1);
            in_time(app.answer_max(), push(&mut upload, &line[..end])).await??;
        }
        if rest.len() > ITEM_BYTES_MAX {
            let detail = format!("item {} has more than {ITEM_BYTES_MAX} bytes", upload.count());
            return Err(Problem::new(code::ITEM_TOO_LARGE, detail));
        }
    }
    in_time(app.answer_max(), push(&mut upload, &rest)).await??;
    let row = in_time(app.answer_max(), upload.finish()).await??;
    let location = format!("/api/v1/datasets/{}", id::show(Kind::Dataset, row.id));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(dataset_of(&row))).into_response())
}

/// Takes one line; an empty one is no item.
async fn push(upload: &mut Upload, line: &[u8]) -> Result<(), Problem> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(());
    }
    let at = format!("/{}", upload.count());
    let item = Data::parse(line).map_err(|error| Problem::at(code::INVALID_JSON, at, error.to_string()))?;
    Ok(upload.push(item).await?)
}

/// Reads a dataset.
#[utoipa::path(
    get, path = "/api/v1/datasets/{id}", tag = "datasets", operation_id = "get_dataset",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "the dataset", body = Dataset),
        (status = 404, description = "no such dataset", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
) -> Result<Json<Dataset>, Problem> {
    Ok(Json(dataset_of(&find(&app, &caller, &text).await?)))
}

async fn find(app: &App, caller: &Caller, text: &str) -> Result<DatasetRow, Problem> {
    let id = query::path_id(Kind::Dataset, text)?;
    let row = app.store().dataset(&caller.tenant, id).await?;
    row.ok_or_else(|| Problem::not_found("dataset"))
}

/// Lists the items of a dataset in order. Results that are not there yet are left out.
#[utoipa::path(
    get, path = "/api/v1/datasets/{id}/items", tag = "datasets", operation_id = "list_dataset_items",
    params(
        ("id" = String, Path),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses(
        (status = 200, description = "one page", body = Page<serde_json::Value>),
        (status = 404, description = "no such dataset", body = ProblemBody),
    )
)]
pub(crate) async fn items(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    Named(text): Named<String>,
) -> Result<Json<Page<serde_json::Value>>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)? as u64;
    let dataset = find(&app, &caller, &text).await?;
    let cursors = Cursors::new(&caller, &format!("dataset {}", dataset.id));
    let from = match cursors.read(&parameters)? {
        None => 0,
        Some(position) => u64::from_be_bytes(position.try_into().map_err(|_| page::refused())?),
    };
    let to = (from + limit).min(dataset.count);
    let items = app.handle.dataset_items(&caller.tenant, dataset.id, from, to).await?;
    let items = items.into_iter().map(|(_, item)| item.to_json()).collect();
    Ok(Json(Page { items, next: (to < dataset.count).then(|| cursors.write(&to.to_be_bytes())) }))
}

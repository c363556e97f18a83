//! What a cancel would undo now.

use crate::{
    app::App,
    auth::Caller,
    page::Page,
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters},
    wire::Stored,
};
use axum::{Json, extract::State};
use machine::id::Kind;
use serde::Serialize;
use utoipa::ToSchema;

/// One step of a saga that would be undone.
#[derive(Serialize, ToSchema)]
pub(crate) struct UndoItem {
    /// The saga, for example `/do/0/trip`.
    saga: String,
    /// The step's name in it.
    name: String,
    /// Where its undo is, for example `/do/0/trip/with/steps/0/undo`.
    step: String,
    /// What its `do` was given.
    input: Stored,
    /// What came of it.
    output: Stored,
    /// It is under way: nobody knows what it has done, so it would be undone too, with a null output.
    interrupted: bool,
    /// It is being undone already.
    undoing: bool,
}

/// Lists what would be undone if the instance were cancelled now, in order.
#[utoipa::path(
    get, path = "/api/v1/instances/{id}/compensation", tag = "instances", operation_id = "get_instance_compensation",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "the steps, first to be undone first; all on one page", body = Page<UndoItem>),
        (status = 404, description = "no such instance", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
) -> Result<Json<Page<UndoItem>>, Problem> {
    let id = query::path_id(Kind::Instance, &text)?;
    let undos = app.handle.compensation(&caller.tenant, id).await?;
    let items = undos.into_iter().map(|undo| UndoItem {
        saga: undo.saga,
        name: undo.name,
        step: undo.step,
        input: Stored::of(&undo.input.to_bytes()),
        output: Stored::of(&undo.output.to_bytes()),
        interrupted: undo.interrupted,
        undoing: undo.undoing,
    });
    Ok(Json(Page { items: items.collect(), next: None }))
}

//! The feed: the tenant's events in the order of their commits, for whoever follows them with a cursor of his own.
//!
//! Lists show what is there now, newest first; the feed is for readers that must not miss anything. They keep `next` and
//! come back with it.

use crate::{
    app::App,
    auth::Caller,
    events::{Event, event_of},
    page::{self, Cursors},
    problem::{Problem, ProblemBody},
    query::Parameters,
};
use axum::{Json, extract::State, http::Uri};
use serde::Serialize;
use store::feed::FeedCursor;
use utoipa::ToSchema;

/// Which parameter holds the cursor.
const AFTER: &str = "after";

/// An event of the feed.
#[derive(Serialize, ToSchema)]
pub(crate) struct FeedEvent {
    #[serde(flatten)]
    event: Event,
    /// Give this as `after` to go on behind this event.
    cursor: String,
}

/// One page of the feed.
#[derive(Serialize, ToSchema)]
pub(crate) struct FeedPage {
    items: Vec<FeedEvent>,
    /// Give this as `after` to go on; there on an empty page too, which says that nothing has followed yet.
    next: String,
}

/// Reads the events after a cursor, oldest first, in the order of their commits. What commits late comes late: nothing ever
/// appears before a cursor that was given out, so whoever keeps `next` and comes back with it misses no event. Events that
/// one instance emits come in the order in which it emitted them. Events are there until they expire, seven days unless
/// the operator keeps them longer.
#[utoipa::path(
    get, path = "/api/v1/feed", tag = "events", operation_id = "read_feed",
    params(
        ("after" = Option<String>, Query, description = "`next` of the page before, or an item's `cursor`; from the beginning unless given"),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
    ),
    responses(
        (status = 200, description = "one page", body = FeedPage),
        (status = 400, description = "the cursor is not one of this feed", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<FeedPage>, Problem> {
    let parameters = Parameters::read(&uri, &[AFTER, "limit"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "feed");
    let after = match cursors.read_from(&parameters, AFTER)? {
        Some(bytes) => FeedCursor::from_bytes(&bytes).ok_or_else(|| page::refused_at(AFTER))?,
        None => FeedCursor::default(),
    };
    let items = app.store().feed(&caller.tenant, after, limit).await?;
    let items = items.ok_or_else(|| page::refused_at(AFTER))?;
    let last = items.last().map_or(after, |item| item.cursor);
    let show = |cursor: FeedCursor| cursors.write(&cursor.to_bytes());
    let shown = items.iter().map(|item| FeedEvent { event: event_of(&item.row), cursor: show(item.cursor) });
    Ok(Json(FeedPage { items: shown.collect(), next: show(last) }))
}

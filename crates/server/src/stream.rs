//! The stream of changes: one SSE connection per client, filtered by its tenant and the topics it asks for.
//!
//! [`Feed`] keeps the latest changes, so that a client which reconnects with `Last-Event-ID` gets what it missed, or
//! `event: reset` when that is too long ago: then it must read the lists again. An event's id is the process' own
//! mark and the change's sequence, so an id of another process is noticed.

use crate::{
    access::{Access, Permission},
    app::App,
    auth::{self, Caller},
    code,
    problem::{Problem, excerpt},
    query::Parameters,
};
use axum::{
    extract::State,
    http::{HeaderMap, Uri},
    response::sse::{Event, KeepAlive, Sse},
};
use futures_util::{Stream, StreamExt, stream};
use machine::id::{self, Kind};
use runtime::api::Change;
use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{
    broadcast::{self, error::RecvError},
    watch,
};
use uuid::Uuid;

/// How many changes are kept for clients that come back.
const KEPT_MAX: usize = 4096;
/// How many changes a slow client may lag behind.
const LAG_MAX: usize = 1024;
const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// What goes to streams. `None` means that changes were missed.
type Note = Option<Change>;

/// The latest changes of this process.
pub(crate) struct Feed {
    state: Mutex<Kept>,
}

struct Kept {
    changes: VecDeque<Change>,
    notes: broadcast::Sender<Note>,
    is_fed: bool,
    /// Tells this process' ids from those of another.
    mark: u32,
}

/// What a new stream starts with.
struct Opening {
    missed: Vec<Change>,
    reset: bool,
    notes: broadcast::Receiver<Note>,
    mark: u32,
}

impl Feed {
    pub(crate) fn new() -> Feed {
        let mut mark = [0; 4];
        // Without randomness a client may be spared a reset it needs after a restart; it still sees new changes.
        if let Err(error) = getrandom::fill(&mut mark) {
            tracing::warn!(%error, "no randomness for the stream's mark");
        }
        let notes = broadcast::channel(LAG_MAX).0;
        let state = Kept { changes: VecDeque::new(), notes, is_fed: false, mark: u32::from_be_bytes(mark) };
        Feed { state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to collect, at the first stream.
    fn ensure_fed(app: &App) {
        let mut state = app.feed.lock();
        if !state.is_fed {
            state.is_fed = true;
            let stopped = app.stopping.clone();
            tokio::spawn(collect(app.feed.clone(), app.handle.changes(), stopped));
        }
    }

    fn note(&self, note: Note) {
        let mut state = self.lock();
        match &note {
            Some(change) => {
                if state.changes.len() == KEPT_MAX {
                    state.changes.pop_front();
                }
                state.changes.push_back(change.clone());
            }
            None => state.changes.clear(),
        }
        // Nobody listening is fine.
        state.notes.send(note).ok();
    }

    /// Subscribes and takes what was missed in one step, so that nothing falls between.
    fn open(&self, last_id: Option<&str>) -> Opening {
        let state = self.lock();
        let (missed, reset) = match last_id {
            None => (vec![], false),
            Some(last_id) => match state.since(last_id) {
                Some(missed) => (missed, false),
                None => (vec![], true),
            },
        };
        Opening { missed, reset, notes: state.notes.subscribe(), mark: state.mark }
    }
}

impl Kept {
    /// The changes after `last_id`, if all of them are still here.
    fn since(&self, last_id: &str) -> Option<Vec<Change>> {
        let (mark, sequence) = last_id.split_once('-')?;
        let sequence: u64 = sequence.parse().ok()?;
        let oldest = self.changes.front()?.sequence;
        let newest = self.changes.back()?.sequence;
        if mark != format!("{:08x}", self.mark) || sequence + 1 < oldest || sequence > newest {
            return None;
        }
        Some(self.changes.iter().filter(|change| change.sequence > sequence).cloned().collect())
    }
}

/// Passes changes on until the node ends or the server stops.
async fn collect(
    feed: Arc<Feed>,
    mut changes: broadcast::Receiver<Change>,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            change = changes.recv() => match change {
                Ok(change) => feed.note(Some(change)),
                Err(RecvError::Lagged(_)) => feed.note(None),
                Err(RecvError::Closed) => return,
            },
            // Also when the server is gone: then nobody streams.
            _ = stopping.wait_for(|stop| *stop) => return,
        }
    }
}

/// Streams changes of the caller's tenant. `topics` is a comma-separated list of `instances`, `tasks`,
/// `dead-letters` and ids of single objects; everything unless given. After `event: reset` read the lists again.
#[utoipa::path(
    get, path = "/api/v1/stream", tag = "operations", operation_id = "stream_changes",
    params(
        ("topics" = Option<String>, Query, description = "instances, tasks, dead-letters, or ids"),
        ("Last-Event-ID" = Option<String>, Header, description = "where the stream broke off"),
    ),
    responses((status = 200, description = "server-sent events", body = String, content_type = "text/event-stream"))
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let topics = Topics::read(&Parameters::read(&uri, &["topics"])?)?;
    Feed::ensure_fed(&app);
    let last_id = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let Opening { missed, reset, notes, mark } = app.feed.open(last_id);
    let first = reset.then(|| reset_event(mark)).into_iter();
    let gone = auth::until_refused(app.clone(), caller.key_id.clone(), caller.ends_at);
    let wanted = move |change: &Change| {
        change.tenant == caller.tenant && topics.want(change) && may_read(&caller, change)
    };
    let missed: Vec<Event> =
        missed.iter().filter(|change| wanted(change)).map(|change| event(mark, change)).collect();
    let live = stream::unfold(notes, |mut notes| async {
        match notes.recv().await {
            Ok(note) => Some((note, notes)),
            Err(RecvError::Lagged(_)) => Some((None, notes)),
            Err(RecvError::Closed) => None,
        }
    });
    let live = live.filter_map(move |note| {
        std::future::ready(match note {
            Some(change) => wanted(&change).then(|| event(mark, &change)),
            None => Some(reset_event(mark)),
        })
    });
    let end = Box::pin(async move {
        tokio::select! {
            () = app.stopped() => {}
            () = gone => {}
        }
    });
    let events = stream::iter(first.chain(missed)).chain(live.take_until(end)).map(Ok);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(COMMENT_EVERY).text("still here")))
}

/// A change is shown to those who may read the object itself.
fn may_read(caller: &Caller, change: &Change) -> bool {
    let permission = match change.kind {
        "task" => Permission::TasksRead,
        "dead-letter" => Permission::DeadLettersRead,
        "batch" => Permission::BatchesRead,
        _ => Permission::InstancesRead,
    };
    Access::Needs(permission).admits(&caller.roles)
}

/// What a client wants to hear of.
struct Topics {
    kinds: Vec<&'static str>,
    ids: Vec<Uuid>,
}

impl Topics {
    fn read(parameters: &Parameters) -> Result<Topics, Problem> {
        let mut topics = Topics { kinds: vec![], ids: vec![] };
        for word in parameters.list("topics") {
            match word.as_str() {
                "instances" => topics.kinds.push("instance"),
                "tasks" => topics.kinds.push("task"),
                "dead-letters" => topics.kinds.push("dead-letter"),
                "batches" => topics.kinds.push("batch"),
                id => topics.ids.push(object_id(id)?),
            }
        }
        Ok(topics)
    }

    fn want(&self, change: &Change) -> bool {
        let is_all = self.kinds.is_empty() && self.ids.is_empty();
        is_all || self.kinds.contains(&change.kind) || self.ids.contains(&change.id)
    }
}

fn object_id(text: &str) -> Result<Uuid, Problem> {
    let kinds = [Kind::Instance, Kind::Task, Kind::DeadLetter, Kind::Batch];
    kinds.into_iter().find_map(|kind| id::parse(kind, text).ok()).ok_or_else(|| {
        let message =
            format!("{:?} is neither instances, tasks, dead-letters, batches nor an id", excerpt(text));
        Problem::at(code::INVALID_PARAMETER, "topics", message)
    })
}

fn reset_event(mark: u32) -> Event {
    Event::default().event("reset").id(format!("{mark:08x}-0")).data("{}")
}

fn event(mark: u32, change: &Change) -> Event {
    let kind = match change.kind {
        "task" => Kind::Task,
        "dead-letter" => Kind::DeadLetter,
        "batch" => Kind::Batch,
        _ => Kind::Instance,
    };
    let body = serde_json::json!({
        "kind": change.kind,
        "id": id::show(kind, change.id),
        "status": change.status,
        "version": change.version,
        "time": change.at.rfc3339(),
    });
    Event::default().event(change.kind).id(format!("{mark:08x}-{}", change.sequence)).data(body.to_string())
}

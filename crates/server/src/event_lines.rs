//! Events that come one on each line: a stream of any length, answered line by line.
//!
//! Nothing waits for the end of the body: lines are published as they come, at most [`TOGETHER_MAX`] at once, and answered
//! once they are durable. So much is in memory and no more; a client that does not read its answers is not read on.

use crate::{
    app::{App, detached},
    auth::Caller,
    body, code,
    frame::RequestId,
    problem::{Problem, ProblemBody},
    query::Parameters,
};
use axum::{
    body::{Body, BodyDataStream},
    extract::Request,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt, stream};
use machine::{
    Data,
    id::{self, Kind},
};
use serde::Serialize;
use std::convert::Infallible;
use tokio::sync::mpsc;
use utoipa::ToSchema;

const MEDIA_TYPE: &str = "application/x-ndjson";
/// Lines that are published together.
const TOGETHER_MAX: usize = 500;
/// Bytes of lines that are published together.
const TOGETHER_BYTES_MAX: usize = 1 << 20;
/// The longest line; an event is shorter, but may be written with room.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// Pieces of the answer that wait for the client to read them.
const UNREAD_MAX: usize = 4;

/// What came of one line; the last one of the answer has the counts instead.
#[derive(Default, Serialize, ToSchema)]
pub(crate) struct LineAnswer {
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// True if it was published before.
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
    /// Instances that it started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    started: Vec<String>,
    /// Why it is refused; in the last line, why the rest was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProblemBody>)]
    problem: Option<serde_json::Value>,
    /// Events that were read; only in the last line.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<u64>,
}

/// Whether the request holds events on lines.
pub(crate) fn are_sent(headers: &HeaderMap) -> bool {
    body::media_type(headers) == MEDIA_TYPE && !headers.contains_key("ce-specversion")
}

/// Answers at once; the lines of the answer follow.
pub(crate) fn publish(app: App, caller: Caller, request: Request) -> Result<Response, Problem> {
    let parameters = Parameters::read(request.uri(), &["answers"])?;
    let answers = parameters.one("answers", &["all", "refused"])?;
    body::refuse_encoding(request.headers())?;
    let (sender, receiver) = mpsc::channel(UNREAD_MAX);
    let intake = Intake {
        request_id: request.extensions().get::<RequestId>().cloned().unwrap_or_default(),
        only_refused: answers.as_deref() == Some("refused"),
        app,
        caller,
        sender,
        lines: Lines::default(),
        events: 0,
        accepted: 0,
    };
    tokio::spawn(intake.take(request.into_body().into_data_stream()));
    let pieces = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (Ok::<Bytes, Infallible>(piece), receiver))
    });
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], Body::from_stream(pieces)).into_response())
}

/// Lines as they are cut out of the body.
#[derive(Default)]
struct Lines {
    rest: BytesMut,
    /// The line that `rest` begins, from 0.
    number: u64,
    /// The rest of this line is thrown away.
    skips: bool,
    ready: Vec<(u64, Result<Data, Problem>)>,
    ready_bytes: usize,
}

impl Lines {
    fn feed(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            if !self.skips {
                self.rest.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.end_line();
            } else if self.rest.len() > LINE_BYTES_MAX {
                self.end_long_line();
            }
        }
    }

    fn end_line(&mut self) {
        self.number += 1;
        let line = self.rest.split();
        let is_skipped = std::mem::take(&mut self.skips);
        let line = line.trim_ascii();
        if !is_skipped && !line.is_empty() {
            self.ready_bytes += line.len();
            self.ready.push((self.number, body::check_utf8(line).and_then(|()| Ok(Data::parse(line)?))));
        }
    }

    fn end_long_line(&mut self) {
        self.rest.clear();
        self.skips = true;
        let detail = format!("the line has more than {LINE_BYTES_MAX} bytes");
        self.ready.push((self.number + 1, Err(Problem::new(code::EVENT_TOO_LARGE, detail))));
    }

    fn is_full(&self) -> bool {
        self.ready.len() >= TOGETHER_MAX || self.ready_bytes >= TOGETHER_BYTES_MAX
    }
}

struct Intake {
    app: App,
    caller: Caller,
    request_id: RequestId,
    only_refused: bool,
    sender: mpsc::Sender<Bytes>,
    lines: Lines,
    events: u64,
    accepted: u64,
}

impl Intake {
    async fn take(mut self, mut body: BodyDataStream) {
        let mut problem = None;
        loop {
            // What is there is taken before anything is written; nothing that is there waits for what is not.
            let next = match self.lines.ready.is_empty() {
                true => self.wait(&mut body).await,
                false if self.lines.is_full() => None,
                false => body.next().now_or_never().map(read),
            };
            match next {
                Some(Ok(Some(chunk))) => self.lines.feed(&chunk),
                None => {
                    if !self.publish().await {
                        return;
                    }
                }
                Some(Ok(None)) => {
                    self.lines.end_line();
                    break;
                }
                Some(Err(cut)) => {
                    problem = Some(cut);
                    break;
                }
            }
        }
        while !self.lines.ready.is_empty() {
            if !self.publish().await {
                return;
            }
        }
        let (events, accepted) = (self.events, self.accepted);
        let last = LineAnswer {
            events: Some(events),
            accepted: Some(accepted),
            refused: Some(events - accepted),
            problem: problem.and_then(|problem| self.shown(&problem)),
            ..LineAnswer::default()
        };
        self.send(&[last]).await;
    }

    /// The next part of the body; an answer in any case.
    async fn wait(&self, body: &mut BodyDataStream) -> Option<Result<Option<Bytes>, Problem>> {
        let in_time = tokio::time::timeout(self.app.options.body_timeout, body.next());
        Some(tokio::select! {
            next = in_time => match next {
                Ok(next) => read(next),
                Err(_) => Err(Problem::new(code::REQUEST_TIMEOUT, "the next part of the body did not come in time")),
            },
            () = self.app.stopped() => Err(Problem::new(code::UNAVAILABLE, "the node is stopping")),
        })
    }

    /// Publishes what is ready and answers it; false if nobody reads the answers any more.
    async fn publish(&mut self) -> bool {
        let mut ready = std::mem::take(&mut self.lines.ready);
        self.lines.ready = ready.split_off(ready.len().min(TOGETHER_MAX));
        self.lines.ready_bytes = 0;
        let events: Vec<Data> = ready.iter().filter_map(|(_, line)| line.as_ref().ok().cloned()).collect();
        let (app, tenant, count) = (self.app.clone(), self.caller.tenant.clone(), events.len());
        let work = async move { Ok(app.handle.publish_many(&tenant, events).await) };
        let published: Vec<Result<_, Problem>> = match detached(self.app.answer_max(), work).await {
            Ok(published) => published.into_iter().map(|one| one.map_err(Problem::from)).collect(),
            Err(problem) => std::iter::repeat_with(|| Err(problem.clone())).take(count).collect(),
        };
        let mut published = published.into_iter();
        let mut answers = Vec::with_capacity(ready.len());
        for (number, line) in ready {
            let answer =
                line.and_then(|_| published.next().unwrap_or_else(|| Err(Problem::internal("no answer"))));
            self.events += 1;
            let line = Some(number);
            match answer {
                Ok(one) => {
                    self.accepted += 1;
                    if !self.only_refused {
                        let started = one.started.iter().map(|instance| id::show(Kind::Instance, *instance));
                        let (id, replayed) = (Some(id::show(Kind::Event, one.id)), Some(one.replayed));
                        answers.push(LineAnswer {
                            line,
                            id,
                            replayed,
                            started: started.collect(),
                            ..LineAnswer::default()
                        });
                    }
                }
                Err(problem) => {
                    answers.push(LineAnswer { line, problem: self.shown(&problem), ..LineAnswer::default() });
                }
            }
        }
        self.send(&answers).await
    }

    fn shown(&self, problem: &Problem) -> Option<serde_json::Value> {
        problem.log(&self.request_id.0);
        serde_json::to_value(problem.body(None, Some(&self.request_id.0))).ok()
    }

    async fn send(&self, answers: &[LineAnswer]) -> bool {
        let mut piece = Vec::new();
        for answer in answers {
            piece.extend(serde_json::to_vec(answer).unwrap_or_default());
            piece.push(b'\n');
        }
        if piece.is_empty() {
            return !self.sender.is_closed();
        }
        let sent = tokio::time::timeout(self.app.options.body_timeout, self.sender.send(piece.into())).await;
        matches!(sent, Ok(Ok(())))
    }
}

fn read(next: Option<Result<Bytes, axum::Error>>) -> Result<Option<Bytes>, Problem> {
    next.transpose()
        .map_err(|_| Problem::new(code::INTERRUPTED_BODY, "the body could not be read to its end"))
}

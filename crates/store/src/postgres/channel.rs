//! Hints over NOTIFY, on a connection of their own. [`Channel`] is what a node tells others through.
//!
//! NOTIFY inside a commit would make all commits of the database wait for each other, so hints go out after it,
//! gathered, at most twenty times a second. Whatever is lost is found by the next re-scan.

use super::{
    error::said,
    pool::{Address, Wire},
};
use crate::hint::{Ended, Hint, Hints};
use async_trait::async_trait;
use parking_lot::Mutex;
use std::{
    collections::hash_map::RandomState,
    future::poll_fn,
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, ready},
    time::Duration,
};
use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Client, Error as PgError, types::Type};
use uuid::Uuid;

const LISTEN: &str = "LISTEN windlass_hints";
const NOTIFY: &str = "SELECT pg_notify('windlass_hints', $1)";
/// A pooler in between gives every statement another connection: then nothing is listened to there.
const LISTENING: &str = "SELECT count(*) FROM pg_listening_channels() AS c WHERE c = 'windlass_hints'";

/// Between two notifications.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a silent connection is asked whether it still listens.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// How long the server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long a lost connection stays lost: doubled each time.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Tells and hears hints through the database.
pub struct Channel {
    shared: Arc<Shared>,
    running: tokio::task::AbortHandle,
}

struct Shared {
    /// Tells this channel's own hints from those of others.
    mark: String,
    listens: bool,
    out: Mutex<Hint>,
    told: Notify,
    heard: Mutex<Hint>,
    hear: Notify,
    /// Statements sent.
    sent: Arc<AtomicU64>,
}

impl Channel {
    /// Connects in the background, again and again: a node works without hints too.
    pub(super) fn open(address: Address, listens: bool, sent: Arc<AtomicU64>) -> Channel {
        let shared = Arc::new(Shared {
            mark: mark(),
            listens,
            out: Mutex::default(),
            told: Notify::new(),
            heard: Mutex::default(),
            hear: Notify::new(),
            sent,
        });
        let running = tokio::spawn(run(shared.clone(), address)).abort_handle();
        Channel { shared, running }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.running.abort();
    }
}

#[async_trait]
impl Hints for Channel {
    fn tell(&self, hint: Hint) {
        self.shared.out.lock().merge(hint);
        self.shared.told.notify_one();
    }

    async fn heard(&self) -> Hint {
        loop {
            let hint = std::mem::take(&mut *self.shared.heard.lock());
            if !hint.is_none() {
                return hint;
            }
            self.shared.hear.notified().await;
        }
    }
}

impl Shared {
    fn hears(&self, hint: Hint) {
        self.heard.lock().merge(hint);
        self.hear.notify_one();
    }
}

async fn run(shared: Arc<Shared>, address: Address) {
    let mut wait = RETRY_MIN;
    loop {
        let began = tokio::time::Instant::now();
        let why = serve(&shared, &address).await;
        // One that lasted was sound: its end is an event, not a state.
        wait = if began.elapsed() > RETRY_MAX { RETRY_MIN } else { (wait * 2).min(RETRY_MAX) };
        tracing::warn!(why, "hints to other nodes are interrupted; the re-scan finds what they miss");
        pause(wait).await;
    }
}

/// Tells and hears over one connection until it ends; answers why.
async fn serve(shared: &Arc<Shared>, address: &Address) -> String {
    let (client, connection) = match address.connect().await {
        Ok(connected) => connected,
        Err(err) => return said(&err),
    };
    let mut driving = Driving(tokio::spawn(drive(shared.clone(), connection)));
    if shared.listens {
        match answered(shared, client.batch_execute(LISTEN)).await {
            // First listen, then look: what was told in between is not missed.
            Ok(()) => shared.hears(Hint::everything()),
            Err(why) => return why,
        }
    }
    loop {
        let step = tokio::select! {
            () = shared.told.notified() => tell(shared, &client).await,
            () = pause(CHECK_EVERY) => check(shared, &client).await,
            ended = &mut driving.0 => return ended.unwrap_or_else(|err| err.to_string()),
        };
        if let Err(why) = step {
            return why;
        }
    }
}

/// The task that reads from the connection; it ends with whoever waits for it.
struct Driving(tokio::task::JoinHandle<String>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn drive(shared: Arc<Shared>, mut connection: Wire) -> String {
    poll_fn(|context| {
        loop {
            match ready!(connection.poll_message(context)) {
                Some(Ok(AsyncMessage::Notification(note))) => {
                    if let Some(hint) = read(note.payload(), &shared.mark) {
                        shared.hears(hint);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(err)) => return Poll::Ready(said(&err)),
                None => return Poll::Ready("the server closed the connection".to_owned()),
            }
        }
    })
    .await
}

async fn tell(shared: &Shared, client: &Client) -> Result<(), String> {
    let hint = std::mem::take(&mut *shared.out.lock());
    if hint.is_none() {
        return Ok(());
    }
    let text = write(&hint, &shared.mark);
    if let Err(why) = answered(shared, client.query_typed(NOTIFY, &[(&text, Type::TEXT)])).await {
        shared.out.lock().merge(hint);
        shared.told.notify_one();
        return Err(why);
    }
    pause(PAUSE).await;
    Ok(())
}

async fn check(shared: &Shared, client: &Client) -> Result<(), String> {
    let rows = answered(shared, client.query_typed(LISTENING, &[])).await?;
    let channels: i64 = rows.first().and_then(|row| row.try_get(0).ok()).unwrap_or_default();
    match channels == 0 && shared.listens {
        true => Err("a pooler stands in between: give the store a listen_url past it".to_owned()),
        false => Ok(()),
    }
}

async fn answered<T>(shared: &Shared, asked: impl Future<Output = Result<T, PgError>>) -> Result<T, String> {
    shared.sent.fetch_add(1, Ordering::Relaxed);
    match tokio::time::timeout(ANSWER_MAX, asked).await {
        Ok(answer) => answer.map_err(|err| said(&err)),
        Err(_) => Err("the server does not answer".to_owned()),
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "nothing depends on when a hint comes, so no test owns this time"
)]
async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}

/// Some word that no other channel has.
fn mark() -> String {
    let word = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", word(), word())
}

/// `mark letters id,id,…`: q for queues, c for clocks, m for many ended.
fn write(hint: &Hint, mark: &str) -> String {
    let mut text = format!("{mark} ");
    for (is_set, letter) in [(hint.queues, 'q'), (hint.clocks, 'c'), (hint.ended == Ended::Many, 'm')] {
        text.extend(is_set.then_some(letter));
    }
    text.push(' ');
    if let Ended::These(ids) = &hint.ended {
        text += &ids.iter().map(|id| id.simple().to_string()).collect::<Vec<_>>().join(",");
    }
    text
}

/// `None` for a hint of this very channel. Another program's words are as good as a hint of everything.
fn read(text: &str, mark: &str) -> Option<Hint> {
    let mut parts = text.split(' ');
    let (Some(from), Some(letters), Some(ids)) = (parts.next(), parts.next(), parts.next()) else {
        return Some(Hint::everything());
    };
    if from == mark {
        return None;
    }
    let ids = ids.split(',').filter_map(|id| Uuid::parse_str(id).ok());
    let ended = if letters.contains('m') { Ended::Many } else { Ended::These(ids.collect()) };
    Some(Hint { queues: letters.contains('q'), clocks: letters.contains('c'), ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_read_as_it_was_written_except_by_its_writer() {
        let mut hint = Hint::queues();
        hint.merge(Hint::ended(Uuid::from_u128(5)));
        hint.merge(Hint::ended(Uuid::from_u128(6)));
        for hint in [hint, Hint::queues(), Hint::everything(), Hint { clocks: true, ..Hint::default() }] {
            let text = write(&hint, "me");
            assert_eq!(read(&text, "you"), Some(hint));
            assert_eq!(read(&text, "me"), None);
        }
        assert_eq!(read("nonsense", "me"), Some(Hint::everything()));
    }

    #[test]
    fn the_longest_hint_fits_a_notification() {
        let mut hint = Hint::everything();
        hint.ended = Ended::default();
        for number in 0..crate::hint::NAMED_MAX as u128 {
            hint.merge(Hint::ended(Uuid::from_u128(u128::MAX - number)));
        }
        assert!(write(&hint, &Uuid::max().simple().to_string()).len() < 8_000);
    }
}

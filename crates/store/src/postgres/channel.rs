//! Hints over NOTIFY, on a connection of their own: [`Channel`] is the line that a node tells others through.
//!
//! NOTIFY inside a commit would make all commits of the database wait for each other, so hints go out after it.

use super::{
    error::said,
    pool::{self, Address},
};
use crate::hint::{Line, Listener, Speaker};
use async_trait::async_trait;
use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, ready},
};
use tokio_postgres::{AsyncMessage, Client, types::Type};

const LISTEN: &str = "LISTEN windlass_hints";
const NOTIFY: &str = "SELECT pg_notify('windlass_hints', $1)";

/// The way to the database. Each database has words of its own.
pub(super) struct Channel {
    pub(super) address: Address,
    pub(super) listens: bool,
    /// Statements sent.
    pub(super) sent: Arc<AtomicU64>,
}

struct Teller {
    client: Client,
    sent: Arc<AtomicU64>,
}

/// The connection itself, which goes on only while it is listened to.
struct Wire(pool::Wire);

#[async_trait]
impl Line for Channel {
    fn name(&self) -> String {
        "the database".to_owned()
    }

    async fn connect(&self) -> Result<(Box<dyn Speaker>, Box<dyn Listener>), String> {
        let (client, connection) = self.address.connect().await.map_err(|err| said(&err))?;
        let mut wire = Wire(connection);
        if self.listens {
            self.sent.fetch_add(1, Ordering::Relaxed);
            tokio::select! {
                done = client.batch_execute(LISTEN) => done.map_err(|err| said(&err))?,
                why = wire.drive() => return Err(why),
            }
        }
        Ok((Box::new(Teller { client, sent: self.sent.clone() }), Box::new(wire)))
    }

    fn listens(&self) -> bool {
        self.listens
    }

    fn unheard(&self) -> &'static str {
        // It gives every statement another connection, so nothing is listened to on this one.
        "a pooler stands in between: give the store a listen_url past it"
    }
}

#[async_trait]
impl Speaker for Teller {
    async fn say(&mut self, words: &str) -> Result<(), String> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let told = self.client.query_typed(NOTIFY, &[(&words, Type::TEXT)]).await;
        told.map(drop).map_err(|err| said(&err))
    }
}

#[async_trait]
impl Listener for Wire {
    async fn hear(&mut self) -> Result<Vec<u8>, String> {
        poll_fn(|context| {
            loop {
                match ready!(self.0.poll_message(context)) {
                    Some(Ok(AsyncMessage::Notification(note))) => {
                        return Poll::Ready(Ok(note.payload().as_bytes().to_vec()));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(err)) => return Poll::Ready(Err(said(&err))),
                    None => return Poll::Ready(Err("the server closed the connection".to_owned())),
                }
            }
        })
        .await
    }
}

impl Wire {
    /// Until the connection ends; answers why. What is heard meanwhile is covered by the look that follows.
    async fn drive(&mut self) -> String {
        loop {
            if let Err(why) = self.hear().await {
                return why;
            }
        }
    }
}

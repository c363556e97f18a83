//! Hints over core NATS: one subject, published to and subscribed to on one connection.
//!
//! The client would connect again by itself; here the relay does, so that all lines are made again in the same way.

use async_nats::{Client, ConnectOptions, Event, ServerAddr, Subscriber};
use async_trait::async_trait;
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use std::{sync::Arc, time::Duration};
use store::hint::{Line, Listener, Speaker};
use tokio::sync::Notify;
use url::Url;

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Words that may wait to be heard; more are lost, as hints may be.
const UNHEARD_MAX: usize = 1_024;
/// After its connection has ended a client gives up; zero would mean never.
const RECONNECTS_MAX: usize = 1;

pub(crate) struct Nats {
    url: Url,
    subject: String,
    name: String,
}

struct Publisher {
    client: Client,
    subject: String,
}

struct Subscription {
    subscriber: Subscriber,
    lost: Arc<Notify>,
}

impl Nats {
    pub(crate) fn new(url: &Url, subject: &str, name: String) -> Nats {
        Nats { url: url.clone(), subject: subject.to_owned(), name }
    }
}

/// A connection that is not made again by itself; what happens to it is told.
pub(crate) async fn connect(
    url: &Url,
    told: impl Fn(Event) + Send + Sync + 'static,
) -> Result<Client, String> {
    let options = ConnectOptions::new()
        .name("windlass")
        .connection_timeout(CONNECT_MAX)
        .max_reconnects(RECONNECTS_MAX)
        .subscription_capacity(UNHEARD_MAX)
        .event_callback(move |event| {
            told(event);
            async {}
        });
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let options = match (url.username(), url.password()) {
        ("", None) => options,
        (token, None) => options.token(plain(token)),
        (user, Some(password)) => options.user_and_password(plain(user), plain(password)),
    };
    let address = ServerAddr::from_url(url.clone()).map_err(|error| error.to_string())?;
    options.connect(address).await.map_err(|error| error.to_string())
}

#[async_trait]
impl Line for Nats {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn connect(&self) -> Result<(Box<dyn Speaker>, Box<dyn Listener>), String> {
        let lost = Arc::new(Notify::new());
        let told = lost.clone();
        let client = connect(&self.url, move |event| {
            if matches!(event, Event::Disconnected | Event::Closed) {
                told.notify_one();
            }
        })
        .await?;
        let subscriber = client.subscribe(self.subject.clone()).await.map_err(|error| error.to_string())?;
        let publisher = Publisher { client, subject: self.subject.clone() };
        Ok((Box::new(publisher), Box::new(Subscription { subscriber, lost })))
    }
}

#[async_trait]
impl Speaker for Publisher {
    async fn say(&mut self, words: &str) -> Result<(), String> {
        let published = self.client.publish(self.subject.clone(), words.to_owned().into()).await;
        published.map_err(|error| error.to_string())?;
        self.client.flush().await.map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Listener for Subscription {
    async fn hear(&mut self) -> Result<Vec<u8>, String> {
        let heard = tokio::select! {
            message = self.subscriber.next() => message,
            () = self.lost.notified() => None,
        };
        match heard {
            Some(message) => Ok(message.payload.to_vec()),
            None => Err("the connection was lost".to_owned()),
        }
    }
}

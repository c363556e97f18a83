//! Hints over Redis: PUBLISH on one connection, SUBSCRIBE on another, as every version and every kin of Redis has them.

use async_trait::async_trait;
use futures_util::StreamExt;
use redis::{
    AsyncCommands, AsyncConnectionConfig, Client,
    aio::{MultiplexedConnection, PubSubSink, PubSubStream},
};
use std::time::Duration;
use store::hint::{Line, Listener, Speaker};
use url::Url;

/// How long Redis may take to be connected to, and to answer.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Redis {
    client: Client,
    channel: String,
    name: String,
}

struct Publisher {
    connection: MultiplexedConnection,
    channel: String,
}

struct Subscription {
    stream: PubSubStream,
    /// Never used again, but the connection ends with it.
    _sink: PubSubSink,
}

/// The error says why the URL is none of Redis.
pub(crate) fn client(url: &Url) -> Result<Client, String> {
    Client::open(url.clone())
        .map_err(|_| "Redis cannot be reached by it; write redis://user:password@host:port".to_owned())
}

/// A connection on which many may ask at once.
pub(crate) async fn connect(client: &Client) -> redis::RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER_MAX))
        .set_response_timeout(Some(ANSWER_MAX));
    client.get_multiplexed_async_connection_with_config(&config).await
}

impl Redis {
    /// The error says why the URL is none of Redis.
    pub(crate) fn new(url: &Url, channel: &str, name: String) -> Result<Redis, String> {
        Ok(Redis { client: client(url)?, channel: channel.to_owned(), name })
    }

    async fn connected(&self) -> redis::RedisResult<(Publisher, Subscription)> {
        let (mut sink, stream) = self.client.get_async_pubsub().await?.split();
        sink.subscribe(&self.channel).await?;
        let connection = connect(&self.client).await?;
        let publisher = Publisher { connection, channel: self.channel.clone() };
        Ok((publisher, Subscription { stream, _sink: sink }))
    }
}

#[async_trait]
impl Line for Redis {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn connect(&self) -> Result<(Box<dyn Speaker>, Box<dyn Listener>), String> {
        let (publisher, subscription) = self.connected().await.map_err(|error| error.to_string())?;
        Ok((Box::new(publisher), Box::new(subscription)))
    }
}

#[async_trait]
impl Speaker for Publisher {
    async fn say(&mut self, words: &str) -> Result<(), String> {
        let published = self.connection.publish(&self.channel, words).await;
        published.map(|_: i64| ()).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Listener for Subscription {
    async fn hear(&mut self) -> Result<Vec<u8>, String> {
        match self.stream.next().await {
            Some(message) => Ok(message.get_payload_bytes().to_vec()),
            None => Err("the server closed the connection".to_owned()),
        }
    }
}

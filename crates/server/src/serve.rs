//! Serves connections: accepts, bounds, and on request stops without dropping what is in flight.

use crate::{
    options::Options,
    router::{self, Error},
};
use axum::Router;
use futures_util::future::BoxFuture;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use machine::time::Span;
use runtime::Handle;
use std::{future::Future, pin::pin, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
};

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// How long to wait after the listener failed, for example for want of file descriptors.
const ACCEPT_PAUSE: Span = Span::from_millis(100);
/// Room for the head of a request while it is read. What exceeds [`Options::header_bytes_max`] but fits in here is
/// answered with a problem; what does not is answered 431 without one.
const HEAD_BUFFER_BYTES: usize = 256 * 1024;

/// Serves until `shutdown` completes, then stops accepting, lets requests in flight end (at most
/// [`Options::drain_timeout`]) and returns.
pub async fn serve<'a>(
    listener: TcpListener,
    handle: Handle,
    options: Options,
    shutdown: impl Future<Output = ()> + Send + 'a,
) -> Result<(), Error> {
    serving(listener, handle, options, Box::pin(shutdown)).await
}

/// Boxed, so that reading and answering requests is built and optimised with this crate and not with whoever serves.
fn serving<'a>(
    listener: TcpListener,
    handle: Handle,
    options: Options,
    shutdown: BoxFuture<'a, ()>,
) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(accept_until(listener, handle, options, shutdown))
}

async fn accept_until(
    listener: TcpListener,
    handle: Handle,
    options: Options,
    mut shutdown: BoxFuture<'_, ()>,
) -> Result<(), Error> {
    let (stop, stopping) = watch::channel(false);
    let router = router::stoppable(handle, options.clone(), stopping.clone())?;
    let room = Arc::new(Semaphore::new(options.connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room, &options) => accepted,
            () = &mut shutdown => break,
        };
        if let Some((stream, permit)) = accepted {
            let (router, stopping, headers_max) = (router.clone(), stopping.clone(), options.headers_max);
            connections.spawn(async move {
                connection(stream, router, stopping, headers_max).await;
                drop(permit);
            });
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    stop.send_replace(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(options.drain_timeout, drained).await.is_err() {
        tracing::warn!("connections were still open when the time to drain was over");
    }
    Ok(())
}

type Accepted = Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)>;

async fn accept(listener: &TcpListener, room: &Arc<Semaphore>, options: &Options) -> Accepted {
    // The semaphore is never closed.
    let permit = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            options.clock.sleep_until(options.clock.now().after(ACCEPT_PAUSE)).await;
            None
        }
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    mut stopping: watch::Receiver<bool>,
    headers_max: usize,
) {
    // Answers are small and awaited: sending them at once matters more than full packets.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "nodelay could not be set");
    }
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BUFFER_BYTES)
        .max_headers(headers_max * 4);
    let mut connection =
        pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let stopped = async { stopping.wait_for(|stop| *stop).await.is_ok() };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

//! The listener: HTTP/1.1 and HTTP/2 without TLS on one port, data plane first, then the API.

use crate::daemon::Daemon;
use crate::{proxy, routes};
use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// A client that does not finish its header by then is dropped.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Wait after an accept failed, usually for want of descriptors.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);
/// Unread bytes per HTTP/2 stream.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Unread bytes per HTTP/2 connection: so large that one slow stream never holds up another.
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = (1 << 31) - 1;
/// Streams at once per HTTP/2 connection.
const STREAMS_MAX: u32 = 4096;

/// Accepts and serves until `stop` fires. Connections end when their requests do or the process does.
pub(crate) async fn serve(daemon: Arc<Daemon>, listener: TcpListener, stop: CancellationToken) {
    let router = routes::router(Arc::clone(&daemon));
    let permits = Arc::new(Semaphore::new(daemon.config.connections_max));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (daemon, router, stop) = (Arc::clone(&daemon), router.clone(), stop.clone());
                tokio::spawn(async move {
                    connection(daemon, router, stream, stop).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_WAIT).await;
            }
        }
    }
}

async fn connection(
    daemon: Arc<Daemon>,
    router: Router,
    stream: TcpStream,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let service = hyper::service::service_fn(move |request| {
        let (daemon, router) = (Arc::clone(&daemon), router.clone());
        async move { Ok::<_, Infallible>(dispatch(daemon, router, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_MAX);
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(served);
    let result = tokio::select! {
        result = served.as_mut() => result,
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = result {
        // Clients go away in all ways; nothing is to be done about it.
        tracing::debug!(%error, "connection ended");
    }
}

async fn dispatch(
    daemon: Arc<Daemon>,
    router: Router,
    request: http::Request<Incoming>,
) -> http::Response<Body> {
    let request = request.map(Body::new);
    match proxy::target(&daemon, &request) {
        Ok(Some(target)) => proxy::forward(&daemon, target, request).await,
        Ok(None) => match router.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        Err(response) => *response,
    }
}

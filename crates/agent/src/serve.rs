//! Accepts connections and speaks HTTP/2 on each, without TLS and without an upgrade.

use crate::route;
use crate::sandbox::{Config, Sandbox};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};

/// Bytes in flight per stream and per connection: enough for a local socket never to wait for a window.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
const FRAME_BYTES_MAX: u32 = 256 << 10;
/// Concurrent calls of one connection; each following command holds one.
const STREAMS_MAX: u32 = 10_000;
/// Pause after a failed accept (out of descriptors), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Wait after a child's end before its cgroup is looked at again: batches bursts.
const SWEEP_PAUSE: Duration = Duration::from_millis(100);

/// Serves until an unrecoverable fault.
///
/// # Errors
/// The listener or the signal handler cannot be set up.
pub async fn serve(listener: StdListener, config: Config) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let sandbox = Arc::new(Sandbox::new(config)?);
    tokio::select! {
        ended = sandbox.reaper.run() => ended,
        () = sweep(&sandbox) => Ok(()),
        () = accept(&listener, &sandbox) => Ok(()),
    }
}

async fn accept(listener: &UnixListener, sandbox: &Arc<Sandbox>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Ends with its connection.
                drop(tokio::spawn(connection(stream, Arc::clone(sandbox))));
            }
            Err(error) => {
                tracing::warn!(%error, "accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: UnixStream, sandbox: Arc<Sandbox>) {
    let service = service_fn(move |request| {
        let sandbox = Arc::clone(&sandbox);
        async move { Ok::<_, Infallible>(route::handle(&sandbox, request).await) }
    });
    let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_concurrent_streams(STREAMS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Removes the cgroups of commands once their last process is gone.
async fn sweep(sandbox: &Arc<Sandbox>) {
    loop {
        sandbox.reaper.reaped.notified().await;
        if sandbox.trees.has_leftovers() {
            tokio::time::sleep(SWEEP_PAUSE).await;
            let sandbox = Arc::clone(sandbox);
            // A panic in it would be told by the next one.
            tokio::task::spawn_blocking(move || sandbox.trees.sweep())
                .await
                .ok();
        }
    }
}

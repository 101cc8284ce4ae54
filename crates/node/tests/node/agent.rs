//! An agent for tests: HTTP/2 on a unix socket with a few routes, and CONNECT to real local ports.

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpStream, UnixListener};
use tokio::task::JoinSet;

pub(crate) const CHUNK: usize = 64 << 10;

/// What the agent counted, to see whether something in between buffers.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) bytes_made: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
}

/// Serves until the task is aborted; then all its connections break.
pub(crate) async fn serve(listener: UnixListener, token: Arc<str>, counts: Arc<Counts>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        let (token, counts) = (Arc::clone(&token), Arc::clone(&counts));
        connections.spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let (token, counts) = (Arc::clone(&token), Arc::clone(&counts));
                async move { Ok::<_, Infallible>(answer(request, &token, counts).await) }
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _broken = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn text(status: u16, text: impl Into<String>) -> Response<Body> {
    let status = StatusCode::from_u16(status).expect("a status");
    Response::builder()
        .status(status)
        .body(Body::from(text.into()))
        .expect("a reply")
}

async fn answer(request: Request<Incoming>, token: &str, counts: Arc<Counts>) -> Response<Body> {
    if request.method() == Method::CONNECT {
        return connect(request).await;
    }
    let path = request.uri().path().to_owned();
    if path == "/health" {
        return text(204, "");
    }
    let given = request
        .headers()
        .get("x-access-token")
        .and_then(|v| v.to_str().ok());
    let signed = request
        .uri()
        .query()
        .is_some_and(|q| q.contains("signature="));
    if given != Some(token) && !signed {
        return text(401, r#"{"code":401,"message":"token"}"#);
    }
    match path.as_str() {
        "/echo" => Response::new(Body::new(request.into_body())),
        "/made" => Response::new(made(&request, counts)),
        "/sink" => sink(request, counts).await,
        "/drip" => Response::new(drip()),
        "/hang" => std::future::pending().await,
        "/headers" => text(200, format!("{:?} {}", request.headers(), request.uri())),
        other => text(404, format!("agent has no {other}")),
    }
}

fn made(request: &Request<Incoming>, counts: Arc<Counts>) -> Body {
    let wanted: u64 = request
        .uri()
        .query()
        .and_then(|q| q.parse().ok())
        .expect("a length");
    let chunk = Bytes::from(vec![b'x'; CHUNK]);
    let chunks = (0..wanted.div_ceil(CHUNK as u64)).map(move |_| {
        counts.bytes_made.fetch_add(CHUNK as u64, Ordering::Relaxed);
        Ok::<_, Infallible>(Frame::data(chunk.clone()))
    });
    Body::new(StreamBody::new(futures::stream::iter(chunks)))
}

/// Waits a while before it reads, so that a buffer in between would show.
async fn sink(request: Request<Incoming>, counts: Arc<Counts>) -> Response<Body> {
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return text(400, "broken");
        };
        let read = frame.data_ref().map_or(0, |d| d.len() as u64);
        counts.bytes_read.fetch_add(read, Ordering::Relaxed);
    }
    text(200, counts.bytes_read.load(Ordering::Relaxed).to_string())
}

/// One piece at once, then nothing for ever.
fn drip() -> Body {
    let first = futures::stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"first"))]);
    let never = futures::stream::pending();
    Body::from_stream(futures::StreamExt::chain(first, never))
}

async fn connect(request: Request<Incoming>) -> Response<Body> {
    let authority = request
        .uri()
        .authority()
        .map(ToString::to_string)
        .expect("an authority");
    match TcpStream::connect(&authority).await {
        Err(error) => text(502, format!(r#"{{"code":502,"message":"{error}"}}"#)),
        Ok(mut server) => {
            tokio::spawn(async move {
                let client = hyper::upgrade::on(request).await.expect("a tunnel");
                let mut client = TokioIo::new(client);
                let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
            text(200, "")
        }
    }
}

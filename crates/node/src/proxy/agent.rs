//! The kept HTTP/2 connection to the agent of one sandbox.

use crate::server::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};
use axum::body::Body;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::io;
use std::path::PathBuf;
use tokio::net::UnixStream;
use tokio::sync::Mutex;

/// Streams opened before the agent has told its own limit.
const STREAMS_INITIAL: usize = 1000;
/// Longest error text of the agent that is read.
const REFUSAL_BYTES_MAX: usize = 4096;

/// The agent cannot be spoken to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// Its socket does not answer.
    #[error("connect to {path}", path = path.display())]
    Connect {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The HTTP/2 conversation broke.
    #[error("exchange a request")]
    Exchange(#[source] hyper::Error),
    /// The request cannot be written as HTTP/2.
    #[error("form the request")]
    Form(#[source] http::Error),
    /// It refused to open a connection inside.
    #[error("{status}: {text}")]
    Refused { status: StatusCode, text: String },
}

/// Connects when first used and again when the connection broke.
#[derive(Debug)]
pub(crate) struct AgentLink {
    socket: PathBuf,
    /// The open connection; held across the connect, so that there is one.
    sender: Mutex<Option<SendRequest<Body>>>,
}

impl AgentLink {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            sender: Mutex::new(None),
        }
    }

    /// Sends one request to the agent's own interface.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, AgentError> {
        *request.uri_mut() = absolute(request.uri(), request.headers())?;
        *request.version_mut() = http::Version::HTTP_2;
        request.headers_mut().remove(header::HOST);
        let mut sender = self.sender().await?;
        sender
            .send_request(request)
            .await
            .map_err(AgentError::Exchange)
    }

    /// Opens a connection to a port inside, dialled by the agent.
    pub(crate) async fn connect(&self, port: u16) -> Result<Upgraded, AgentError> {
        let request = Request::builder()
            .method(Method::CONNECT)
            .version(http::Version::HTTP_2)
            .uri(format!("127.0.0.1:{port}"))
            .body(Body::empty())
            .map_err(AgentError::Form)?;
        let mut sender = self.sender().await?;
        let sent = sender.send_request(request).await;
        let response = sent.map_err(AgentError::Exchange)?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(refusal(status, response.into_body()).await);
        }
        hyper::upgrade::on(response)
            .await
            .map_err(AgentError::Exchange)
    }

    async fn sender(&self) -> Result<SendRequest<Body>, AgentError> {
        let mut kept = self.sender.lock().await;
        if let Some(sender) = kept.as_mut()
            && !sender.is_closed()
        {
            return Ok(sender.clone());
        }
        let stream = UnixStream::connect(&self.socket).await;
        let stream = stream.map_err(|source| AgentError::Connect {
            path: self.socket.clone(),
            source,
        })?;
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .initial_max_send_streams(STREAMS_INITIAL)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(AgentError::Exchange)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to an agent ended");
            }
        });
        *kept = Some(sender.clone());
        Ok(sender)
    }
}

/// HTTP/2 wants scheme and authority; the authority is what the client called the host.
fn absolute(uri: &Uri, headers: &HeaderMap) -> Result<Uri, AgentError> {
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok());
    let authority = host.and_then(|h| h.parse::<Authority>().ok());
    let authority = authority.or_else(|| uri.authority().cloned());
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(authority.unwrap_or(Authority::from_static("agent")))
        .path_and_query(path)
        .build()
        .map_err(AgentError::Form)
}

async fn refusal(status: StatusCode, body: Incoming) -> AgentError {
    let limited = http_body_util::Limited::new(body, REFUSAL_BYTES_MAX);
    let text = match limited.collect().await {
        Ok(bytes) => String::from_utf8_lossy(&bytes.to_bytes()).into_owned(),
        Err(error) => error.to_string(),
    };
    AgentError::Refused { status, text }
}

//! A server in this process and an HTTP/2 client for it.

use agent::{Cgroups, Config, Reaping, serve};
use api::envd::connect::{EndOfStream, encode_message};
use api::envd::process::{EndEvent, EventResponse, ProcessEvent};
use api::envd::{ConnectError, Frame, FrameDecoder};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use model::attach::Init;
use serde_json::Value;
use std::convert::Infallible;
use std::os::unix::net::UnixListener;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::UnixStream;

/// Nothing here takes longer unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) type Body = BoxBody<Bytes, Infallible>;

pub(crate) struct Server {
    pub(crate) directory: TempDir,
    sender: SendRequest<Body>,
}

/// Defaults with which tests run whoever runs them.
pub(crate) fn own_user() -> Init {
    let uid = rustix::process::geteuid().as_raw().to_string();
    Init {
        user: Some(uid),
        ..Init::default()
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(own_user()).await
    }

    pub(crate) async fn with(init: Init) -> Self {
        Self::tracked(init, Cgroups::default()).await
    }

    pub(crate) async fn tracked(init: Init, cgroups: Cgroups) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let config = Config {
            sandbox_id: "itest".into(),
            template_id: "template".into(),
            init,
            cgroups,
            reaping: Reaping::Own,
            first: None,
        };
        tokio::spawn(async move { serve(listener, config).await.unwrap() });
        Self::connect(directory).await
    }

    /// To the server that listens in `directory`.
    pub(crate) async fn connect(directory: TempDir) -> Self {
        let path = directory.path().join("agent.sock");
        let stream = UnixStream::connect(&path).await.unwrap();
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self { directory, sender }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.directory
            .path()
            .join(name)
            .to_str()
            .unwrap()
            .to_owned()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Response<Incoming> {
        let mut sender = self.sender.clone();
        tokio::time::timeout(PATIENCE, sender.send_request(request))
            .await
            .unwrap()
            .unwrap()
    }

    /// A plain request; status and body.
    pub(crate) async fn plain(&self, request: Request<Body>) -> (u16, Bytes) {
        let response = self.send(request).await;
        let status = response.status().as_u16();
        let body = tokio::time::timeout(PATIENCE, response.into_body().collect()).await;
        (status, body.unwrap().unwrap().to_bytes())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Bytes) {
        self.plain(request(Method::GET, path, "")).await
    }

    /// A unary call.
    pub(crate) async fn call(&self, method: &str, message: Value) -> Result<Value, ConnectError> {
        let body = message.to_string();
        let mut request = request(Method::POST, &format!("/{method}"), body);
        let json = "application/json".parse().unwrap();
        request.headers_mut().insert("content-type", json);
        let (status, body) = self.plain(request).await;
        if status == 200 {
            return Ok(serde_json::from_slice(&body).unwrap());
        }
        let error: ConnectError = serde_json::from_slice(&body).unwrap();
        assert_eq!(status, error.code.http_status());
        Err(error)
    }

    /// A streaming call with one request message.
    pub(crate) async fn stream(
        &self,
        method: &str,
        headers: &[(&'static str, &str)],
        message: Value,
    ) -> Events {
        let body = encode_message(message.to_string().as_bytes());
        let mut request = request(Method::POST, &format!("/{method}"), body);
        let kind = "application/connect+json".parse().unwrap();
        request.headers_mut().insert("content-type", kind);
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let response = self.send(request).await;
        assert_eq!(response.status(), 200, "streams fail in their last frame");
        Events {
            body: response.into_body(),
            decoder: FrameDecoder::default(),
            started: false,
        }
    }

    /// Runs a shell script and returns all it did.
    pub(crate) async fn run(&self, script: &str) -> Outcome {
        self.run_with(&[], script).await
    }

    pub(crate) async fn run_with(&self, headers: &[(&'static str, &str)], script: &str) -> Outcome {
        self.begin(headers, script).await.outcome().await
    }

    pub(crate) async fn begin(&self, headers: &[(&'static str, &str)], script: &str) -> Events {
        let process = serde_json::json!({"cmd": "/bin/bash", "args": ["-c", script]});
        let message = serde_json::json!({"process": process, "stdin": false});
        self.stream("process.Process/Start", headers, message).await
    }
}

pub(crate) fn request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<Body> {
    let uri = format!("http://sandbox{path}");
    Request::builder()
        .method(method)
        .uri(uri)
        .body(Full::new(body.into()).boxed())
        .unwrap()
}

/// The reply of a streaming call.
pub(crate) struct Events {
    body: Incoming,
    decoder: FrameDecoder,
    /// Whether the start event has been taken.
    started: bool,
}

/// Everything one stream said.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) pid: u32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) end: Option<EndEvent>,
    pub(crate) keepalives: usize,
    pub(crate) error: Option<ConnectError>,
}

impl Outcome {
    pub(crate) fn exit_code(&self) -> i32 {
        self.end.as_ref().expect("no end event").exit_code
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }
}

impl Events {
    /// The next frame; `None` at the end of the bytes.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            let bytes = tokio::time::timeout(PATIENCE, self.body.frame())
                .await
                .unwrap()?
                .unwrap();
            self.decoder.push(&bytes.into_data().unwrap_or_default());
        }
    }

    pub(crate) async fn event(&mut self) -> ProcessEvent {
        match self.frame().await.expect("the stream broke off") {
            Frame::Message(json) => {
                serde_json::from_slice::<EventResponse>(&json)
                    .unwrap()
                    .event
            }
            Frame::End(end) => panic!("the stream ended: {end:?}"),
        }
    }

    pub(crate) async fn pid(&mut self) -> u32 {
        self.started = true;
        self.event()
            .await
            .start
            .expect("the first event is the start")
            .pid
    }

    /// Reads to the end; fails unless the frames come in the order clients rely on.
    pub(crate) async fn outcome(mut self) -> Outcome {
        let mut outcome = Outcome::default();
        let mut events = usize::from(self.started);
        while let Some(frame) = self.frame().await {
            let json = match frame {
                Frame::Message(json) => json,
                Frame::End(EndOfStream { error }) => {
                    assert!(
                        self.frame().await.is_none(),
                        "nothing follows the last frame"
                    );
                    outcome.error = error;
                    return outcome;
                }
            };
            assert!(outcome.end.is_none(), "the end event is the last one");
            let event = serde_json::from_slice::<EventResponse>(&json)
                .unwrap()
                .event;
            assert_eq!(
                event.start.is_some(),
                events == 0,
                "start comes first and once"
            );
            events += 1;
            outcome.pid = event.start.map_or(outcome.pid, |start| start.pid);
            outcome.keepalives += usize::from(event.keepalive.is_some());
            outcome.end = event.end;
            let data = event.data.unwrap_or_default();
            for (bytes, sink) in [
                (data.stdout, &mut outcome.stdout),
                (data.stderr, &mut outcome.stderr),
            ] {
                let bytes = bytes.unwrap_or_default().0;
                assert!(bytes.len() <= 32 << 10);
                sink.extend(bytes);
            }
        }
        panic!("the stream broke off");
    }
}

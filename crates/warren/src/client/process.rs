//! One command in a sandbox over envd's `Process` service.

use super::Client;
use crate::exit::End;
use anyhow::{Context as _, Result};
use api::e2b::{ENVD_PORT, HEADER_SANDBOX_ID, HEADER_SANDBOX_PORT};
use api::envd::connect::{STREAM_TYPE, UNARY_TYPE, encode_message};
use api::envd::process::{
    CloseStdinRequest, EndEvent, EventResponse, ProcessConfig, ProcessEvent, ProcessInput,
    ProcessSelector, SERVICE, SendInputRequest, SendSignalRequest, Signal, StartRequest,
};
use api::envd::{ACCESS_TOKEN, ConnectError, Frame, FrameDecoder, KEEPALIVE_INTERVAL, ProtoBytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Serialize;

/// Below the idle limits of proxies on the way.
const KEEPALIVE_SECONDS: &str = "50";

/// A command to start.
#[derive(Debug, Default)]
pub(crate) struct StartCommand {
    pub(crate) config: ProcessConfig,
    pub(crate) user: Option<String>,
    /// Whether input will be sent; otherwise the command reads an empty input.
    pub(crate) stdin: bool,
}

/// What a running command does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Ended(End),
}

/// The command did not start, or the stream of its output broke.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessFailure {
    /// The agent's own words.
    #[error("{0}")]
    Agent(ConnectError),
    /// The stream ended and the command's end was not in it: nobody knows how it went.
    #[error("the connection to the sandbox ended before the command did")]
    Cut,
}

/// A started command. Dropping it leaves the command running.
#[derive(Debug)]
pub(crate) struct Process {
    calls: Calls,
    pid: u32,
    stream: Events,
}

/// The means to reach the agent of one sandbox.
#[derive(Debug, Clone)]
struct Calls {
    client: Client,
    headers: HeaderMap,
}

impl Process {
    /// Starts the command in the sandbox and waits until it runs.
    pub(crate) async fn start(
        client: &Client,
        sandbox_id: &str,
        access_token: Option<&str>,
        command: StartCommand,
    ) -> Result<Self> {
        let headers = headers(sandbox_id, access_token, command.user.as_deref())?;
        let client = client.clone();
        let calls = Calls { client, headers };
        let request = StartRequest {
            process: Some(command.config),
            stdin: Some(command.stdin),
            ..StartRequest::default()
        };
        let mut stream = calls.stream("Start", &request).await?;
        loop {
            let event = stream.next().await?.ok_or(ProcessFailure::Cut)?;
            if let Some(start) = event.start {
                let pid = start.pid;
                return Ok(Self { calls, pid, stream });
            }
        }
    }

    /// The command's process id inside the sandbox.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The next output, or the end. Cancel safe: bytes that were read are kept.
    pub(crate) async fn next(&mut self) -> Result<Output> {
        loop {
            let event = self.stream.next().await?.ok_or(ProcessFailure::Cut)?;
            if let Some(output) = output(event) {
                return Ok(output);
            }
        }
    }

    /// A handle that sends input and signals while the output is being read.
    pub(crate) fn input(&self) -> Input {
        Input {
            calls: self.calls.clone(),
            pid: self.pid,
        }
    }
}

/// Writes to a command.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    calls: Calls,
    pid: u32,
}

impl Input {
    fn selector(&self) -> ProcessSelector {
        ProcessSelector {
            pid: Some(self.pid),
            ..ProcessSelector::default()
        }
    }

    /// Sends bytes to standard input; returns once they are taken.
    pub(crate) async fn write(&self, bytes: Vec<u8>) -> Result<()> {
        let input = ProcessInput {
            stdin: Some(ProtoBytes(bytes)),
            ..ProcessInput::default()
        };
        let process = self.selector();
        self.calls
            .unary("SendInput", &SendInputRequest { process, input })
            .await
    }

    /// Ends standard input.
    pub(crate) async fn close(&self) -> Result<()> {
        let process = self.selector();
        self.calls
            .unary("CloseStdin", &CloseStdinRequest { process })
            .await
    }

    /// Sends a signal to the command.
    pub(crate) async fn signal(&self, signal: Signal) -> Result<()> {
        let process = self.selector();
        self.calls
            .unary("SendSignal", &SendSignalRequest { process, signal })
            .await
    }
}

impl Calls {
    async fn unary(&self, method: &str, request: &impl Serialize) -> Result<()> {
        let body = serde_json::to_vec(request).context("write the request as JSON")?;
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(UNARY_TYPE));
        let path = format!("{SERVICE}{method}");
        self.client.data(&path, &headers, body).await.map(drop)
    }

    async fn stream(&self, method: &str, request: &impl Serialize) -> Result<Events> {
        let message = serde_json::to_vec(request).context("write the request as JSON")?;
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(STREAM_TYPE));
        headers.insert(
            KEEPALIVE_INTERVAL,
            HeaderValue::from_static(KEEPALIVE_SECONDS),
        );
        let path = format!("{SERVICE}{method}");
        let body = encode_message(&message);
        let response = self.client.data(&path, &headers, body).await?;
        Ok(Events {
            body: response.into_body(),
            decoder: FrameDecoder::default(),
        })
    }
}

fn headers(sandbox_id: &str, access_token: Option<&str>, user: Option<&str>) -> Result<HeaderMap> {
    let value = |text: &str| {
        HeaderValue::from_str(text).with_context(|| format!("{text:?} cannot stand in a header"))
    };
    let mut headers = HeaderMap::new();
    headers.insert(HEADER_SANDBOX_ID, value(sandbox_id)?);
    headers.insert(HEADER_SANDBOX_PORT, HeaderValue::from(ENVD_PORT));
    headers.insert("connect-protocol-version", HeaderValue::from_static("1"));
    if let Some(token) = access_token {
        headers.insert(ACCESS_TOKEN, value(token)?);
    }
    if let Some(user) = user {
        // Not authentication: envd reads the Linux user from there.
        let basic = format!("Basic {}", STANDARD.encode(format!("{user}:")));
        headers.insert(header::AUTHORIZATION, value(&basic)?);
    }
    Ok(headers)
}

/// The events of a stream.
#[derive(Debug)]
struct Events {
    body: Incoming,
    decoder: FrameDecoder,
}

impl Events {
    /// The next event; `None` at the regular end of the stream.
    async fn next(&mut self) -> Result<Option<ProcessEvent>> {
        loop {
            match self
                .decoder
                .next_frame()
                .context("read the output of the command")?
            {
                Some(Frame::Message(json)) => {
                    let message: EventResponse =
                        serde_json::from_slice(&json).context("read an event of the command")?;
                    return Ok(Some(message.event));
                }
                Some(Frame::End(end)) => {
                    return end
                        .error
                        .map_or(Ok(None), |e| Err(ProcessFailure::Agent(e).into()));
                }
                None => {}
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    self.decoder
                        .push(&frame.into_data().unwrap_or_else(|_trailers| Bytes::new()));
                }
                Some(Err(_)) | None => return Err(ProcessFailure::Cut.into()),
            }
        }
    }
}

fn output(event: ProcessEvent) -> Option<Output> {
    if let Some(end) = event.end {
        return Some(Output::Ended(ended(end)));
    }
    let data = event.data?;
    let stdout = data.stdout.or(data.pty).map(|b| Output::Stdout(b.0));
    stdout.or_else(|| data.stderr.map(|b| Output::Stderr(b.0)))
}

fn ended(end: EndEvent) -> End {
    if end.exited {
        End::Exited(end.exit_code)
    } else {
        End::Signalled(end.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(json: &str) -> ProcessEvent {
        let response: EventResponse = serde_json::from_str(json).expect(json);
        response.event
    }

    #[test]
    fn output_and_end_are_told_apart() {
        let cases = [
            (
                r#"{"event":{"data":{"stdout":"aGkK"}}}"#,
                Some(Output::Stdout(b"hi\n".to_vec())),
            ),
            (
                r#"{"event":{"data":{"stderr":"aGkK"}}}"#,
                Some(Output::Stderr(b"hi\n".to_vec())),
            ),
            (r#"{"event":{"keepalive":{}}}"#, None),
            (
                r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#,
                Some(Output::Ended(End::Exited(0))),
            ),
            (
                r#"{"event":{"end":{"exitCode":-1,"status":"signal: killed","error":"signal: killed"}}}"#,
                Some(Output::Ended(End::Signalled("signal: killed".to_owned()))),
            ),
        ];
        for (json, want) in cases {
            assert_eq!(output(event(json)), want, "{json}");
        }
    }

    #[test]
    fn the_user_goes_into_basic_authorization_without_a_password() {
        let headers = headers("iabc", Some("tok"), Some("user")).expect("plain text");
        assert_eq!(headers[header::AUTHORIZATION], "Basic dXNlcjo=");
        assert_eq!(headers["x-access-token"], "tok");
        assert_eq!(headers["e2b-sandbox-port"], "49983");
        assert!(super::headers("i\nabc", None, None).is_err());
    }
}

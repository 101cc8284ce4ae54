//! The methods of `process.Process`.

use super::stream::{Following, Role, frames};
use super::{Process, start};
use crate::connect::{self, Call, Reply};
use crate::sandbox::Sandbox;
use api::envd::connect::{Frame, FrameDecoder};
use api::envd::process::{
    CloseStdinRequest, ConnectRequest, Empty, ListResponse, SendInputRequest, SendSignalRequest,
    Signal, StartRequest, StreamInputRequest,
};
use api::envd::{Code, ConnectError};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long after its deadline a `Start` stream waits for the killed process to be gone.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// Answers one call; `None`: no such method.
pub(crate) async fn call(
    sandbox: &Arc<Sandbox>,
    method: &str,
    call: Call,
    body: Incoming,
) -> Option<Reply> {
    Some(match method {
        "List" => unary(list(sandbox, body).await),
        "Start" => stream(start(sandbox, call, body).await),
        "Connect" => stream(connect(sandbox, call, body).await),
        "SendInput" => unary(send_input(sandbox, body).await),
        "StreamInput" => client_stream(stream_input(sandbox, body).await),
        "CloseStdin" => unary(close_stdin(sandbox, body).await),
        "SendSignal" => unary(send_signal(sandbox, body).await),
        "Update" => unary(unimplemented::<Empty>("terminals are not available yet")),
        _ => return None,
    })
}

fn unary<T: serde::Serialize>(result: Result<T, ConnectError>) -> Reply {
    connect::unary(result)
}

fn stream(result: Result<Following, ConnectError>) -> Reply {
    connect::server_stream(result.map(frames))
}

fn client_stream(result: Result<Empty, ConnectError>) -> Reply {
    connect::single_message_stream(result)
}

fn unimplemented<T>(message: &str) -> Result<T, ConnectError> {
    Err(ConnectError::new(Code::Unimplemented, message))
}

/// Process ids are positive.
pub(super) fn pid(raw: i32) -> u32 {
    raw.unsigned_abs()
}

async fn list(sandbox: &Sandbox, body: Incoming) -> Result<ListResponse, ConnectError> {
    let _: Empty = connect::read_unary(body).await?;
    Ok(ListResponse {
        processes: sandbox.processes.list(),
    })
}

async fn start(
    sandbox: &Arc<Sandbox>,
    call: Call,
    body: Incoming,
) -> Result<Following, ConnectError> {
    let arrived = Instant::now();
    let request: StartRequest = connect::read_single_frame(body).await?;
    if request.pty.is_some() {
        return unimplemented("terminals are not available yet");
    }
    let (user, _) = call.user(sandbox)?;
    let (timeout, keepalive) = (call.timeout()?, call.keepalive());
    // On its own, so that a caller that leaves half way does not leave half a process behind.
    let started = tokio::spawn(start::start(Arc::clone(sandbox), user, request, timeout)).await;
    let (process, subscription) = started
        .map_err(|error| ConnectError::new(Code::Internal, format!("error starting: {error}")))??;
    let limit = timeout.map(|timeout| arrived + timeout + KILL_GRACE);
    Ok(Following {
        process,
        subscription,
        role: Role::Starter,
        keepalive,
        limit,
    })
}

async fn connect(sandbox: &Sandbox, call: Call, body: Incoming) -> Result<Following, ConnectError> {
    let arrived = Instant::now();
    let request: ConnectRequest = connect::read_single_frame(body).await?;
    let (timeout, keepalive) = (call.timeout()?, call.keepalive());
    let process = sandbox.processes.known(&request.process)?;
    let subscription = process.output.subscribe();
    let limit = timeout.map(|timeout| arrived + timeout);
    Ok(Following {
        process,
        subscription,
        role: Role::Reader,
        keepalive,
        limit,
    })
}

async fn send_input(sandbox: &Sandbox, body: Incoming) -> Result<Empty, ConnectError> {
    let request: SendInputRequest = connect::read_unary(body).await?;
    let process = sandbox.processes.running(&request.process)?;
    process.input.send(request.input).await?;
    Ok(Empty {})
}

async fn stream_input(sandbox: &Sandbox, mut body: Incoming) -> Result<Empty, ConnectError> {
    let mut decoder = FrameDecoder::default();
    let mut process: Option<Arc<Process>> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ConnectError::new(Code::Canceled, format!("the request broke off: {error}"))
        })?;
        let Ok(bytes) = frame.into_data() else {
            continue;
        };
        decoder.push(&bytes);
        while let Some(frame) = decoder.next_frame().map_err(connect::bad_frame)? {
            let Frame::Message(json) = frame else {
                return Ok(Empty {});
            };
            let message: StreamInputRequest = connect::parse(&json)?;
            take_input(sandbox, &mut process, message).await?;
        }
    }
    Ok(Empty {})
}

async fn take_input(
    sandbox: &Sandbox,
    process: &mut Option<Arc<Process>>,
    message: StreamInputRequest,
) -> Result<(), ConnectError> {
    if let Some(start) = message.start {
        *process = Some(sandbox.processes.running(&start.process)?);
    }
    let Some(data) = message.data else {
        return Ok(());
    };
    match process {
        Some(process) => process.input.send(data.input).await,
        None => Err(ConnectError::new(
            Code::InvalidArgument,
            "the first message must name the process",
        )),
    }
}

async fn close_stdin(sandbox: &Sandbox, body: Incoming) -> Result<Empty, ConnectError> {
    let request: CloseStdinRequest = connect::read_unary(body).await?;
    sandbox
        .processes
        .running(&request.process)?
        .input
        .close()
        .await;
    Ok(Empty {})
}

async fn send_signal(sandbox: &Sandbox, body: Incoming) -> Result<Empty, ConnectError> {
    let request: SendSignalRequest = connect::read_unary(body).await?;
    let process = sandbox.processes.running(&request.process)?;
    match request.signal {
        // Nothing of the command may survive it (P7).
        Signal::Kill => process.tree.kill(process.pid).await,
        Signal::Term => {
            let pid = i32::try_from(process.pid).unwrap_or(0);
            crate::tree::send(pid, rustix::process::Signal::TERM);
        }
        Signal::Unspecified => return unimplemented("invalid signal: only SIGTERM and SIGKILL"),
    }
    Ok(Empty {})
}

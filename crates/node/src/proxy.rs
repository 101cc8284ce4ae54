//! The data plane: requests for a sandbox's agent or for any port inside it.
//!
//! Bodies stream in both directions without a bound in size or time. A request ends when its client goes,
//! when the sandbox answers, or when the sandbox's end is decided.

mod agent;
mod drain;
mod ending;
mod headers;
mod port;
mod presigned;
mod target;

pub(crate) use agent::AgentLink;
pub(crate) use target::{Target, target};

use crate::daemon::Daemon;
use crate::error::{ApiError, chain};
use crate::sandbox::Sandbox;
use api::e2b::ENVD_PORT;
use api::{ErrorKind, SandboxGone};
use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::Request;
use std::sync::Arc;

/// Routes of the agent that are for the node alone.
const INTERNAL: [&str; 7] = [
    "/init",
    "/freeze",
    "/unfreeze",
    "/collapse",
    "/fsfreeze",
    "/fsthaw",
    "/upgrade",
];

/// Carries one request to its sandbox.
pub(crate) async fn forward(daemon: &Daemon, target: Target, request: Request<Body>) -> Response {
    let sandbox = target
        .id
        .parse()
        .ok()
        .and_then(|id| daemon.registry.get(&id));
    let Some(sandbox) = sandbox else {
        return gone(&target.id);
    };
    let ended = sandbox.ended.clone();
    let request = request.map(drain::after_answer);
    let answer = async {
        if target.port == ENVD_PORT {
            to_agent(&sandbox, request).await
        } else {
            port::forward(&sandbox, target.port, request).await
        }
    };
    tokio::select! {
        biased;
        () = ended.cancelled() => gone(&target.id),
        response = answer => response,
    }
}

async fn to_agent(sandbox: &Arc<Sandbox>, mut request: Request<Body>) -> Response {
    let path = request.uri().path();
    if INTERNAL.contains(&path.trim_end_matches('/')) {
        let text = format!("no route {} {path}", request.method());
        return ApiError::new(ErrorKind::NotFound, text).into_response();
    }
    headers::strip_hop_by_hop(request.headers_mut());
    match sandbox.agent.send(request).await {
        Ok(mut response) => {
            headers::strip_hop_by_hop(response.headers_mut());
            response.map(|body| ending::until_end(body, &sandbox.ended))
        }
        Err(error) => unreachable(sandbox, "agent", &error),
    }
}

/// No such sandbox runs here.
pub(crate) fn gone(id: &str) -> Response {
    let body = SandboxGone::not_found(id);
    (ErrorKind::BadGateway.status(), Json(body)).into_response()
}

/// The sandbox runs, but the connection to `what` in it broke before an answer.
fn unreachable(
    sandbox: &Sandbox,
    what: &str,
    error: &(dyn std::error::Error + 'static),
) -> Response {
    if sandbox.ended.is_cancelled() {
        return gone(sandbox.id().as_str());
    }
    let text = format!(
        "the {what} of sandbox {} does not answer: {}",
        sandbox.id(),
        chain(error)
    );
    ApiError::new(ErrorKind::BadGateway, text).into_response()
}

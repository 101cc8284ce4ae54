//! Create, list, connect, timeouts, delete: E2B's both generations.

use super::State;
use super::body::Json;
use super::inspect::listed;
use super::refusals;
use crate::daemon::Daemon;
use crate::error::ApiError;
use crate::idempotency::Begin;
use crate::listing::Query;
use crate::sandbox::{Extend, Sandbox};
use crate::seconds::{self, Zero};
use api::ErrorKind;
use api::e2b::{self, ConnectSandbox, ConnectSandboxV1, NewSandbox, Refresh, SetTimeout};
use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use model::{Cause, SandboxId};
use std::sync::Arc;
use std::time::Duration;

pub(super) const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");
const TOTAL_RUNNING: HeaderName = HeaderName::from_static("x-total-running");
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Least that a refresh extends to.
const REFRESH_SECONDS_MIN: u64 = 15;
/// Most that a refresh extends to.
const REFRESH_MAX: Duration = Duration::from_secs(3600);

type Reply = Result<Response, ApiError>;

pub(super) async fn create_v1(daemon: State, headers: HeaderMap, body: Json<NewSandbox>) -> Reply {
    create(daemon, headers, body.0, e2b::TIMEOUT_V1_SECONDS).await
}

pub(super) async fn create_v2(daemon: State, headers: HeaderMap, body: Json<NewSandbox>) -> Reply {
    create(daemon, headers, body.0, e2b::TIMEOUT_V2_SECONDS).await
}

async fn create(
    axum::extract::State(daemon): State,
    headers: HeaderMap,
    new: NewSandbox,
    default: u64,
) -> Reply {
    let created = |reply: &e2b::Sandbox| (StatusCode::CREATED, axum::Json(reply)).into_response();
    let key = headers.get(IDEMPOTENCY_KEY);
    let request = key.and_then(|_| serde_json::to_vec(&new).ok());
    let max = daemon.config.timeout_max;
    let creation = refusals::creation(new, default, max, daemon.host.kind())?;
    let (Some(key), Some(request)) = (key, request) else {
        let sandbox = daemon.create(creation).await?;
        return Ok(created(&reply(&daemon, &sandbox)));
    };
    let key = String::from_utf8_lossy(key.as_bytes());
    let ticket = match daemon.idempotency.begin(&key, request)? {
        Begin::Again(reply) => return Ok(created(&reply)),
        Begin::First(ticket) => ticket,
    };
    // On a task of its own: a client that hangs up and sends again must find the first result.
    let task = tokio::spawn(async move {
        let sandbox = daemon.create(creation).await?;
        let reply = reply(&daemon, &sandbox);
        ticket.succeed(&reply);
        Ok(reply)
    });
    let made: Result<e2b::Sandbox, ApiError> =
        task.await.unwrap_or_else(|e| Err(ApiError::internal(&e)));
    made.map(|reply| created(&reply))
}

fn reply(daemon: &Daemon, sandbox: &Sandbox) -> e2b::Sandbox {
    e2b::Sandbox {
        template_id: sandbox.facts.template_id.clone(),
        sandbox_id: sandbox.id().to_string(),
        client_id: e2b::CLIENT_ID.to_owned(),
        envd_version: e2b::ENVD_VERSION.to_owned(),
        alias: sandbox.facts.alias.clone(),
        envd_access_token: Some(sandbox.token.clone()),
        traffic_access_token: None,
        domain: daemon.config.domain.clone(),
    }
}

pub(super) async fn list_v1(daemon: State, RawQuery(query): RawQuery) -> Reply {
    list(&daemon, &Query::parse_v1(&query.unwrap_or_default()))
}

pub(super) async fn list_v2(daemon: State, RawQuery(query): RawQuery) -> Reply {
    list(&daemon, &Query::parse(&query.unwrap_or_default())?)
}

fn list(daemon: &Daemon, query: &Query) -> Reply {
    let (page, next, total) = query.page(daemon.registry.running(), |s| &s.facts);
    let lines: Vec<_> = page.iter().map(|sandbox| listed(sandbox)).collect();
    let mut response = axum::Json(lines).into_response();
    let headers = response.headers_mut();
    if query.running {
        headers.insert(TOTAL_RUNNING, HeaderValue::from(total));
    }
    if let Some(next) = next.and_then(|next| HeaderValue::try_from(next).ok()) {
        headers.insert(NEXT_TOKEN, next);
    }
    Ok(response)
}

/// A checked id, or an error that quotes it.
pub(super) fn parse_id(text: &str) -> Result<SandboxId, ApiError> {
    text.parse()
        .map_err(|e| ApiError::invalid(crate::error::chain(&e)))
}

/// The running sandbox of this id.
pub(super) fn running(daemon: &Daemon, text: &str) -> Result<Arc<Sandbox>, ApiError> {
    let id = parse_id(text)?;
    let found = daemon.registry.get(&id);
    found.ok_or_else(|| ApiError::sandbox_not_found(id.as_str()))
}

pub(super) async fn delete(
    axum::extract::State(daemon): State,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let sandbox = running(&daemon, &id)?;
    if !daemon.end_for_client(&sandbox).await {
        return Err(ApiError::sandbox_not_found(sandbox.id().as_str()));
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn connect_v1(
    daemon: State,
    Path(id): Path<String>,
    Json(body): Json<ConnectSandboxV1>,
) -> Reply {
    let max = daemon.config.timeout_max;
    let timeout = seconds::parse("timeout", &body.timeout, Zero::Refused, max)?;
    connect(&daemon, &id, timeout)
}

pub(super) async fn connect_v2(
    daemon: State,
    Path(id): Path<String>,
    Json(body): Json<ConnectSandbox>,
) -> Reply {
    let (number, max) = (body.timeout.as_ref(), daemon.config.timeout_max);
    let timeout = seconds::parse_or("timeout", number, e2b::TIMEOUT_V2_SECONDS, max)?;
    connect(&daemon, &id, timeout)
}

/// 200: it runs already. Its end only moves later.
fn connect(daemon: &Daemon, id: &str, timeout: Duration) -> Reply {
    let sandbox = running(daemon, id)?;
    move_end(daemon, &sandbox, timeout, Extend::Only)?;
    Ok(axum::Json(reply(daemon, &sandbox)).into_response())
}

fn move_end(
    daemon: &Daemon,
    sandbox: &Sandbox,
    timeout: Duration,
    extend: Extend,
) -> Result<(), ApiError> {
    let moved = sandbox
        .move_end(timeout, extend, &daemon.records)
        .map_err(|e| ApiError::internal(&e))?;
    if moved {
        return Ok(());
    }
    let text = format!("sandbox {} is being ended", sandbox.id());
    Err(ApiError::new(ErrorKind::Conflict, text))
}

pub(super) async fn timeout(
    axum::extract::State(daemon): State,
    Path(id): Path<String>,
    Json(body): Json<SetTimeout>,
) -> Result<StatusCode, ApiError> {
    let sandbox = running(&daemon, &id)?;
    let max = daemon.config.timeout_max;
    let timeout = seconds::parse("timeout", &body.timeout, Zero::Allowed, max)?;
    if timeout.is_zero() {
        daemon.end(&sandbox, Cause::Timeout);
    } else {
        move_end(&daemon, &sandbox, timeout, Extend::Set)?;
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn refresh(
    daemon: State,
    Path(id): Path<String>,
    Json(body): Json<Refresh>,
) -> Result<StatusCode, ApiError> {
    let sandbox = running(&daemon, &id)?;
    let least = Duration::from_secs(REFRESH_SECONDS_MIN);
    let asked = body.duration.as_ref().map_or(Ok(least), |number| {
        seconds::parse("duration", number, Zero::Allowed, REFRESH_MAX)
    })?;
    let timeout = asked.max(least).min(daemon.config.timeout_max);
    move_end(&daemon, &sandbox, timeout, Extend::Only)?;
    Ok(StatusCode::NO_CONTENT)
}

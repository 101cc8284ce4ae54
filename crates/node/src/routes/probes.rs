//! Whether the node lives and is ready, its metrics, its version, its machine.

use super::State;
use crate::error::ApiError;
use crate::observe;
use api::ErrorKind;
use api::e2b::ENVD_VERSION;
use api::warren::Version;
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use std::sync::Arc;

pub(super) async fn live() -> StatusCode {
    StatusCode::NO_CONTENT
}

pub(super) async fn ready(daemon: State) -> Result<StatusCode, ApiError> {
    let refuse = |text| Err(ApiError::new(ErrorKind::Unavailable, text));
    if daemon.registry.is_closed() {
        return refuse("this node is stopping");
    }
    if !daemon.pool.is_ready() {
        return refuse("no waiting shell yet; see the log if this lasts");
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn metrics(daemon: State) -> Response {
    let running = daemon.registry.running_count();
    metrics::gauge!("node_sandboxes_running").set(running as f64);
    let ending = daemon.registry.ending_count();
    metrics::gauge!("node_sandboxes_ending").set(ending as f64);
    metrics::gauge!("node_pool_waiting").set(daemon.pool.len() as f64);
    let text = observe::recorder().render();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

pub(super) async fn version() -> Json<Version> {
    Json(Version {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        envd_version: ENVD_VERSION.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
    })
}

pub(super) async fn host(
    axum::extract::State(daemon): State,
) -> Result<Json<serde_json::Value>, ApiError> {
    let host = Arc::clone(&daemon.host);
    let report = tokio::task::spawn_blocking(move || host.report()).await;
    report.map(Json).map_err(|e| ApiError::internal(&e))
}

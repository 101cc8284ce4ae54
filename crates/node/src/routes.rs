//! The API: which route is answered by what, and what holds for all of them.

mod auth;
mod body;
mod inspect;
mod later;
mod openapi;
mod probes;
mod refusals;
mod sandboxes;
mod templates;

use crate::daemon::Daemon;
use crate::error::{ApiError, SHOULD_RETRY};
use api::ErrorKind;
use axum::Router;
use axum::extract::{OriginalUri, Request};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderValue, Method};
use std::sync::Arc;

type State = axum::extract::State<Arc<Daemon>>;

/// The whole API. Routes that need no key come last.
pub(crate) fn router(daemon: Arc<Daemon>) -> Router {
    let keyed = e2b()
        .merge(warren())
        .merge(later::router())
        .route_layer(from_fn_with_state(Arc::clone(&daemon), auth::require_key));
    keyed
        .merge(open())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn(no_repeat))
        .with_state(daemon)
}

fn e2b() -> Router<Arc<Daemon>> {
    Router::new()
        .route(
            "/sandboxes",
            post(sandboxes::create_v1).get(sandboxes::list_v1),
        )
        .route(
            "/v2/sandboxes",
            post(sandboxes::create_v2).get(sandboxes::list_v2),
        )
        .route(
            "/sandboxes/{id}",
            get(inspect::detail).delete(sandboxes::delete),
        )
        .route("/sandboxes/{id}/connect", post(sandboxes::connect_v1))
        .route("/v2/sandboxes/{id}/connect", post(sandboxes::connect_v2))
        .route("/sandboxes/{id}/timeout", post(sandboxes::timeout))
        .route("/sandboxes/{id}/refreshes", post(sandboxes::refresh))
        .route("/templates", get(templates::list))
        .route("/v2/templates", get(templates::list_pages))
        .route(
            "/templates/{id}",
            get(templates::detail).delete(templates::delete),
        )
        .route("/templates/aliases/{alias}", get(templates::alias))
}

fn warren() -> Router<Arc<Daemon>> {
    Router::new()
        .route(
            "/warren/v1/templates",
            get(templates::warren_list).post(templates::pull),
        )
        .route(
            "/warren/v1/templates/{name}",
            get(templates::warren_inspect).delete(templates::delete),
        )
        .route("/warren/v1/aliases", post(templates::new_alias))
        .route("/warren/v1/sandboxes/{id}", get(inspect::warren))
        .route("/warren/v1/version", get(probes::version))
        .route("/warren/v1/host", get(probes::host))
}

fn open() -> Router<Arc<Daemon>> {
    Router::new()
        .route("/health", get(probes::live))
        .route("/livez", get(probes::live))
        .route("/readyz", get(probes::ready))
        .route("/metrics", get(probes::metrics))
        .route("/openapi.json", get(openapi::document))
}

async fn no_route(method: Method, OriginalUri(uri): OriginalUri) -> ApiError {
    let text = format!("no route {method} {}", uri.path());
    ApiError::new(ErrorKind::NotFound, text)
}

/// The `Allow` header is added by the router.
async fn no_method(method: Method, OriginalUri(uri): OriginalUri) -> ApiError {
    let text = format!(
        "route {} has no method {method}; the Allow header lists those it has",
        uri.path()
    );
    ApiError::new(ErrorKind::MethodNotAllowed, text)
}

/// SDKs repeat requests after a 5xx; those that may have had an effect must not be repeated.
async fn no_repeat(request: Request, next: Next) -> Response {
    let repeatable = *request.method() != Method::POST && *request.method() != Method::PATCH;
    let mut response = next.run(request).await;
    if response.status().is_server_error() && !repeatable {
        let headers = response.headers_mut();
        headers
            .entry(SHOULD_RETRY)
            .or_insert(HeaderValue::from_static("false"));
    }
    response
}

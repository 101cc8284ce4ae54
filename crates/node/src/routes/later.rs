//! Routes of E2B's interface that are not built yet: 501 that names them, so that nobody searches for a typo.

use crate::daemon::Daemon;
use crate::error::ApiError;
use axum::Router;
use axum::extract::OriginalUri;
use axum::routing::{MethodFilter, on};
use http::Method;
use std::sync::Arc;

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const PUT: MethodFilter = MethodFilter::PUT;
const PATCH: MethodFilter = MethodFilter::PATCH;
const DELETE: MethodFilter = MethodFilter::DELETE;

/// Path, its methods, what it is about.
const LATER: &[(&str, &[MethodFilter], &str)] = &[
    ("/sandboxes/metrics", &[GET], "metrics of sandboxes"),
    ("/sandboxes/{id}/metrics", &[GET], "metrics of sandboxes"),
    ("/sandboxes/{id}/logs", &[GET], "logs of sandboxes"),
    ("/v2/sandboxes/{id}/logs", &[GET], "logs of sandboxes"),
    ("/sandboxes/{id}/pause", &[POST], "pause"),
    ("/sandboxes/{id}/resume", &[POST], "resume"),
    ("/sandboxes/{id}/fork", &[POST], "fork"),
    ("/sandboxes/{id}/network", &[PUT], "changing network rules"),
    ("/sandboxes/{id}/snapshots", &[POST], "snapshots"),
    ("/snapshots", &[GET], "snapshots"),
    ("/v3/templates", &[POST], "template builds"),
    ("/v2/templates", &[POST], "template builds"),
    ("/templates", &[POST], "template builds"),
    ("/templates/{id}", &[POST, PATCH], "template builds"),
    ("/v2/templates/{id}", &[PATCH], "publishing templates"),
    ("/templates/{id}/files/{hash}", &[GET], "template builds"),
    ("/templates/{id}/builds/{build}", &[POST], "template builds"),
    (
        "/v2/templates/{id}/builds/{build}",
        &[POST],
        "template builds",
    ),
    (
        "/templates/{id}/builds/{build}/status",
        &[GET],
        "template builds",
    ),
    (
        "/templates/{id}/builds/{build}/logs",
        &[GET],
        "template builds",
    ),
    ("/default-templates", &[GET], "default templates"),
    ("/templates/tags", &[POST, DELETE], "template tags"),
    ("/templates/{id}/tags", &[GET], "template tags"),
    ("/templates/{id}/tags/count", &[GET], "template tags"),
    ("/templates/{id}/tags/exists", &[GET], "template tags"),
    ("/templates/{id}/tags/groups", &[GET], "template tags"),
    (
        "/templates/{id}/tags/{tag}/assignments",
        &[GET],
        "template tags",
    ),
    ("/volumes", &[GET, POST], "volumes"),
    ("/volumes/{id}", &[GET, DELETE], "volumes"),
    ("/volumecontent/{id}/path", &[GET, PATCH, DELETE], "volumes"),
    ("/volumecontent/{id}/dir", &[GET, POST], "volumes"),
    ("/volumecontent/{id}/file", &[GET, PUT], "volumes"),
    ("/secrets", &[GET, POST], "secrets"),
    ("/secrets/{id}", &[GET, POST, DELETE], "secrets"),
    ("/teams", &[GET], "teams"),
    ("/teams/{id}/metrics", &[GET], "teams"),
    ("/teams/{id}/metrics/max", &[GET], "teams"),
    ("/api-keys", &[GET, POST], "managing API keys"),
    ("/api-keys/{id}", &[PATCH, DELETE], "managing API keys"),
    ("/access-tokens", &[POST], "access tokens"),
    ("/access-tokens/{id}", &[DELETE], "access tokens"),
    ("/nodes", &[GET], "nodes"),
    ("/nodes/{id}", &[GET, POST], "nodes"),
    (
        "/admin/teams/{id}/sandboxes/kill",
        &[POST],
        "administration",
    ),
    ("/admin/teams/{id}/builds/cancel", &[POST], "administration"),
    ("/admin/teams/{id}/api-keys", &[POST], "administration"),
    (
        "/admin/teams/{id}/api-keys/{key}",
        &[DELETE],
        "administration",
    ),
    ("/admin/sandboxes/running-counts", &[GET], "administration"),
];

/// All of them.
pub(super) fn router() -> Router<Arc<Daemon>> {
    LATER
        .iter()
        .fold(Router::new(), |router, (path, methods, what)| {
            methods.iter().fold(router, |router, method| {
                let answer = move |method: Method, OriginalUri(uri): OriginalUri| async move {
                    ApiError::unimplemented(format!("{method} {} ({what})", uri.path()))
                };
                router.route(path, on(*method, answer))
            })
        })
}

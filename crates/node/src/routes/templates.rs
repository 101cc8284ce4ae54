//! Templates: E2B's listings and look-ups, Warren's pull with progress.

use super::State;
use super::body::Json as Body;
use super::sandboxes::NEXT_TOKEN;
use crate::daemon::Daemon;
use crate::error::ApiError;
use crate::listing::{limit, pairs};
use crate::templates::{TemplateError, Templates, Use};
use api::e2b::{self, PAGE_ITEMS_MAX, Template, TemplateAlias, TemplateBuild, TemplateWithBuilds};
use api::warren::{NewAlias, PullEvent, PullRequest, TemplateInfo};
use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use model::TemplateRef;
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Progress lines that may wait for a slow reader.
const PROGRESS_LINES: usize = 64;

/// Runs one catalog call on a blocking thread.
async fn blocking<T: Send + 'static>(
    daemon: &Arc<Daemon>,
    call: impl FnOnce(&Daemon) -> Result<T, TemplateError> + Send + 'static,
) -> Result<T, ApiError> {
    let daemon = Arc::clone(daemon);
    match tokio::task::spawn_blocking(move || call(&daemon)).await {
        Ok(result) => result.map_err(ApiError::from),
        Err(error) => Err(ApiError::internal(&error)),
    }
}

fn reference(text: &str) -> Result<TemplateRef, ApiError> {
    text.parse()
        .map_err(|e| ApiError::invalid(crate::error::chain(&e)))
}

async fn inspect(daemon: &Arc<Daemon>, text: &str) -> Result<TemplateInfo, ApiError> {
    let reference = reference(text)?;
    blocking(daemon, move |d| d.catalog.templates().inspect(&reference)).await
}

async fn all(daemon: &Arc<Daemon>) -> Result<Vec<TemplateInfo>, ApiError> {
    blocking(daemon, |d| d.catalog.templates().list()).await
}

pub(super) async fn list(daemon: State) -> Result<Json<Vec<Template>>, ApiError> {
    let lines = all(&daemon).await?;
    let line = |info: &TemplateInfo| template(info, daemon.catalog.usage(&info.template_id));
    Ok(Json(lines.iter().map(line).collect()))
}

/// The same in pages; the token is the id that the next page begins after.
pub(super) async fn list_pages(
    daemon: State,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let (mut count, mut after) = (PAGE_ITEMS_MAX, None);
    for (key, value) in pairs(&query.unwrap_or_default()) {
        match key.as_str() {
            "limit" => count = limit(&value)?,
            "nextToken" if !value.is_empty() => after = Some(value),
            _ => {}
        }
    }
    let mut infos = all(&daemon).await?;
    infos.sort_by(|a, b| a.template_id.cmp(&b.template_id));
    infos.retain(|info| after.as_ref().is_none_or(|after| info.template_id > *after));
    let more = infos.len() > count;
    infos.truncate(count);
    let line = |info: &TemplateInfo| template(info, daemon.catalog.usage(&info.template_id));
    let lines: Vec<_> = infos.iter().map(line).collect();
    let mut response = Json(&lines).into_response();
    let next = lines.last().filter(|_| more);
    if let Some(next) = next.and_then(|t| HeaderValue::try_from(&t.template_id).ok()) {
        response.headers_mut().insert(NEXT_TOKEN, next);
    }
    Ok(response)
}

pub(super) async fn detail(
    daemon: State,
    Path(id): Path<String>,
) -> Result<Json<TemplateWithBuilds>, ApiError> {
    let info = inspect(&daemon, &id).await?;
    let template = template(&info, daemon.catalog.usage(&info.template_id));
    let build = TemplateBuild {
        build_id: template.build_id.clone(),
        status: template.build_status.clone(),
        created_at: template.created_at,
        updated_at: template.updated_at,
        cpu_count: template.cpu_count,
        memory_mb: template.memory_mb,
        disk_size_mb: template.disk_size_mb,
        envd_version: template.envd_version.clone(),
    };
    let builds = vec![build];
    Ok(Json(TemplateWithBuilds { template, builds }))
}

pub(super) async fn alias(
    daemon: State,
    Path(alias): Path<String>,
) -> Result<Json<TemplateAlias>, ApiError> {
    let info = inspect(&daemon, &alias).await?;
    Ok(Json(TemplateAlias {
        template_id: info.template_id,
        public: false,
    }))
}

pub(super) async fn delete(daemon: State, Path(id): Path<String>) -> Result<StatusCode, ApiError> {
    let reference = reference(&id)?;
    blocking(&daemon, move |d| d.catalog.delete(&reference)).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn template(info: &TemplateInfo, used: Use) -> Template {
    let mut aliases: Vec<String> = Vec::new();
    for name in &info.names {
        let bare = name.split_once(':').map_or(name.as_str(), |(bare, _)| bare);
        if !aliases.iter().any(|a| a == bare) {
            aliases.push(bare.to_owned());
        }
    }
    Template {
        template_id: info.template_id.clone(),
        build_id: build_id(info),
        cpu_count: info.cpu_count,
        memory_mb: info.memory_mb,
        disk_size_mb: info.disk_size_mb,
        public: false,
        aliases,
        names: info.names.clone(),
        created_at: info.created_at,
        updated_at: info.updated_at,
        created_by: None,
        last_spawned_at: used.last,
        spawn_count: used.spawned,
        build_count: 1,
        envd_version: e2b::ENVD_VERSION.to_owned(),
        build_status: "ready".to_owned(),
    }
}

/// E2B's builds have UUIDs: one (version 8) made from what the build is.
fn build_id(info: &TemplateInfo) -> String {
    let text = format!("{}@{}", info.template_id, info.updated_at);
    let mut bytes: [u8; 32] = Sha256::digest(text).into();
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex = hex::encode(&bytes[..16]);
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

pub(super) async fn warren_list(daemon: State) -> Result<Json<Vec<TemplateInfo>>, ApiError> {
    all(&daemon).await.map(Json)
}

pub(super) async fn warren_inspect(
    daemon: State,
    Path(name): Path<String>,
) -> Result<Json<TemplateInfo>, ApiError> {
    inspect(&daemon, &name).await.map(Json)
}

pub(super) async fn new_alias(
    daemon: State,
    Body(new): Body<NewAlias>,
) -> Result<(StatusCode, Json<TemplateInfo>), ApiError> {
    reference(&new.target)?;
    reference(&new.name)?;
    let info = blocking(&daemon, move |d| d.catalog.templates().alias(&new)).await?;
    Ok((StatusCode::CREATED, Json(info)))
}

/// Imports an image; the reply is one JSON line per step, the last one tells the result.
pub(super) async fn pull(
    daemon: State,
    Body(request): Body<PullRequest>,
) -> Result<Response, ApiError> {
    reference(&request.name).map_err(|e| ApiError::invalid(format!("name: {e}")))?;
    if request.image.trim().is_empty() {
        return Err(ApiError::invalid("image is empty: name an image to pull"));
    }
    let (lines, mut reader) = mpsc::channel(PROGRESS_LINES);
    let templates = Arc::clone(daemon.catalog.templates());
    tokio::task::spawn_blocking(move || carry_out(&*templates, &request, &lines));
    let stream = futures::stream::poll_fn(move |cx| {
        reader
            .poll_recv(cx)
            .map(|line| line.map(Ok::<Bytes, Infallible>))
    });
    let mut response = HttpBody::from_stream(stream).into_response();
    let ndjson = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, ndjson);
    Ok(response)
}

fn carry_out(templates: &dyn Templates, request: &PullRequest, lines: &mpsc::Sender<Bytes>) {
    let pulled = templates.pull(request, &|step| {
        // Progress is for people: what a slow reader has no room for is left out.
        let _room = lines.try_send(line(&PullEvent::Progress(step)));
    });
    let last = match pulled {
        Ok(template) => {
            tracing::info!(
                id = template.template_id,
                image = request.image,
                "template pulled"
            );
            PullEvent::Result { template }
        }
        Err(error) => {
            let error = ApiError::from(error);
            tracing::info!(image = request.image, %error, "pull failed");
            PullEvent::Error(error.body())
        }
    };
    // A reader that went away has its answer: the connection.
    let _heard = lines.blocking_send(line(&last));
}

fn line(event: &PullEvent) -> Bytes {
    let mut line = serde_json::to_vec(event).expect("events hold only text and numbers");
    line.push(b'\n');
    line.into()
}

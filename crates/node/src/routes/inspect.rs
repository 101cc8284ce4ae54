//! What is known of one sandbox: E2B's detail while it runs, Warren's also after its end.

use super::State;
use super::refusals::KEY_JOB;
use super::sandboxes::{parse_id, running};
use crate::error::ApiError;
use crate::history::Ended;
use crate::registry::Known;
use crate::sandbox::{Facts, Sandbox};
use api::e2b::{self, Lifecycle, ListedSandbox, ListedState, SandboxDetail};
use api::warren::{SandboxInspect, SandboxUsage};
use axum::Json;
use axum::extract::Path;
use model::State as Life;
use std::sync::Arc;

/// A line of a listing.
pub(super) fn listed(sandbox: &Sandbox) -> ListedSandbox {
    let facts = &sandbox.facts;
    ListedSandbox {
        template_id: facts.template_id.clone(),
        alias: facts.alias.clone(),
        sandbox_id: facts.id.to_string(),
        client_id: e2b::CLIENT_ID.to_owned(),
        started_at: facts.started_at,
        end_at: sandbox.end_at(),
        cpu_count: facts.resources.cpu_count,
        memory_mb: facts.resources.memory_mib,
        disk_size_mb: facts.resources.disk_mib,
        metadata: facts.metadata.clone(),
        state: ListedState::Running,
        envd_version: e2b::ENVD_VERSION.to_owned(),
        volume_mounts: Vec::new(),
    }
}

pub(super) async fn detail(
    daemon: State,
    Path(id): Path<String>,
) -> Result<Json<SandboxDetail>, ApiError> {
    let sandbox = running(&daemon, &id)?;
    Ok(Json(SandboxDetail {
        listed: listed(&sandbox),
        envd_access_token: Some(sandbox.token.clone()),
        allow_internet_access: sandbox.facts.internet,
        domain: daemon.config.domain.clone(),
        lifecycle: Lifecycle {
            auto_resume: false,
            on_timeout: "kill".to_owned(),
        },
    }))
}

pub(super) async fn warren(
    axum::extract::State(daemon): State,
    Path(id): Path<String>,
) -> Result<Json<SandboxInspect>, ApiError> {
    let id = parse_id(&id)?;
    let known = daemon.registry.known(&id);
    let known = known.ok_or_else(|| ApiError::sandbox_not_found(id.as_str()))?;
    let kind = daemon.host.kind();
    Ok(Json(match known {
        Known::Ended(ended) => inspect_ended(&ended, kind),
        Known::Present(sandbox) => {
            let mut inspect = inspect_present(&sandbox, kind);
            let (host, shell) = (Arc::clone(&daemon.host), sandbox.host.clone());
            let usage = tokio::task::spawn_blocking(move || host.usage(&shell)).await;
            inspect.usage = usage.ok().and_then(Result::ok).map(|usage| SandboxUsage {
                cpu_usec: usage.cpu_usec,
                memory_bytes: usage.memory_bytes,
                memory_cache_bytes: usage.memory_cache_bytes,
                oom_kills: usage.oom_kills,
            });
            inspect
        }
    }))
}

fn inspect(facts: &Facts, kind: &str, end_at: jiff::Timestamp) -> SandboxInspect {
    SandboxInspect {
        sandbox_id: facts.id.to_string(),
        state: "running".to_owned(),
        cause: None,
        isolation: kind.to_owned(),
        template_id: facts.template_id.clone(),
        alias: facts.alias.clone(),
        job: facts.metadata.get(KEY_JOB).cloned(),
        metadata: facts.metadata.clone(),
        started_at: facts.started_at,
        end_at,
        ended_at: None,
        cpu_count: facts.resources.cpu_count,
        memory_mb: facts.resources.memory_mib,
        disk_size_mb: facts.resources.disk_mib,
        usage: None,
    }
}

fn inspect_present(sandbox: &Sandbox, kind: &str) -> SandboxInspect {
    let (state, cause) = match sandbox.state() {
        Life::Creating | Life::Running => ("running", None),
        Life::Killing(cause) => ("killing", Some(cause)),
        Life::Dead(cause) => ("dead", Some(cause)),
    };
    SandboxInspect {
        state: state.to_owned(),
        cause: cause.map(|c| c.to_string()),
        ended_at: sandbox.ended_at(),
        ..inspect(&sandbox.facts, kind, sandbox.end_at())
    }
}

fn inspect_ended(ended: &Ended, kind: &str) -> SandboxInspect {
    SandboxInspect {
        state: "dead".to_owned(),
        cause: Some(ended.cause.to_string()),
        ended_at: Some(ended.ended_at),
        ..inspect(&ended.facts, kind, ended.end_at)
    }
}

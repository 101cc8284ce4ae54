//! Shapes of Warren's own surface under `/warren/v1`.

use crate::ErrorBody;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Body of a pull: an image becomes a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PullRequest {
    /// Image reference, or `oci:<dir>`, `oci-archive:<file>`, `docker-archive:<file>` on the node.
    pub image: String,
    /// Template reference to give it, `name[:tag]`.
    pub name: String,
    /// User name at the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password or token at the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// CPUs of its sandboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_count: Option<u32>,
    /// Memory of its sandboxes, MiB.
    #[serde(default, rename = "memoryMB", skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// Writable disk of its sandboxes, MiB.
    #[serde(
        default,
        rename = "diskSizeMB",
        skip_serializing_if = "Option::is_none"
    )]
    pub disk_size_mb: Option<u32>,
}

/// One line of the reply to a pull. The last one is `result` or `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PullEvent {
    /// Work goes on.
    Progress(PullProgress),
    /// The template is there.
    Result {
        /// What was made.
        template: TemplateInfo,
    },
    /// Nothing was made.
    Error(ErrorBody),
}

/// How far one step of a pull is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullProgress {
    /// Verb: `resolve`, `fetch`, `convert`, `reuse`, `commit`.
    pub step: String,
    /// Digest or reference that is worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Bytes done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_bytes: Option<u64>,
    /// Bytes in all, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
}

/// A template in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateInfo {
    /// Id.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Names with their tags.
    pub names: Vec<String>,
    /// Where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Layers, bottom to top.
    pub layers: Vec<TemplateLayer>,
    /// Environment of the image.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// Default user.
    #[serde(default)]
    pub user: Option<String>,
    /// Default working directory.
    #[serde(default)]
    pub workdir: Option<String>,
    /// CPUs.
    pub cpu_count: u32,
    /// Memory, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Writable disk, MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Built in: cannot be deleted.
    #[serde(default)]
    pub builtin: bool,
    /// When it was first made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// One layer of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateLayer {
    /// Identity: a digest over its content.
    pub digest: String,
    /// Plain size.
    pub size_bytes: u64,
}

/// Body of an alias: one more name for a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewAlias {
    /// The template that is there.
    pub target: String,
    /// The further name, `name[:tag]`.
    pub name: String,
}

/// What the node knows of a sandbox, also after its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxInspect {
    /// Id.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// `running`, `killing` or `dead`.
    pub state: String,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Isolation kind.
    pub isolation: String,
    /// Template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Name of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Label that groups sandboxes of one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Labels.
    pub metadata: BTreeMap<String, String>,
    /// When it became usable.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// When its time is over.
    #[schema(value_type = String, format = DateTime)]
    pub end_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// CPUs.
    pub cpu_count: u32,
    /// Memory, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Writable disk, MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Figures read from outside, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<SandboxUsage>,
}

/// Figures of one sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxUsage {
    /// CPU time, microseconds.
    pub cpu_usec: u64,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Page cache part of it, bytes.
    pub memory_cache_bytes: u64,
    /// Processes killed for want of memory.
    pub oom_kills: u64,
}

/// Reply of the version route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Version of Warren.
    pub version: String,
    /// Version of the envd protocol.
    pub envd_version: String,
    /// Architecture of the node.
    pub arch: String,
}

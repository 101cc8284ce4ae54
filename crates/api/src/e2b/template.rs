//! Templates: list, inspect, names.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One line of the template listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Id.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Id of the newest build.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// CPUs.
    pub cpu_count: u32,
    /// Memory, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Writable disk, MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Whether other projects may use it.
    pub public: bool,
    /// Names without tags; deprecated by `names`.
    pub aliases: Vec<String>,
    /// Names.
    pub names: Vec<String>,
    /// When it was first made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// Unknown here: keys have no users.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub created_by: Option<serde_json::Value>,
    /// Last create from it since the node started.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_spawned_at: Option<Timestamp>,
    /// Creates from it since the node started.
    pub spawn_count: u64,
    /// Builds so far.
    pub build_count: u32,
    /// Version of the envd protocol.
    pub envd_version: String,
    /// `ready`: a template that is not whole is not listed.
    pub build_status: String,
}

/// One build of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateBuild {
    /// Id.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// `ready`.
    pub status: String,
    /// Begin.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// CPUs.
    pub cpu_count: u32,
    /// Memory, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Writable disk, MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Version of the envd protocol.
    pub envd_version: String,
}

/// Reply of template inspect: both generations' fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateWithBuilds {
    /// The line of the listing.
    #[serde(flatten)]
    pub template: Template,
    /// Builds, newest first.
    pub builds: Vec<TemplateBuild>,
}

/// Reply of the look-up by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateAlias {
    /// Id.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Whether other projects may use it.
    pub public: bool,
}

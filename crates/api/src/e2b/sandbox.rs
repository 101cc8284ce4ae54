//! Sandboxes: create, list, inspect, connect, timeouts.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Body of both creates. Numbers stay as written, so that errors can quote them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewSandbox {
    /// Template reference `[namespace/]name-or-id[:tag]`.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Seconds to live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub timeout: Option<Number>,
    /// Ignored: a sandbox is always secured by a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// Pause instead of kill at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause: Option<bool>,
    /// Keep memory at that pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause_memory: Option<bool>,
    /// Resume when traffic arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_resume: Option<AutoResume>,
    /// Whether the sandbox reaches the internet; spelled in snake case on the wire.
    #[serde(
        default,
        rename = "allow_internet_access",
        skip_serializing_if = "Option::is_none"
    )]
    pub allow_internet_access: Option<bool>,
    /// Network rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkConfig>,
    /// Labels; keys under `warren.` are read by Warren.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Environment of every command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
    /// Configuration of an MCP gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub mcp: Option<Value>,
    /// Identity tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub iam: Option<Value>,
    /// Volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<VolumeMount>>,
}

/// Whether traffic resumes a paused sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AutoResume {
    /// On or off.
    pub enabled: bool,
}

/// A volume and where it is seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeMount {
    /// Volume.
    pub name: String,
    /// Absolute path inside.
    pub path: String,
}

/// Network rules of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfig {
    /// Whether ports are reachable without a traffic token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_public_traffic: Option<bool>,
    /// Addresses, ranges and names that are allowed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_out: Option<Vec<String>>,
    /// Addresses and ranges that are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny_out: Option<Vec<String>>,
    /// All further rules by name.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub other: Map<String, Value>,
}

/// Reply of create and connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// Id of the template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Id of the sandbox.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// Always [`super::CLIENT_ID`].
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Version of the envd protocol.
    pub envd_version: String,
    /// Name of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Opens the agent's interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<String>,
    /// Opens private ports.
    #[serde(default)]
    pub traffic_access_token: Option<String>,
    /// Domain under which the sandbox has host names.
    #[serde(default)]
    pub domain: Option<String>,
}

/// State of a listed sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListedState {
    /// Usable.
    Running,
    /// Frozen.
    Paused,
}

/// One line of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedSandbox {
    /// Id of the template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Name of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Id of the sandbox.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// Always [`super::CLIENT_ID`].
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// When it became usable.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// When it will end.
    #[schema(value_type = String, format = DateTime)]
    pub end_at: Timestamp,
    /// CPUs.
    pub cpu_count: u32,
    /// Memory, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Writable disk, MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Labels.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// State.
    pub state: ListedState,
    /// Version of the envd protocol.
    pub envd_version: String,
    /// Volumes.
    #[serde(default)]
    pub volume_mounts: Vec<VolumeMount>,
}

/// What happens at the end of a sandbox's time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// Whether traffic resumes it.
    pub auto_resume: bool,
    /// `kill` or `pause`.
    pub on_timeout: String,
}

/// Reply of inspect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxDetail {
    /// The line of a listing.
    #[serde(flatten)]
    pub listed: ListedSandbox,
    /// Opens the agent's interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<String>,
    /// Whether the sandbox reaches the internet; absent when create did not say.
    #[serde(default)]
    pub allow_internet_access: Option<bool>,
    /// Domain under which the sandbox has host names.
    #[serde(default)]
    pub domain: Option<String>,
    /// End of its time.
    pub lifecycle: Lifecycle,
}

/// Body of the first generation's connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectSandboxV1 {
    /// Seconds to live from now, at least.
    #[schema(value_type = u64)]
    pub timeout: Number,
    /// Whether a paused sandbox comes back with its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
}

/// Body of the second generation's connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectSandbox {
    /// Seconds to live from now, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub timeout: Option<Number>,
    /// Whether a paused sandbox comes back with its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
}

/// Body of the timeout route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetTimeout {
    /// Seconds to live from now; 0 ends the sandbox.
    #[schema(value_type = u64)]
    pub timeout: Number,
}

/// Body of the refreshes route.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refresh {
    /// Seconds to live from now, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub duration: Option<Number>,
}

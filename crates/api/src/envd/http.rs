//! Bodies of envd's plain HTTP routes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Body of every failed plain request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The HTTP status again.
    pub code: u16,
    /// Text for a human.
    pub message: String,
}

/// One file written by `POST /files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Absolute path.
    pub path: String,
    /// Last component.
    pub name: String,
    /// Always `file`.
    pub r#type: String,
    /// What the uploader said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

/// Body of `POST /init`: absent fields change nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitRequest {
    /// Replaces the sandbox's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
    /// Replaces the token of the data plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token: Option<String>,
    /// Replaces the default user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_user: Option<String>,
    /// Replaces the default working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_workdir: Option<String>,
}

//! Messages of `filesystem.Filesystem`.

use super::proto_json::{ProtoInt64, is_zero, nullable, number};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Path prefix of the service.
pub const SERVICE: &str = "/filesystem.Filesystem/";

/// What a path leads to; links are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileType {
    /// A regular file.
    #[serde(rename = "FILE_TYPE_FILE")]
    File,
    /// A directory.
    #[serde(rename = "FILE_TYPE_DIRECTORY")]
    Directory,
    /// A link that is reported as itself.
    #[serde(rename = "FILE_TYPE_SYMLINK")]
    Symlink,
    /// Something else, or a link to nothing.
    #[default]
    #[serde(rename = "FILE_TYPE_UNSPECIFIED", other)]
    Unspecified,
}

/// A file, directory or link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryInfo {
    /// Last component of the path.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub name: String,
    /// What it is, links followed.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub r#type: FileType,
    /// Absolute path as asked for, links not resolved.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub path: String,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "ProtoInt64::is_zero")]
    pub size: ProtoInt64,
    /// Permission bits, links followed.
    #[serde(default, deserialize_with = "number", skip_serializing_if = "is_zero")]
    pub mode: u32,
    /// As Go prints a mode: `-rw-r--r--`, `Lrwxrwxrwx`.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub permissions: String,
    /// Name of the owner, or the number.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub owner: String,
    /// Name of the group, or the number.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub group: String,
    /// RFC 3339.
    #[serde(
        default,
        alias = "modified_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub modified_time: Option<String>,
    /// Where a link leads to in the end.
    #[serde(
        default,
        alias = "symlink_target",
        skip_serializing_if = "Option::is_none"
    )]
    pub symlink_target: Option<String>,
    /// What the uploader said about the file.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub metadata: BTreeMap<String, String>,
    /// Whether the path itself is a link.
    #[serde(
        default,
        alias = "is_symlink",
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub is_symlink: bool,
}

/// Request of `Stat`, `MakeDir` and `Remove`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRequest {
    /// Which path.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub path: String,
}

/// Request of `Move`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveRequest {
    /// From.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub source: String,
    /// To.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub destination: String,
}

/// Request of `ListDir`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListDirRequest {
    /// Which directory.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub path: String,
    /// How many levels; 0 is 1.
    #[serde(default, deserialize_with = "number", skip_serializing_if = "is_zero")]
    pub depth: u32,
}

/// Reply of `Stat`, `MakeDir` and `Move`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryResponse {
    /// The entry.
    #[serde(default, deserialize_with = "nullable")]
    pub entry: EntryInfo,
}

/// Reply of `ListDir`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListDirResponse {
    /// The entries, parents before children, by name.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub entries: Vec<EntryInfo>,
}

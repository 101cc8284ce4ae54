//! Records on disk. Each says its format; one that is newer than this program is not guessed at.

use crate::image_config::ImageConfig;
use model::{Digest, Resources};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format that is written, and the only one read.
pub(crate) const FORMAT: u32 = 1;

/// A template: a name for builds, one per tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateRecord {
    /// Format of the record.
    pub format: u32,
    /// 20 of `[a-z0-9]`.
    pub template_id: String,
    /// `[namespace/]name`.
    pub name: String,
    /// More names of the same form.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Builds by tag.
    pub tags: BTreeMap<String, BuildRecord>,
    /// When it was first put, milliseconds since 1970.
    pub created_at_ms: u64,
    /// When it was last changed.
    pub updated_at_ms: u64,
    /// How many sandboxes were started from it.
    #[serde(default)]
    pub spawn_count: u64,
    /// When the last one was.
    #[serde(default)]
    pub last_spawned_at_ms: Option<u64>,
}

/// One build of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildRecord {
    /// In the form of a UUID.
    pub build_id: String,
    /// Bottom to top.
    pub layers: Vec<Digest>,
    /// Whether this machine's `/usr` lies under the layers.
    #[serde(default)]
    pub uses_host_usr: bool,
    /// Where the image came from.
    pub image: String,
    /// Digest of its manifest.
    pub manifest_digest: Option<Digest>,
    /// How processes start in it.
    pub config: ImageConfig,
    /// What a sandbox of it may use.
    pub resources: Resources,
    /// Command run when a sandbox starts.
    #[serde(default)]
    pub start_cmd: Option<String>,
    /// Command that succeeds once it is ready.
    #[serde(default)]
    pub ready_cmd: Option<String>,
    /// When it was made, milliseconds since 1970.
    pub created_at_ms: u64,
    /// Bytes of its layers.
    pub size_bytes: u64,
}

/// What an OCI layer became.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayerRecord {
    pub(crate) format: u32,
    /// The layer in the store.
    pub(crate) layer: Digest,
    /// The digest of the plain tar.
    pub(crate) diff_id: Digest,
    /// Bytes of the image.
    pub(crate) image_bytes: u64,
    /// Directories that no entry described.
    pub(crate) implicit_directories: Vec<String>,
}

/// Parses a record of this format.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Head {
        format: u32,
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if head.format != FORMAT {
        let found = head.format;
        return Err(format!(
            "its format is {found}, this program reads {FORMAT}"
        ));
    }
    serde_json::from_slice(bytes).map_err(|e| e.to_string())
}

/// The bytes of a record, fit for people.
pub(crate) fn bytes<T: Serialize>(record: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(record).expect("records are plain data");
    bytes.push(b'\n');
    bytes
}

//! OCI and docker manifests and indexes: from the first document to this machine's image.

use crate::error::ImportError;
use crate::hashing::digest_of;
use crate::image_config::{self, architecture};
use crate::source::{FoundImage, LayerBlob};
use model::Digest;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Largest document read; the distribution specification asks registries for 4 MiB.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 4 << 20;
/// Indexes within indexes.
const DEPTH_MAX: usize = 4;
/// The annotation that names an image in a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// A reference from one document to another or to a layer.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Descriptor {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default)]
    platform: Option<Platform>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: Option<String>,
}

/// A manifest or an index; which one is seen by what it has.
#[derive(Debug, Deserialize)]
struct Document {
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
}

/// How further documents are had. Content is verified by the caller of these.
pub(crate) trait Documents {
    fn manifest(&self, descriptor: &Descriptor) -> Result<Vec<u8>, ImportError>;
    fn config(&self, descriptor: &Descriptor) -> Result<Vec<u8>, ImportError>;
}

/// Follows `bytes`, the document that was asked for, to an image.
pub(crate) fn find(
    documents: &dyn Documents,
    origin: &str,
    bytes: Vec<u8>,
    tag: Option<&str>,
) -> Result<FoundImage, ImportError> {
    let mut bytes = bytes;
    let mut tag = tag;
    for _ in 0..DEPTH_MAX {
        let document: Document = serde_json::from_slice(&bytes)
            .map_err(|e| malformed(origin, "the manifest", e.to_string()))?;
        if let (Some(config), Some(layers)) = (&document.config, &document.layers) {
            let config = verified(documents.config(config)?, config, "the configuration")?;
            return image(origin, digest_of(&bytes), &config, layers);
        }
        let Some(manifests) = document.manifests else {
            let why = "it is neither a manifest nor an index".to_owned();
            return Err(malformed(origin, "the manifest", why));
        };
        let next = choose(origin, &manifests, tag.take())?;
        bytes = verified(documents.manifest(next)?, next, "the manifest")?;
    }
    let why = format!("indexes are nested deeper than {DEPTH_MAX}");
    Err(malformed(origin, "the index", why))
}

fn malformed(origin: &str, what: &'static str, why: String) -> ImportError {
    ImportError::Malformed {
        origin: origin.to_owned(),
        what,
        why,
    }
}

/// The document, if it is the one that the descriptor names.
fn verified(bytes: Vec<u8>, wanted: &Descriptor, what: &str) -> Result<Vec<u8>, ImportError> {
    let actual = digest_of(&bytes);
    if actual != wanted.digest {
        let (what, wanted) = (what.to_owned(), wanted.digest);
        return Err(ImportError::DigestMismatch {
            what,
            wanted,
            actual,
        });
    }
    Ok(bytes)
}

/// The entry with the tag, if one was asked for, then the one for this machine.
fn choose<'d>(
    origin: &str,
    manifests: &'d [Descriptor],
    tag: Option<&str>,
) -> Result<&'d Descriptor, ImportError> {
    let name = |d: &Descriptor| d.annotations.as_ref()?.get(REF_NAME).cloned();
    let named: Vec<&Descriptor> = match tag {
        None => manifests.iter().collect(),
        Some(tag) => manifests
            .iter()
            .filter(|d| name(d).as_deref() == Some(tag))
            .collect(),
    };
    if let (true, Some(tag)) = (named.is_empty(), tag) {
        let what = format!("image with the tag {tag:?}");
        return Err(ImportError::Missing {
            origin: origin.to_owned(),
            what,
        });
    }
    if let [only] = named.as_slice()
        && only.platform.is_none()
    {
        return Ok(only);
    }
    let fits = |d: &&&Descriptor| {
        d.platform
            .as_ref()
            .is_some_and(|p| p.os == "linux" && p.architecture == architecture())
    };
    let fitting: Vec<&&Descriptor> = named.iter().filter(fits).collect();
    // Variants of one architecture: the one that all its machines can run says v8 or nothing.
    let plain = |d: &&&&Descriptor| {
        let variant = d.platform.as_ref().and_then(|p| p.variant.as_deref());
        matches!(variant, None | Some("" | "v8"))
    };
    if let Some(found) = fitting.iter().find(plain).or(fitting.first()) {
        return Ok(found);
    }
    if named.iter().all(|d| d.platform.is_none()) {
        let tags: Vec<String> = named.iter().filter_map(|d| name(d)).collect();
        let what = format!("single image; name one of its tags: {}", tags.join(", "));
        return Err(ImportError::Missing {
            origin: origin.to_owned(),
            what,
        });
    }
    let platforms = named.iter().filter_map(|d| d.platform.as_ref());
    let found: Vec<String> = platforms
        .map(|p| format!("{}/{}", p.os, p.architecture))
        .collect();
    Err(ImportError::Platform {
        origin: origin.to_owned(),
        wanted: architecture(),
        found: if found.is_empty() {
            "nothing".to_owned()
        } else {
            found.join(", ")
        },
    })
}

fn image(
    origin: &str,
    manifest_digest: Digest,
    config: &[u8],
    layers: &[Descriptor],
) -> Result<FoundImage, ImportError> {
    let config = image_config::parse(config, origin)?;
    check_architecture(origin, &config.architecture)?;
    if config.diff_ids.len() != layers.len() {
        let why = format!(
            "it names {} layers, the manifest {}",
            config.diff_ids.len(),
            layers.len()
        );
        return Err(malformed(origin, "the configuration", why));
    }
    let blobs = layers
        .iter()
        .zip(&config.diff_ids)
        .map(|(layer, diff_id)| LayerBlob {
            diff_id: *diff_id,
            digest: Some(layer.digest),
            size: Some(layer.size),
            name: layer.digest.to_string(),
        });
    Ok(FoundImage {
        manifest_digest,
        layers: blobs.collect(),
        config,
    })
}

/// A single image may be for another machine, too.
pub(crate) fn check_architecture(origin: &str, found: &str) -> Result<(), ImportError> {
    if found.is_empty() || found == architecture() {
        return Ok(());
    }
    let (origin, found) = (origin.to_owned(), format!("linux/{found}"));
    Err(ImportError::Platform {
        origin,
        wanted: architecture(),
        found,
    })
}

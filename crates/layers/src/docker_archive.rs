//! What `docker save` writes: a tar with `manifest.json`, a configuration and layers.

use crate::archive::Archive;
use crate::error::ImportError;
use crate::hashing::digest_of;
use crate::image_config;
use crate::oci_manifest::{DOCUMENT_BYTES_MAX, check_architecture};
use crate::source::{FoundImage, LayerBlob, Origin};
use crate::store::Store;
use serde::Deserialize;
use std::io::Read;
use std::path::Path;

/// An archive and which of its images is meant.
#[derive(Debug)]
pub(crate) struct DockerArchive {
    archive: Archive,
    tag: Option<String>,
    origin: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Item {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    #[serde(default)]
    layers: Option<Vec<String>>,
}

impl DockerArchive {
    pub(crate) fn open(
        path: &Path,
        tag: Option<String>,
        origin: String,
        store: &Store,
    ) -> Result<Self, ImportError> {
        let archive = Archive::open(path, store)?;
        Ok(Self {
            archive,
            tag,
            origin,
        })
    }

    fn missing(&self, what: impl Into<String>) -> ImportError {
        ImportError::Missing {
            origin: self.origin.clone(),
            what: what.into(),
        }
    }

    fn malformed(&self, what: &'static str, why: String) -> ImportError {
        ImportError::Malformed {
            origin: self.origin.clone(),
            what,
            why,
        }
    }

    fn document(&self, name: &str) -> Result<Vec<u8>, ImportError> {
        let document = self.archive.document(name, DOCUMENT_BYTES_MAX)?;
        document.ok_or_else(|| self.missing(name))
    }

    fn choose(&self, items: Vec<Item>) -> Result<Item, ImportError> {
        let Some(tag) = &self.tag else {
            let count = items.len();
            let mut items = items.into_iter();
            return match (items.next(), count) {
                (Some(only), 1) => Ok(only),
                _ => Err(self.missing(format!("single image but {count}; name one by its tag"))),
            };
        };
        let full = if tag.contains(':') {
            tag.clone()
        } else {
            format!("{tag}:latest")
        };
        let has = |item: &Item| item.repo_tags.iter().flatten().any(|t| *t == full);
        let found = items.into_iter().find(has);
        found.ok_or_else(|| self.missing(format!("image with the tag {full:?}")))
    }
}

impl Origin for DockerArchive {
    fn find(&self) -> Result<FoundImage, ImportError> {
        let bytes = self.document("manifest.json")?;
        let items: Vec<Item> = serde_json::from_slice(&bytes)
            .map_err(|e| self.malformed("manifest.json", e.to_string()))?;
        let item = self.choose(items)?;
        let bytes = self.document(&item.config)?;
        let config = image_config::parse(&bytes, &self.origin)?;
        check_architecture(&self.origin, &config.architecture)?;
        let names = item.layers.unwrap_or_default();
        if names.len() != config.diff_ids.len() {
            let why = format!(
                "it names {} layers, manifest.json {}",
                config.diff_ids.len(),
                names.len()
            );
            return Err(self.malformed("the configuration", why));
        }
        let layers = names
            .into_iter()
            .zip(&config.diff_ids)
            .map(|(name, diff_id)| LayerBlob {
                diff_id: *diff_id,
                digest: None,
                size: self.archive.size(&name),
                name,
            });
        // Docker's image id; the archive has no other manifest.
        Ok(FoundImage {
            manifest_digest: digest_of(&bytes),
            layers: layers.collect(),
            config,
        })
    }

    fn open(&self, layer: &LayerBlob) -> Result<Box<dyn Read + Send + '_>, ImportError> {
        let member = self.archive.member(&layer.name);
        Ok(Box::new(
            member.ok_or_else(|| self.missing(layer.name.as_str()))?,
        ))
    }
}

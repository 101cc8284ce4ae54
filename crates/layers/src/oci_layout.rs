//! OCI image layouts, as a directory or in a tar.

use crate::archive::{Archive, read_document};
use crate::error::ImportError;
use crate::oci_manifest::{self, DOCUMENT_BYTES_MAX, Descriptor, Documents};
use crate::source::{FoundImage, LayerBlob, Origin};
use crate::store::Store;
use model::Digest;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// A layout and which of its images is meant.
#[derive(Debug)]
pub(crate) struct OciLayout {
    files: Files,
    tag: Option<String>,
    origin: String,
}

#[derive(Debug)]
enum Files {
    Directory(PathBuf),
    Archive(Archive),
}

impl OciLayout {
    pub(crate) fn directory(path: &Path, tag: Option<String>, origin: String) -> Self {
        Self {
            files: Files::Directory(path.to_owned()),
            tag,
            origin,
        }
    }

    pub(crate) fn archive(
        path: &Path,
        tag: Option<String>,
        origin: String,
        store: &Store,
    ) -> Result<Self, ImportError> {
        let files = Files::Archive(Archive::open(path, store)?);
        Ok(Self { files, tag, origin })
    }

    fn file(&self, name: &str) -> Result<Box<dyn Read + Send + '_>, ImportError> {
        let missing = || ImportError::Missing {
            origin: self.origin.clone(),
            what: name.to_owned(),
        };
        match &self.files {
            Files::Directory(directory) => {
                let path = directory.join(name);
                match File::open(&path) {
                    Ok(file) => Ok(Box::new(file)),
                    Err(e) if e.kind() == ErrorKind::NotFound => Err(missing()),
                    Err(source) => Err(ImportError::Read { path, source }),
                }
            }
            Files::Archive(archive) => Ok(Box::new(archive.member(name).ok_or_else(missing)?)),
        }
    }

    fn document(&self, name: &str) -> Result<Vec<u8>, ImportError> {
        let file = self.file(name)?;
        let failed = |source| ImportError::Read {
            path: PathBuf::from(&self.origin).join(name),
            source,
        };
        read_document(file, DOCUMENT_BYTES_MAX).map_err(failed)
    }
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

impl Documents for OciLayout {
    fn manifest(&self, descriptor: &Descriptor) -> Result<Vec<u8>, ImportError> {
        self.document(&blob_name(&descriptor.digest))
    }

    fn config(&self, descriptor: &Descriptor) -> Result<Vec<u8>, ImportError> {
        self.document(&blob_name(&descriptor.digest))
    }
}

impl Origin for OciLayout {
    fn find(&self) -> Result<FoundImage, ImportError> {
        let index = self.document("index.json")?;
        oci_manifest::find(self, &self.origin, index, self.tag.as_deref())
    }

    fn open(&self, layer: &LayerBlob) -> Result<Box<dyn Read + Send + '_>, ImportError> {
        self.file(&blob_name(&layer.digest.unwrap_or(layer.diff_id)))
    }
}

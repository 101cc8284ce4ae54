//! Where an image comes from, in skopeo's words, and what every origin can do.

use crate::docker_archive::DockerArchive;
use crate::error::ImportError;
use crate::image_config::ParsedConfig;
use crate::oci_layout::OciLayout;
use model::Digest;
use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;

/// A parsed image source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource {
    /// `docker://HOST/REPOSITORY:TAG`, or the reference alone, short as docker allows.
    Registry(oci_client::Reference),
    /// `oci:DIRECTORY[:TAG]`.
    OciDirectory {
        /// The layout's directory.
        path: PathBuf,
        /// Which of its images.
        tag: Option<String>,
    },
    /// `oci-archive:FILE[:TAG]`.
    OciArchive {
        /// A tar of a layout.
        path: PathBuf,
        /// Which of its images.
        tag: Option<String>,
    },
    /// `docker-archive:FILE[:REFERENCE]`.
    DockerArchive {
        /// What `docker save` wrote.
        path: PathBuf,
        /// Which of its images.
        tag: Option<String>,
    },
}

impl FromStr for ImageSource {
    type Err = ImportError;

    fn from_str(text: &str) -> Result<Self, ImportError> {
        let bad = |why: String| ImportError::Source {
            text: text.to_owned(),
            why,
        };
        let local = |rest: &str| {
            let (path, tag) = match rest.split_once(':') {
                Some((path, tag)) => (path, Some(tag.to_owned())),
                None => (rest, None),
            };
            if path.is_empty() || tag.as_deref() == Some("") {
                return Err(bad("a path, or a path and a tag, is needed".to_owned()));
            }
            Ok((PathBuf::from(path), tag))
        };
        if let Some(rest) = text.strip_prefix("oci:") {
            return local(rest).map(|(path, tag)| Self::OciDirectory { path, tag });
        }
        if let Some(rest) = text.strip_prefix("oci-archive:") {
            return local(rest).map(|(path, tag)| Self::OciArchive { path, tag });
        }
        if let Some(rest) = text.strip_prefix("docker-archive:") {
            return local(rest).map(|(path, tag)| Self::DockerArchive { path, tag });
        }
        let reference = text.strip_prefix("docker://").unwrap_or(text);
        if reference.contains("://") {
            return Err(bad(
                "its scheme is none of docker, oci, oci-archive, docker-archive".to_owned(),
            ));
        }
        reference
            .parse()
            .map(Self::Registry)
            .map_err(|e: oci_client::ParseError| bad(e.to_string()))
    }
}

impl fmt::Display for ImageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, path, tag) = match self {
            Self::Registry(reference) => return write!(f, "docker://{reference}"),
            Self::OciDirectory { path, tag } => ("oci", path, tag),
            Self::OciArchive { path, tag } => ("oci-archive", path, tag),
            Self::DockerArchive { path, tag } => ("docker-archive", path, tag),
        };
        write!(f, "{scheme}:{}", path.display())?;
        tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))
    }
}

/// One layer of an image before it is converted.
#[derive(Debug, Clone)]
pub(crate) struct LayerBlob {
    /// Digest of the plain tar.
    pub(crate) diff_id: Digest,
    /// Digest of what is transported, where the origin promises one.
    pub(crate) digest: Option<Digest>,
    /// Its size.
    pub(crate) size: Option<u64>,
    /// What the origin calls it.
    pub(crate) name: String,
}

/// An image whose documents were read and verified, its layers not yet.
#[derive(Debug)]
pub(crate) struct FoundImage {
    pub(crate) manifest_digest: Digest,
    pub(crate) config: ParsedConfig,
    /// Bottom to top.
    pub(crate) layers: Vec<LayerBlob>,
}

/// Something that holds an image.
pub(crate) trait Origin: Sync {
    /// Finds the image for this machine. Called once, before any layer is opened.
    fn find(&self) -> Result<FoundImage, ImportError>;

    /// The layer's bytes as transported. Called from several threads; nothing is verified yet.
    fn open(&self, layer: &LayerBlob) -> Result<Box<dyn Read + Send + '_>, ImportError>;
}

impl ImageSource {
    /// Opens an origin on this machine; `None` for a registry.
    pub(crate) fn open_local(
        &self,
        store: &crate::Store,
    ) -> Result<Option<Box<dyn Origin>>, ImportError> {
        let origin = self.to_string();
        Ok(match self {
            Self::Registry(_) => None,
            Self::OciDirectory { path, tag } => {
                Some(Box::new(OciLayout::directory(path, tag.clone(), origin)))
            }
            Self::OciArchive { path, tag } => Some(Box::new(OciLayout::archive(
                path,
                tag.clone(),
                origin,
                store,
            )?)),
            Self::DockerArchive { path, tag } => Some(Box::new(DockerArchive::open(
                path,
                tag.clone(),
                origin,
                store,
            )?)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_as_skopeo_does_and_written_back() {
        for (text, wanted) in [
            ("oci:some/dir", "oci:some/dir"),
            ("oci:d:v1", "oci:d:v1"),
            ("oci-archive:f.tar", "oci-archive:f.tar"),
            ("docker-archive:f.tar:a/b:c", "docker-archive:f.tar:a/b:c"),
            ("docker://127.0.0.1:5000/x:y", "docker://127.0.0.1:5000/x:y"),
            ("localhost:5000/x", "docker://localhost:5000/x:latest"),
        ] {
            let source: ImageSource = text.parse().expect(text);
            assert_eq!(source.to_string(), wanted);
        }
        let short: ImageSource = "debian".parse().expect("short");
        let long: ImageSource = "docker://library/debian:latest".parse().expect("long");
        assert_eq!(short, long);
    }

    #[test]
    fn malformed_sources_are_named() {
        for bad in [
            "",
            "oci:",
            "oci:x:",
            "docker-archive:",
            "ftp://x/y",
            "UPPER/case:",
            "a b",
        ] {
            let error = bad.parse::<ImageSource>().expect_err(bad).to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }
}

//! What can go wrong, one enum per family of operations, and one word for what to do about it.

use erofs::ConvertError;
use model::Digest;
use std::io;
use std::path::PathBuf;

/// What kind of failure it is; statuses and exit codes follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request or the input is wrong.
    Invalid,
    /// The thing that was named is not there.
    NotFound,
    /// It is there but in the way.
    Conflict,
    /// The credentials do not open it.
    Denied,
    /// Space is used up.
    Exhausted,
    /// Another machine does not answer; trying again may help.
    Unavailable,
    /// Stored data is damaged.
    Corrupt,
    /// Anything else of this machine.
    Internal,
}

/// The layer store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system of the store has no space left.
    #[error("no space left in {}; free some or move the data directory", directory.display())]
    DiskFull {
        /// The store's directory.
        directory: PathBuf,
    },
    /// A file or directory of the store could not be used.
    #[error("{action} {}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A stored layer cannot be read.
    #[error("layer {layer} in the store is damaged")]
    Damaged {
        /// Its digest.
        layer: Digest,
        /// What was found.
        #[source]
        source: erofs::ImageError,
    },
}

impl StoreError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match is_full(&source) {
            true => {
                let directory = path.parent().unwrap_or(&path).to_owned();
                Self::DiskFull { directory }
            }
            false => Self::Io {
                action,
                path,
                source,
            },
        }
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::DiskFull { .. } => ErrorKind::Exhausted,
            Self::Io { .. } => ErrorKind::Internal,
            Self::Damaged { .. } => ErrorKind::Corrupt,
        }
    }
}

/// Whether the error says that space or quota is used up.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// An image could not be brought into the store. What was complete of it stays, nothing half-made does.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The text names no image.
    #[error("image source {text:?} is malformed: {why}")]
    Source {
        /// As given.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// A registry did not give what was asked for.
    #[error("fetch {what} of {reference}")]
    Registry {
        /// The image.
        reference: String,
        /// Which part of it.
        what: String,
        /// The answer.
        #[source]
        source: Box<oci_client::errors::OciDistributionError>,
    },
    /// The network runtime could not start.
    #[error("start the network runtime for the import")]
    Runtime {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A local archive or directory could not be read.
    #[error("read {}", path.display())]
    Read {
        /// What was read.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The image has no such part.
    #[error("{origin} has no {what}")]
    Missing {
        /// The image.
        origin: String,
        /// What was looked for.
        what: String,
    },
    /// A manifest, index or configuration makes no sense.
    #[error("{what} of {origin} is malformed: {why}")]
    Malformed {
        /// The image.
        origin: String,
        /// Which document.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The image is not made for this machine.
    #[error("{origin} has no variant for linux/{wanted}; it has {found}")]
    Platform {
        /// The image.
        origin: String,
        /// This machine.
        wanted: &'static str,
        /// What there is.
        found: String,
    },
    /// Content is not what its name promises.
    #[error("{what} should have the digest {wanted} but has {actual}")]
    DigestMismatch {
        /// What was read.
        what: String,
        /// The promise.
        wanted: Digest,
        /// The content.
        actual: Digest,
    },
    /// A layer cannot become an image.
    #[error("convert layer {layer}")]
    Convert {
        /// The layer as the image names it.
        layer: String,
        /// Why.
        #[source]
        source: ConvertError,
    },
    /// A layer writes through a symbolic link of a layer below it.
    #[error("layer {layer} has files under {path:?}, which is no directory in a layer below")]
    ThroughLink {
        /// The upper layer.
        layer: Digest,
        /// The path.
        path: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// Another layer of the image failed first.
    #[error("the import was stopped by another layer's failure")]
    Stopped,
}

impl ImportError {
    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Registry { source, .. } => registry_kind(source),
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ErrorKind::NotFound
            }
            Self::Missing { .. } => ErrorKind::NotFound,
            Self::Source { .. }
            | Self::Read { .. }
            | Self::Malformed { .. }
            | Self::Platform { .. }
            | Self::DigestMismatch { .. }
            | Self::ThroughLink { .. } => ErrorKind::Invalid,
            Self::Convert { source, .. } if source.is_bad_input() => ErrorKind::Invalid,
            Self::Convert {
                source: ConvertError::Read { .. },
                ..
            } => ErrorKind::Unavailable,
            Self::Store(e) => e.kind(),
            Self::Catalog(e) => e.kind(),
            Self::Convert { .. } | Self::Runtime { .. } | Self::Stopped => ErrorKind::Internal,
        }
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.kind() == ErrorKind::Unavailable
    }
}

fn registry_kind(error: &oci_client::errors::OciDistributionError) -> ErrorKind {
    use oci_client::errors::{OciDistributionError as E, OciErrorCode as Code};
    match error {
        E::AuthenticationFailure(_) | E::UnauthorizedError { .. } => ErrorKind::Denied,
        E::ImageManifestNotFoundError(_) => ErrorKind::NotFound,
        E::RegistryError { envelope, .. } => match envelope.errors.first().map(|e| &e.code) {
            Some(Code::Unauthorized | Code::Denied) => ErrorKind::Denied,
            Some(
                Code::ManifestUnknown
                | Code::NameUnknown
                | Code::BlobUnknown
                | Code::NotFound
                | Code::ManifestBlobUnknown,
            ) => ErrorKind::NotFound,
            Some(Code::Toomanyrequests) => ErrorKind::Unavailable,
            _ => ErrorKind::Invalid,
        },
        E::ServerError {
            code: 401 | 403, ..
        } => ErrorKind::Denied,
        E::ServerError { code: 404, .. } => ErrorKind::NotFound,
        E::RequestError(_) | E::ServerError { .. } | E::IoError(_) => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    }
}

/// A template could not be found, stored or removed.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// There is no such template.
    #[error("template {name:?} not found")]
    NotFound {
        /// As asked for.
        name: String,
    },
    /// The template has no such tag.
    #[error("template {name:?} has no tag {tag:?}")]
    TagNotFound {
        /// The template.
        name: String,
        /// The tag.
        tag: String,
    },
    /// Another template has the name.
    #[error("the name {name:?} belongs to template {owner}")]
    NameTaken {
        /// The name.
        name: String,
        /// Who has it.
        owner: String,
    },
    /// The name or id is Warren's own.
    #[error("template {name:?} is built in and cannot be changed or removed")]
    BuiltIn {
        /// The name.
        name: String,
    },
    /// Sandboxes use it.
    #[error("template {name:?} is in use by a sandbox; kill it first")]
    InUse {
        /// The name.
        name: String,
    },
    /// The id given for a new template is malformed.
    #[error("template id {id:?} is not 20 of [a-z0-9]")]
    BadId {
        /// As given.
        id: String,
    },
    /// A layer of the build is not in the store.
    #[error("layer {layer} of template {name:?} is not in the store; pull the image again")]
    LayerMissing {
        /// The template.
        name: String,
        /// The layer.
        layer: Digest,
    },
    /// The template needs something that this machine lacks.
    #[error("template {name:?} is not available on this machine: {reason}")]
    Unavailable {
        /// The template.
        name: String,
        /// What is missing.
        reason: String,
    },
    /// A record cannot be understood.
    #[error("the record {} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file of the catalog could not be used.
    #[error("{action} {}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl CatalogError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::TagNotFound { .. } => ErrorKind::NotFound,
            Self::NameTaken { .. } | Self::BuiltIn { .. } | Self::InUse { .. } => {
                ErrorKind::Conflict
            }
            Self::BadId { .. } => ErrorKind::Invalid,
            Self::LayerMissing { .. } | Self::Damaged { .. } => ErrorKind::Corrupt,
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::Io { source, .. } if is_full(source) => ErrorKind::Exhausted,
            Self::Io { .. } => ErrorKind::Internal,
        }
    }
}

/// The built-in template `host` cannot be made here.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The machine is laid out in a way that a root cannot be made from.
    #[error("this machine's root has no merged /usr: {} is not a link into usr", path.display())]
    NotMerged {
        /// The first directory that is none.
        path: PathBuf,
    },
    /// Something of the machine could not be read.
    #[error("read {}", path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its layer could not be stored.
    #[error("store the layer of template \"host\"")]
    Import(#[source] Box<ImportError>),
}

//! What can go wrong while a tar becomes an image.

use std::io;

/// The conversion failed; the output is worthless.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The input could not be read (also: its decompressor found it corrupt).
    #[error("read the tar stream at byte {offset}")]
    Read {
        /// Byte of the plain stream.
        offset: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The stream ends inside an entry.
    #[error("the tar stream is cut off at byte {offset}")]
    Truncated {
        /// Byte of the plain stream.
        offset: u64,
    },
    /// The stream is not a tar.
    #[error("the tar stream is malformed at byte {offset}: {why}")]
    Malformed {
        /// Byte of the plain stream, at or after the fault.
        offset: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// One entry cannot be taken.
    #[error("tar entry {path:?} {fault}")]
    Entry {
        /// Its path as written, lossily as text.
        path: String,
        /// What is wrong.
        fault: EntryFault,
    },
    /// The layer is larger than allowed.
    #[error("the layer has more than {max} {what}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        max: u64,
    },
    /// File data could not be put aside or read back.
    #[error("spool file data")]
    Spool {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The image could not be written.
    #[error("write the image")]
    Write {
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Why an entry is refused; reads on after its path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// A component is `..`.
    #[error("leaves the layer through '..'")]
    Escapes,
    /// Something above it is no directory.
    #[error("is under a non-directory, {parent:?}")]
    UnderNonDirectory {
        /// The path that is no directory.
        parent: String,
    },
    /// A component is too long, empty after `.wh.`, or holds a NUL.
    #[error("has a name that no file can have")]
    BadName,
    /// The whole path is too long.
    #[error("has a path longer than {max} bytes")]
    PathTooLong {
        /// The limit.
        max: usize,
    },
    /// The root is something else than a directory.
    #[error("makes the root something else than a directory")]
    RootNotDirectory,
    /// The target of a hard link is missing.
    #[error("is a hard link to {target:?}, which is not in this layer")]
    LinkTargetMissing {
        /// The target as written.
        target: String,
    },
    /// The target of a hard link is a directory.
    #[error("is a hard link to the directory {target:?}")]
    LinkToDirectory {
        /// The target as written.
        target: String,
    },
    /// The target of a symbolic link is empty or too long.
    #[error("is a symbolic link with an empty or overlong target")]
    BadSymlink,
    /// An attribute that would steer the overlay or the node.
    #[error("carries the reserved attribute {name:?}")]
    ReservedXattr {
        /// Its name.
        name: String,
    },
    /// An attribute that no filesystem can hold.
    #[error("carries the attribute {name:?}, which is too large")]
    XattrTooLarge {
        /// Its name.
        name: String,
    },
    /// Owner, time, size or device number out of range.
    #[error("has an impossible {field}")]
    BadNumber {
        /// Which number.
        field: &'static str,
    },
    /// The map of a sparse file contradicts itself.
    #[error("has a broken sparse map: {why}")]
    BadSparse {
        /// What is wrong.
        why: &'static str,
    },
    /// A kind of entry that layers do not have.
    #[error("has the unknown type {kind:?}")]
    UnknownType {
        /// The type flag.
        kind: char,
    },
}

impl ConvertError {
    /// Whether the input is at fault, rather than this machine.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Truncated { .. }
            | Self::Malformed { .. }
            | Self::Entry { .. }
            | Self::Limit { .. } => true,
            Self::Read { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::InvalidData
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::UnexpectedEof
            ),
            Self::Spool { .. } | Self::Write { .. } => false,
        }
    }
}

/// Bytes of a path or name as text for a message.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An entry's error.
pub(crate) fn entry(path: &[u8], fault: EntryFault) -> ConvertError {
    ConvertError::Entry {
        path: text(path),
        fault,
    }
}

//! Which code a failed file call has.

use api::envd::{Code, ConnectError};
use rustix::io::Errno;
use std::io;

/// A file call that failed: what was attempted, on which path, why.
#[derive(Debug, thiserror::Error)]
#[error("{attempt}: {path}")]
pub(super) struct FileError {
    attempt: &'static str,
    path: String,
    #[source]
    cause: io::Error,
}

impl FileError {
    pub(super) fn new(attempt: &'static str, path: &str, cause: io::Error) -> Self {
        Self {
            attempt,
            path: path.to_owned(),
            cause,
        }
    }
}

impl From<FileError> for ConnectError {
    fn from(error: FileError) -> Self {
        let code = match Errno::from_io_error(&error.cause) {
            Some(Errno::NOENT) => Code::NotFound,
            Some(Errno::NOTDIR | Errno::INVAL | Errno::NAMETOOLONG | Errno::ISDIR) => {
                Code::InvalidArgument
            }
            Some(Errno::EXIST | Errno::NOTEMPTY) => Code::AlreadyExists,
            Some(Errno::LOOP | Errno::ROFS | Errno::BUSY) => Code::FailedPrecondition,
            Some(Errno::PERM | Errno::ACCESS) => Code::PermissionDenied,
            _ if is_full(&error.cause) => Code::ResourceExhausted,
            _ => Code::Internal,
        };
        let text = match code {
            Code::NotFound => format!("file not found: {}", error.path),
            _ => format!("{error}: {}", error.cause),
        };
        Self::new(code, text)
    }
}

/// Whether there is no room left, on the disk or in a quota.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOSPC | Errno::DQUOT)
    )
}

//! What one sandbox writes: a btrfs subvolume, or a directory where there is no btrfs.

use crate::writable::WritableKind;
use model::{SandboxId, USERNS_HOST_BASE};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

/// Directories of an upper and their modes; a work directory is the kernel's alone.
const PARTS: [(&str, u32); 4] = [
    ("upper", 0o755),
    ("work", 0o700),
    ("usr-upper", 0o755),
    ("usr-work", 0o700),
];

/// The writable part of one sandbox's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upper {
    id: SandboxId,
    dir: PathBuf,
}

impl Upper {
    /// Whose it is.
    #[must_use]
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// The subvolume, which holds all parts.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn open(&self, part: &str) -> io::Result<File> {
        let path = self.dir.join(part);
        File::open(&path).map_err(|e| sys::durable::named(e, &path))
    }
}

/// A writable area could not be made, listed or removed.
#[derive(Debug, thiserror::Error)]
#[error("{step} {path}{}", hint(source))]
pub struct UpperError {
    step: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": the data directory is full; remove sandboxes or templates, or add space"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            ": the writable area went read-only, which a full or broken disk below it does"
        }
        _ => "",
    }
}

impl UpperError {
    /// Whether the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> UpperError {
    let path = path.to_owned();
    move |source| UpperError { step, path, source }
}

/// The directory of all uppers. Closed to other users of the host: files in it may be setuid.
pub(crate) fn prepare(sandboxes: &Path) -> Result<(), UpperError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(sandboxes)
        .map_err(failed("make directory", sandboxes))
}

/// Makes the upper of `id`; nothing of it remains on failure.
pub(crate) fn create(
    sandboxes: &Path,
    kind: &WritableKind,
    id: &SandboxId,
) -> Result<Upper, UpperError> {
    let dir = sandboxes.join(id.as_str());
    let made = match kind {
        WritableKind::Btrfs | WritableKind::BtrfsImage { .. } => sys::btrfs::create_subvolume(&dir),
        WritableKind::Directory { .. } => fs::create_dir(&dir),
    };
    made.map_err(failed("make writable area", &dir))?;
    match fill(&dir) {
        Ok(()) => Ok(Upper {
            id: id.clone(),
            dir,
        }),
        Err(error) => {
            // The first error is the one to report; a rest is found by `list`.
            drop(remove(sandboxes, id));
            Err(failed("make writable area", &dir)(error))
        }
    }
}

fn fill(dir: &Path) -> io::Result<()> {
    let owner = Some(USERNS_HOST_BASE);
    for (part, mode) in PARTS {
        let path = dir.join(part);
        DirBuilder::new().mode(mode).create(&path)?;
        chown(&path, owner, owner)?;
        // Again, past the umask of this process.
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    }
    Ok(())
}

/// The upper of `id`, if there is one.
pub(crate) fn find(sandboxes: &Path, id: &SandboxId) -> Option<Upper> {
    let dir = sandboxes.join(id.as_str());
    dir.join("upper").is_dir().then(|| Upper {
        id: id.clone(),
        dir,
    })
}

/// Removes the upper of `id`. Repeatable. A subvolume's space is freed in the background.
pub(crate) fn remove(sandboxes: &Path, id: &SandboxId) -> Result<(), UpperError> {
    let dir = sandboxes.join(id.as_str());
    let removed = match sys::btrfs::is_subvolume(&dir) {
        Ok(true) => sys::btrfs::delete_subvolume(&dir),
        Ok(false) => fs::remove_dir_all(&dir),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(failed("remove writable area", &dir)),
    }
}

/// The ids that have an upper.
pub(crate) fn list(sandboxes: &Path) -> Result<Vec<SandboxId>, UpperError> {
    let unreadable = || failed("list writable areas in", sandboxes);
    let mut ids = Vec::new();
    for entry in fs::read_dir(sandboxes).map_err(unreadable())? {
        let name = entry.map_err(unreadable())?.file_name();
        ids.extend(name.to_str().and_then(|n| n.parse::<SandboxId>().ok()));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn without_btrfs_an_upper_is_a_directory_that_is_made_and_removed_alike() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: an upper of plain directories: needs root");
            return;
        }
        let dir = tempfile::TempDir::new().unwrap();
        let kind = WritableKind::Directory {
            reason: "a test".to_owned(),
        };
        let id = SandboxId::new(1, [1; 16]);
        let made = create(dir.path(), &kind, &id).unwrap();
        for (part, mode) in PARTS {
            let found = fs::metadata(made.dir().join(part)).unwrap();
            assert_eq!(
                (found.uid(), found.gid()),
                (USERNS_HOST_BASE, USERNS_HOST_BASE)
            );
            assert_eq!(found.mode() & 0o7777, mode, "{part}");
        }
        assert_eq!(find(dir.path(), &id), Some(made));
        assert_eq!(list(dir.path()).unwrap(), std::slice::from_ref(&id));
        for _ in 0..2 {
            remove(dir.path(), &id).unwrap();
        }
        assert_eq!(list(dir.path()).unwrap(), []);
    }

    #[test]
    fn a_full_disk_is_told_with_what_to_do() {
        let source = io::Error::from_raw_os_error(libc::ENOSPC);
        let error = failed("make writable area", Path::new("/data/x"))(source);
        assert!(error.is_full());
        assert!(error.to_string().contains("is full; remove"), "{error}");
    }
}

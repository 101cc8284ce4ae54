//! Layer mounts: one per layer and host, and one idmapped clone of it per process.
//!
//! One superblock, so that all sandboxes share its page cache: two mounts of the same image would
//! cache every page twice.

use model::Digest;
use rustix::fs::statfs;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sys::loopdev::{self, Access};
use sys::mount::{self, Attr, Depth};

const EROFS_MAGIC: i64 = 0xE0F5_E1E2;

/// A layer could not be mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// It is not in the store.
    #[error("mount layer {digest}: {path} is not in the store; pull its template again")]
    Missing {
        /// Which.
        digest: Digest,
        /// Where it should be.
        path: PathBuf,
    },
    /// The kernel cannot do it.
    #[error("mount layer {digest}: {needs}")]
    Unsupported {
        /// Which.
        digest: Digest,
        /// What is needed.
        needs: &'static str,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A call failed.
    #[error("{step} layer {digest}")]
    Io {
        /// What was attempted.
        step: &'static str,
        /// On which.
        digest: Digest,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The directory of the mounts cannot be read.
    #[error("list layer mounts in {path}")]
    List {
        /// It.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

fn failed(step: &'static str, digest: Digest) -> impl FnOnce(io::Error) -> LayerError {
    move |source| LayerError::Io {
        step,
        digest,
        source,
    }
}

/// The idmapped clone of one layer's mount. It lives on while a sandbox is being made of it.
#[derive(Debug)]
pub(crate) struct Layer {
    mount: OwnedFd,
}

impl AsFd for Layer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mount.as_fd()
    }
}

/// Held while its layer is being mounted, so that of many callers one mounts and the rest wait.
type Slot = Arc<Mutex<Option<Arc<Layer>>>>;

#[derive(Debug)]
pub(crate) struct Layers {
    cache: PathBuf,
    mounts: PathBuf,
    userns: OwnedFd,
    slots: Mutex<HashMap<Digest, Slot>>,
}

/// A panic cannot leave half a change behind in these: a slot is filled in one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Layers {
    /// Layers in `cache`, mounted under `mounts` (made), owned by the ids of `userns`.
    pub(crate) fn open(cache: PathBuf, mounts: PathBuf, userns: OwnedFd) -> io::Result<Self> {
        fs::create_dir_all(&mounts).map_err(|e| sys::durable::named(e, &mounts))?;
        Ok(Self {
            cache,
            mounts,
            userns,
            slots: Mutex::default(),
        })
    }

    /// The layer, mounted if it is not.
    pub(crate) fn get(&self, digest: &Digest) -> Result<Arc<Layer>, LayerError> {
        let slot = Arc::clone(lock(&self.slots).entry(*digest).or_default());
        let mut slot = lock(&slot);
        if let Some(layer) = &*slot {
            return Ok(Arc::clone(layer));
        }
        let at = self.mounts.join(digest.hex());
        if !is_mounted(&at) {
            self.mount(*digest, &at)?;
        }
        let layer = Arc::new(self.clone_idmapped(*digest, &at)?);
        *slot = Some(Arc::clone(&layer));
        Ok(layer)
    }

    fn mount(&self, digest: Digest, at: &Path) -> Result<(), LayerError> {
        let path = self.cache.join(format!("{}.erofs", digest.hex()));
        if !path.exists() {
            return Err(LayerError::Missing { digest, path });
        }
        let mounted = match mount::erofs(&path) {
            // This kernel, or the filesystem of the cache, wants a block device below.
            Err(e) if mount::errno(&e) == Some(libc::ENOTBLK) => on_loop_device(&path),
            other => other,
        };
        let mounted = mounted.map_err(|source| refused(digest, source))?;
        fs::create_dir_all(at).map_err(failed("make mount point of", digest))?;
        mount::attach(mounted.as_fd(), at).map_err(failed("attach", digest))
    }

    fn clone_idmapped(&self, digest: Digest, at: &Path) -> Result<Layer, LayerError> {
        let clone = mount::clone_tree(at, Depth::Single).map_err(failed("clone", digest))?;
        match mount::set_idmap(clone.as_fd(), self.userns.as_fd()) {
            Ok(()) => Ok(Layer { mount: clone }),
            Err(source) => Err(LayerError::Unsupported {
                digest,
                needs: "the kernel cannot idmap EROFS mounts (needs Linux 5.19)",
                source,
            }),
        }
    }

    /// Unmounts every layer that is not in `in_use`; returns which. Running sandboxes keep theirs.
    pub(crate) fn unmount_unused(&self, in_use: &[Digest]) -> Result<Vec<Digest>, LayerError> {
        let mut removed = Vec::new();
        for digest in self.mounted()? {
            if in_use.contains(&digest) {
                continue;
            }
            let slot = Arc::clone(lock(&self.slots).entry(digest).or_default());
            let mut slot = lock(&slot);
            *slot = None;
            let at = self.mounts.join(digest.hex());
            if is_mounted(&at) {
                mount::detach(&at).map_err(failed("unmount", digest))?;
            }
            fs::remove_dir(&at).map_err(failed("remove mount point of", digest))?;
            removed.push(digest);
        }
        Ok(removed)
    }

    /// Layers that have a mount point, also of earlier processes.
    fn mounted(&self) -> Result<Vec<Digest>, LayerError> {
        let unreadable = |source| LayerError::List {
            path: self.mounts.clone(),
            source,
        };
        let mut digests = Vec::new();
        for entry in fs::read_dir(&self.mounts).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            let name = format!("sha256:{}", name.to_string_lossy());
            digests.extend(name.parse::<Digest>());
        }
        Ok(digests)
    }
}

/// Whether an EROFS is mounted at `path`. The run directory is never on one itself.
fn is_mounted(path: &Path) -> bool {
    statfs(path).is_ok_and(|s| s.f_type == EROFS_MAGIC)
}

fn on_loop_device(image: &Path) -> io::Result<OwnedFd> {
    let device = loopdev::attach(image, Access::ReadOnly)?;
    let attr = Attr::MOUNT_ATTR_RDONLY | Attr::MOUNT_ATTR_NOSUID | Attr::MOUNT_ATTR_NODEV;
    mount::device("erofs", device.path(), attr)
}

fn refused(digest: Digest, source: io::Error) -> LayerError {
    if mount::errno(&source) == Some(libc::ENODEV) {
        return LayerError::Unsupported {
            digest,
            needs: "the kernel has no EROFS; load or enable the module erofs",
            source,
        };
    }
    failed("mount", digest)(source)
}

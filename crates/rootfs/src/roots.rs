//! The roots of one node: opened once, then one overlay per sandbox.

use crate::host_usr;
use crate::layer::{Layer, LayerError, Layers};
use crate::upper::{self, Upper, UpperError};
use crate::writable::{self, WritableError, WritableKind};
use model::{Digest, RootPlan, RootSource, SandboxId, USERNS_HOST_BASE, USERNS_SIZE};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use sys::mount::{self, Overlay};

/// Where things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootsConfig {
    /// Layers and what sandboxes write; survives a reboot.
    pub data_dir: PathBuf,
    /// Mounts; gone after a reboot.
    pub run_dir: PathBuf,
}

/// The roots could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The writable area.
    #[error("prepare the writable area of sandboxes")]
    Writable(#[source] WritableError),
    /// The directory of uppers.
    #[error("prepare the directory of sandboxes")]
    Uppers(#[source] UpperError),
    /// The ids of sandboxes.
    #[error("make a user namespace for idmapped mounts (are user namespaces enabled?)")]
    UserNamespace(#[source] io::Error),
    /// The place of layer mounts.
    #[error("prepare the directory of layer mounts")]
    Layers(#[source] io::Error),
}

/// A root could not be mounted. Nothing of it remains.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// A layer below.
    #[error("mount root of sandbox {id}")]
    Layer {
        /// Whose root.
        id: SandboxId,
        /// Cause.
        #[source]
        source: LayerError,
    },
    /// The plan has no layer.
    #[error("mount root of sandbox {id}: its plan has no layers")]
    Empty {
        /// Whose root.
        id: SandboxId,
    },
    /// The template `host` cannot work here.
    #[error(
        "mount root of sandbox {id}: this machine's /usr is on {filesystem}, which cannot be idmapped by this kernel; use an image instead of the template host"
    )]
    HostUsr {
        /// Whose root.
        id: SandboxId,
        /// Type of filesystem.
        filesystem: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The overlay.
    #[error("mount {what} of sandbox {id}{}", hint(source))]
    Overlay {
        /// Whose root.
        id: SandboxId,
        /// The root, or `/usr`.
        what: &'static str,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

fn hint(source: &io::Error) -> &'static str {
    const OLD_KERNEL: &str = ": overlays on detached mounts need Linux 6.15";
    match mount::errno(source) {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            ": the data directory is full; remove sandboxes or templates, or add space"
        }
        Some(libc::EROFS) => {
            ": the writable area went read-only, which a full or broken disk below it does"
        }
        Some(libc::EINVAL) => OLD_KERNEL,
        Some(libc::ENODEV) => ": the kernel has no overlay; load or enable the module overlay",
        _ => "",
    }
}

/// A mount besides the root.
#[derive(Debug)]
pub struct ExtraMount {
    /// Absolute path inside.
    pub target: String,
    /// Detached mount.
    pub mount: OwnedFd,
}

/// A root that is in no mount table yet and vanishes with its descriptors.
#[derive(Debug)]
pub struct MountedRoot {
    /// Detached mount of the root.
    pub root: OwnedFd,
    /// What is put into it.
    pub extra: Vec<ExtraMount>,
}

/// The roots of one node. Calls may come from any thread.
#[derive(Debug)]
pub struct Roots {
    config: RootsConfig,
    writable: WritableKind,
    sandboxes: PathBuf,
    userns: OwnedFd,
    layers: Layers,
    host_usr: OnceLock<OwnedFd>,
}

impl Roots {
    /// Prepares everything, or finds it prepared by an earlier process.
    pub fn open(config: RootsConfig) -> Result<Self, OpenError> {
        let writable = writable::prepare(&config.data_dir).map_err(OpenError::Writable)?;
        let sandboxes = config.data_dir.join("state/sandboxes");
        upper::prepare(&sandboxes).map_err(OpenError::Uppers)?;
        let userns = sys::userns::mapped(USERNS_HOST_BASE, USERNS_SIZE);
        let userns = userns.map_err(OpenError::UserNamespace)?;
        let for_layers = userns.try_clone().map_err(OpenError::UserNamespace)?;
        let cache = config.data_dir.join("cache");
        let mounts = config.run_dir.join("layers");
        let layers = Layers::open(cache, mounts, for_layers).map_err(OpenError::Layers)?;
        Ok(Self {
            config,
            writable,
            sandboxes,
            userns,
            layers,
            host_usr: OnceLock::new(),
        })
    }

    /// What sandboxes write to.
    #[must_use]
    pub fn writable(&self) -> &WritableKind {
        &self.writable
    }

    /// Bytes that sandboxes can still write, all together.
    pub fn free_bytes(&self) -> Result<u64, WritableError> {
        writable::free_bytes(&self.config.data_dir)
    }

    /// Makes the writable part of a root. All or nothing.
    pub fn create_upper(&self, id: &SandboxId) -> Result<Upper, UpperError> {
        upper::create(&self.sandboxes, &self.writable, id)
    }

    /// The writable part that an earlier process made.
    #[must_use]
    pub fn find_upper(&self, id: &SandboxId) -> Option<Upper> {
        upper::find(&self.sandboxes, id)
    }

    /// Removes a writable part. Repeatable.
    pub fn remove_upper(&self, id: &SandboxId) -> Result<(), UpperError> {
        upper::remove(&self.sandboxes, id)
    }

    /// The sandboxes that have a writable part.
    pub fn list_uppers(&self) -> Result<Vec<SandboxId>, UpperError> {
        upper::list(&self.sandboxes)
    }

    /// Mounts a layer ahead of its first use.
    pub fn prepare_layer(&self, digest: &Digest) -> Result<(), LayerError> {
        self.layers.get(digest).map(drop)
    }

    /// Mounts the root of `plan` with `upper` on top. The upper may be in one root only.
    pub fn mount_root(&self, plan: &RootPlan, upper: &Upper) -> Result<MountedRoot, MountError> {
        let id = upper.id();
        let layers: Vec<Arc<Layer>> = plan
            .layers()
            .map(|digest| self.layers.get(digest))
            .collect::<Result<_, _>>()
            .map_err(|source| MountError::Layer {
                id: id.clone(),
                source,
            })?;
        if layers.is_empty() {
            return Err(MountError::Empty { id: id.clone() });
        }
        let lowers: Vec<BorrowedFd<'_>> = layers.iter().rev().map(|l| l.as_fd()).collect();
        let root = overlay(upper, &ROOT, &lowers)?;
        let mut extra = Vec::new();
        if plan.sources.contains(&RootSource::HostUsr) {
            let lower = self.host_usr(id)?;
            extra.push(ExtraMount {
                target: host_usr::USR.to_owned(),
                mount: overlay(upper, &USR, &[lower])?,
            });
        }
        Ok(MountedRoot { root, extra })
    }

    fn host_usr(&self, id: &SandboxId) -> Result<BorrowedFd<'_>, MountError> {
        if let Some(clone) = self.host_usr.get() {
            return Ok(clone.as_fd());
        }
        let clone =
            host_usr::clone_idmapped(&self.userns).map_err(|source| MountError::HostUsr {
                id: id.clone(),
                filesystem: host_usr::filesystem(),
                source,
            })?;
        // Of two callers at once one's clone is dropped: they are alike.
        Ok(self.host_usr.get_or_init(|| clone).as_fd())
    }

    /// Unmounts every layer that is not in `in_use`; returns which. Running sandboxes keep theirs.
    pub fn unmount_unused(&self, in_use: &[Digest]) -> Result<Vec<Digest>, LayerError> {
        self.layers.unmount_unused(in_use)
    }

    /// Unmounts all layers and the writable area. What running sandboxes use goes with the last.
    pub fn close(self) -> Result<(), CloseError> {
        let layers = self.layers.unmount_unused(&[]);
        let writable = writable::close(&self.config.data_dir, &self.writable);
        layers.map_err(CloseError::Layers)?;
        writable.map_err(CloseError::Writable)
    }
}

/// Something stayed mounted.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// A layer.
    #[error("unmount layers")]
    Layers(#[source] LayerError),
    /// The writable area.
    #[error("unmount the writable area of sandboxes")]
    Writable(#[source] WritableError),
}

/// One of the overlays of a sandbox, by the parts of its upper.
struct Place {
    what: &'static str,
    upper: &'static str,
    work: &'static str,
}

const ROOT: Place = Place {
    what: "root",
    upper: "upper",
    work: "work",
};
const USR: Place = Place {
    what: "/usr",
    upper: "usr-upper",
    work: "usr-work",
};

fn overlay(upper: &Upper, place: &Place, lowers: &[BorrowedFd<'_>]) -> Result<OwnedFd, MountError> {
    let failed = |source| MountError::Overlay {
        id: upper.id().clone(),
        what: place.what,
        source,
    };
    let over = upper.open(place.upper).map_err(failed)?;
    let work = upper.open(place.work).map_err(failed)?;
    mount::overlay(&Overlay {
        lowers_top_to_bottom: lowers,
        upper: over.as_fd(),
        work: work.as_fd(),
    })
    .map_err(failed)
}

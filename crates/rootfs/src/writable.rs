//! The area that sandboxes write to: btrfs if at all possible, because its snapshots take milliseconds.

use rustix::fs::statvfs;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use sys::loopdev::{self, Access};
use sys::mount::{self, Attr};

/// Less is not worth a filesystem.
const IMAGE_BYTES_MIN: u64 = 1 << 30;
/// A loop device may free itself between being found and being mounted.
const ATTEMPTS: usize = 3;

/// What the area turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WritableKind {
    /// The data directory itself is on btrfs.
    Btrfs,
    /// A btrfs file image, mounted through a loop device.
    BtrfsImage {
        /// The image.
        image: PathBuf,
    },
    /// A plain directory: works, but every snapshot or fork is a copy.
    Directory {
        /// Why it is not btrfs.
        reason: String,
    },
}

/// The area could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum WritableError {
    /// Not enough room for the image.
    #[error(
        "make writable area {path}: {free} bytes are free, at least {needed} are needed; free some or choose another data directory"
    )]
    Full {
        /// The image.
        path: PathBuf,
        /// Free in its filesystem.
        free: u64,
        /// Smallest useful size.
        needed: u64,
    },
    /// The program is missing.
    #[error("make writable area {path}: mkfs.btrfs is missing; install the package btrfs-progs")]
    NoMkfs {
        /// The image.
        path: PathBuf,
    },
    /// The program failed.
    #[error("make writable area {path}: mkfs.btrfs: {message}")]
    Mkfs {
        /// The image.
        path: PathBuf,
        /// What it said.
        message: String,
    },
    /// A call failed.
    #[error("{step} {path}")]
    Io {
        /// What was attempted.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WritableError {
    let path = path.to_owned();
    move |source| WritableError::Io { step, path, source }
}

/// Makes `<data_dir>/state` ready, or finds it ready from an earlier run.
pub(crate) fn prepare(data_dir: &Path) -> Result<WritableKind, WritableError> {
    let state = data_dir.join("state");
    fs::create_dir_all(&state).map_err(failed("make directory", &state))?;
    let on_btrfs = |path: &Path| sys::btrfs::is_btrfs(path).map_err(failed("examine", path));
    if on_btrfs(data_dir)? {
        return Ok(WritableKind::Btrfs);
    }
    let image = data_dir.join("state.img");
    if on_btrfs(&state)? {
        return Ok(WritableKind::BtrfsImage { image });
    }
    if !mount::supports("btrfs") {
        let reason = "this kernel has no btrfs".to_owned();
        return Ok(WritableKind::Directory { reason });
    }
    if !image.exists() {
        make_image(&image)?;
    }
    mount_image(&image, &state)?;
    Ok(WritableKind::BtrfsImage { image })
}

/// Makes the image under another name first: a half-made one is never taken for a whole one.
fn make_image(image: &Path) -> Result<(), WritableError> {
    let fresh = image.with_extension("img.new");
    let result = fill_image(image, &fresh);
    if result.is_err() {
        // The first error is the one to report; the next start overwrites this file.
        drop(fs::remove_file(&fresh));
    }
    result
}

fn fill_image(image: &Path, fresh: &Path) -> Result<(), WritableError> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(fresh)
        .map_err(failed("make image", fresh))?;
    let size = image_size(image, &file)?;
    file.set_len(size).map_err(failed("make image", fresh))?;
    let made = Command::new("mkfs.btrfs").arg("-q").arg(fresh).output();
    let made = match made {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(WritableError::NoMkfs {
                path: image.to_owned(),
            });
        }
        other => other.map_err(failed("run mkfs.btrfs on", fresh))?,
    };
    if !made.status.success() {
        return Err(WritableError::Mkfs {
            path: image.to_owned(),
            message: String::from_utf8_lossy(&made.stderr).trim().to_owned(),
        });
    }
    file.sync_all().map_err(failed("write", fresh))?;
    sys::durable::rename(fresh, image).map_err(failed("put in place", image))
}

/// Four fifths of what is free. The file is sparse: it takes only what is written.
fn image_size(image: &Path, file: &File) -> Result<u64, WritableError> {
    let usage = rustix::fs::fstatvfs(file)
        .map_err(io::Error::from)
        .map_err(failed("examine", image))?;
    let free = usage.f_bavail.saturating_mul(usage.f_frsize);
    if free < IMAGE_BYTES_MIN {
        return Err(WritableError::Full {
            path: image.to_owned(),
            free,
            needed: IMAGE_BYTES_MIN,
        });
    }
    let size = (free / 5 * 4).max(IMAGE_BYTES_MIN);
    Ok(size / 4096 * 4096)
}

/// Mounts the image, through its present loop device if it has one: a second device on the same
/// file would destroy the filesystem.
fn mount_image(image: &Path, state: &Path) -> Result<(), WritableError> {
    let mount_device = |device: &Path| mount::device("btrfs", device, Attr::MOUNT_ATTR_NODEV);
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let present = loopdev::of_file(image).map_err(failed("look for loop device of", image))?;
        let mounted = match present.first() {
            Some(device) => mount_device(device),
            None => {
                let device = loopdev::attach(image, Access::ReadWrite)
                    .map_err(failed("attach to a loop device", image))?;
                mount_device(device.path())
            }
        };
        match mounted {
            Ok(mount) => {
                return mount::attach(mount.as_fd(), state)
                    .map_err(failed("mount image at", state));
            }
            Err(e) => last = Some(e),
        }
    }
    let source = last.unwrap_or_else(|| io::ErrorKind::ResourceBusy.into());
    Err(failed("mount image at", state)(source))
}

/// Unmounts the image, if there is one; its loop device goes with the last sandbox that uses it.
pub(crate) fn close(data_dir: &Path, kind: &WritableKind) -> Result<(), WritableError> {
    match kind {
        WritableKind::BtrfsImage { .. } => {
            let state = data_dir.join("state");
            mount::detach(&state).map_err(failed("unmount", &state))
        }
        WritableKind::Btrfs | WritableKind::Directory { .. } => Ok(()),
    }
}

/// Bytes free for sandboxes under `data_dir`.
pub(crate) fn free_bytes(data_dir: &Path) -> Result<u64, WritableError> {
    let state = data_dir.join("state");
    let usage = statvfs(&state)
        .map_err(io::Error::from)
        .map_err(failed("examine", &state))?;
    Ok(usage.f_bavail.saturating_mul(usage.f_frsize))
}

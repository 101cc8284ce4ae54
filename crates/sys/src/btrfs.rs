//! btrfs subvolumes: make, snapshot, delete. One subvolume holds what one sandbox writes.

use rustix::fs::{CWD, Mode, OFlags, openat, statfs};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const BTRFS_MAGIC: u64 = 0x9123_683E;
/// Inode number of every subvolume's root.
const SUBVOLUME_ROOT_INODE: u64 = 256;

/// `_IOW(0x94, number, 4096 bytes)`: both argument structures have that size.
const fn request(number: u64) -> u64 {
    1 << 30 | 4096 << 16 | 0x94 << 8 | number
}
const SNAP_DESTROY: u64 = request(15);
const SNAP_CREATE_V2: u64 = request(23);
const SUBVOL_CREATE_V2: u64 = request(24);
const SUBVOL_RDONLY: u64 = 1 << 1;

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct VolumeArgs {
    fd: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct VolumeArgsV2 {
    fd: i64,
    transid: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

const _: () = assert!(size_of::<VolumeArgs>() == 4096 && size_of::<VolumeArgsV2>() == 4096);

/// Whether a snapshot can be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Frozen for good.
    ReadOnly,
    /// A full copy.
    ReadWrite,
}

/// Whether `path` lies on a btrfs filesystem.
pub fn is_btrfs(path: &Path) -> io::Result<bool> {
    Ok(u64::try_from(statfs(path)?.f_type) == Ok(BTRFS_MAGIC))
}

/// Whether `path` is the root of a subvolume.
pub fn is_subvolume(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(is_btrfs(path)? && std::fs::symlink_metadata(path)?.ino() == SUBVOLUME_ROOT_INODE)
}

/// Makes an empty subvolume at `path`.
pub fn create_subvolume(path: &Path) -> io::Result<()> {
    let (parent, name) = split(path)?;
    change(&parent, SUBVOL_CREATE_V2, &args_v2(-1, 0, name)?)
}

/// Makes `path` a snapshot of the subvolume `source`.
pub fn snapshot(source: &Path, path: &Path, access: Access) -> io::Result<()> {
    let source = open_directory(source)?;
    let (parent, name) = split(path)?;
    let flags = match access {
        Access::ReadOnly => SUBVOL_RDONLY,
        Access::ReadWrite => 0,
    };
    let args = args_v2(source.as_raw_fd().into(), flags, name)?;
    change(&parent, SNAP_CREATE_V2, &args)
}

/// Deletes the subvolume at `path`; the kernel frees its space in the background.
pub fn delete_subvolume(path: &Path) -> io::Result<()> {
    let (parent, name) = split(path)?;
    let mut args = VolumeArgs {
        fd: 0,
        name: [0; 4088],
    };
    copy_name(name, &mut args.name)?;
    change(&parent, SNAP_DESTROY, &args)
}

fn args_v2(fd: i64, flags: u64, name: &OsStr) -> io::Result<VolumeArgsV2> {
    let mut args = VolumeArgsV2 {
        fd,
        transid: 0,
        flags,
        unused: [0; 4],
        name: [0; 4040],
    };
    copy_name(name, &mut args.name)?;
    Ok(args)
}

fn copy_name(name: &OsStr, field: &mut [u8]) -> io::Result<()> {
    let bytes = name.as_bytes();
    // One byte stays for the terminating NUL.
    if bytes.len() >= field.len() {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    field[..bytes.len()].copy_from_slice(bytes);
    Ok(())
}

fn split(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    Ok((open_directory(parent.unwrap_or(Path::new(".")))?, name))
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// An argument structure of 4096 bytes that the kernel only reads.
trait Args {}
impl Args for VolumeArgs {}
impl Args for VolumeArgsV2 {}

fn change(directory: &OwnedFd, request: u64, args: &impl Args) -> io::Result<()> {
    // SAFETY: `args` is live, `repr(C)`, has the size encoded in `request` (asserted above), its
    // name is NUL-terminated, and the three requests used here only read it.
    let done = unsafe {
        libc::ioctl(
            directory.as_raw_fd(),
            request as libc::Ioctl,
            std::ptr::from_ref(args),
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

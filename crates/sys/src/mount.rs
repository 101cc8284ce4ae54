//! Mounts as descriptors: made detached, changed, attached. Never `mount(8)`: it would make loop devices.
//!
//! Every function returns a detached mount that is in no mount table until [`attach`], and that
//! vanishes with its last descriptor. Errors carry what the kernel wrote into the filesystem
//! context, which says far more than the error number.

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_fd, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
    open_tree, unmount,
};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Attributes of one mount: `MOUNT_ATTR_RDONLY`, `_NOSUID`, `_NODEV`, `_NOEXEC` and so on.
pub use rustix::mount::MountAttrFlags as Attr;

/// Whether a call is about one mount or the mounts below it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The one mount.
    Single,
    /// It and everything mounted below it.
    Tree,
}

/// A mount call that failed. It travels inside an [`io::Error`]; see [`errno`].
#[derive(Debug, thiserror::Error)]
#[error("{what}{}", said(log))]
pub struct MountError {
    what: String,
    log: String,
    #[source]
    source: io::Error,
}

fn said(log: &str) -> String {
    if log.is_empty() {
        return String::new();
    }
    format!(" (kernel: {log})")
}

/// The error number below an error of this module, or of any other plain I/O error.
#[must_use]
pub fn errno(error: &io::Error) -> Option<i32> {
    let wrapped = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<MountError>())
        .and_then(|e| e.source.raw_os_error());
    error.raw_os_error().or(wrapped)
}

fn failed(what: String, log: String, errno: Errno) -> io::Error {
    let source = io::Error::from(errno);
    io::Error::new(source.kind(), MountError { what, log, source })
}

/// A filesystem being configured; keeps the name that errors show.
struct Context {
    fd: OwnedFd,
    what: String,
}

impl Context {
    fn open(fstype: &str, what: String) -> io::Result<Self> {
        match fsopen(fstype, FsOpenFlags::FSOPEN_CLOEXEC) {
            Ok(fd) => Ok(Self { fd, what }),
            Err(Errno::NODEV) => Err(failed(
                what,
                format!("no filesystem {fstype}"),
                Errno::NODEV,
            )),
            Err(e) => Err(failed(what, String::new(), e)),
        }
    }

    fn flag(&self, key: &str) -> io::Result<()> {
        fsconfig_set_flag(&self.fd, key).map_err(|e| self.failed(key, e))
    }

    fn string(&self, key: &str, value: &str) -> io::Result<()> {
        fsconfig_set_string(&self.fd, key, value).map_err(|e| self.failed(key, e))
    }

    fn descriptor(&self, key: &str, value: BorrowedFd<'_>) -> io::Result<()> {
        fsconfig_set_fd(&self.fd, key, value).map_err(|e| self.failed(key, e))
    }

    fn mount(&self, attr: Attr) -> io::Result<OwnedFd> {
        fsconfig_create(&self.fd).map_err(|e| self.failed("create", e))?;
        fsmount(&self.fd, FsMountFlags::FSMOUNT_CLOEXEC, attr).map_err(|e| self.failed("mount", e))
    }

    fn failed(&self, step: &str, errno: Errno) -> io::Error {
        failed(format!("{}: {step}", self.what), self.log(), errno)
    }

    /// What the kernel wrote about this context: lines `<e|w|i> <text>`, one per read.
    fn log(&self) -> String {
        let mut lines = Vec::new();
        let mut line = [0u8; 1024];
        while let Ok(n @ 1..) = rustix::io::read(&self.fd, &mut line) {
            let text = String::from_utf8_lossy(&line[..n]);
            let text = text.trim_end();
            lines.push(text.get(2..).unwrap_or(text).to_owned());
        }
        lines.join("; ")
    }
}

/// Whether this kernel has the filesystem, loading its module if need be.
#[must_use]
pub fn supports(fstype: &str) -> bool {
    !matches!(
        fsopen(fstype, FsOpenFlags::FSOPEN_CLOEXEC),
        Err(Errno::NODEV)
    )
}

/// An EROFS image, read-only, straight from the file (Linux 6.12).
pub fn erofs(source: &Path) -> io::Result<OwnedFd> {
    let context = Context::open("erofs", format!("mount erofs image {}", source.display()))?;
    context.flag("ro")?;
    fsconfig_set_string(&context.fd, "source", source).map_err(|e| context.failed("source", e))?;
    context.mount(Attr::MOUNT_ATTR_RDONLY | Attr::MOUNT_ATTR_NOSUID | Attr::MOUNT_ATTR_NODEV)
}

/// The parts of an overlay, all by descriptor: mounts or directories.
#[derive(Debug, Clone, Copy)]
pub struct Overlay<'a> {
    /// Read-only parts, the topmost first.
    pub lowers_top_to_bottom: &'a [BorrowedFd<'a>],
    /// Takes all writes.
    pub upper: BorrowedFd<'a>,
    /// Empty directory on the filesystem of the upper.
    pub work: BorrowedFd<'a>,
}

/// An overlay (Linux 6.13; 6.15 where a lower is a detached mount).
///
/// Directories of lower layers can be renamed (`redirect_dir=on`): without it `rename(2)` answers
/// EXDEV, which package managers and `os.rename` do not survive.
pub fn overlay(parts: &Overlay<'_>) -> io::Result<OwnedFd> {
    let lowers = parts.lowers_top_to_bottom;
    let context = Context::open(
        "overlay",
        format!("mount overlay of {} lowers", lowers.len()),
    )?;
    context.string("source", "overlay")?;
    for lower in lowers {
        context.descriptor("lowerdir+", *lower)?;
    }
    context.descriptor("upperdir", parts.upper)?;
    context.descriptor("workdir", parts.work)?;
    context.string("redirect_dir", "on")?;
    for key in ["metacopy", "index", "xino"] {
        context.string(key, "off")?;
    }
    context.mount(Attr::empty())
}

/// Any filesystem made of options alone; an empty value is a flag.
pub fn filesystem(fstype: &str, attr: Attr, options: &[(&str, &str)]) -> io::Result<OwnedFd> {
    let context = Context::open(fstype, format!("mount {fstype}"))?;
    for (key, value) in options {
        if value.is_empty() {
            context.flag(key)?;
        } else {
            context.string(key, value)?;
        }
    }
    context.mount(attr)
}

/// A filesystem on a block device.
pub fn device(fstype: &str, source: &Path, attr: Attr) -> io::Result<OwnedFd> {
    let what = format!("mount {fstype} on {}", source.display());
    let context = Context::open(fstype, what)?;
    if attr.contains(Attr::MOUNT_ATTR_RDONLY) {
        // Without it the kernel opens the device for writing, which a read-only one refuses.
        context.flag("ro")?;
    }
    fsconfig_set_string(&context.fd, "source", source).map_err(|e| context.failed("source", e))?;
    context.mount(attr)
}

/// A tmpfs; options such as `("size", "64k")` and `("mode", "755")`.
pub fn tmpfs(attr: Attr, options: &[(&str, &str)]) -> io::Result<OwnedFd> {
    filesystem("tmpfs", attr, options)
}

/// The processes of the caller's pid namespace.
pub fn proc(attr: Attr) -> io::Result<OwnedFd> {
    filesystem("proc", attr, &[])
}

/// The kernel's objects, as the caller's network namespace sees them. Costs 1.4 ms in a user namespace.
pub fn sysfs(attr: Attr) -> io::Result<OwnedFd> {
    filesystem("sysfs", attr, &[])
}

/// A new set of pseudo-terminals; options such as `("ptmxmode", "0666")`.
pub fn devpts(attr: Attr, options: &[(&str, &str)]) -> io::Result<OwnedFd> {
    filesystem("devpts", attr, options)
}

/// The message queues of the caller's ipc namespace.
pub fn mqueue(attr: Attr) -> io::Result<OwnedFd> {
    filesystem("mqueue", attr, &[])
}

fn clone_flags(depth: Depth) -> OpenTreeFlags {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    match depth {
        Depth::Single => flags,
        Depth::Tree => flags | OpenTreeFlags::AT_RECURSIVE,
    }
}

/// A detached copy of the mount at `path`, rooted there. It shares the superblock.
pub fn clone_tree(path: &Path, depth: Depth) -> io::Result<OwnedFd> {
    open_tree(CWD, path, clone_flags(depth)).map_err(|e| {
        failed(
            format!("clone mount at {}", path.display()),
            String::new(),
            e,
        )
    })
}

/// A detached copy of the mount that `mount` refers to, rooted there.
pub fn clone_mount(mount: BorrowedFd<'_>, depth: Depth) -> io::Result<OwnedFd> {
    open_tree(mount, "", clone_flags(depth) | OpenTreeFlags::AT_EMPTY_PATH)
        .map_err(|e| failed("clone mount".to_owned(), String::new(), e))
}

/// `struct mount_attr` of `mount_setattr(2)`, first version.
#[repr(C)]
#[derive(Default)]
struct MountAttrArgs {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

fn mount_setattr(mount: BorrowedFd<'_>, depth: Depth, args: &MountAttrArgs) -> Result<(), Errno> {
    let recursive = match depth {
        Depth::Single => 0,
        Depth::Tree => libc::AT_RECURSIVE,
    };
    // SAFETY: the path is a NUL-terminated constant, and `args` is a live `struct mount_attr` of
    // exactly the size passed; the kernel only reads both.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            std::ptr::from_ref(args),
            size_of::<MountAttrArgs>(),
        )
    };
    if done == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Shifts the owners of a detached mount by the maps of `userns`. Once per mount.
pub fn set_idmap(mount: BorrowedFd<'_>, userns: BorrowedFd<'_>) -> io::Result<()> {
    let args = MountAttrArgs {
        attr_set: Attr::MOUNT_ATTR_IDMAP.bits().into(),
        userns_fd: u64::try_from(userns.as_raw_fd()).expect("an open descriptor is not negative"),
        ..MountAttrArgs::default()
    };
    mount_setattr(mount, Depth::Single, &args)
        .map_err(|e| failed("idmap mount".to_owned(), String::new(), e))
}

/// Adds attributes to a mount; takes none away.
pub fn set_attr(mount: BorrowedFd<'_>, attr: Attr, depth: Depth) -> io::Result<()> {
    let args = MountAttrArgs {
        attr_set: attr.bits().into(),
        ..MountAttrArgs::default()
    };
    mount_setattr(mount, depth, &args)
        .map_err(|e| failed(format!("set mount attributes {attr:?}"), String::new(), e))
}

/// Puts a detached mount at `path`. A symlink as last component is not followed.
pub fn attach(mount: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    move_mount(
        mount,
        "",
        CWD,
        path,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .map_err(|e| {
        failed(
            format!("attach mount at {}", path.display()),
            String::new(),
            e,
        )
    })
}

/// Takes the mount at `path`, with what is below it, out of the tree; it dies with its last user.
pub fn detach(path: &Path) -> io::Result<()> {
    unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
        .map_err(|e| failed(format!("unmount {}", path.display()), String::new(), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_what_was_mounted_and_keeps_its_number() {
        let error = failed(
            "mount erofs image /a".to_owned(),
            "bad magic".to_owned(),
            Errno::INVAL,
        );
        assert_eq!(
            error.to_string(),
            "mount erofs image /a (kernel: bad magic)"
        );
        assert_eq!(errno(&error), Some(libc::EINVAL));
    }

    #[test]
    fn plain_errors_keep_their_number() {
        assert_eq!(errno(&io::Error::from_raw_os_error(5)), Some(5));
    }
}

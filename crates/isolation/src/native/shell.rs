//! What a shell does between its clone and the execution of the agent.
//!
//! Runs in the child, in all its namespaces, as root of its user namespace. Builds `/proc`, `/dev` and
//! `/sys` as detached mount trees, so that a claim has only to put them in place.

use super::strays::AGENT_NAME;
use model::attach::{FD_DEV, FD_LISTEN, FD_PROC, FD_SYS};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountAttrFlags as Attr, MountFlags, UnmountFlags, mount, mount_bind, unmount};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use sys::mount::Depth;
use sys::process::{Namespace, leave_namespace};

/// Directory of the spawner's small root where a new root is put before the pivot.
pub(super) const STAGE: &str = "/stage";
/// Directory where the mount trees are built.
pub(super) const BUILD: &str = "/build";

/// Directory of the spawner's device nodes.
const NODES_DIR: &str = "/nodes";

/// Paths hidden from sandboxes: what runtimes mask by default (files by /dev/null, directories by an
/// empty read-only tmpfs).
const MASKED: [&str; 13] = [
    "proc/acpi",
    "proc/asound",
    "proc/interrupts",
    "proc/kcore",
    "proc/keys",
    "proc/latency_stats",
    "proc/timer_list",
    "proc/timer_stats",
    "proc/sched_debug",
    "proc/scsi",
    "sys/firmware",
    "sys/devices/virtual/powercap",
    "sys/kernel/security",
];
/// Paths that stay readable only.
const READ_ONLY: [&str; 5] = [
    "proc/bus",
    "proc/fs",
    "proc/irq",
    "proc/sys",
    "proc/sysrq-trigger",
];
/// Device nodes bound from the spawner's own.
const NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// Size of `/dev/shm`. Its pages count against the sandbox's memory limit, so this is only a ceiling;
/// the usual 64 MiB break browsers and data loaders.
const SHM_OPTIONS: &std::ffi::CStr = c"mode=1777,size=1073741824";

/// What all shells share.
#[derive(Debug)]
pub(super) struct Shared {
    agent: OwnedFd,
}

impl Shared {
    pub(super) fn new(agent: OwnedFd) -> Self {
        Self { agent }
    }
}

/// Sets the shell up and executes the agent; returns only the reason why that failed.
pub(super) fn run(shared: &Shared, mut go: File, socket: OwnedFd, id: &str) -> io::Error {
    let prepared = (|| {
        use rustix::process::{Signal, set_parent_process_death_signal as dies_with_parent};
        // Until the agent runs, the shell is of no use without its spawner.
        dies_with_parent(Some(Signal::KILL))?;
        go.read_exact(&mut [0])?;
        let trees = prepare(id)?;
        sys::process::reset_signals()?;
        dies_with_parent(None)?;
        Ok(trees)
    })();
    match prepared {
        Ok([proc, dev, sys]) => {
            // exec_fd numbers them from 3 in this order.
            const { assert!(FD_LISTEN == 3 && FD_PROC == 4 && FD_DEV == 5 && FD_SYS == 6) };
            let fds = vec![socket, proc, dev, sys];
            let name = format!("{AGENT_NAME}{id}");
            let null = Path::new(NODES_DIR).join("null");
            sys::process::exec_fd(shared.agent.as_fd(), &name, &null, fds)
        }
        Err(e) => e,
    }
}

fn prepare(id: &str) -> io::Result<[OwnedFd; 3]> {
    become_namespace_root()?;
    // The process is in its cgroup by now: that becomes the root of what it sees.
    leave_namespace(Namespace::Cgroup)?;
    rustix::process::setsid()?;
    rustix::system::sethostname(&id.as_bytes()[..id.len().min(63)])?;
    let build = Path::new(BUILD);
    mount(
        "build",
        build,
        "tmpfs",
        MountFlags::empty(),
        Some(c"mode=755"),
    )?;
    for dir in ["proc", "dev", "sys"] {
        std::fs::create_dir(build.join(dir))?;
    }
    let quiet = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", build.join("proc"), "proc", quiet, None)?;
    mount(
        "sysfs",
        build.join("sys"),
        "sysfs",
        quiet | MountFlags::RDONLY,
        None,
    )?;
    build_dev(&build.join("dev"))?;
    MASKED.iter().try_for_each(|path| mask(&build.join(path)))?;
    READ_ONLY
        .iter()
        .try_for_each(|path| make_read_only(&build.join(path)))?;
    let take = |dir: &str| sys::mount::clone_tree(&build.join(dir), Depth::Tree);
    let trees = [take("proc")?, take("dev")?, take("sys")?];
    unmount(build, UnmountFlags::DETACH)?;
    Ok(trees)
}

fn become_namespace_root() -> io::Result<()> {
    use rustix::process::{Gid, Uid};
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    Ok(())
}

fn build_dev(dev: &Path) -> io::Result<()> {
    let attr = MountFlags::NOSUID | MountFlags::STRICTATIME;
    mount("tmpfs", dev, "tmpfs", attr, Some(c"mode=755,size=65536k"))?;
    for node in NODES {
        let path = dev.join(node);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(rustix::fs::open(&path, flags, Mode::from_raw_mode(0o666))?);
        mount_bind(Path::new(NODES_DIR).join(node), &path)?;
    }
    for (name, target) in LINKS {
        rustix::fs::symlinkat(target, CWD, dev.join(name))?;
    }
    for dir in ["pts", "shm", "mqueue"] {
        std::fs::create_dir(dev.join(dir))?;
    }
    let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
    // Group 5 is `tty` in Debian and in the OCI runtime specification's example.
    let pts = c"newinstance,ptmxmode=0666,mode=0620,gid=5";
    mount("devpts", dev.join("pts"), "devpts", quiet, Some(pts))?;
    let quiet = quiet | MountFlags::NODEV;
    mount("shm", dev.join("shm"), "tmpfs", quiet, Some(SHM_OPTIONS))?;
    mount("mqueue", dev.join("mqueue"), "mqueue", quiet, None)?;
    Ok(())
}

fn mask(path: &Path) -> io::Result<()> {
    let metadata = match std::fs::symlink_metadata(path) {
        // Not every kernel has every path.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|e| sys::durable::named(e, path))?,
    };
    let masked = if metadata.is_dir() {
        let attr = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("tmpfs", path, "tmpfs", attr, Some(c"size=0k"))
    } else {
        mount_bind(Path::new(NODES_DIR).join("null"), path)
    };
    masked.map_err(|e| sys::durable::named(e.into(), path))
}

fn make_read_only(path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let copy = sys::mount::clone_tree(path, Depth::Tree)?;
    let attr = Attr::MOUNT_ATTR_RDONLY
        | Attr::MOUNT_ATTR_NOSUID
        | Attr::MOUNT_ATTR_NODEV
        | Attr::MOUNT_ATTR_NOEXEC;
    sys::mount::set_attr(copy.as_fd(), attr, Depth::Tree)?;
    sys::mount::attach(copy.as_fd(), path)
}

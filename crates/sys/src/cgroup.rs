//! Control groups, v1 and v2 behind one trait.
//!
//! One parent per node holds a group `agents` (all sandbox agents, so that the users' limits never hit
//! them) and one group per sandbox with its limits, which the processes of its user join.

mod v1;
mod v2;

pub use v1::V1;
pub use v2::V2;

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Limits of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// CPU time per second, in thousandths of a CPU.
    pub cpu_milli: u64,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids_max: u64,
}

/// Figures of one group, from outside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time used, microseconds.
    pub cpu_usec: u64,
    /// Memory in use, bytes.
    pub memory_bytes: u64,
    /// Page cache in it, bytes.
    pub cache_bytes: u64,
    /// Processes that the kernel killed because the limit was reached.
    pub oom_kills: u64,
}

/// One version of control groups, bound to the node's parent group.
pub trait Cgroups: Send + Sync + Debug {
    /// 1 or 2.
    fn version(&self) -> u8;
    /// Makes the group `name`.
    fn create(&self, name: &str) -> io::Result<()>;
    /// Open `cgroup.procs` files; writing a pid (or 0 for the writer) to each moves a process in.
    fn join_files(&self, name: &str) -> io::Result<Vec<File>>;
    /// Directory in which the user id `owner` may make groups to track processes.
    fn track_dir(&self, name: &str, owner: u32) -> io::Result<File>;
    /// Sets all limits.
    fn set_limits(&self, name: &str, limits: &Limits) -> io::Result<()>;
    /// Reads the figures.
    fn usage(&self, name: &str) -> io::Result<Usage>;
    /// Removes the group and those under it; fine if it is gone. Its processes must have ended.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Processes directly in the group.
    fn procs(&self, name: &str) -> io::Result<Vec<i32>>;
    /// Removes the node's parent group; all groups under it must be gone.
    fn close(&self) -> io::Result<()>;
    /// Names of the groups under the parent.
    fn list(&self) -> io::Result<Vec<String>>;
}

/// Name of the group of the agents.
pub const AGENTS: &str = "agents";

/// Opens the parent group `parent` with the version that this machine controls memory by; makes it and
/// [`AGENTS`] if needed.
pub fn open(parent: &str) -> io::Result<Box<dyn Cgroups>> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let groups: Box<dyn Cgroups> = match V2::find(&mounts, parent)? {
        Some(v2) => Box::new(v2),
        None => Box::new(V1::find(&mounts, parent)?),
    };
    groups.create(AGENTS)?;
    Ok(groups)
}

/// `(mount point, file system type, options)` of each line of a mounts file.
fn mounts(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?, fields.next()?))
    })
}

fn put(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut f| f.write_all(value.as_bytes()))
        .map_err(|e| crate::durable::named(e, path))
}

fn get(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path).map_err(|e| crate::durable::named(e, path))
}

fn number(path: &Path) -> io::Result<u64> {
    let text = get(path)?;
    text.trim().parse().map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{}: {text:?}", path.display()),
        )
    })
}

/// Value of `key` in a flat keyed file.
fn field(text: &str, key: &str) -> u64 {
    text.lines()
        .filter_map(|l| l.split_once(' '))
        .find(|(k, _)| *k == key)
        .and_then(|(_, v)| v.trim().parse().ok())
        .unwrap_or(0)
}

fn make(dir: &Path) -> io::Result<()> {
    match std::fs::create_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(crate::durable::named(e, dir)),
        _ => Ok(()),
    }
}

/// Removes a group directory and those under it (a cgroup's files go with their directory).
fn remove_tree(dir: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(crate::durable::named(e, dir)),
    };
    for entry in entries {
        let entry = entry.map_err(|e| crate::durable::named(e, dir))?;
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    match std::fs::remove_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(crate::durable::named(e, dir)),
        _ => Ok(()),
    }
}

fn open_procs(dir: &Path) -> io::Result<File> {
    let path = dir.join("cgroup.procs");
    OpenOptions::new()
        .write(true)
        .open(&path)
        .map_err(|e| crate::durable::named(e, &path))
}

fn give(dir: &Path, owner: u32) -> io::Result<File> {
    for path in [dir.to_path_buf(), dir.join("cgroup.procs")] {
        std::os::unix::fs::chown(&path, Some(owner), Some(owner))
            .map_err(|e| crate::durable::named(e, &path))?;
    }
    // A mount of its own, rooted at the directory: whoever holds the descriptor, also through a link in
    // `/proc/self/fd`, cannot leave it by `..` for the host's tree.
    let tree = crate::mount::clone_tree(dir, crate::mount::Depth::Single)?;
    let flags =
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let inside = rustix::fs::openat(&tree, ".", flags, rustix::fs::Mode::empty())?;
    Ok(File::from(inside))
}

fn list_dirs(dir: &Path) -> io::Result<Vec<String>> {
    let entries = std::fs::read_dir(dir).map_err(|e| crate::durable::named(e, dir))?;
    let dirs = entries
        .filter_map(Result::ok)
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    Ok(dirs
        .filter_map(|e| e.file_name().into_string().ok())
        .collect())
}

fn read_procs(dir: &Path) -> io::Result<Vec<i32>> {
    let text = get(&dir.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|l| l.parse().ok()).collect())
}

fn child(parent: &Path, name: &str) -> PathBuf {
    parent.join(name)
}

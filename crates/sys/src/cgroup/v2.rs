//! cgroup v2: one hierarchy.

use super::{Cgroups, Limits, Usage, child, field, get, give, list_dirs, make, mounts, number};
use super::{open_procs, put, read_procs, remove_tree};
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// Length of a scheduling period, microseconds: the kernel's default.
const PERIOD_USEC: u64 = 100_000;
/// Controllers that limits need.
const REQUIRED: [&str; 3] = ["cpu", "memory", "pids"];

/// The node's parent group.
#[derive(Debug)]
pub struct V2 {
    dir: PathBuf,
}

impl V2 {
    /// `None` if no v2 hierarchy here controls memory (hybrid hosts).
    pub(super) fn find(text: &str, parent: &str) -> io::Result<Option<Self>> {
        let Some((root, ..)) = mounts(text).find(|(_, kind, _)| *kind == "cgroup2") else {
            return Ok(None);
        };
        let root = PathBuf::from(root);
        let available = get(&root.join("cgroup.controllers"))?;
        if !REQUIRED
            .iter()
            .all(|r| available.split_whitespace().any(|a| a == *r))
        {
            return Ok(None);
        }
        let dir = root.join(parent);
        enable(&root)?;
        make(&dir)?;
        enable(&dir)?;
        Ok(Some(Self { dir }))
    }
}

fn enable(dir: &std::path::Path) -> io::Result<()> {
    put(&dir.join("cgroup.subtree_control"), "+cpu +memory +pids")
}

impl Cgroups for V2 {
    fn version(&self) -> u8 {
        2
    }

    fn create(&self, name: &str) -> io::Result<()> {
        make(&child(&self.dir, name))
    }

    fn join_files(&self, name: &str) -> io::Result<Vec<File>> {
        Ok(vec![open_procs(&child(&self.dir, name))?])
    }

    fn track_dir(&self, name: &str, owner: u32) -> io::Result<File> {
        give(&child(&self.dir, name), owner)
    }

    fn set_limits(&self, name: &str, limits: &Limits) -> io::Result<()> {
        let dir = child(&self.dir, name);
        let quota = limits.cpu_milli * PERIOD_USEC / 1000;
        put(&dir.join("cpu.max"), &format!("{quota} {PERIOD_USEC}"))?;
        put(&dir.join("memory.max"), &limits.memory_bytes.to_string())?;
        put(&dir.join("pids.max"), &limits.pids_max.to_string())
    }

    fn usage(&self, name: &str) -> io::Result<Usage> {
        let dir = child(&self.dir, name);
        let cpu = get(&dir.join("cpu.stat"))?;
        let events = get(&dir.join("memory.events"))?;
        let stat = get(&dir.join("memory.stat"))?;
        Ok(Usage {
            cpu_usec: field(&cpu, "usage_usec"),
            memory_bytes: number(&dir.join("memory.current"))?,
            cache_bytes: field(&stat, "file"),
            oom_kills: field(&events, "oom_kill"),
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        remove_tree(&child(&self.dir, name))
    }

    fn procs(&self, name: &str) -> io::Result<Vec<i32>> {
        read_procs(&child(&self.dir, name))
    }

    fn close(&self) -> io::Result<()> {
        remove_tree(&self.dir)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        list_dirs(&self.dir)
    }
}

//! cgroup v1: one hierarchy per controller.

use super::{Cgroups, Limits, Usage, child, field, get, give, list_dirs, make, mounts, number};
use super::{open_procs, put, read_procs, remove_tree};
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// Length of a scheduling period, microseconds: the kernel's default.
const PERIOD_USEC: u64 = 100_000;
/// Controllers that limits need.
const REQUIRED: [&str; 4] = ["cpu", "memory", "pids", "freezer"];

/// The node's parent group in each hierarchy.
#[derive(Debug)]
pub struct V1 {
    cpu: PathBuf,
    cpuacct: Option<PathBuf>,
    memory: PathBuf,
    pids: PathBuf,
    freezer: PathBuf,
}

impl V1 {
    pub(super) fn find(text: &str, parent: &str) -> io::Result<Self> {
        let at = |controller: &str| {
            mounts(text)
                .find(|(_, kind, options)| {
                    *kind == "cgroup" && options.split(',').any(|o| o == controller)
                })
                .map(|(dir, ..)| PathBuf::from(dir).join(parent))
        };
        let need = |controller: &str| {
            at(controller).ok_or_else(|| {
                let text = format!(
                    "cgroup controller {controller} is neither mounted as v1 nor usable as v2"
                );
                io::Error::new(io::ErrorKind::Unsupported, text)
            })
        };
        let [cpu, memory, pids, freezer] = REQUIRED.map(need);
        let (cpu, memory) = (cpu?, memory?);
        let cpuacct = at("cpuacct").filter(|dir| *dir != cpu);
        let v1 = Self {
            cpu,
            cpuacct,
            memory,
            pids: pids?,
            freezer: freezer?,
        };
        for dir in v1.parents() {
            make(&dir)?;
        }
        // Without it a group's limit does not hold for groups under it (v1 default of old kernels).
        let hierarchy = v1.memory.join("memory.use_hierarchy");
        if hierarchy.exists() && number(&hierarchy)? != 1 {
            put(&hierarchy, "1")?;
        }
        Ok(v1)
    }

    fn parents(&self) -> Vec<PathBuf> {
        let mut all = vec![&self.cpu, &self.memory, &self.pids, &self.freezer];
        all.extend(&self.cpuacct);
        let mut all: Vec<PathBuf> = all.into_iter().cloned().collect();
        all.sort();
        all.dedup();
        all
    }
}

impl Cgroups for V1 {
    fn version(&self) -> u8 {
        1
    }

    fn create(&self, name: &str) -> io::Result<()> {
        self.parents()
            .iter()
            .try_for_each(|dir| make(&child(dir, name)))
    }

    fn join_files(&self, name: &str) -> io::Result<Vec<File>> {
        self.parents()
            .iter()
            .map(|dir| open_procs(&child(dir, name)))
            .collect()
    }

    fn track_dir(&self, name: &str, owner: u32) -> io::Result<File> {
        give(&child(&self.freezer, name), owner)
    }

    fn set_limits(&self, name: &str, limits: &Limits) -> io::Result<()> {
        let cpu = child(&self.cpu, name);
        put(&cpu.join("cpu.cfs_period_us"), &PERIOD_USEC.to_string())?;
        let quota = limits.cpu_milli * PERIOD_USEC / 1000;
        put(&cpu.join("cpu.cfs_quota_us"), &quota.to_string())?;
        let memory = child(&self.memory, name);
        let bytes = limits.memory_bytes.to_string();
        let swap = memory.join("memory.memsw.limit_in_bytes");
        let hard = memory.join("memory.limit_in_bytes");
        // The sum of memory and swap may never be below memory: the order depends on the direction.
        if swap.exists() && number(&hard)? < limits.memory_bytes {
            put(&swap, &bytes)?;
            put(&hard, &bytes)?;
        } else {
            put(&hard, &bytes)?;
            if swap.exists() {
                put(&swap, &bytes)?;
            }
        }
        put(
            &child(&self.pids, name).join("pids.max"),
            &limits.pids_max.to_string(),
        )
    }

    fn usage(&self, name: &str) -> io::Result<Usage> {
        let account = child(self.cpuacct.as_ref().unwrap_or(&self.cpu), name);
        let memory = child(&self.memory, name);
        let oom = get(&memory.join("memory.oom_control"))?;
        let stat = get(&memory.join("memory.stat"))?;
        Ok(Usage {
            cpu_usec: number(&account.join("cpuacct.usage"))? / 1000,
            memory_bytes: number(&memory.join("memory.usage_in_bytes"))?,
            cache_bytes: field(&stat, "total_cache"),
            oom_kills: field(&oom, "oom_kill"),
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let results: Vec<_> = self
            .parents()
            .iter()
            .map(|dir| remove_tree(&child(dir, name)))
            .collect();
        results.into_iter().collect()
    }

    fn procs(&self, name: &str) -> io::Result<Vec<i32>> {
        read_procs(&child(&self.memory, name))
    }

    fn close(&self) -> io::Result<()> {
        self.parents().iter().try_for_each(|dir| remove_tree(dir))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        list_dirs(&self.memory)
    }
}

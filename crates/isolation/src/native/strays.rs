//! Finds and ends what earlier runs of a node left, by the cgroups that bear its name.

use model::SandboxId;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use sys::cgroup::{AGENTS, Cgroups};

/// Longest wait for one stray to be gone.
const LIMIT: Duration = Duration::from_secs(10);
/// Start of the agent's `argv[0]`; the sandbox id follows.
pub(super) const AGENT_NAME: &str = "warren-agent:";

/// Ends all sandboxes that are not in `keep` and removes their cgroups; names what it removed.
pub(super) fn reap(cgroups: &dyn Cgroups, keep: &[SandboxId]) -> io::Result<Vec<String>> {
    let keep: BTreeSet<&str> = keep.iter().map(SandboxId::as_str).collect();
    let mut removed = Vec::new();
    for pid in cgroups.procs(AGENTS)? {
        // The descriptor first: the name read afterwards is then that process's or nobody's.
        let Ok(pidfd) = sys::process::pidfd(pid) else {
            continue;
        };
        let Some(id) = sandbox_of(pid) else { continue };
        if keep.contains(id.as_str()) {
            continue;
        }
        sys::process::kill(pidfd.as_fd())?;
        if !sys::process::wait_exit(pidfd.as_fd(), LIMIT)? {
            let text = format!("sandbox {id}: process {pid} does not end");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        removed.push(format!("process of sandbox {id}"));
    }
    for group in cgroups.list()? {
        if group != AGENTS && !keep.contains(group.as_str()) {
            cgroups.remove(&group)?;
            removed.push(format!("cgroup of sandbox {group}"));
        }
    }
    Ok(removed)
}

fn sandbox_of(pid: i32) -> Option<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let name = line.split(|b| *b == 0).next()?;
    let id = std::str::from_utf8(name).ok()?.strip_prefix(AGENT_NAME)?;
    Some(id.to_owned())
}

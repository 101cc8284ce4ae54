//! What a run of tests left on the machine: mounts, namespaces, links, cgroups, tables, processes, loop devices.
//!
//! Compared with a snapshot from before, so that a node that was already running is no leftover.
//! Mounts, links, tables and loop devices count whoever made them: tests start other programs, too. Processes
//! and cgroups come and go on any machine, so of these only Warren's count.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Processes and cgroups of Warren's carry its name.
const MARK: &str = "warren";
/// The kernel takes down namespaces and loop devices after their last user is gone.
const SETTLE: Duration = Duration::from_secs(5);
const CGROUP_DEPTH_MAX: usize = 6;

/// The names of everything that may be left behind.
#[derive(Debug, Default)]
pub(crate) struct Snapshot(BTreeSet<String>);

impl Snapshot {
    pub(crate) fn take() -> Self {
        let mut found = BTreeSet::new();
        found.extend(mounts(&read("/proc/self/mountinfo")));
        found.extend(entries("/run/netns").map(|name| format!("netns {name}")));
        found.extend(entries("/sys/class/net").map(|name| format!("link {name}")));
        cgroups(Path::new("/sys/fs/cgroup"), 0, &mut found);
        found.extend(tables());
        found.extend(processes());
        found.extend(loop_devices());
        Self(found)
    }

    /// What is there now and was not before; waits a little for what the kernel is still removing.
    pub(crate) fn take_settled(before: &Self) -> BTreeSet<String> {
        let deadline = Instant::now() + SETTLE;
        loop {
            let left: BTreeSet<String> = Self::take().0.difference(&before.0).cloned().collect();
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// A file that is not there, or not for us to read, holds nothing.
fn read(path: impl AsRef<Path>) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn entries(path: impl AsRef<Path>) -> impl Iterator<Item = String> {
    fs::read_dir(path)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Field 5 of mountinfo is the mount point.
fn mounts(mountinfo: &str) -> Vec<String> {
    let points = mountinfo.lines().filter_map(|l| l.split(' ').nth(4));
    points.map(|point| format!("mount {point}")).collect()
}

fn cgroups(dir: &Path, depth: usize, found: &mut BTreeSet<String>) {
    if depth > CGROUP_DEPTH_MAX {
        return;
    }
    for name in entries(dir) {
        let path = dir.join(&name);
        if !path.is_dir() {
            continue;
        }
        if path.to_string_lossy().contains(MARK) {
            found.insert(format!("cgroup {}", path.display()));
        }
        cgroups(&path, depth + 1, found);
    }
}

fn tables() -> Vec<String> {
    let Ok(output) = Command::new("nft").args(["list", "tables"]).output() else {
        return Vec::new(); // no nft, no tables to see
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| format!("nft {line}")).collect()
}

fn processes() -> Vec<String> {
    let pids = entries("/proc").filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    pids.filter_map(|pid| {
        let name = read(format!("/proc/{pid}/comm"));
        let ours = name.starts_with(MARK);
        ours.then(|| format!("process {pid} {}", name.trim()))
    })
    .collect()
}

fn loop_devices() -> Vec<String> {
    let loops = entries("/sys/block").filter(|name| name.starts_with("loop"));
    loops
        .filter_map(|name| {
            let file = read(format!("/sys/block/{name}/loop/backing_file"));
            (!file.is_empty()).then(|| format!("loop device {name} {}", file.trim()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_told_by_their_mount_point() {
        let info =
            "1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / /run/warren/layers/x ro - erofs none ro\n";
        assert_eq!(mounts(info), ["mount /", "mount /run/warren/layers/x"]);
    }

    #[test]
    fn what_was_there_before_is_no_leftover() {
        let before = Snapshot::take();
        let child = Command::new("sh")
            .args([
                "-c",
                "echo warren-left >/proc/self/comm; exec 1>&-; read wait",
            ])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let mut child = child.expect("sh starts");
        // The shell closes its stdout once it carries the name.
        let mut named = child.stdout.take().expect("piped");
        std::io::Read::read_to_string(&mut named, &mut String::new()).expect("closed");
        let left: Vec<String> = Snapshot::take().0.difference(&before.0).cloned().collect();
        let want = format!("process {} warren-left", child.id());
        drop(child.stdin.take());
        child.wait().expect("sh ends");
        assert!(left.contains(&want), "{left:?} has no {want:?}");
        assert!(!Snapshot::take().0.contains(&want));
    }
}
